// Features with a dense Ω. Short rows: short_rows_cuda.cu. For others split_rows turns rows into two halves
// per value; products multiplies 128 rows by 128 directions per block on the matrix units and applies the
// functions to the sums in registers.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "imka/cuda/async_copy.cuh"
#include "imka/cuda/gpu.hpp"
#include "imka/cuda/matrix_unit.cuh"
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
    out.vectors = reinterpret_cast<std::uintptr_t>(job.z) % 16 == 0 && job.stride % 4 == 0 &&
                  (m % 4 == 0 || !has_two(job.row.function));
    out.round = job.round_to_tf32;
    return out;
}

namespace {

using tiles::kDirections;
using tiles::kInner;
using tiles::kRows;
using tiles::kWarpRows;

constexpr unsigned kSplitThreads = 256;
constexpr unsigned kStages = 3;
constexpr unsigned kPartBytes = kRows * kInner * 2;  // of one half of a step of x, and of Ω
constexpr std::size_t kScratchBytes = std::size_t{256} << 20U;
static_assert(kRows == kDirections);

constexpr unsigned kAcross = 8;  // products of eight directions of a warp
constexpr unsigned kThreads = kRows / kWarpRows * (kDirections / (8 * kAcross)) * 32;

std::size_t round_up(std::size_t value, std::size_t unit) {
    return (value + unit - 1) / unit * unit;
}

// Rows as halves: `high` and `low` have `rows` rows of `inner` values each, 0 beyond d.
struct Split {
    const float* x;
    std::size_t rows;
    std::size_t d;
    std::size_t inner;
    float input_scale;
    __half* high;
    __half* low;      // none for products of one part
    float* factors;   // 2^-k of each row
    bool directions;  // Ω: rows in the order of tiles::direction_at
    std::size_t source_rows;
    float* extra;  // row_value; none for Ω
    FeatureFunction function;
    FeatureOutput out;
    std::uint64_t* not_finite;  // none for Ω
    std::uint64_t first_index;  // of x[0]
};

// A warp per row.
__global__ void __launch_bounds__(kSplitThreads) split_rows(const __grid_constant__ Split w) {
    const std::size_t row = (std::size_t{blockIdx.x} * kSplitThreads + threadIdx.x) / 32;
    const unsigned lane = threadIdx.x % 32;
    if (row >= w.rows) return;
    const std::size_t source = w.directions ? tiles::direction_at(static_cast<std::uint32_t>(row)) : row;
    const bool exists = source < w.source_rows;
    const float* x = w.x + source * w.d;
    float most = 0.0F;
    double norm2 = 0.0;
    for (std::size_t c = lane; exists && c < w.d; c += 32) {
        const float value = x[c];
        if (w.not_finite != nullptr && !isfinite(value))
            report_not_finite(w.not_finite, w.first_index + row * w.d + c);
        const float v = __fmul_rn(w.input_scale, value);
        most = fmaxf(most, fabsf(v));
        if (w.out.norm_exponent != 0.0) norm2 += static_cast<double>(v) * static_cast<double>(v);
    }
#pragma unroll
    for (int i = 16; i > 0; i /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffU, most, i));
    const RowScale scale = scale_of(most);
    for (std::size_t c = lane; c < w.inner; c += 32) {
        const float v = exists && c < w.d ? __fmul_rn(__fmul_rn(w.input_scale, x[c]), scale.up) : 0.0F;
        const __half high = __float2half_rn(v);
        w.high[row * w.inner + c] = high;
        if (w.low != nullptr) w.low[row * w.inner + c] = __float2half_rn(__fsub_rn(v, __half2float(high)));
    }
    if (lane == 0) w.factors[source] = scale.down;
    if (w.extra == nullptr) return;
    norm2 = warp_sum(norm2);
    if (lane == 0) w.extra[row] = row_value(w.function, w.out, norm2);
}

void start_split(const Split& work) {
    constexpr std::size_t kRowsPerBlock = kSplitThreads / 32;
    const auto blocks = static_cast<unsigned>((work.rows + kRowsPerBlock - 1) / kRowsPerBlock);
    split_rows<<<blocks, kSplitThreads>>>(work);
    cuda::check(cudaGetLastError(), "starting the kernel that splits rows");
}

__device__ inline uint4 load_halves(std::uint32_t address) {
    uint4 v;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(address)
                 : "memory");
    return v;
}

struct Products {
    const __half* x;  // high parts; low parts x_low later
    std::size_t x_low;
    const __half* omega;
    std::size_t omega_low;
    const float* x_factors;
    const float* omega_factors;
    const float* extra;
    std::size_t rows;
    std::size_t inner;
    FeatureOutput out;  // z of row 0
};

// A step of x and Ω: kParts parts of each, in shared memory from `to` on: x high, Ω high, x low, Ω low.
template <int kParts>
__device__ inline void load_step(const Products& w, std::size_t first_row, std::size_t first_direction,
                                 std::size_t k, std::uint32_t to) {
#pragma unroll
    for (unsigned i = 0; i < kRows * 4 / kThreads; ++i) {
        const unsigned chunk = threadIdx.x + i * kThreads;
        const unsigned row = chunk / 4;
        const std::uint32_t place = to + tiles::byte_of(row, chunk % 4);
        const __half* x = w.x + (first_row + row) * w.inner + k + chunk % 4 * 8;
        const __half* omega = w.omega + (first_direction + row) * w.inner + k + chunk % 4 * 8;
        cuda::copy_chunk(place, x);
        cuda::copy_chunk(place + kPartBytes, omega);
        if constexpr (kParts == 2) {
            cuda::copy_chunk(place + 2 * kPartBytes, x + w.x_low);
            cuda::copy_chunk(place + 3 * kPartBytes, omega + w.omega_low);
        }
    }
}

constexpr unsigned kTilesDown = kWarpRows / 16;
using Sums = float[kTilesDown][kAcross][4];

// Halves of Ω for all products of a warp at one depth of 16.
struct OmegaHalves {
    uint4 pairs[kAcross / 2];  // two products each
};
__device__ inline OmegaHalves load_omega(std::uint32_t part, unsigned first, unsigned depth) {
    const unsigned lane = threadIdx.x % 32;
    OmegaHalves halves;
#pragma unroll
    for (unsigned j = 0; j < kAcross / 2; ++j)
        halves.pairs[j] =
            load_halves(part + tiles::byte_of(first + 16 * j + tiles::direction_of_lane(lane),
                                              2 * depth + tiles::direction_chunk_of_lane(lane)));
    return halves;
}

__device__ inline void multiply(const uint4& x, const OmegaHalves& omega, float (&sums)[kAcross][4]) {
#pragma unroll
    for (unsigned j = 0; j < kAcross / 2; ++j) {
        cuda::multiply_halves(x, omega.pairs[j].x, omega.pairs[j].y, sums[2 * j]);
        cuda::multiply_halves(x, omega.pairs[j].z, omega.pairs[j].w, sums[2 * j + 1]);
    }
}

template <int kParts>
__device__ inline void multiply_step(std::uint32_t step, unsigned row, unsigned direction, Sums& sums) {
    const unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (unsigned depth = 0; depth < kInner / 16; ++depth) {
        const auto high = load_omega(step + kPartBytes, direction, depth);
        OmegaHalves low;
        if constexpr (kParts == 2) low = load_omega(step + 3 * kPartBytes, direction, depth);
#pragma unroll
        for (unsigned i = 0; i < kTilesDown; ++i) {
            const std::uint32_t place = tiles::byte_of(row + 16 * i + tiles::row_of_lane(lane),
                                                       2 * depth + tiles::chunk_of_lane(lane));
            const uint4 x = load_halves(step + place);
            if constexpr (kParts == 2) {
                // Small terms first.
                multiply(load_halves(step + 2 * kPartBytes + place), high, sums[i]);
                multiply(x, low, sums[i]);
            }
            multiply(x, high, sums[i]);
        }
    }
}

template <FeatureFunction kFunction>
__device__ inline void write_tile(const Products& w, std::size_t first_row, std::size_t first_direction,
                                  const Sums& sums) {
    const unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (unsigned j = 0; j < kAcross; j += 4) {
        const auto columns = columns_from<kFunction, 2>(first_direction + 8 * j, w.out, w.omega_factors);
#pragma unroll
        for (unsigned i = 0; i < 2 * kTilesDown; ++i) {
            const std::size_t row = first_row + 8 * i + lane / 4;
            if (row >= w.rows) break;
            float of_row[8];
#pragma unroll
            for (unsigned c = 0; c < 8; ++c) of_row[c] = sums[i / 2][j + c / 2][i % 2 * 2 + c % 2];
            write_features<kFunction, 2>(
                w.out, columns,
                {w.out.z + row * w.out.stride + columns.first, w.x_factors[row], w.extra[row]}, of_row);
        }
    }
}

template <FeatureFunction kFunction, int kParts>
__global__ void __launch_bounds__(kThreads, 2) products(const __grid_constant__ Products w) {
    extern __shared__ __align__(128) unsigned char memory[];
    constexpr unsigned kStepBytes = 2 * kParts * kPartBytes;
    const auto base = static_cast<std::uint32_t>(__cvta_generic_to_shared(memory));
    const std::size_t first_row = std::size_t{blockIdx.y} * kRows;
    const std::size_t first_direction = std::size_t{blockIdx.x} * kDirections;
    const auto steps = static_cast<unsigned>(w.inner / kInner);
#pragma unroll
    for (unsigned s = 0; s < kStages - 1; ++s) {
        if (s < steps)
            load_step<kParts>(w, first_row, first_direction, std::size_t{s} * kInner, base + s * kStepBytes);
        cuda::commit_copies();
    }
    const unsigned warp = threadIdx.x / 32;
    constexpr unsigned kWarpDirections = 8 * kAcross;
    const unsigned row = warp / (kDirections / kWarpDirections) * kWarpRows;
    const unsigned direction = warp % (kDirections / kWarpDirections) * kWarpDirections;
    Sums sums = {};
    for (unsigned s = 0; s < steps; ++s) {
        cuda::wait_for_copies<kStages - 2>();
        __syncthreads();  // the step is there, and all warps are done with the one before
        const unsigned next = s + kStages - 1;
        if (next < steps)
            load_step<kParts>(w, first_row, first_direction, std::size_t{next} * kInner,
                              base + next % kStages * kStepBytes);
        cuda::commit_copies();
        multiply_step<kParts>(base + s % kStages * kStepBytes, row, direction, sums);
    }
    write_tile<kFunction>(w, first_row + row, first_direction + direction, sums);
}

template <FeatureFunction kFunction, int kParts>
void start_products(const Products& work, std::size_t directions) {
    constexpr unsigned kBytes = kStages * 2 * kParts * kPartBytes;
    const auto kernel = products<kFunction, kParts>;
    cuda::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
                "preparing the kernel for features");
    const dim3 grid(static_cast<unsigned>(directions / kDirections),
                    static_cast<unsigned>((work.rows + kRows - 1) / kRows));
    kernel<<<grid, kThreads, kBytes>>>(work);
    cuda::check(cudaGetLastError(), "starting the kernel for features");
}

// Features that are rounded have no use for a fast product.
bool has_one_part(const GpuFeatureJob& job) {
    return job.precision == GpuPrecision::tf32 && !job.round_to_tf32;
}

}  // namespace

DenseOnGpu::DenseOnGpu(int gpu, MatrixView<const float> omega)
    : gpu_(gpu), d_(omega.cols()), m_(omega.rows()) {
    const std::size_t rows = round_up(m_, kDirections);
    const std::size_t inner = d_ <= kMostShort ? 16 * depths_of_short(d_) : round_up(d_, kInner);
    halves_ = cuda::Memory(gpu, 2 * rows * inner * sizeof(__half), cuda::MemorySource::pooled);
    factors_ = cuda::Memory(gpu, rows * sizeof(float), cuda::MemorySource::pooled);
    cuda::Memory plain(gpu, m_ * d_ * sizeof(float), cuda::MemorySource::pooled);
    plain.upload_rows(omega.data(), {m_, d_ * sizeof(float), omega.stride() * sizeof(float)});
    const auto* x = static_cast<const float*>(plain.data());
    auto* factors = static_cast<float*>(factors_.data());
    if (d_ <= kMostShort) {
        split_short_directions({.in = {.x = x, .rows = m_, .d = d_},
                                .directions = rows,
                                .halves = static_cast<uint4*>(halves_.data()),
                                .factors = factors});
    } else {
        auto* high = static_cast<__half*>(halves_.data());
        Split split{};
        split.x = x;
        split.rows = rows;
        split.d = d_;
        split.inner = inner;
        split.input_scale = 1.0F;
        split.high = high;
        split.low = high + rows * inner;
        split.factors = factors;
        split.directions = true;
        split.source_rows = m_;
        start_split(split);
    }
    cuda::wait();  // other threads may use it
}

void DenseOnGpu::features(const GpuFeatureJob& job) const {
    if (job.rows == 0) return;
    cuda::select_gpu(gpu_);
    if (d_ <= kMostShort) return short_features(job);
    long_features(job);
}

void DenseOnGpu::short_features(const GpuFeatureJob& job) const {
    start_short_rows({.in = {.x = job.x,
                             .rows = job.rows,
                             .d = d_,
                             .scale = job.input_scale,
                             .not_finite = job.not_finite,
                             .first_index = job.first_value},
                      .omega = static_cast<const uint4*>(halves_.data()),
                      .omega_factors = static_cast<const float*>(factors_.data()),
                      .function = job.row.function,
                      .one_part = has_one_part(job),
                      .out = feature_output(job, m_)},
                     gpu_);
}

void DenseOnGpu::long_features(const GpuFeatureJob& job) const {
    const std::size_t inner = round_up(d_, kInner);
    const std::size_t directions = round_up(m_, kDirections);
    // Rows at once: bounded by the memory for their halves, and by the height of a grid.
    const std::size_t most = std::clamp<std::size_t>(kScratchBytes / (inner * 4) / kRows * kRows, kRows,
                                                     std::size_t{32768} * kRows);
    const std::size_t padded = round_up(std::min(most, job.rows), kRows);
    const cuda::Memory halves(gpu_, 2 * padded * inner * sizeof(__half), cuda::MemorySource::pooled);
    const cuda::Memory values(gpu_, 2 * padded * sizeof(float), cuda::MemorySource::pooled);
    auto* high = static_cast<__half*>(halves.data());
    auto* factors = static_cast<float*>(values.data());
    for (std::size_t first = 0; first < job.rows; first += most) {
        auto out = feature_output(job, m_);
        out.z += first * job.stride;
        Split split{};
        split.x = job.x + first * d_;
        split.rows = std::min(most, job.rows - first);
        split.source_rows = split.rows;
        split.d = d_;
        split.inner = inner;
        split.input_scale = job.input_scale;
        split.high = high;
        split.low = has_one_part(job) ? nullptr : high + padded * inner;
        split.factors = factors;
        split.extra = factors + padded;
        split.function = job.row.function;
        split.out = out;
        split.not_finite = job.not_finite;
        split.first_index = job.first_value + first * d_;
        start_split(split);
        Products work{};
        work.x = high;
        work.x_low = padded * inner;
        work.omega = static_cast<const __half*>(halves_.data());
        work.omega_low = directions * inner;
        work.x_factors = factors;
        work.omega_factors = static_cast<const float*>(factors_.data());
        work.extra = split.extra;
        work.rows = split.rows;
        work.inner = inner;
        work.out = out;
        with_function(job.row.function, [&]<FeatureFunction kFunction>() {
            if (has_one_part(job)) return start_products<kFunction, 1>(work, directions);
            start_products<kFunction, 2>(work, directions);
        });
    }
}

}  // namespace imka::ops
