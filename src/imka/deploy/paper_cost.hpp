// The paper's numbers on time, energy, area and operations, computed again; and a second chip as a check.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "imka/deploy/cost_data.hpp"

namespace imka {

struct PaperRow {
    PublishedValue published;
    double computed = 0.0;
    std::string printed;           // with as many decimals as the published text
    std::optional<bool> agrees{};  // as printed; none if the paper does not state it
};
// One row per published value of the data. Error{bad_config} for a name that is not computed.
std::vector<PaperRow> paper_rows(const CostData& data);

// The model of NeuRRAM at a measured operating point.
struct NeurramRow {
    NeurramPoint measured;
    double tops = 0.0;
    double tops_per_watt = 0.0;
};
struct NeurramCheck {
    std::vector<NeurramRow> rows;
    NeurramRow preset;               // the chip file, at its operating point
    double median_tops_error = 0.0;  // of |model / measured - 1|
    double median_tops_per_watt_error = 0.0;
};
// A product takes integration steps (2^bits - 1 per phase of an input), conversion steps (one per bit of the
// output that is left) and a fixed time per phase; its energy also has a part per bit of the input. The chip
// file `neurram` has the time and power of one of the points.
NeurramCheck neurram_check(const NeurramData& data);

}  // namespace imka
