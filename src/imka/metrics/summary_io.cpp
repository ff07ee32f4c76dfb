// A summary as JSON text.
#include <nlohmann/json.hpp>

#include "imka/metrics/metrics.hpp"

namespace imka {

std::string to_json(const Summary& s) {
    nlohmann::ordered_json j = {{"mean", s.mean}, {"std", nullptr}, {"ci95", nullptr}, {"values", s.values}};
    if (s.n > 1) {
        j["std"] = s.std;
        j["ci95"] = s.half_width;
    }
    return j.dump();
}

}  // namespace imka
