// Checks sentences about results (paper.hpp) on records and on the published values.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "imka/report/figure.hpp"
#include "imka/report/paper.hpp"

namespace imka::report {

// Number of cases in which a sentence holds, and its numbers.
struct Holding {
    std::size_t holds = 0;
    std::size_t cases = 0;
    std::string numbers;  // mostly for statements on the chip; may be empty
};
struct CheckedStatement {
    std::string text;
    Holding ours;
    Holding published;  // the same check on the published values
};
// Statements with at least one case among our runs. Comparisons allow two standard errors.
std::vector<CheckedStatement> check_statements(const std::vector<Figure>& figures,
                                               const std::string& experiment, const Paper& paper);

// The fields of Statement that a check uses. Error{bad_config} for an unknown check.
std::span<const std::string_view> check_arguments(std::string_view check);

}  // namespace imka::report
