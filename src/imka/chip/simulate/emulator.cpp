#include "imka/chip/simulate/emulator.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "imka/base/parallel.hpp"
#include "imka/chip/simulate/cuda_emulator.hpp"
#include "imka/chip/simulate/literal.hpp"
#include "imka/linalg/gemm.hpp"

namespace imka {
namespace {

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

// Adds the outputs of one copy of the matrix, times a factor, to y: region by region in a fixed order.
void Emulator::add_copy(const std::vector<std::size_t>& regions, MatrixView<const float> x,
                        const ProductIds& ids, const Exec& exec, float factor, MatrixView<float> y) const {
    for (const auto r : regions) {
        const auto& tile = layout_.regions[r].tile;
        const auto mine = x.slice_cols(tile.first_row, tile.rows);
        add_products({r, factor}, mine, ids, exec, y.slice_cols(tile.first_col, tile.cols));
        record(exec, region_trace(layout_, r,
                                  {.products = mine.rows(),
                                   .clipped_inputs = count_beyond(mine, layout_.input_ranges[r])}));
    }
}

Trace Emulator::multiply(std::uint32_t matrix, MatrixView<const float> x, const ProductIds& ids,
                         const Exec& exec, MatrixView<float> y) {
    check_call(*this, matrix, x);
    const auto& copies = layout_.matrices[matrix];
    assert(y.rows() == x.rows() && y.cols() == copies.shape.outputs);
    Trace trace;
    Exec mine = exec;
    mine.trace = &trace;
    for (std::size_t r = 0; r < y.rows(); ++r) std::ranges::fill(y.row(r), 0.0F);
    const bool average = copies.replication == Replication::average;
    const float factor = average ? 1.0F / static_cast<float>(copies.regions.size()) : 1.0F;
    for (std::size_t c = 0; c < copies.regions.size(); ++c) {
        const auto share = row_share(copies, c, ids.first, x.rows());
        if (share.count == 0) continue;
        const MatrixView<const float> in(x.data() + share.first_row * x.stride(), share.count, x.cols(),
                                         share.stride * x.stride());
        const MatrixView<float> out(y.data() + share.first_row * y.stride(), share.count, y.cols(),
                                    share.stride * y.stride());
        add_copy(copies.regions[c], in, {.seed = ids.seed, .first = share.first_product}, mine, factor, out);
    }
    trace.digital_operations -= saved_operations(copies, x.rows());
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
    if (exec.device.kind == DeviceKind::cuda) return make_cuda_emulator(chip, exec);
    return std::make_unique<FastEmulator>(chip, exec);
}

Matrix<float> digital_products(const Matrix<float>& weights, MatrixView<const float> x, const Exec& exec) {
    assert(x.cols() == weights.rows());
    Matrix<float> y(x.rows(), weights.cols());
    gemm_rows(x, ops::packed(weights), exec, y.view());
    return y;
}

}  // namespace imka
