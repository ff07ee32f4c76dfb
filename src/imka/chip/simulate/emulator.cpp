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

void add_to(const Matrix<float>& part, float factor, const Exec& exec, MatrixView<float> sum) {
    parallel_for(exec, (part.rows() + kTileRows - 1) / kTileRows, [&](std::size_t t) {
        for (std::size_t r = t * kTileRows; r < std::min(part.rows(), (t + 1) * kTileRows); ++r) {
            for (std::size_t c = 0; c < part.cols(); ++c) sum(r, c) += factor * part(r, c);
        }
    });
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

// Adds the outputs of one copy of the matrix, times a factor, to y: region by region in a fixed order.
void Emulator::add_copy(const std::vector<std::size_t>& regions, MatrixView<const float> x,
                        const ProductIds& ids, const Exec& exec, float factor, MatrixView<float> y) const {
    for (const auto r : regions) {
        const auto& tile = layout_.regions[r].tile;
        const auto mine = x.slice_cols(tile.first_row, tile.rows);
        add_to(region_products(r, mine, ids, exec), factor, exec, y.slice_cols(tile.first_col, tile.cols));
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

Matrix<float> FastEmulator::region_products(std::size_t region, MatrixView<const float> x,
                                            const ProductIds& ids, const Exec& exec) const {
    return fast_products(folded_[region], x, ids, exec);
}

LiteralEmulator::LiteralEmulator(ProgrammedChip chip) : Emulator(chip), chip_(std::move(chip)) {}

Matrix<float> LiteralEmulator::region_products(std::size_t region, MatrixView<const float> x,
                                               const ProductIds& ids, const Exec& exec) const {
    const auto& programmed = chip_.regions[region];
    Matrix<float> y(x.rows(), programmed.cols());
    parallel_for(exec, x.rows(), [&](std::size_t v) {
        const auto counts = literal_counts(programmed, x.slice_rows(v, 1), chip_.time,
                                           {.seed = ids.seed, .first = ids.first + v});
        const auto outputs = literal_outputs(programmed, counts.counts);
        std::ranges::copy(outputs.row(0), y.row(v).begin());
        record(exec, {.conversions = counts.conversions,
                      .saturated = counts.saturated,
                      .limited = literal_limited(programmed, counts.counts)});
    });
    return y;
}

std::unique_ptr<ChipDriver> make_emulator(const ProgrammedChip& chip, Simulator simulator, const Exec& exec) {
    if (simulator == Simulator::literal) return std::make_unique<LiteralEmulator>(chip);
    if (exec.device.kind == DeviceKind::cuda) return make_cuda_emulator(chip, exec);
    return std::make_unique<FastEmulator>(chip, exec);
}

Matrix<float> digital_products(const Matrix<float>& weights, MatrixView<const float> x, const Exec& exec) {
    assert(x.cols() == weights.rows());
    Matrix<float> y(x.rows(), weights.cols());
    gemm_nt_rows(x, transposed(weights.view()).view(), exec, y.view());
    return y;
}

}  // namespace imka
