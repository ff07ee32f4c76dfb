#include "imka/features/gpu_feature_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/cuda/gpu.hpp"

namespace imka {
namespace {

constexpr std::size_t kBlockValues = std::size_t{1} << 26U;  // features on the GPU at a time

}  // namespace

std::unique_ptr<const GpuProjector> require_gpu_projector(const Projector& projector, int gpu) {
    cuda::require_gpu(gpu);
    auto on_gpu = projector.on_gpu(gpu);
    if (on_gpu == nullptr)
        fail(ErrorCode::bad_config, "this projection does not support GPUs; use the device cpu");
    return on_gpu;
}

FiniteCheck::FiniteCheck(int gpu) : place_(gpu, std::vector{ops::kAllFinite}, cuda::MemorySource::pooled) {}

void FiniteCheck::require(std::size_t inputs, std::uint64_t first_row) const {
    std::uint64_t bad = 0;
    place_.download({&bad, 1});
    if (bad == ops::kAllFinite) return;
    fail(ErrorCode::bad_data, fmt::format("input row {}: feature {} is not a finite number",
                                          first_row + bad / inputs, bad % inputs));
}

GpuFeatureMap::GpuFeatureMap(const Projector& projector, const FeatureFunctions& functions, int gpu)
    : gpu_(gpu),
      inputs_(projector.inputs()),
      features_(projector.outputs() * ops::features_per_direction(functions.row.function)),
      functions_(functions),
      projector_(require_gpu_projector(projector, gpu)) {
    if (!functions_.offsets.empty())
        offsets_ = cuda::Buffer<float>(gpu, functions_.offsets, cuda::MemorySource::pooled);
}

void GpuFeatureMap::start(const GpuFeatureRows& rows, const ProductIds& ids, const GpuFeatureOptions& options,
                          const Exec& exec, const FiniteCheck& check, std::uint64_t first_row) const {
    cuda::select_gpu(gpu_);
    projector_->features({.x = rows.x,
                          .z = rows.z,
                          .rows = rows.rows,
                          .stride = rows.stride,
                          .row = functions_.row,
                          .input_scale = functions_.input_scale,
                          .offsets = offsets_.data(),
                          .precision = options.precision,
                          .round_to_tf32 = options.round_to_tf32,
                          .not_finite = check.place(),
                          .first_value = first_row * inputs_},
                         ids, exec);
}

void GpuFeatureMap::transform(const GpuFeatureRows& rows, const ProductIds& ids,
                              const GpuFeatureOptions& options, const Exec& exec) const {
    const FiniteCheck check(gpu_);
    start(rows, ids, options, exec, check);
    check.require(inputs_, ids.first);
}

void GpuFeatureMap::transform(MatrixView<const float> x, const ProductIds& ids, const Exec& exec,
                              MatrixView<float> z) const {
    if (x.rows() == 0) return;
    const std::size_t most =
        std::clamp<std::size_t>(kBlockValues / std::max(features_, inputs_), 1, x.rows());
    cuda::Buffer<float> in(gpu_, most * inputs_, cuda::MemorySource::pooled);
    const cuda::Buffer<float> out(gpu_, most * features_, cuda::MemorySource::pooled);
    for (std::size_t first = 0; first < x.rows(); first += most) {
        const std::size_t count = std::min(most, x.rows() - first);
        in.upload_rows(x.slice_rows(first, count));
        transform({.x = in.data(), .z = out.data(), .rows = count, .stride = features_},
                  {ids.seed, ids.first + first}, {}, exec);
        out.download_rows(z.slice_rows(first, count));
    }
}

}  // namespace imka
