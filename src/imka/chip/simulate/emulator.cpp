#include "imka/chip/simulate/emulator.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "imka/base/parallel.hpp"
#include "imka/chip/simulate/literal.hpp"
#include "imka/linalg/gemm.hpp"

namespace imka {
namespace {

// Signed steps.
std::uint64_t input_bytes(const DacConfig& dac) {
    return dac.levels <= 127 ? 1 : 2;
}

// Unrounded results are floats.
std::uint64_t output_bytes(const AffineConfig& affine) {
    if (affine.output_bits == 0) return sizeof(float);
    return affine.output_bits <= 8 ? 1 : 2;
}

// |x| > range. No float lies between the limit and the range, so floats can be compared, four at a time.
std::uint64_t count_beyond(MatrixView<const float> x, double range) {
    auto limit = static_cast<float>(range);
    if (limit > range) limit = std::nextafter(limit, 0.0F);
    std::uint64_t count = 0;
    for (std::size_t v = 0; v < x.rows(); ++v) {
        std::uint32_t beyond = 0;
        for (const float value : x.row(v)) beyond += std::abs(value) > limit ? 1U : 0U;
        count += beyond;
    }
    return count;
}

}  // namespace

Emulator::Emulator(const ProgrammedChip& chip)
    : regions_(chip.plan.regions),
      bytes_per_input_(input_bytes(chip.plan.spec.core.dac)),
      bytes_per_output_(output_bytes(chip.plan.spec.core.affine)) {
    for (const auto& m : chip.plan.matrices)
        matrices_.push_back({.shape = {m.weights.rows(), m.weights.cols()},
                             .replication = m.replication,
                             .regions = std::vector<std::vector<std::size_t>>(m.replicas)});
    for (std::size_t r = 0; r < regions_.size(); ++r)
        matrices_.at(regions_[r].matrix).regions.at(regions_[r].replica).push_back(r);
    for (const auto& region : chip.regions) input_ranges_.push_back(region.input_range);
}

Trace Emulator::region_trace(std::size_t region, MatrixView<const float> x) const {
    Trace trace;
    trace.core_products.resize(regions_[region].core + 1);
    trace.core_products.back() = x.rows();
    trace.inputs = x.rows() * x.cols();
    trace.clipped_inputs = count_beyond(x, input_ranges_[region]);
    trace.bytes_in = bytes_per_input_ * trace.inputs;
    trace.bytes_out = bytes_per_output_ * x.rows() * regions_[region].tile.cols;
    trace.results = x.rows() * regions_[region].tile.cols;
    trace.digital_operations = trace.results;
    return trace;
}

// Adds the outputs of one copy of the matrix, times a factor, to y: region by region in a fixed order.
void Emulator::add_copy(const std::vector<std::size_t>& regions, MatrixView<const float> x,
                        const ProductIds& ids, const Exec& exec, float factor, MatrixView<float> y) const {
    for (const auto r : regions) {
        const auto& tile = regions_[r].tile;
        const auto mine = x.slice_cols(tile.first_row, tile.rows);
        add_products({r, factor}, mine, ids, exec, y.slice_cols(tile.first_col, tile.cols));
        record(exec, region_trace(r, mine));
    }
}

void Emulator::share_out(const Copies& matrix, MatrixView<const float> x, const ProductIds& ids,
                         const Exec& exec, MatrixView<float> y) const {
    const std::size_t copies = matrix.regions.size();
    for (std::size_t r = 0; r < copies; ++r) {
        const std::size_t skip = (r + copies - ids.first % copies) % copies;
        if (skip >= x.rows()) continue;
        const std::size_t count = (x.rows() - skip + copies - 1) / copies;
        const MatrixView<const float> mine(x.data() + skip * x.stride(), count, x.cols(),
                                           copies * x.stride());
        const MatrixView<float> out(y.data() + skip * y.stride(), count, y.cols(), copies * y.stride());
        const ProductIds numbers{.seed = ids.seed, .first = (ids.first + skip) / copies};
        add_copy(matrix.regions[r], mine, numbers, exec, 1.0F, out);
    }
}

Trace Emulator::multiply(std::uint32_t matrix, MatrixView<const float> x, const ProductIds& ids,
                         const Exec& exec, MatrixView<float> y) {
    check_call(*this, matrix, x);
    const auto& copies = matrices_[matrix];
    assert(y.rows() == x.rows() && y.cols() == copies.shape.outputs);
    Trace trace;
    Exec mine = exec;
    mine.trace = &trace;
    for (std::size_t r = 0; r < y.rows(); ++r) std::ranges::fill(y.row(r), 0.0F);
    const bool average = copies.replication == Replication::average;
    if (average) {
        const float share = 1.0F / static_cast<float>(copies.regions.size());
        for (const auto& regions : copies.regions) add_copy(regions, x, ids, mine, share, y);
    } else {
        share_out(copies, x, ids, mine, y);
    }
    // The first partial sum of an output is not an addition; an average adds a division.
    const std::uint64_t outputs = x.rows() * copies.shape.outputs;
    if (!average || copies.regions.size() == 1) trace.digital_operations -= outputs;
    return trace;
}

FastEmulator::FastEmulator(const ProgrammedChip& chip, const Exec& exec)
    : Emulator(chip), folded_(chip.regions.size()) {
    parallel_for(exec, chip.regions.size(),
                 [&](std::size_t r) { folded_[r] = prepare(chip.regions[r], chip.time); });
}

void FastEmulator::add_products(const Part& part, MatrixView<const float> x, const ProductIds& ids,
                                const Exec& exec, MatrixView<float> y) const {
    add_fast_products({folded_[part.region], part.factor}, x, ids, exec, y);
}

LiteralEmulator::LiteralEmulator(ProgrammedChip chip) : Emulator(chip), chip_(std::move(chip)) {}

void LiteralEmulator::add_products(const Part& part, MatrixView<const float> x, const ProductIds& ids,
                                   const Exec& exec, MatrixView<float> y) const {
    const auto& programmed = chip_.regions[part.region];
    parallel_for(exec, x.rows(), [&](std::size_t v) {
        const auto counts = literal_counts(programmed, x.slice_rows(v, 1), chip_.time,
                                           {.seed = ids.seed, .first = ids.first + v});
        const auto outputs = literal_outputs(programmed, counts.counts);
        for (std::size_t c = 0; c < y.cols(); ++c) y(v, c) += part.factor * outputs(0, c);
        record(exec, {.conversions = counts.conversions,
                      .saturated = counts.saturated,
                      .limited = literal_limited(programmed, counts.counts)});
    });
}

std::unique_ptr<ChipDriver> make_emulator(const ProgrammedChip& chip, Simulator simulator, const Exec& exec) {
    if (simulator == Simulator::literal) return std::make_unique<LiteralEmulator>(chip);
    return std::make_unique<FastEmulator>(chip, exec);
}

Matrix<float> digital_products(const Matrix<float>& weights, MatrixView<const float> x, const Exec& exec) {
    assert(x.cols() == weights.rows());
    Matrix<float> y(x.rows(), weights.cols());
    gemm_nt_rows(x, transposed(weights.view()).view(), exec, y.view());
    return y;
}

}  // namespace imka
