// Features with a dense Ω: keeps the halves of Ω on the GPU and selects the kernel for the rows.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "imka/cuda/gpu.hpp"
#include "imka/cuda/status.hpp"
#include "imka/ops/feature_row/dense_rows.cuh"

namespace imka::ops {

FeatureOutput feature_output(const GpuFeatureJob& job, std::size_t m) {
    FeatureOutput out;
    out.z = job.z;
    out.stride = job.stride;
    out.m = m;
    out.offsets = job.offsets;
    const double root = job.row.function == FeatureFunction::offset_cos ? std::numbers::sqrt2 : 1.0;
    out.scale = static_cast<float>(job.row.scale * root);
    out.row_scale = job.row.scale;
    out.norm_exponent = job.row.norm_exponent;
    out.vectors = reinterpret_cast<std::uintptr_t>(job.z) % 16 == 0 && job.stride % 4 == 0 && m % 4 == 0;
    out.round = job.round_to_tf32;
    return out;
}

std::size_t multiprocessors(int gpu) {
    int count = 0;
    cuda::check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, gpu),
                "querying the number of multiprocessors");
    return static_cast<std::size_t>(count);
}

namespace {

constexpr std::size_t kScratchBytes = std::size_t{256} << 20U;

std::size_t round_up(std::size_t value, std::size_t unit) {
    return (value + unit - 1) / unit * unit;
}

// The fast product of one part is only for features that are not rounded.
bool has_one_part(const GpuFeatureJob& job) {
    return job.precision == GpuPrecision::tf32 && !job.round_to_tf32;
}

bool reads_fours(const float* x, std::size_t d) {
    return reinterpret_cast<std::uintptr_t>(x) % 16 == 0 && d % 4 == 0;
}

InputRows rows_of(const GpuFeatureJob& job, std::size_t d) {
    return {.x = job.x,
            .rows = job.rows,
            .d = d,
            .scale = job.input_scale,
            .not_finite = job.not_finite,
            .first_index = job.first_value};
}

}  // namespace

DenseOnGpu::DenseOnGpu(int gpu, MatrixView<const float> omega)
    : gpu_(gpu), d_(omega.cols()), m_(omega.rows()) {
    const std::size_t padded = round_up(m_, tiles::kTile);
    inner_ = d_ <= kMostShort ? 16 * depths_of_short(d_) : round_up(d_, kInnerUnit);
    halves_ = cuda::Memory(gpu, 2 * padded * inner_ * sizeof(__half), cuda::MemorySource::pooled);
    factors_ = cuda::Memory(gpu, padded * sizeof(float), cuda::MemorySource::pooled);
    cuda::Memory plain(gpu, m_ * d_ * sizeof(float), cuda::MemorySource::pooled);
    plain.upload_rows(omega.data(), {m_, d_ * sizeof(float), omega.stride() * sizeof(float)});
    const InputRows in{.x = static_cast<const float*>(plain.data()), .rows = m_, .d = d_};
    auto* factors = static_cast<float*>(factors_.data());
    if (d_ <= kMostShort) {
        split_short_directions(
            {.in = in, .padded = padded, .halves = static_cast<uint4*>(halves_.data()), .factors = factors});
    } else {
        auto* high = static_cast<__half*>(halves_.data());
        split_long_rows({.in = in,
                         .padded = padded,
                         .inner = inner_,
                         .high = high,
                         .low = high + padded * inner_,
                         .factors = factors,
                         .directions = true,
                         .vectors = reads_fours(in.x, d_)});
    }
    cuda::wait();  // other threads may use it
}

void DenseOnGpu::features(const GpuFeatureJob& job) const {
    if (job.rows == 0) return;
    cuda::select_gpu(gpu_);
    if (d_ > kMostShort) return long_features(job);
    start_short_rows({.in = rows_of(job, d_),
                      .omega = static_cast<const uint4*>(halves_.data()),
                      .omega_factors = static_cast<const float*>(factors_.data()),
                      .function = job.row.function,
                      .one_part = has_one_part(job),
                      .out = feature_output(job, m_)},
                     gpu_);
}

void DenseOnGpu::long_features(const GpuFeatureJob& job) const {
    const std::size_t directions = round_up(m_, tiles::kTile);
    const auto tiles_across = static_cast<unsigned>(directions / tiles::kTile);
    // Rows per pass, bounded by the memory for their halves.
    const std::size_t fit = std::max<std::size_t>(kScratchBytes / (inner_ * 4), 1);
    const std::size_t unit = long_rows_unit(tiles_across, gpu_);
    const std::size_t most = fit >= unit ? fit / unit * unit : round_up(fit, tiles::kTile);
    const std::size_t padded = round_up(std::min(most, job.rows), tiles::kTile);
    const cuda::Memory halves(gpu_, 2 * padded * inner_ * sizeof(__half), cuda::MemorySource::pooled);
    const cuda::Memory values(gpu_, 2 * padded * sizeof(float), cuda::MemorySource::pooled);
    auto* high = static_cast<__half*>(halves.data());
    auto* factors = static_cast<float*>(values.data());
    for (std::size_t first = 0; first < job.rows; first += most) {
        GpuFeatureJob part = job;
        part.x += first * d_;
        part.z += first * job.stride;
        part.rows = std::min(most, job.rows - first);
        part.first_value += first * d_;
        const auto out = feature_output(part, m_);
        const bool one_part = has_one_part(job);
        const std::size_t part_padded = round_up(part.rows, tiles::kTile);
        split_long_rows({.in = rows_of(part, d_),
                         .padded = part_padded,
                         .inner = inner_,
                         .high = high,
                         .low = one_part ? nullptr : high + padded * inner_,
                         .factors = factors,
                         .vectors = reads_fours(part.x, d_),
                         .extra = factors + padded,
                         .function = job.row.function,
                         .out = out});
        start_long_rows({.x = high,
                         .x_low = padded * inner_,
                         .omega = static_cast<const __half*>(halves_.data()),
                         .omega_low = directions * inner_,
                         .x_factors = factors,
                         .omega_factors = static_cast<const float*>(factors_.data()),
                         .extra = factors + padded,
                         .rows = part.rows,
                         .inner = inner_,
                         .tiles_across = tiles_across,
                         .tiles = static_cast<unsigned>(part_padded / tiles::kTile) * tiles_across,
                         .function = job.row.function,
                         .one_part = one_part,
                         .out = out},
                        gpu_);
    }
}

}  // namespace imka::ops
