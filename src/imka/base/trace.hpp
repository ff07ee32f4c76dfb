// Counts of operations on a chip, in its cores and around them.
#pragma once

#include <cstdint>
#include <vector>

namespace imka {

struct Trace {
    std::vector<std::uint64_t> core_products;  // by core; shorter if the last cores were idle
    std::uint64_t conversions = 0;
    std::uint64_t saturated = 0;           // conversions that ended at the largest count
    std::uint64_t results = 0;             // of cores, before partial sums are added
    std::uint64_t limited = 0;             // results that reached the product limit of the chip
    std::uint64_t inputs = 0;              // applied to cores; an input of several cores counts once per core
    std::uint64_t clipped_inputs = 0;      // inputs outside the range of their core
    std::uint64_t bytes_in = 0;            // inputs, in the format of the converters
    std::uint64_t bytes_out = 0;           // results, in the format of the cores
    std::uint64_t digital_operations = 0;  // additions and multiplications of results outside the cores

    void add(const Trace& other);
    bool operator==(const Trace&) const = default;
};

}  // namespace imka
