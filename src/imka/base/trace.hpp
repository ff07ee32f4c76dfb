// What an execution on a chip did: counts of the work of its cores and of the work around them.
#pragma once

#include <cstdint>
#include <vector>

namespace imka {

struct Trace {
    std::vector<std::uint64_t> core_products;  // by core; shorter where the last cores did nothing
    std::uint64_t conversions = 0;
    std::uint64_t saturated = 0;       // conversions that ended at the largest count
    std::uint64_t inputs = 0;          // applied to cores; a value that several cores take counts for each
    std::uint64_t clipped_inputs = 0;  // inputs outside the range of their core
    std::uint64_t bytes_in = 0;        // inputs, as the converters take them
    std::uint64_t bytes_out = 0;       // results, as the cores give them
    std::uint64_t digital_operations = 0;  // additions and multiplications of results outside the cores

    void add(const Trace& other);
    bool operator==(const Trace&) const = default;
};

}  // namespace imka
