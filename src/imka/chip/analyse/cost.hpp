// Time and energy of products on a chip. Counts only the cores, not the digital work around them (adding
// partial sums of tiles, functions of the outputs, the link to a host).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "imka/chip/plan.hpp"

namespace imka {

// One product of a core with all its inputs and outputs:
//   phases * slices * (levels * input_step + phase_overhead) + product_overhead
double product_seconds(const CoreSpec& spec);
// Energy of one product: power of the read mode times duration, independent of the rows and columns in
// use. None if the power is unknown.
std::optional<double> product_joules(const CoreSpec& spec);

// Products of a matrix on a chip.
struct Workload {
    std::size_t inputs = 0;    // of the matrix; >= 1
    std::size_t outputs = 0;   // >= 1
    std::size_t products = 1;  // number of input vectors
    PlacementConfig placement;
};

struct ProductCost {
    std::size_t tiles = 0;          // cores per copy of the matrix
    std::size_t replicas = 0;       // copies
    std::size_t cores = 0;          // of all copies
    std::size_t core_products = 0;  // products of single cores
    // 2 * inputs * outputs * products: one multiplication and one addition per weight.
    double operations = 0.0;
    double seconds = 0.0;  // until the last product is done
    double tera_operations_per_second = 0.0;
    std::optional<double> joules;
    std::optional<double> tera_operations_per_joule;  // the TOPS/W of data sheets
};

// Tiles work in parallel; copies take turns (throughput: ceil(products / replicas) rounds) or all process
// every vector (average: `products` rounds). Error{bad_config} if the copies need more cores than the chip
// has.
ProductCost product_cost(const ChipSpec& chip, const Workload& work);
// The same for a matrix of a plan; Error{bad_usage} if the plan has no such matrix.
ProductCost product_cost(const Plan& plan, std::uint32_t matrix, std::size_t products);

// Capacity and speed of a whole chip.
struct ChipCapacity {
    std::uint64_t cores = 0;
    std::uint64_t weights = 0;
    std::uint64_t devices = 0;
    double emulator_bytes = 0.0;   // memory of the emulator with every device programmed
    double product_seconds = 0.0;  // one product of one core
    std::optional<double> product_joules;
    double tops = 0.0;  // all cores, 10^12 operations per second
    std::optional<double> tops_per_watt;
};
ChipCapacity chip_capacity(const ChipSpec& spec);

}  // namespace imka
