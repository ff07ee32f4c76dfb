// Which experiment repeats which published values.
#pragma once

#include <span>
#include <string_view>

#include "imka/experiment/published.hpp"

namespace imka::report {

using imka::parse_published;
using imka::Published;
using imka::published_values;
using imka::Quantity;

// What of the paper can be repeated: one row each.
struct Reproduction {
    std::string_view name;  // of the reproduction and of its experiment
    std::string_view table;
    std::string_view backend;  // the published values that it repeats; "" for all
    std::string_view title;
    std::string_view what;
};
std::span<const Reproduction> reproductions();
// nullptr where there is none of that name.
const Reproduction* find_reproduction(std::string_view name);

}  // namespace imka::report
