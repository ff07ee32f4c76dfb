// Sentences of the paper's text and what its extended results show, checked on records and on the published
// values alike.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "imka/report/figure.hpp"

namespace imka::report {

// In how many cases a sentence holds, and the numbers behind it.
struct Holding {
    std::size_t holds = 0;
    std::size_t cases = 0;
    std::string numbers;  // mostly for statements on the chip; may be empty
};
struct Claim {
    std::string text;
    Holding ours;
    Holding published;  // the same check on the published values
};
// Those with a case among our runs. A value "lies in a range", and one is "no larger" than another, within
// two standard errors.
std::vector<Claim> check_claims(const std::vector<Figure>& figures, const std::string& experiment);

}  // namespace imka::report
