// imka bench stream: time and memory of a ridge fit on a long stream of generated rows.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/bench.hpp"
#include "imka/base/matrix.hpp"
#include "imka/base/parallel.hpp"
#include "imka/data/synthetic.hpp"
#include "imka/features/feature_map.hpp"
#include "imka/learn/ridge.hpp"
#include "machine.hpp"

namespace imka::app {
namespace {

constexpr std::size_t kBlock = 8192;  // rows in memory at a time
constexpr std::size_t kPiece = 512;   // rows generated per task
constexpr std::uint64_t kSeed = 1;

// A block of generated rows, their targets and their features.
struct Block {
    Matrix<float> x;
    RidgeRows rows;
    std::vector<std::int32_t> y;
};

Block make_block(const FeatureMap& map) {
    return {.x = Matrix<float>(kBlock, map.inputs()),
            .rows = RidgeRows(kBlock, map.features(), 1),
            .y = std::vector<std::int32_t>(kBlock)};
}

void generate(std::uint64_t first, std::size_t count, const Exec& exec, Block& block) {
    parallel_for(exec, (count + kPiece - 1) / kPiece, [&](std::size_t p) {
        const std::size_t begin = p * kPiece;
        const std::size_t n = std::min(kPiece, count - begin);
        generate_rows(Generator::ringnorm, kSeed, first + begin, block.x.view().slice_rows(begin, n),
                      std::span(block.y).subspan(begin, n));
    });
    for (std::size_t r = 0; r < count; ++r) block.rows.y(r)[0] = block.y[r] == 1 ? 1.0F : -1.0F;
}

struct StreamTimes {
    double total = 0.0;
    double generate = 0.0;
    double features = 0.0;
    double ridge = 0.0;
};

StreamTimes fit_stream(const FeatureMap& map, std::uint64_t rows, const Exec& shown, Block& block,
                       RidgeWeights& weights) {
    const auto exec = without_progress(shown);
    StreamTimes times;
    times.total = seconds_of([&] {
        Progress progress(shown, "bench stream", rows);
        RidgeAccumulator sums(map.features(), 1);
        for (std::uint64_t first = 0; first < rows; first += kBlock) {
            const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(kBlock, rows - first));
            const auto x = std::as_const(block.x).view().slice_rows(0, count);
            const auto z = block.rows.z(0, count);
            times.generate += seconds_of([&] { generate(first, count, exec, block); });
            times.features += seconds_of([&] { map.transform(x, {.first = first}, exec, z); });
            times.ridge += seconds_of([&] { sums.add(block.rows.view(0, count), exec); });
            progress.update(first + count);
        }
        times.ridge += seconds_of([&] { weights = sums.solve({.alpha = 0.5}, exec); });
    });
    return times;
}

// Tested on rows after the training rows. generator_info gives the Bayes error; features and penalty add less
// than 0.05.
BenchCheck check_weights(const FeatureMap& map, const RidgeWeights& weights, std::uint64_t first,
                         const Exec& exec, Block& block) {
    generate(first, kBlock, exec, block);
    const auto z = block.rows.z(0, kBlock);
    map.transform(std::as_const(block.x).view(), {.first = first}, exec, z);
    Matrix<double> scores(kBlock, 1);
    ridge_predict(weights, z, exec, scores.view());
    std::size_t right = 0;
    for (std::size_t r = 0; r < kBlock; ++r) right += (scores(r, 0) > 0.0) == (block.y[r] == 1) ? 1U : 0U;
    const double share = static_cast<double>(right) / kBlock;
    const double bound = 0.95 - generator_info(Generator::ringnorm).bayes_error.value();
    return {.what = "accuracy on new rows", .value = share, .bound = bound, .ok = share >= bound};
}

}  // namespace

std::vector<BenchResult> bench_stream(const BenchSetup& setup) {
    const std::uint64_t rows = setup.quick ? 20000 : setup.stream_rows;
    const std::int64_t m = setup.quick ? 128 : 512;
    const auto inputs = generator_info(Generator::ringnorm).features;
    const auto exec = without_progress(setup.exec);
    const bool reset = reset_peak_memory();
    const FeatureMap map({.omega = {.gamma = 0.05, .d = inputs, .m = m, .seed = kSeed}});
    auto block = make_block(map);
    RidgeWeights weights;
    const auto times = fit_stream(map, rows, setup.exec, block, weights);
    const double peak = peak_memory_bytes();
    // Clock rates drift over minutes: the bound is the better rate of before and after.
    const double rate =
        std::max({setup.limits.syrk_all, setup.limits.sgemm_all, measure_syrk(exec, setup.limit_repeats())});
    const auto features = static_cast<double>(map.features());
    BenchResult result{.name = "stream",
                       .title = fmt::format("stream {} rows, D = {}", rows, features),
                       .sizes = {{"rows", static_cast<double>(rows)}, {"d", inputs}, {"D", features}},
                       .seconds = {times.total},
                       .limit = "ZᵀZ",
                       .limit_seconds = static_cast<double>(rows) * features * features / rate,
                       .check = check_weights(map, weights, rows, exec, block),
                       .more = {{"generate_seconds", times.generate},
                                {"features_seconds", times.features},
                                {"ridge_seconds", times.ridge},
                                {"peak_memory_mb", peak * 1e-6},
                                {"peak_is_of_this_part", reset ? 1.0 : 0.0}}};
    result.targets = {{.what = "time / limit",
                       .wanted = 1.3,
                       .reached = times.total / result.limit_seconds,
                       .at_most = true},
                      {.what = "MB", .wanted = 400.0, .reached = peak * 1e-6, .at_most = true}};
    return {result};
}

}  // namespace imka::app
