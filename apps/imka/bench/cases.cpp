// The benchmarks of `imka bench`. Each one first checks its results.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <utility>

#include "bench/bench.hpp"
#include "imka/base/matrix.hpp"
#include "imka/base/parallel.hpp"
#include "imka/base/random.hpp"
#include "imka/features/choose_projector.hpp"
#include "imka/features/feature_map.hpp"
#include "imka/features/project_digital.hpp"
#include "imka/features/project_sorf.hpp"
#include "imka/kernel/kernel.hpp"
#include "imka/learn/ridge_model.hpp"
#include "imka/linalg/gemm.hpp"
#include "imka/metrics/accuracy.hpp"
#include "imka/metrics/kernel_error.hpp"
#include "imka/ops/fwht/fwht.hpp"
#include "imka/ops/normals/normals.hpp"

namespace imka::app {
namespace {

double operations(std::size_t rows, std::size_t d, std::size_t m) {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(d) * static_cast<double>(m);
}

// The relative error of a Gram matrix with D features is about 1/sqrt(D) divided by the root mean square of
// the kernel; 6/sqrt(D) is far above that for the kernels used here and far below the error of an incorrect
// map.
BenchCheck check_map(const FeatureMap& map, MatrixView<const float> x, const Exec& exec) {
    const auto few = x.slice_rows(0, std::min<std::size_t>(x.rows(), 256));
    Matrix<double> exact(few.rows(), few.rows());
    exact_gram(map.recipe().omega.kernel, map.recipe().omega.gamma, few, few, exec, exact.view());
    const auto z = map.transform(few, exec);
    const double error = gram_error(std::as_const(exact).view(), std::as_const(z).view(), exec);
    const double bound = 6.0 / std::sqrt(static_cast<double>(map.features()));
    return {
        .what = "relative error of the Gram matrix", .value = error, .bound = bound, .ok = error <= bound};
}

// Minimum time for [cos, sin] features: product and functions share the cores; writing can overlap with both.
double feature_limit(const MachineLimits& limits, std::size_t rows, std::size_t d, std::size_t m) {
    const auto directions = static_cast<double>(rows) * static_cast<double>(m);
    return std::max(operations(rows, d, m) / limits.sgemm_all + directions / limits.cos_sin_all,
                    directions * 2.0 * sizeof(float) / limits.write_all);
}

constexpr const char* kFeatureLimit = "product + cos, sin, or writing";

// nullopt if the first rival did not run.
std::vector<BenchTarget> ratio_target(const BenchResult& result, double wanted) {
    if (result.rivals.front().seconds.empty()) return {};
    return {{.what = "ratio", .wanted = wanted, .reached = result.rivals.front().ratio.median}};
}

// Inside or outside the sphere that contains about half of the rows: not linearly separable.
std::vector<std::int32_t> two_classes(MatrixView<const float> x) {
    std::vector<std::int32_t> y(x.rows());
    const double threshold = static_cast<double>(x.cols()) - 2.0 / 3.0;
    for (std::size_t r = 0; r < y.size(); ++r) {
        double sum = 0.0;
        for (const float v : x.row(r)) sum += static_cast<double>(v) * v;
        y[r] = sum > threshold ? 1 : 0;
    }
    return y;
}

double largest_difference(const Matrix<float>& a, const Matrix<float>& b) {
    double largest = 0.0;
    for (std::size_t i = 0; i < a.values().size(); ++i)
        largest = std::max(largest, std::abs(static_cast<double>(a.values()[i]) - b.values()[i]));
    return largest;
}

// Values that both sides transform repeatedly; they stay in the cache.
constexpr std::size_t kFwhtKept = 65536;

// Compared with plain loops in double; the bound is the one in the header.
BenchCheck check_fwht(std::size_t n) {
    auto values = normals(1, n, 0);
    std::vector<double> exact(values.values().begin(), values.values().end());
    double sum = 0.0;
    for (const double v : exact) sum += std::abs(v);
    fwht(std::span<double>(exact));
    fwht(values.row(0));
    double error = 0.0;
    for (std::size_t c = 0; c < n; ++c) error = std::max(error, std::abs(values(0, c) - exact[c]));
    const double bound = std::log2(static_cast<double>(n)) * 0x1p-24 * sum;
    return {.what = "largest error of a value", .value = error, .bound = bound, .ok = error <= bound};
}

BenchResult bench_fwht_size(const BenchSetup& setup, std::size_t n) {
    const std::size_t passes = setup.quick ? 2 : 512;
    Matrix<float> x = normals(kFwhtKept / n, n, 0);
    BenchResult result{.name = "fwht",
                       .title = fmt::format("Walsh-Hadamard {} x {}, one core", x.rows(), n),
                       .sizes = {{"n", n}, {"rows", x.rows()}, {"passes", passes}},
                       .check = check_fwht(n)};
    const auto one_by_one = [&] {
        for (std::size_t p = 0; p < passes; ++p)
            for (std::size_t r = 0; r < x.rows(); ++r) fwht(x.row(r));
    };
    run_rounds(
        setup,
        [&] {
            for (std::size_t p = 0; p < passes; ++p) fwht_rows(x.view());
        },
        {{.name = "FFHT", .peer = "ffht_transform", .package = "ffht"},
         {.name = "ours, one call per row", .body = one_by_one}},
        result);
    const auto values = static_cast<double>(passes * kFwhtKept);
    const double additions = values * std::log2(static_cast<double>(n));
    result.limit = "additions at half of sgemm's rate";
    // sgemm counts a multiply-add as two operations; here each operation counts once.
    result.limit_time = [=](const MachineLimits& l) { return additions / (0.5 * l.sgemm_core); };
    if (!result.rivals.front().seconds.empty())
        result.targets = {{.what = "time / FFHT's",
                           .wanted = 1.3,
                           .reached = 1.0 / result.rivals.front().ratio.median,
                           .at_most = true}};
    result.more = {{"picoseconds_per_value", median(result.seconds) / values * 1e12}};
    return result;
}

BenchResult bench_sorf_shape(const BenchSetup& setup, std::size_t d, std::size_t m) {
    const std::size_t rows = setup.quick ? kTileRows : 32 * kTileRows;
    const auto exec = without_progress(setup.exec);
    const OmegaRecipe recipe{.gamma = 0.5 / static_cast<double>(d),
                             .sampler = Sampler::sorf,
                             .d = static_cast<std::int64_t>(d),
                             .m = static_cast<std::int64_t>(m),
                             .seed = 1};
    const SorfProjector structured(recipe);
    const DigitalProjector dense(sample(recipe, exec));
    const auto x = normals(rows, d, 0);
    Matrix<float> u(rows, m);
    Matrix<float> expected(rows, m);
    structured.project(x.view(), {}, exec, u.view());
    dense.project(x.view(), {}, exec, expected.view());
    const double error = largest_difference(u, expected);
    // Entries of u have a standard deviation near 1, and both sides round at 2^-24 of |ω||x|.
    constexpr double kBound = 1e-4;
    BenchResult result{.name = "sorf",
                       .title = fmt::format("SORF projection {} x {} -> {}", rows, d, m),
                       .sizes = {{"rows", rows}, {"d", d}, {"m", m}},
                       .check = {.what = "largest difference from the dense projection",
                                 .value = error,
                                 .bound = kBound,
                                 .ok = error <= kBound}};
    run_rounds(
        setup, [&] { structured.project(x.view(), {}, exec, u.view()); },
        {{.name = "dense projection", .body = [&] { dense.project(x.view(), {}, exec, u.view()); }}}, result);
    result.limit = "writing";
    result.limit_time = [=](const MachineLimits& l) {
        return static_cast<double>(rows * m * sizeof(float)) / l.write_all;
    };
    const double model = projection_cost(recipe).gain();
    result.note = fmt::format("model: {:.2f}, {}", model, model >= kLeastGain ? "structured" : "dense");
    result.more = {{"model_ratio", model}};
    return result;
}

}  // namespace

std::vector<BenchResult> bench_features(const BenchSetup& setup) {
    const std::size_t rows = setup.quick ? 2000 : 50000;
    constexpr std::size_t kInputs = 22;
    const std::size_t m = setup.quick ? 128 : 704;
    constexpr double kGamma = 0.02;
    const auto exec = without_progress(setup.exec);
    const FeatureMap map(
        {.omega = {.gamma = kGamma, .d = kInputs, .m = static_cast<std::int64_t>(m), .seed = 1}});
    const auto x = normals(rows, kInputs, 0);
    BenchResult result{.name = "features",
                       .title = fmt::format("features {} x {} -> {}", rows, kInputs, 2 * m),
                       .sizes = {{"rows", rows}, {"d", kInputs}, {"D", 2 * m}, {"gamma", kGamma}},
                       .check = check_map(map, x.view(), exec)};
    Matrix<float> z(rows, map.features());
    run_rounds(
        setup, [&] { map.transform(x.view(), {}, exec, z.view()); },
        {{.name = "scikit-learn", .peer = "sklearn_features", .package = "sklearn"},
         {.name = "PyTorch", .peer = "torch_features", .package = "torch"},
         {.name = "ours into new memory", .body = [&] { map.transform(x.view(), exec); }}},
        result);
    result.limit = kFeatureLimit;
    result.limit_time = [=](const MachineLimits& l) { return feature_limit(l, rows, kInputs, m); };
    result.targets = ratio_target(result, 4.0);
    return {result};
}

std::vector<BenchResult> bench_projection(const BenchSetup& setup) {
    const std::size_t rows = setup.quick ? 512 : 16384;
    const std::size_t d = setup.quick ? 100 : 1000;
    const std::size_t m = setup.quick ? 256 : 2048;
    const double gamma = 0.5 / static_cast<double>(d);
    const auto exec = without_progress(setup.exec);
    const FeatureMap map({.omega = {.gamma = gamma,
                                    .d = static_cast<std::int64_t>(d),
                                    .m = static_cast<std::int64_t>(m),
                                    .seed = 1}});
    const auto x = normals(rows, d, 0);
    const auto omega = normals(m, d, 1);
    BenchResult result{.name = "projection",
                       .title = fmt::format("features {} x {} -> {}", rows, d, 2 * m),
                       .sizes = {{"rows", rows}, {"d", d}, {"m", m}, {"D", 2 * m}, {"gamma", gamma}},
                       .check = check_map(map, x.view(), exec)};
    Matrix<float> z(rows, map.features());
    // The product alone, under the best conditions: large blocks, and each thread's results stay in the
    // cache.
    constexpr std::size_t kPiece = 512;
    const auto threads = static_cast<std::size_t>(thread_count(exec));
    std::vector<Matrix<float>> outputs(threads, Matrix<float>(kPiece, m));
    const auto product = [&] {
        parallel_for(exec, threads, [&](std::size_t t) {
            for (std::size_t first = t * kPiece; first < rows; first += threads * kPiece)
                gemm_nt(x.view().slice_rows(first, kPiece), omega.view(), outputs[t].view());
        });
    };
    run_rounds(
        setup, [&] { map.transform(x.view(), {}, exec, z.view()); },
        {{.name = "the product alone (sgemm)", .body = product},
         {.name = "product by NumPy", .peer = "numpy_product", .package = "numpy"},
         {.name = "PyTorch", .peer = "torch_features", .package = "torch"}},
        result);
    result.limit = kFeatureLimit;
    result.limit_time = [=](const MachineLimits& l) { return feature_limit(l, rows, d, m); };
    result.targets = {
        {.what = "share of sgemm", .wanted = 0.9, .reached = result.rivals.front().ratio.median}};
    result.more = {{"gflops", operations(rows, d, m) / median(result.seconds) * 1e-9}};
    return {result};
}

std::vector<BenchResult> bench_ridge(const BenchSetup& setup) {
    const std::size_t rows = setup.quick ? 2000 : 49990;
    const std::size_t test_rows = setup.quick ? 1000 : 91701;
    constexpr std::size_t kInputs = 22;
    const std::size_t m = setup.quick ? 64 : 704;
    constexpr double kGamma = 0.02;
    constexpr double kAlpha = 0.5;
    const auto exec = without_progress(setup.exec);
    const auto x = normals(rows, kInputs, 0);
    const auto test = normals(test_rows, kInputs, 1);
    const auto y = two_classes(x.view());
    const RidgeFit fit{
        .recipe = {.omega = {.gamma = kGamma, .d = kInputs, .m = static_cast<std::int64_t>(m), .seed = 1}},
        .ridge = {.alpha = kAlpha}};
    std::vector<std::int32_t> found;
    const auto fit_and_predict = [&] {
        const auto model = fit_classifier(fit, x.view(), y, {"inside", "outside"}, exec);
        found = RidgePredictor(model).classify(test.view(), exec);
    };
    BenchResult result{.name = "ridge",
                       .title = fmt::format("ridge fit {} + predict {}, D = {}", rows, test_rows, 2 * m),
                       .sizes = {{"rows", rows},
                                 {"test_rows", test_rows},
                                 {"d", kInputs},
                                 {"D", 2 * m},
                                 {"gamma", kGamma},
                                 {"alpha", kAlpha}}};
    run_rounds(setup, fit_and_predict,
               {{.name = "scikit-learn", .peer = "sklearn_ridge", .package = "sklearn"},
                {.name = "PyTorch", .peer = "torch_ridge", .package = "torch"}},
               result);
    const double share = accuracy(two_classes(test.view()), found);
    // 0.5 is chance level.
    result.check = {.what = "accuracy", .value = share, .bound = 0.65, .ok = share >= 0.65};
    const double features = 2.0 * static_cast<double>(m);
    result.limit = "features + ZᵀZ";
    result.limit_time = [=](const MachineLimits& l) {
        return feature_limit(l, rows + test_rows, kInputs, m) +
               static_cast<double>(rows) * features * features / std::max(l.syrk_all, l.sgemm_all);
    };
    result.targets = ratio_target(result, 3.0);
    return {result};
}

std::vector<BenchResult> bench_sorf(const BenchSetup& setup) {
    if (setup.quick) return {bench_sorf_shape(setup, 64, 512)};
    std::vector<BenchResult> results = {bench_sorf_shape(setup, 512, 4096)};
    results.front().targets = ratio_target(results.front(), 4.0);
    for (const std::size_t d : {16U, 32U, 64U, 128U, 1000U})
        results.push_back(bench_sorf_shape(setup, d, 2048));
    return results;
}

std::vector<BenchResult> bench_normals(const BenchSetup& setup) {
    constexpr std::size_t kCount = std::size_t{1} << 17U;  // 0.5 MB: stays in the cache
    const std::size_t passes = setup.quick ? 2 : 256;
    std::vector<float> ours(kCount);
    std::vector<float> reference(kCount);
    ops::fill_normal(7, Stream::test, 0, ours);
    fill_normal(7, Stream::test, 0, reference);
    std::size_t differ = 0;
    for (std::size_t i = 0; i < kCount; ++i)
        differ +=
            std::bit_cast<std::uint32_t>(ours[i]) == std::bit_cast<std::uint32_t>(reference[i]) ? 0U : 1U;
    BenchResult result{.name = "normals",
                       .title = "normals, one core",
                       .sizes = {{"count", kCount}, {"passes", passes}},
                       .check = {.what = "values whose bits differ from the reference",
                                 .value = static_cast<double>(differ),
                                 .bound = 0.0,
                                 .ok = differ == 0}};
    run_rounds(
        setup,
        [&] {
            for (std::size_t p = 0; p < passes; ++p) ops::fill_normal(7, Stream::test, p * kCount, ours);
        },
        {{.name = "our plain loop",
          .body =
              [&] {
                  for (std::size_t p = 0; p < passes; ++p)
                      fill_normal(7, Stream::test, p * kCount, reference);
              }},
         {.name = "NumPy", .peer = "numpy_normals", .package = "numpy"}},
        result);
    const double rate = static_cast<double>(kCount * passes) / median(result.seconds) * 1e-9;
    result.targets = {{.what = "G/s", .wanted = 0.6, .reached = rate}};
    result.more = {{"giga_per_second", rate}};
    return {result};
}

std::vector<BenchResult> bench_fwht(const BenchSetup& setup) {
    std::vector<BenchResult> results;
    for (std::size_t n = 2; n <= kFwhtKept; n *= 2) results.push_back(bench_fwht_size(setup, n));
    return results;
}

}  // namespace imka::app
