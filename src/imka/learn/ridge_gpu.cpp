#include "imka/learn/ridge_gpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <string_view>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/cuda/gpu.hpp"
#include "imka/cuda/linear_algebra.hpp"
#include "imka/cuda/resident.hpp"
#include "imka/learn/ridge_work.hpp"
#include "imka/linalg/factor.hpp"

namespace imka {
namespace {

constexpr std::string_view kGpuSystem = "the ridge system";
constexpr auto kPooled = cuda::MemorySource::pooled;
constexpr std::size_t kBlockCols = 1024;  // columns of ZᵀZ per product; blocks above the diagonal are skipped
constexpr std::size_t kBlockValues = std::size_t{1} << 26U;  // features on the GPU at a time in predictions

// Rounds up to whole cache lines, which also suits the matrix units.
std::size_t whole_lines(std::size_t n) {
    constexpr std::size_t kLine = 32;
    return (n + kLine - 1) / kLine * kLine;
}

}  // namespace

GpuRidgeSums::GpuRidgeSums(std::size_t features, std::size_t outputs, int gpu)
    : gpu_(gpu),
      features_(features),
      outputs_(outputs),
      stride_(whole_lines(features)),
      target_sums_(outputs),
      z_(gpu, kRows * stride_, kPooled),
      block_(gpu, features * features, kPooled),
      columns_(gpu, features * (1 + outputs), kPooled),
      sums_(gpu, features * features, kPooled),
      columns_sum_(gpu, features * (1 + outputs), kPooled) {
    gpu::fill_zero(sums_.data(), sums_.size());
    gpu::fill_zero(columns_sum_.data(), columns_sum_.size());
}

// [1, y] of all rows.
cuda::Buffer<float> GpuRidgeSums::upload_targets(MatrixView<const float> targets) {
    Matrix<float> ones(targets.rows(), 1 + outputs_);
    for (std::size_t r = 0; r < targets.rows(); ++r) {
        ones(r, 0) = 1.0F;
        for (std::size_t k = 0; k < outputs_; ++k) {
            ones(r, 1 + k) = targets(r, k);
            target_sums_[k] += targets(r, k);
        }
    }
    rows_ += static_cast<double>(targets.rows());
    return {gpu_, ones.values(), kPooled};
}

void GpuRidgeSums::add(const GpuFeatureMap& map, const float* x, MatrixView<const float> targets,
                       const ProductIds& ids, const Exec& exec) {
    assert(map.features() == features_ && targets.cols() == outputs_);
    auto& algebra = cuda::LinearAlgebra::of_this_thread(gpu_);
    const auto ones = upload_targets(targets);
    const FiniteCheck check(gpu_);
    // Nothing in the loop waits for the GPU.
    for (std::size_t first = 0; first < targets.rows(); first += kRows) {
        const std::size_t count = std::min(kRows, targets.rows() - first);
        map.start({.x = x + first * map.inputs(), .z = z_.data(), .rows = count, .stride = stride_},
                  {ids.seed, ids.first + first}, {.round_to_tf32 = true}, exec, check, first);
        for (std::size_t col = 0; col < features_; col += kBlockCols) {
            algebra.multiply_tf32({.rows = features_ - col,
                                   .cols = std::min(kBlockCols, features_ - col),
                                   .inner = count,
                                   .a = z_.data() + col,
                                   .a_stride = stride_,
                                   .b = z_.data() + col,
                                   .b_stride = stride_,
                                   .c = block_.data() + col * features_ + col,
                                   .c_stride = features_});
        }
        gpu::add_lower(block_.data(), features_, sums_.data());
        // Targets are not rounded.
        algebra.multiply(cuda::Product<float>{.rows = features_,
                                              .cols = 1 + outputs_,
                                              .inner = count,
                                              .a = z_.data(),
                                              .a_stride = stride_,
                                              .b = ones.data() + first * (1 + outputs_),
                                              .b_stride = 1 + outputs_,
                                              .c = columns_.data(),
                                              .c_stride = features_});
        gpu::add_all(columns_.data(), columns_.size(), columns_sum_.data());
    }
    check.require(map.inputs(), ids.first);
}

RidgeWeights GpuRidgeSums::solve(const RidgeConfig& config, const Exec& exec) const {
    if (rows_ == 0.0) fail(ErrorCode::bad_data, "a ridge fit needs at least one row");
    check_cancelled(exec);
    const StopWatch watch(exec, &WorkTimes::solve);
    const bool intercept = config.intercept != Intercept::none;
    const std::size_t n = features_ + (intercept ? 1 : 0);
    std::vector<double> totals = {rows_};
    totals.insert(totals.end(), target_sums_.begin(), target_sums_.end());
    const cuda::Buffer<double> totals_on_gpu(gpu_, totals, kPooled);
    const cuda::Buffer<double> a(gpu_, n * n, kPooled);
    const cuda::Buffer<double> b(gpu_, n * outputs_, kPooled);
    gpu::assemble({.products = sums_.data(),
                   .columns = columns_sum_.data(),
                   .totals = totals_on_gpu.data(),
                   .features = features_,
                   .outputs = outputs_,
                   .intercept = intercept,
                   .alpha = config.alpha,
                   .intercept_alpha = config.intercept == Intercept::penalized ? config.alpha : 0.0,
                   .a = a.data(),
                   .b = b.data()});
    const auto pivot = cuda::LinearAlgebra::of_this_thread(gpu_).solve(a.data(), n, b.data(), outputs_);
    if (pivot > 0) fail_not_positive_definite(kGpuSystem, pivot, n);
    std::vector<double> x(n * outputs_);
    b.download(x);
    if (!std::ranges::all_of(x, [](double v) { return std::isfinite(v); }))
        fail(ErrorCode::numeric,
             fmt::format("{} has values that are not finite: the features overflow", kGpuSystem));
    RidgeWeights weights{.w = Matrix<double>(features_, outputs_),
                         .intercept = std::vector<double>(outputs_)};
    for (std::size_t k = 0; k < outputs_; ++k) {
        for (std::size_t i = 0; i < features_; ++i) weights.w(i, k) = x[k * n + i];
        if (intercept) weights.intercept[k] = x[k * n + features_];
    }
    return weights;
}

void predict_on_gpu(const RidgeWeights& weights, const GpuFeatureMap& map, MatrixView<const float> x,
                    const ProductIds& ids, const Exec& exec, MatrixView<double> out) {
    const std::size_t features = map.features();
    const std::size_t outputs = weights.w.cols();
    assert(weights.w.rows() == features && out.rows() == x.rows() && out.cols() == outputs);
    if (x.rows() == 0) return;
    const int gpu = map.gpu();
    std::vector<double> transposed(features * outputs);
    for (std::size_t i = 0; i < features; ++i) {
        for (std::size_t k = 0; k < outputs; ++k) transposed[k * features + i] = weights.w(i, k);
    }
    const std::size_t most =
        std::clamp<std::size_t>(kBlockValues / std::max(features, map.inputs()), 1, x.rows());
    const cuda::Buffer<double> w(gpu, transposed, kPooled);
    const cuda::Buffer<double> intercept(gpu, weights.intercept, kPooled);
    const float* there = cuda::find_resident(exec, x);
    cuda::Buffer<float> in(gpu, there == nullptr ? most * map.inputs() : 0, kPooled);
    const cuda::Buffer<float> z(gpu, most * features, kPooled);
    const cuda::Buffer<double> scores(gpu, most * outputs, kPooled);
    Progress progress(exec, "predict", x.rows());
    for (std::size_t first = 0; first < x.rows(); first += most) {
        const std::size_t count = std::min(most, x.rows() - first);
        {
            const StopWatch watch(exec, &WorkTimes::features);
            if (there == nullptr) in.upload_rows(x.slice_rows(first, count));
            const float* rows = there == nullptr ? in.data() : there + first * map.inputs();
            map.transform({.x = rows, .z = z.data(), .rows = count, .stride = features},
                          {ids.seed, ids.first + first}, {}, exec);
        }
        gpu::predict({.z = z.data(),
                      .rows = count,
                      .features = features,
                      .outputs = outputs,
                      .weights = w.data(),
                      .intercept = intercept.data(),
                      .out = scores.data()});
        scores.download_rows(out.slice_rows(first, count));
        progress.update(first + count);
    }
}

#if !IMKA_HAVE_CUDA
namespace gpu {
void fill_zero(double*, std::size_t) {}
void add_lower(const float*, std::size_t, double*) {}
void add_all(const float*, std::size_t, double*) {}
void assemble(const SystemWork&) {}
void predict(const PredictWork&) {}
}  // namespace gpu
#endif

}  // namespace imka
