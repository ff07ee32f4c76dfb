#include "imka/chip/simulate/layout.hpp"

namespace imka {
namespace {

// Inputs are signed steps.
std::uint64_t input_bytes(const DacConfig& dac) {
    return dac.levels <= 127 ? 1 : 2;
}

// Unrounded results are floats.
std::uint64_t output_bytes(const AffineConfig& affine) {
    if (affine.output_bits == 0) return sizeof(float);
    return affine.output_bits <= 8 ? 1 : 2;
}

}  // namespace

ChipLayout::ChipLayout(const ProgrammedChip& chip)
    : regions(chip.plan.regions),
      bytes_per_input(input_bytes(chip.plan.spec.core.dac)),
      bytes_per_output(output_bytes(chip.plan.spec.core.affine)) {
    for (const auto& m : chip.plan.matrices)
        matrices.push_back({.shape = {m.weights.rows(), m.weights.cols()},
                            .replication = m.replication,
                            .regions = std::vector<std::vector<std::size_t>>(m.replicas)});
    for (std::size_t r = 0; r < regions.size(); ++r)
        matrices.at(regions[r].matrix).regions.at(regions[r].replica).push_back(r);
    for (const auto& region : chip.regions) input_ranges.push_back(region.input_range);
}

RowShare row_share(const MatrixCopies& matrix, std::size_t copy, std::uint64_t first, std::size_t rows) {
    if (matrix.replication == Replication::average) return {.count = rows, .first_product = first};
    const std::size_t copies = matrix.regions.size();
    const std::size_t skip = (copy + copies - first % copies) % copies;
    const std::size_t count = skip >= rows ? 0 : (rows - skip + copies - 1) / copies;
    return {.first_row = skip, .stride = copies, .count = count, .first_product = (first + skip) / copies};
}

Trace region_trace(const ChipLayout& layout, std::size_t region, const RegionWork& work) {
    const auto& tile = layout.regions[region].tile;
    Trace trace;
    trace.core_products.resize(layout.regions[region].core + 1);
    trace.core_products.back() = work.products;
    trace.inputs = work.products * tile.rows;
    trace.clipped_inputs = work.clipped_inputs;
    trace.bytes_in = layout.bytes_per_input * trace.inputs;
    trace.results = work.products * tile.cols;
    trace.bytes_out = layout.bytes_per_output * trace.results;
    trace.digital_operations = trace.results;
    return trace;
}

std::uint64_t saved_operations(const MatrixCopies& matrix, std::size_t rows) {
    const bool average = matrix.replication == Replication::average;
    return average && matrix.regions.size() > 1 ? 0 : rows * matrix.shape.outputs;
}

}  // namespace imka
