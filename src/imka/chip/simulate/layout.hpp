// Layout of a chip for drivers: copies of matrices, their regions, and the counts of a trace.
#pragma once

#include <cstdint>
#include <vector>

#include "imka/base/trace.hpp"
#include "imka/chip/driver.hpp"
#include "imka/chip/programmed_chip.hpp"

namespace imka {

struct MatrixCopies {
    MatrixShape shape;
    Replication replication = Replication::throughput;
    std::vector<std::vector<std::size_t>> regions;  // of each copy, in the order of the plan
};

// Rows of a batch that one copy multiplies: first_row, first_row + stride, ...; the first one is product
// `first_product` of the copy.
struct RowShare {
    std::size_t first_row = 0;
    std::size_t stride = 1;
    std::size_t count = 0;
    std::uint64_t first_product = 0;
};

struct ChipLayout {
    explicit ChipLayout(const ProgrammedChip& chip);

    std::vector<MatrixCopies> matrices;
    std::vector<Region> regions;
    std::vector<double> input_ranges;
    std::uint64_t bytes_per_input = 0;
    std::uint64_t bytes_per_output = 0;
};

// If copies share the inputs, product n is product n / R of copy n mod R; else every copy multiplies all.
RowShare row_share(const MatrixCopies& matrix, std::size_t copy, std::uint64_t first, std::size_t rows);

// Trace of a region for some products, without conversions.
struct RegionWork {
    std::size_t products = 0;
    std::uint64_t clipped_inputs = 0;
};
Trace region_trace(const ChipLayout& layout, std::size_t region, const RegionWork& work);

// Number of operations to subtract from the traces of the regions: the first partial sum of an output needs
// no addition. An average over copies needs a division instead.
std::uint64_t saved_operations(const MatrixCopies& matrix, std::size_t rows);

}  // namespace imka
