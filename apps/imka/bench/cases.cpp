// The benchmarks of `imka bench`. Each one first checks its results.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include "bench/bench.hpp"
#include "imka/base/matrix.hpp"
#include "imka/base/parallel.hpp"
#include "imka/base/random.hpp"
#include "imka/data/synthetic.hpp"
#include "imka/features/choose_projector.hpp"
#include "imka/features/feature_map.hpp"
#include "imka/features/project_chip.hpp"
#include "imka/kernel/kernel.hpp"
#include "imka/learn/ridge.hpp"
#include "imka/learn/ridge_model.hpp"
#include "imka/linalg/gemm.hpp"
#include "imka/metrics/metrics.hpp"
#include "imka/ops/fwht/fwht.hpp"
#include "imka/ops/normals/normals.hpp"
#include "imka/ops/panel/panel.hpp"
#include "machine.hpp"

namespace imka::app {
namespace {

constexpr std::size_t kInputs = 22;
constexpr std::size_t kBlock = 8192;  // rows of a stream in memory at a time
constexpr std::size_t kPiece = 512;   // rows per task
constexpr std::uint64_t kSeed = 1;

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
    return check_at_most("relative error of the Gram matrix", error, bound);
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
    return check_at_most("largest error of a value", error, bound);
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
    double error = 0.0;
    for (std::size_t i = 0; i < u.values().size(); ++i)
        error = std::max(error, std::abs(double{u.values()[i]} - expected.values()[i]));
    // Entries of u have a standard deviation near 1, and both sides round at 2^-24 of |ω||x|.
    constexpr double kBound = 1e-4;
    BenchResult result{.name = "sorf",
                       .title = fmt::format("SORF projection {} x {} -> {}", rows, d, m),
                       .sizes = {{"rows", rows}, {"d", d}, {"m", m}},
                       .check = check_at_most("largest difference from the dense projection", error, kBound)};
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

// imka bench product: products of floats, compared with BLAS in tiles of the same height.

struct ProductShape {
    std::size_t rows;
    std::size_t inputs;
    std::size_t outputs;
};

BenchResult bench_product_shape(const BenchSetup& setup, const ProductShape& shape) {
    const std::size_t rows = shape.rows;
    const std::size_t inputs = shape.inputs;
    const std::size_t outputs = shape.outputs;
    const auto exec = without_progress(setup.exec);
    const auto a = normals(rows, inputs, 0);
    const auto b = normals(outputs, inputs, 1);
    const std::size_t tile = std::min(rows, kTileRows);
    Matrix<float> c(rows, outputs);
    Matrix<float> expected(rows, outputs);
    const auto blas = [&] {
        parallel_for(exec, rows / tile, [&](std::size_t t) {
            blas_gemm_nt(a.view().slice_rows(t * tile, tile), b.view(),
                         expected.view().slice_rows(t * tile, tile));
        });
    };
    blas();
    gemm_nt_rows(a.view(), b.view(), exec, c.view());
    double error = 0.0;
    for (std::size_t i = 0; i < c.values().size(); ++i)
        error = std::max(error, std::abs(double{c.values()[i]} - expected.values()[i]));
    // Sums of products of normals: both sides round at 2^-24 of the sum of magnitudes.
    const double bound = 2.0 * static_cast<double>(inputs) * 0x1p-24 * static_cast<double>(inputs);
    BenchResult result{.name = "product",
                       .title = fmt::format("product {} x {} -> {}", rows, inputs, outputs),
                       .sizes = {{"rows", rows}, {"inputs", inputs}, {"outputs", outputs}},
                       .check = check_at_most("largest difference from BLAS", error, bound)};
    const std::size_t passes = setup.quick ? 1 : 1 + 200'000'000 / (rows * inputs * outputs);
    const auto repeated = [passes](const std::function<void()>& body) {
        return [=] {
            for (std::size_t i = 0; i < passes; ++i) body();
        };
    };
    const auto panels = ops::packed_transposed(b.view());
    run_rounds(setup, repeated([&] { gemm_nt_rows(a.view(), b.view(), exec, c.view()); }),
               {{.name = "BLAS", .body = repeated(blas)},
                {.name = "ours, right factor packed before",
                 .body = repeated([&] { gemm_rows(a.view(), panels, exec, c.view()); })}},
               result);
    const double work = operations(rows, inputs, outputs) * static_cast<double>(passes);
    result.limit = "product";
    result.limit_time = [=](const MachineLimits& l) { return work / l.sgemm_all; };
    result.more = {{"gflops", work / median(result.seconds) * 1e-9}};
    return result;
}

// imka bench one_row: features of one row at a time, compared with the product of a full tile of rows, which
// is the cost of one row if every product is padded to a tile.

const Exec kOneThread{.threads = 1};

// A feature map, and its projection on its own.
struct Side {
    std::string name;
    FeatureMap map;
    std::unique_ptr<const Projector> projector;
    std::size_t repeats;
};

// Compares rows one by one with the whole tile.
BenchCheck check_bits(const FeatureMap& map, MatrixView<const float> x) {
    const auto whole = map.transform(x, kOneThread);
    std::size_t different = 0;
    for (std::size_t r = 0; r < x.rows(); ++r) {
        const auto one = map.transform(x.slice_rows(r, 1), {.first = r}, kOneThread);
        different += std::ranges::equal(one.row(0), whole.row(r)) ? 0U : 1U;
    }
    return check_at_most("rows whose bits depend on the batch", static_cast<double>(different), 0.0);
}

BenchResult bench_side(const BenchSetup& setup, const Side& side) {
    const auto x = normals(kTileRows, kInputs, 0);
    const std::size_t m = side.projector->outputs();
    const std::size_t repeats = setup.quick ? 2 : side.repeats;
    BenchResult result{.name = "one_row",
                       .title = fmt::format("one row, {} -> {}, {}", kInputs, 2 * m, side.name),
                       .sizes = {{"rows", repeats}, {"d", kInputs}, {"D", 2 * m}},
                       .check = check_bits(side.map, x.view())};
    Matrix<float> z(1, side.map.features());
    Matrix<float> u(kTileRows, m);
    const auto one = [&] {
        for (std::size_t i = 0; i < repeats; ++i)
            side.map.transform(x.view().slice_rows(i % kTileRows, 1), {.first = i}, kOneThread, z.view());
    };
    const auto tile = [&] {
        for (std::size_t i = 0; i < repeats; ++i) side.projector->project(x.view(), {}, kOneThread, u.view());
    };
    run_rounds(setup, one, {{.name = "projection of a padded tile", .body = tile}}, result);
    const double microseconds = median(result.seconds) / static_cast<double>(repeats) * 1e6;
    result.targets = {{.what = "ratio", .wanted = 8.0, .reached = result.rivals.front().ratio.median}};
    result.note = fmt::format("{:.1f} µs per row", microseconds);
    result.more = {{"microseconds_per_row", microseconds}};
    return result;
}

// imka bench stream: time and memory of a ridge fit on a long stream of generated rows.

// A block of generated rows, their targets and their features.
struct Block {
    Matrix<float> x;
    RidgeRows rows;
    std::vector<std::int32_t> y;
};

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

// Accuracy on the rows that follow the training rows. Features and penalty add less than 0.05 to the Bayes
// error.
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

std::vector<BenchResult> bench_features(const BenchSetup& setup) {
    const std::size_t rows = setup.quick ? 2000 : 50000;
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
    const auto threads = static_cast<std::size_t>(thread_count(exec));
    std::vector<Matrix<float>> outputs(threads, Matrix<float>(kPiece, m));
    const auto product = [&] {
        parallel_for(exec, threads, [&](std::size_t t) {
            for (std::size_t first = t * kPiece; first < rows; first += threads * kPiece)
                blas_gemm_nt(x.view().slice_rows(first, kPiece), omega.view(), outputs[t].view());
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
                       .check = check_at_most("values whose bits differ from the reference",
                                              static_cast<double>(differ), 0.0)};
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

std::vector<BenchResult> bench_product(const BenchSetup& setup) {
    if (setup.quick) return {bench_product_shape(setup, {64, 22, 100})};
    std::vector<BenchResult> results;
    for (const ProductShape& shape : {ProductShape{65536, 22, 704},
                                      {4096, 1000, 4096},
                                      {4096, 256, 256},
                                      {2048, 512, 2048},
                                      {256, 4096, 1000},
                                      {16, 1000, 4096},
                                      {1, 1000, 4096}})
        results.push_back(bench_product_shape(setup, shape));
    return results;
}

std::vector<BenchResult> bench_one_row(const BenchSetup& setup) {
    const std::int64_t m = setup.quick ? 64 : 704;
    const FeatureRecipe recipe{.omega = {.gamma = 0.02, .d = kInputs, .m = m, .seed = 1}};
    const auto omega = sample(recipe.omega);
    const auto inputs = normals(1000, kInputs, 0);
    const auto chip = chip_preset("hermes");
    const BuildConfig config;
    const ProjectionJob job{.chip = chip, .omega = omega, .inputs = inputs.view(), .config = config};
    const Side digital{"digital", FeatureMap(recipe), std::make_unique<DigitalProjector>(omega), 1000};
    const Side emulated{"hermes", chip_feature_map(recipe, job, setup.exec).map,
                        make_chip_projector(job, setup.exec), 100};
    return {bench_side(setup, digital), bench_side(setup, emulated)};
}

std::vector<BenchResult> bench_stream(const BenchSetup& setup) {
    const std::uint64_t rows = setup.quick ? 20000 : setup.stream_rows;
    const std::int64_t m = setup.quick ? 128 : 512;
    const auto inputs = generator_info(Generator::ringnorm).features;
    const auto exec = without_progress(setup.exec);
    const bool reset = reset_peak_memory();
    const FeatureMap map({.omega = {.gamma = 0.05, .d = inputs, .m = m, .seed = kSeed}});
    Block block{.x = Matrix<float>(kBlock, map.inputs()),
                .rows = RidgeRows(kBlock, map.features(), 1),
                .y = std::vector<std::int32_t>(kBlock)};
    RidgeWeights weights;
    const auto times = fit_stream(map, rows, setup.exec, block, weights);
    const double peak = peak_memory_bytes();
    // Clock rates drift over minutes: the bound uses the better of the rates before and after.
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
