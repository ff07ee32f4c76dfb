// imka bench cuda_features, cuda_ridge: features, ridge fits and Gram matrices on a GPU, compared with the
// rates of the GPU and with PyTorch and CuPy on the same GPU. The data are in GPU memory.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "bench/bench.hpp"
#include "imka/cuda/gpu.hpp"
#include "imka/cuda/linear_algebra.hpp"
#include "imka/cuda/memory.hpp"
#include "imka/cuda/rates.hpp"
#include "imka/features/choose_projector.hpp"
#include "imka/features/gpu_feature_map.hpp"
#include "imka/kernel/kernel.hpp"
#include "imka/learn/ridge_gpu.hpp"
#include "imka/ops/normals/variants.hpp"

namespace imka::app {
namespace {

constexpr double kGamma = 0.05;

struct FeatureCase {
    const char* what;
    std::size_t rows;
    std::int64_t d;
    std::int64_t features;  // D, cos and sin
    Sampler sampler;
    ops::GpuPrecision precision;
    double wanted;  // share of the limit; 0: none
    bool of_tf32;   // the limit is the rate of TF32 products, otherwise that of writes
};
constexpr FeatureCase kFeatureCases[] = {
    {"small d", 10'000'000, 22, 1408, Sampler::rff, ops::GpuPrecision::float32, 0.8, false},
    {"large d, TF32", 1'000'000, 1000, 4096, Sampler::rff, ops::GpuPrecision::tf32, 0.7, true},
    {"large d", 1'000'000, 1000, 4096, Sampler::rff, ops::GpuPrecision::float32, 0.0, true},
    {"transforms", 1'000'000, 1000, 4096, Sampler::sorf, ops::GpuPrecision::float32, 0.0, false}};

cuda::Buffer<float> normals_on_gpu(std::size_t rows, std::size_t cols, int gpu) {
    cuda::Buffer<float> x(gpu, rows * cols);
    ops::fill_normal_on_gpu({.seed = 9}, gpu, x);
    return x;
}

FeatureRecipe recipe_of(const FeatureCase& c) {
    return {.omega = {.gamma = kGamma, .sampler = c.sampler, .d = c.d, .m = c.features / 2, .seed = 1}};
}

// Largest difference from the processor in the first rows.
double difference_from_processor(const FeatureMap& map, const cuda::Buffer<float>& x,
                                 const cuda::Buffer<float>& z, const Exec& exec) {
    constexpr std::size_t kRows = 300;
    Matrix<float> in(kRows, map.inputs());
    Matrix<float> got(kRows, map.features());
    x.download(in.values());
    z.download(got.values());
    const auto expected = map.transform(in.view(), exec);
    float most = 0.0F;
    for (std::size_t i = 0; i < got.values().size(); ++i)
        most = std::max(most, std::abs(got.values()[i] - expected.values()[i]));
    return most * std::sqrt(static_cast<double>(map.features()) / 2.0);  // relative to the size of a feature
}

BenchResult bench_case(const BenchSetup& setup, const FeatureCase& c, const cuda::GpuRates& rates) {
    const int gpu = setup.gpu;
    const std::size_t rows = setup.quick ? 1000 : c.rows;
    const FeatureMap map(recipe_of(c), setup.exec);
    const auto x = normals_on_gpu(rows, map.inputs(), gpu);
    const cuda::Buffer<float> z(gpu, rows * map.features());
    const auto& on_gpu = map.on_gpu(gpu);
    BenchResult result{
        .name = "cuda_features",
        .title = fmt::format("features, {}: {} rows, d {}, D {}", c.what, rows, c.d, c.features),
        .sizes = {{"rows", static_cast<double>(rows)},
                  {"d", static_cast<double>(c.d)},
                  {"D", static_cast<double>(c.features)},
                  {"gamma", kGamma},
                  {"tf32", c.precision == ops::GpuPrecision::tf32 ? 1.0 : 0.0}}};
    std::vector<Rival> rivals;
    if (c.sampler == Sampler::rff) {
        rivals = {{.name = "torch.compile", .peer = "torch_cuda_features", .package = "torch"},
                  {.name = "CuPy", .peer = "cupy_features", .package = "cupy"}};
    }
    run_rounds(
        setup,
        [&] {
            on_gpu.transform({.x = x.data(), .z = z.data(), .rows = rows, .stride = map.features()}, {},
                             {.precision = c.precision}, setup.exec);
        },
        rivals, result);
    // TF32: the error of projections with a size of about sqrt(2 gamma d).
    const double bound = c.precision == ops::GpuPrecision::tf32
                             ? 8.0 * std::ldexp(1.0, -11) * std::sqrt(2.0 * kGamma * static_cast<double>(c.d))
                             : 2e-4;
    result.check = check_at_most("largest difference of a cosine or sine from the processor",
                                 difference_from_processor(map, x, z, setup.exec), bound);
    const auto n = static_cast<double>(rows);
    const double writes = n * static_cast<double>(c.features) * sizeof(float) / rates.write_bytes;
    const double macs = n * static_cast<double>(c.d) * (0.5 * static_cast<double>(c.features));
    const double products = macs / rates.tf32_macs;
    const double seconds = median(result.seconds);
    result.limit = c.of_tf32 ? "products in TF32" : "bytes written";
    const double least = c.of_tf32 ? products : writes;
    result.limit_time = [least](const MachineLimits&) { return least; };
    if (c.wanted > 0.0)
        result.targets = {{.what = "share of the limit", .wanted = c.wanted, .reached = least / seconds}};
    if (!result.rivals.empty() && !result.rivals[0].seconds.empty())
        result.targets.push_back(
            {.what = "x torch.compile", .wanted = 3.0, .reached = result.rivals[0].ratio.median});
    result.note =
        fmt::format("{:.3g} ms, {:.3g} TB/s written, {:.3g} T multiply-adds/s", 1e3 * seconds,
                    1e-12 * n * static_cast<double>(c.features) * 4.0 / seconds, 1e-12 * macs / seconds);
    result.more = {{"share_of_writes", writes / seconds},
                   {"share_of_tf32", products / seconds},
                   {"share_of_halves", macs / rates.half_macs / seconds},
                   {"largest_difference", result.check.value}};
    return result;
}

// Time of ZᵀZ of all rows, block by block, from features that are already in memory: the minimum for a fit.
double product_seconds(std::size_t rows, std::size_t features, int gpu, const BenchSetup& setup) {
    auto& algebra = cuda::LinearAlgebra::of_this_thread(gpu);
    constexpr std::size_t kRows = GpuRidgeSums::kRows;
    const auto z = normals_on_gpu(kRows, features, gpu);
    const cuda::Buffer<float> c(gpu, features * features);
    return least_seconds(setup.quick ? 1 : 3, [&] {
        for (std::size_t first = 0; first < rows; first += kRows)
            algebra.multiply_tf32({.rows = features,
                                   .cols = features,
                                   .inner = std::min(kRows, rows - first),
                                   .a = z.data(),
                                   .a_stride = features,
                                   .b = z.data(),
                                   .b_stride = features,
                                   .c = c.data(),
                                   .c_stride = features});
        cuda::wait();
    });
}

BenchResult bench_fit(const BenchSetup& setup) {
    const int gpu = setup.gpu;
    const std::size_t rows = setup.quick ? 20'000 : 10'000'000;
    const FeatureCase c{"", rows, 22, setup.quick ? 256 : 4096, Sampler::rff, {}, 0.0, true};
    const FeatureMap map(recipe_of(c), setup.exec);
    const auto x = normals_on_gpu(rows, map.inputs(), gpu);
    Matrix<float> y(rows, 1);
    for (std::size_t r = 0; r < rows; ++r) y(r, 0) = r % 3 == 0 ? 1.0F : -1.0F;
    BenchResult result{.name = "cuda_ridge",
                       .title = fmt::format("ridge: {} rows, d 22, D {}", rows, c.features),
                       .sizes = {{"rows", static_cast<double>(rows)},
                                 {"d", 22.0},
                                 {"D", static_cast<double>(c.features)},
                                 {"gamma", kGamma}}};
    RidgeWeights weights;
    run_rounds(
        setup,
        [&] {
            GpuRidgeSums sums(map.features(), 1, gpu);
            sums.add(map.on_gpu(gpu), x.data(), std::as_const(y).view(), {}, setup.exec);
            weights = sums.solve({}, setup.exec);
        },
        {{.name = "torch.compile", .peer = "torch_cuda_ridge", .package = "torch"}}, result);
    const double floor = product_seconds(rows, map.features(), gpu, setup);
    const double seconds = median(result.seconds);
    double size = 0.0;
    for (const double w : weights.w.values()) size += w * w;
    result.check = {.what = "weights are finite", .value = size, .bound = 0.0, .ok = std::isfinite(size)};
    result.limit = "ZᵀZ by cuBLAS in TF32";
    result.limit_time = [floor](const MachineLimits&) { return floor; };
    result.targets = {{.what = "x the product", .wanted = 1.3, .reached = seconds / floor, .at_most = true}};
    result.note = fmt::format("{:.3g} s, the product {:.3g} s", seconds, floor);
    result.more = {{"product_seconds", floor}, {"times_of_product", seconds / floor}};
    return result;
}

BenchResult bench_gram(const BenchSetup& setup) {
    const std::size_t rows = setup.quick ? 100 : 20'000;
    const auto x = normals(rows, 22, 3);
    Matrix<double> out(rows, rows);
    const auto gpu = setup.exec_on_gpu();
    BenchResult result{.name = "cuda_ridge",
                       .title = fmt::format("exact Gram matrix: {} rows, d 22, with copies", rows),
                       .sizes = {{"rows", static_cast<double>(rows)}, {"d", 22.0}}};
    run_rounds(
        setup, [&] { exact_gram(Kernel::rbf, kGamma, x.view(), x.view(), gpu, out.view()); }, {}, result);
    const std::size_t few = std::min<std::size_t>(rows, 500);
    Matrix<double> expected(few, few);
    const auto part = x.view().slice_rows(0, few);
    double most = 0.0;
    const double cpu =
        seconds_of([&] { exact_gram(Kernel::rbf, kGamma, part, part, setup.exec, expected.view()); });
    for (std::size_t r = 0; r < few; ++r) {
        for (std::size_t c = 0; c < few; ++c) most = std::max(most, std::abs(out(r, c) - expected(r, c)));
    }
    result.check = check_at_most("largest difference from the processor", most, 1e-14);
    const double scale = std::pow(static_cast<double>(rows) / static_cast<double>(few), 2);
    result.note = fmt::format("{:.3g} x the processor", cpu * scale / median(result.seconds));
    return result;
}

}  // namespace

std::vector<BenchResult> bench_cuda_features(const BenchSetup& setup) {
    const auto rates = cuda::measure_rates(setup.gpu);
    std::vector<BenchResult> results;
    for (const auto& c : kFeatureCases) results.push_back(bench_case(setup, c, rates));
    return results;
}

std::vector<BenchResult> bench_cuda_ridge(const BenchSetup& setup) {
    cuda::require_gpu(setup.gpu);
    return {bench_fit(setup), bench_gram(setup)};
}

}  // namespace imka::app
