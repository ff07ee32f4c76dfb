// Kernels of the fast simulator: inputs to steps, then charges, conversions, corrections and sums. Operations
// after the charge are those of ops/readout, in the same order. Layout of the weights: cuda_pack.hpp.
//
// A block of threads computes 128 rows x 32 outputs, a warp 16 of the rows. The weights of a stage are in
// shared memory while those of the next stage are being copied. On Hopper the products of one warpgroup
// overlap with the conversions of others.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "imka/base/random.hpp"
#include "imka/chip/simulate/cuda_work.hpp"
#include "imka/cuda/async_copy.cuh"
#include "imka/cuda/matrix_unit.cuh"
#include "imka/cuda/random.cuh"
#include "imka/cuda/status.hpp"

namespace imka {
namespace {

constexpr unsigned kInputThreads = 128;
constexpr unsigned kThreads = 256;
constexpr unsigned kBlocks = 2;  // per multiprocessor: at most 128 registers per thread
constexpr unsigned kWarps = kThreads / 32;
constexpr unsigned kBlockBytes = kGpuBlockWords * 4;
constexpr unsigned kStageBytes = kGpuStageBlocks * kBlockBytes;
constexpr unsigned kSumBytes = 4 * kThreads * sizeof(float4);
static_assert(16 * kWarps == kGpuBlockRows);

// Arguments of the kernels, with what the host derives from them.
struct Work : GpuWork {
    cuda::PhiloxKeys keys;
};

// Same as row_share() in chip/simulate/layout.hpp.
struct Share {
    std::uint32_t first_row;
    std::uint32_t count;
    std::uint64_t first_product;
};
__device__ inline Share share_of(const Work& w, std::uint32_t copy) {
    if (w.copies == 1) return {0, w.rows, w.first_product};
    const auto skip = static_cast<std::uint32_t>((copy + w.copies - w.first_product % w.copies) % w.copies);
    return {skip, skip >= w.rows ? 0U : (w.rows - skip + w.copies - 1) / w.copies,
            (w.first_product + skip) / w.copies};
}

__device__ inline void add_tally(std::uint32_t count, unsigned long long* sum) {
    const std::uint32_t all = __reduce_add_sync(0xffffffffU, count);
    if ((threadIdx.x & 31U) == 0U && all > 0U) atomicAdd(sum, static_cast<unsigned long long>(all));
}

// Scale of a plane in float, to decide most steps without divisions in double.
struct StepRule {
    float per_unit;
    float levels;
};

__device__ inline float exact_step(const GpuPlane& p, float x) {
    const double share = fmin(fmax(static_cast<double>(x) / p.range, -1.0), 1.0) * p.levels;
    return static_cast<float>(p.nearest != 0U ? rint(share) : trunc(share));
}

// The float estimate is wrong by less than 2e-5 steps where it is not clipped; within 1e-4 of a boundary the
// exact formula decides.
__device__ inline int step_of(const GpuPlane& p, const StepRule& rule, float x) {
    const float estimate = x * rule.per_unit;
    const float nearest = rintf(estimate);
    const float distance = fabsf(estimate - nearest);
    const bool safe = p.nearest != 0U ? distance < 0.4999F : distance > 1e-4F || nearest == 0.0F;
    float step = p.nearest != 0U ? nearest : truncf(estimate);
    if (!safe) step = exact_step(p, x);
    return __float2int_rn(fminf(fmaxf(step, -rule.levels), rule.levels));
}

// Sums of a row's steps, as ops::StepSums.
struct StepSums {
    int positive = 0;
    int negative = 0;
    int positive_squares = 0;
    int negative_squares = 0;
};

__device__ inline void add_step(int step, StepSums& sums) {
    const int p = max(step, 0);
    const int n = max(-step, 0);
    sums.positive += p;
    sums.negative += n;
    sums.positive_squares += p * p;
    sums.negative_squares += n * n;
}

// Sum over the four threads that share a row.
__device__ inline int quad_sum(int v) {
    v += __shfl_xor_sync(0xffffffffU, v, 1);
    return v + __shfl_xor_sync(0xffffffffU, v, 2);
}

__device__ inline bool is_clear(const Work& w, const GpuPlane& p, int sum, int squares) {
    const double root = sqrt(static_cast<double>(squares));
    bool clear = true;
    for (std::uint32_t i = 0; i < p.spreads; ++i) {
        const double mean = w.spreads[p.first_spread + 2 * i];
        const double deviation = w.spreads[p.first_spread + 2 * i + 1];
        clear = clear && mean * sum - 4.0 * deviation * root >= p.need;
    }
    return clear;
}

struct InputCounts {
    std::uint32_t clipped = 0;
    std::uint32_t not_finite = 0;
};

// Four neighbouring inputs as bytes.
__device__ inline std::uint32_t four_steps(const GpuPlane& p, const StepRule& rule, const float* row,
                                           std::uint32_t first, StepSums& sums, InputCounts& counts) {
    std::uint32_t bytes = 0;
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) {
        if (row == nullptr || first + i >= p.rows) continue;
        const float x = row[first + i];
        counts.clipped += fabsf(x) > p.largest ? 1U : 0U;
        counts.not_finite += isfinite(x) ? 0U : 1U;
        const int step = isfinite(x) ? step_of(p, rule, x) : 0;
        add_step(step, sums);
        bytes |= (static_cast<std::uint32_t>(step) & 255U) << (8 * i);
    }
    return bytes;
}

// One warp per plane and tile of 16 rows; rows beyond the last become 0.
__global__ void __launch_bounds__(kInputThreads) quantize(const __grid_constant__ Work w) {
    const std::uint32_t tile = (blockIdx.x * kInputThreads + threadIdx.x) / 32;
    if (tile >= w.row_tiles) return;
    const GpuPlane p = w.planes[blockIdx.y];
    const Share share = share_of(w, p.copy);
    const std::uint32_t lane = threadIdx.x & 31U;
    const StepRule rule{static_cast<float>(p.levels / p.range), static_cast<float>(p.levels)};
    const float* rows[2];
    StepSums sums[2];
    InputCounts counts;
#pragma unroll
    for (std::uint32_t h = 0; h < 2; ++h) {
        const std::uint32_t r = tile * 16 + lane / 4 + 8 * h;
        const std::size_t row = share.first_row + std::size_t{r} * w.copies;
        rows[h] = r < share.count ? w.x + row * w.inputs + p.first_row : nullptr;
    }
    uint4* out = reinterpret_cast<uint4*>(w.steps) +
                 (std::size_t{p.blocks_before} * w.row_tiles + std::size_t{tile} * p.blocks) * 32 + lane;
    for (std::uint32_t b = 0; b < p.blocks; ++b) {
        const std::uint32_t k = b * kGpuStepBlock + lane % 4 * 4;
        uint4 v;
        v.x = four_steps(p, rule, rows[0], k, sums[0], counts);
        v.y = four_steps(p, rule, rows[1], k, sums[1], counts);
        v.z = four_steps(p, rule, rows[0], k + 16, sums[0], counts);
        v.w = four_steps(p, rule, rows[1], k + 16, sums[1], counts);
        out[std::size_t{b} * 32] = v;
    }
    add_tally(counts.clipped * p.regions, &w.tally->clipped);
    add_tally(counts.not_finite, &w.tally->not_finite);
    if (p.spreads == 0U) return;
#pragma unroll
    for (std::uint32_t h = 0; h < 2; ++h) {
        const bool linear = is_clear(w, p, quad_sum(sums[h].positive), quad_sum(sums[h].positive_squares)) &
                            is_clear(w, p, quad_sum(sums[h].negative), quad_sum(sums[h].negative_squares));
        const std::size_t row = std::size_t{blockIdx.y} * w.row_tiles * 16 + tile * 16 + lane / 4 + 8 * h;
        if (lane % 4 == 0U) w.linear_rows[row] = linear ? 1 : 0;
    }
}

// Bytes of negative steps.
__device__ inline std::uint32_t negative_bytes(std::uint32_t steps) {
    std::uint32_t bytes;
    asm("prmt.b32 %0, %1, 0, 0xba98;" : "=r"(bytes) : "r"(steps));  // signs, eight times each
    return bytes;
}
__device__ inline std::uint32_t magnitude_of(std::uint32_t steps, std::uint32_t negative) {
    return (steps ^ negative) + (negative & 0x01010101U);
}

// The positive or the negative part of four steps.
__device__ inline std::uint32_t part_of(std::uint32_t steps, StepPart part) {
    const std::uint32_t negative = negative_bytes(steps);
    return part == StepPart::positive ? steps & ~negative : magnitude_of(steps, negative) & negative;
}

// One bit of a part.
__device__ inline std::uint32_t bit_of(std::uint32_t steps, StepPart part, int bit) {
    const std::uint32_t negative = negative_bytes(steps);
    const std::uint32_t ones = (magnitude_of(steps, negative) >> bit) & 0x01010101U;
    if (part == StepPart::positive) return ones & ~negative;
    if (part == StepPart::negative) return ones & negative;
    return (ones & ~negative) | ((ones * 255U) & negative);  // 1 becomes -1
}

// Squares of four steps as halves: of the first two, of the last two.
__device__ inline uint2 squares_of(std::uint32_t steps) {
    // 1024 + b, b = step + 128, has b in its low bits.
    const std::uint32_t biased = steps ^ 0x80808080U;
    const std::uint32_t words[] = {__byte_perm(biased, 0x64646464U, 0x4140),
                                   __byte_perm(biased, 0x64646464U, 0x4342)};
    std::uint32_t out[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        __half2 v;
        memcpy(&v, &words[i], sizeof(v));
        v = __hsub2(v, __float2half2_rn(1152.0F));
        v = __hmul2(v, v);
        memcpy(&out[i], &v, sizeof(v));
    }
    return make_uint2(out[0], out[1]);
}

// Sums of a warp: 16 rows x 32 columns in tiles of 8; digits: 4 tiles each, the lowest first.
struct Charges {
    int digits[12][4];
    float variance[4][4];
};

// Steps of 16 rows x 32 inputs, and their squares as halves: of inputs 0 to 15 and 16 to 31.
struct Factors {
    uint4 steps;
    uint4 squares[2];
};
__device__ inline Factors factors_of(uint4 a, StepPart part, int bit) {
    if (bit >= 0) {
        a = make_uint4(bit_of(a.x, part, bit), bit_of(a.y, part, bit), bit_of(a.z, part, bit),
                       bit_of(a.w, part, bit));
    } else if (part != StepPart::whole) {
        a = make_uint4(part_of(a.x, part), part_of(a.y, part), part_of(a.z, part), part_of(a.w, part));
    }
    const uint2 x = squares_of(a.x);
    const uint2 y = squares_of(a.y);
    const uint2 z = squares_of(a.z);
    const uint2 w = squares_of(a.w);
    return {a, {make_uint4(x.x, y.x, x.y, y.y), make_uint4(z.x, w.x, z.y, w.y)}};
}

constexpr std::uint32_t kBlockChunks = kBlockBytes / 16;  // of 16 bytes

#if IMKA_WARPGROUP_PRODUCTS
// A digit, or variances of 16 inputs.
constexpr std::uint32_t kPartChunks = kGpuPanelCols * kGpuStepBlock / 16;

// Starts the products with a block of weights, in shared memory from chunk `weights` on.
__device__ inline void start_block(const Factors& f, std::uint32_t weights, bool add, Charges& c) {
    cuda::begin_products();
    cuda::start_bytes(f.steps, cuda::pieces_at(weights), add, c.digits);
    cuda::start_halves(f.squares[0], cuda::pieces_at(weights + 3 * kPartChunks), add, c.variance);
    cuda::start_halves(f.squares[1], cuda::pieces_at(weights + 4 * kPartChunks), true, c.variance);
}
__device__ inline void finish_block(Charges& c) {
    cuda::finish_products();
    cuda::keep(c.digits);
    cuda::keep(c.variance);
}
#else
__device__ inline void start_block(const Factors& f, std::uint32_t weights, bool add, Charges& c) {
    const std::uint32_t pieces = weights * 16 + threadIdx.x % 32 * 4;  // a word of each
    if (!add) c = {};
#pragma unroll
    for (std::uint32_t t = 0; t < 12; ++t)
        cuda::multiply_bytes(f.steps, cuda::word_at(pieces + t * 256), cuda::word_at(pieces + t * 256 + 128),
                             c.digits[t]);
#pragma unroll
    for (std::uint32_t t = 0; t < 8; ++t) {
        const std::uint32_t piece = pieces + (12 + t) * 256;
        cuda::multiply_halves(f.squares[t / 4], cuda::word_at(piece), cuda::word_at(piece + 128),
                              c.variance[t % 4]);
    }
}
__device__ inline void finish_block(Charges&) {}
#endif

// Adds the products of a stage; `next`: the steps of its first block.
template <GpuKind kKind>
__device__ inline void accumulate(const uint4* steps, uint4 next, const GpuStage& stage,
                                  std::uint32_t weights, bool add, Charges& c) {
    const std::uint32_t blocks = stage.blocks;
    const StepPart part = stage.part;
    const int bit = kKind == GpuKind::general ? stage.bit : -1;
#pragma unroll 1
    for (std::uint32_t k = 1; k <= blocks; ++k, weights += kBlockChunks) {
        const Factors factors = factors_of(next, part, bit);
        if (k < blocks) next = __ldcg(steps + k * 32);
        start_block(factors, weights, add, c);
        finish_block(c);
        add = true;
    }
}

__device__ inline float rounded(std::uint32_t rounding, float v) {
    if (rounding == static_cast<std::uint32_t>(ops::CountRounding::floor)) return floorf(v);
    if (rounding == static_cast<std::uint32_t>(ops::CountRounding::round)) return rintf(v);
    return v;
}

__device__ inline float fast_root(float x) {
    float y;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Constants of one column.
struct Column {
    float scale;
    float variance_scale;
    float offset;
    float negative_gain;
};

// A conversion: of one product, or of one bit of its inputs.
struct Reading {
    float charge;
    float variance;
    float normal;
    float comparator;
};

// The signed count of ops::add_counts or ops::add_signed_counts. Its magnitude is `most` if it saturates.
struct Count {
    float value;
    float magnitude;
};
template <GpuKind kKind>
__device__ inline Count count_of(const GpuFold& fold, const Column& column, Reading in) {
    constexpr bool kGeneral = kKind == GpuKind::general;
    const bool either_sign = kGeneral ? fold.either_sign != 0U : kKind == GpuKind::usual_signed;
    const auto rule = kGeneral ? fold.rounding : static_cast<std::uint32_t>(ops::CountRounding::floor);
    if (kGeneral && either_sign) {
        const float gain = in.charge < 0.0F ? column.negative_gain : 1.0F;
        in.charge = gain * in.charge;
        in.variance = gain * gain * in.variance;
    }
    float v = in.charge + column.offset;
    // The variance has only half precision, so the fast square root is accurate enough.
    v += fast_root(in.variance + fold.noise_variance) * in.normal;
    if (!either_sign) {
        v = fminf(fmaxf(rounded(rule, v), 0.0F), fold.most);
        return {v, v};
    }
    const float magnitude = fminf(rounded(rule, fabsf(v)), fold.most);
    if (kGeneral) v += fold.polarity_error * in.comparator;
    return {copysignf(magnitude, v), magnitude};
}

__device__ inline float part(const float4& v, int i) {
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// Rows and columns of a thread: rows g and g + 8 of its warp, and four neighbouring columns of each half.
struct Place {
    std::uint64_t product;     // of the first row
    std::uint32_t column;      // in the first half
    std::uint32_t valid_rows;  // bits
    std::uint32_t valid;       // bits, of results
};

// One conversion of a fold: number, weight, and the rows that use this fold.
struct Conversion {
    std::uint32_t number;
    float weight;
    std::uint32_t rows;
};

// Results of a thread: by half of the columns, row, column.
using Counts = float[2][2][4];
__device__ constexpr std::uint32_t bit_of_result(int half, int row, int e) {
    return 1U << (half * 8 + row * 4 + e);
}

// Four normals for neighbouring columns of one row.
template <GpuKind kKind>
__device__ inline float4 normals_of(const Work& w, const GpuFold& fold, std::uint64_t index) {
    constexpr auto kStream = static_cast<std::uint32_t>(Stream::chip_adc_noise);
    if (kKind != GpuKind::general) return cuda::normal_block(w.keys, index / 4, kStream);
    if (fold.noisy == 0U) return make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    return cuda::normals_at(w.keys, index, kStream);
}

template <GpuKind kKind>
__device__ inline void convert(const Work& w, const GpuTerm& term, const GpuFold& fold, const Place& place,
                               const Conversion& conversion, const Charges& c, Counts& counts,
                               std::uint32_t& saturated) {
    std::uint32_t at_most = 0;
    std::uint32_t taken = kKind == GpuKind::general ? 0U : ~0U;  // results whose rows use the fold
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const std::uint32_t first = place.column + 16 * half;
        const auto* columns = reinterpret_cast<const float4*>(w.columns + fold.columns + first);
        const float4 scale = __ldg(columns);
        const float4 variance_scale = __ldg(columns + kGpuPanelCols / 4);
        const float4 offset = __ldg(columns + 2 * (kGpuPanelCols / 4));
        const float4 gain = __ldg(columns + 3 * (kGpuPanelCols / 4));
        const std::uint32_t low = (conversion.number << 26U) + term.converter + first;
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const std::uint64_t index = ((place.product + 8 * row) << 32U) | low;
            const float4 normals = normals_of<kKind>(w, fold, index);
            float4 comparator = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
            if (kKind == GpuKind::general && fold.polarity_error > 0.0F)
                comparator =
                    cuda::normals_at(w.keys, index, static_cast<std::uint32_t>(Stream::chip_polarity_error));
            const bool takes = kKind != GpuKind::general || ((conversion.rows >> row) & 1U) != 0U;
            if (kKind == GpuKind::general && takes) taken |= bit_of_result(half, row, 0) * 15U;
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int tile = 2 * half + e / 2;
                const int i = row * 2 + e % 2;
                const float rest = __int2float_rn(c.digits[4 + tile][i] * 256 + c.digits[tile][i]);
                const float charge = __fmaf_rn(__int2float_rn(c.digits[8 + tile][i]), 65536.0F, rest);
                const Column column{part(scale, e), part(variance_scale, e), part(offset, e), part(gain, e)};
                const auto count =
                    count_of<kKind>(fold, column,
                                    {charge * column.scale, c.variance[tile][i] * column.variance_scale,
                                     part(normals, e), part(comparator, e)});
                if (count.magnitude >= fold.most) at_most |= bit_of_result(half, row, e);
                // The weight is 1 or -1 in usual kernels: a fused product has the same bits.
                if (kKind != GpuKind::general)
                    counts[half][row][e] = __fmaf_rn(conversion.weight, count.value, counts[half][row][e]);
                else if (takes)
                    counts[half][row][e] += conversion.weight * count.value;
            }
        }
    }
    saturated += __popc(at_most & taken & place.valid);
}

__device__ inline float to_half(float v) {
    return __half2float(__float2half_rn(v));
}

__device__ __noinline__ float soft_limited(float v, float limit) {
    const float most = ops::kSoftRange * limit;
    const float near = fminf(fmaxf(v, -most), most);
    const float ratio = near / limit;
    return near / sqrtf(1.0F + ratio * ratio);
}

// Scale, offset, limit and rounding of one result: ops::affine_row.
struct Affine {
    float scale;
    float offset;
    float factor;
    float limit;
};
template <GpuKind kKind>
__device__ inline float corrected(const GpuTerm& term, const Affine& affine, float v, bool& at_limit) {
    constexpr bool kGeneral = kKind == GpuKind::general;
    const bool half = !kGeneral || term.half != 0U;
    if (kGeneral && term.output_floor != 0U) v = floorf(v);
    if (half) v = to_half(v);
    v = affine.scale * v + affine.offset;
    if (half) v = to_half(v);
    at_limit = term.limits != 0U && fabsf(v) >= affine.limit;
    if (kGeneral && term.limits == 2U) {
        v = soft_limited(v, affine.limit);
    } else {
        v = fminf(fmaxf(v, -affine.limit), affine.limit);
    }
    if (!kGeneral || term.most < INFINITY) {
        v = fminf(fmaxf(v, -term.most), term.most);
        v = !kGeneral || term.rounds_down != 0U ? floorf(v) : rintf(v);  // -0 is lost in the sum
    }
    return affine.factor * v;
}

// Adds the corrected results of a term to the sums of the thread.
template <GpuKind kKind>
__device__ inline void finish(const Work& w, const GpuTerm& term, const Place& place, const Counts& counts,
                              float4* sums, std::uint32_t& limited_results) {
    std::uint32_t limited = 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const auto* columns =
            reinterpret_cast<const float4*>(w.columns + term.columns + place.column + 16 * half);
        const float4 scale = __ldg(columns);
        const float4 offset = __ldg(columns + kGpuPanelCols / 4);
        const float4 factor = __ldg(columns + 2 * (kGpuPanelCols / 4));
        const float4 limit = __ldg(columns + 3 * (kGpuPanelCols / 4));
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            float out[4];
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                bool at_limit = false;
                const Affine affine{part(scale, e), part(offset, e), part(factor, e), part(limit, e)};
                out[e] = term.factor * corrected<kKind>(term, affine, counts[half][row][e], at_limit);
                if (at_limit) limited |= bit_of_result(half, row, e);
            }
            float4& sum = sums[(half * 2 + row) * kThreads];
            sum = make_float4(sum.x + out[0], sum.y + out[1], sum.z + out[2], sum.w + out[3]);
        }
    }
    limited_results += __popc(limited & place.valid);
}

__device__ inline void store(const Work& w, const GpuPanel& panel, const Share& share, const Place& place,
                             std::uint32_t first_row, const float4* sums) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            float* out = w.y + (share.first_row + std::size_t{first_row + 8 * row} * w.copies) * w.outputs +
                         panel.first_col + place.column + 16 * half;
            const float4 v = sums[(half * 2 + row) * kThreads];
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                if ((place.valid & bit_of_result(half, row, e)) != 0U) out[e] = part(v, e);
            }
        }
    }
}

// Bits of the valid results: those of valid rows in the first `cols` columns of the panel.
__device__ inline std::uint32_t valid_results(std::uint32_t rows, std::uint32_t column, std::uint32_t cols) {
    std::uint32_t valid = 0;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        const int half = i / 8;
        const int row = i / 4 % 2;
        const int e = i % 4;
        if (((rows >> row) & 1U) != 0U && column + 16 * half + e < cols) valid |= bit_of_result(half, row, e);
    }
    return valid;
}

// Folds used by the rows of a term. Bit q of `linear`: row g + 8 q of the thread uses the linear fold.
struct Folds {
    std::uint32_t term;
    std::uint32_t linear;
    bool any_linear;  // in the block
    bool any_exact;
};
__device__ inline Folds folds_of(const Work& w, std::uint32_t number, const Place& place,
                                 std::uint32_t first_row) {
    const GpuTerm& term = w.terms[number];
    std::uint32_t linear = 0U;
    if (term.linear.exists != 0U) {
        const std::uint8_t* rows = w.linear_rows + std::size_t{term.plane} * w.row_tiles * 16 + first_row;
        const bool always = w.planes[term.plane].spreads == 0U;
        linear = always ? 3U : std::uint32_t{rows[0]} | std::uint32_t{rows[8]} << 1U;
    }
    return {number, linear, __syncthreads_or((linear & place.valid_rows) != 0U) != 0,
            __syncthreads_or((~linear & place.valid_rows) != 0U) != 0};
}

// The first stage at or after `s` that a row of the block needs. All threads must call this.
template <GpuKind kKind>
__device__ inline std::uint32_t next_stage(const Work& w, std::uint32_t s, std::uint32_t end,
                                           const Place& place, std::uint32_t first_row, Folds& folds) {
    if constexpr (kKind == GpuKind::general) {
        for (; s < end; ++s) {
            const GpuStage& stage = w.stages[s];
            if (stage.term != folds.term) folds = folds_of(w, stage.term, place, first_row);
            if (stage.exact != 0U ? folds.any_exact : folds.any_linear) break;
        }
    }
    return s;
}

// Starts to copy the weights of a stage to shared memory.
__device__ inline void load_stage(const Work& w, const GpuStage& stage, std::uint32_t to) {
    const auto* from = reinterpret_cast<const uint4*>(w.weights + stage.weights);
    const std::uint32_t chunks = stage.blocks * (kBlockBytes / 16);
    for (std::uint32_t i = threadIdx.x; i < chunks; i += kThreads) cuda::copy_chunk(to + i * 16, from + i);
}

// Waits until the copies of all threads have arrived and no thread uses the previous weights any more.
__device__ inline void wait_for_stage() {
    cuda::wait_for_copies<0>();
    cuda::show_copies_to_products();
    __syncthreads();
}

template <GpuKind kKind>
__global__ void __launch_bounds__(kThreads, kBlocks) products(const __grid_constant__ Work w) {
    extern __shared__ __align__(128) unsigned char memory[];
    const GpuPanel panel = w.panels[blockIdx.x];
    const Share share = share_of(w, panel.copy);
    if (blockIdx.y * kGpuBlockRows >= share.count) return;
    const std::uint32_t lane = threadIdx.x & 31U;
    const std::uint32_t tile = blockIdx.y * kWarps + threadIdx.x / 32;
    const std::uint32_t first_row = tile * 16 + lane / 4;
    const bool active = tile / 4 * 64 < share.count;  // same value in a whole warpgroup
    Place place{.product = share.first_product + first_row, .column = lane % 4 * 4};
    place.valid_rows = (first_row < share.count ? 1U : 0U) | (first_row + 8 < share.count ? 2U : 0U);
    place.valid = valid_results(place.valid_rows, place.column, panel.cols);
    float4* sums = reinterpret_cast<float4*>(memory + 2 * kStageBytes) + threadIdx.x;
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) sums[i * kThreads] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    const auto buffers = static_cast<std::uint32_t>(__cvta_generic_to_shared(memory));
    const std::uint32_t end = panel.first_stage + panel.stages;
    Folds folds{.term = ~0U};
    std::uint32_t s = next_stage<kKind>(w, panel.first_stage, end, place, first_row, folds);
    load_stage(w, w.stages[s], buffers);
    cuda::commit_copies();
    std::uint32_t buffer = 0;
    std::uint32_t saturated = 0;
    std::uint32_t limited_results = 0;
    Counts counts = {};
    while (s < end) {
        const std::uint32_t number = w.stages[s].term;
        const GpuTerm& term = w.terms[number];
        const std::uint32_t linear = folds.linear;
        Charges charges;
        std::uint32_t last = s;  // stage of the charge
        for (bool add = false;; add = true) {
            const GpuStage& stage = w.stages[s];
            const auto* steps = reinterpret_cast<const uint4*>(w.steps) +
                                (std::size_t{stage.blocks_before} * w.row_tiles +
                                 std::size_t{tile} * stage.region_blocks + stage.first_block) *
                                    32 +
                                lane;
            const uint4 first = __ldcg(steps);  // bypasses the L1 cache, which the columns need
            wait_for_stage();
            last = s;
            s = next_stage<kKind>(w, s + 1, end, place, first_row, folds);
            if (s < end) load_stage(w, w.stages[s], buffers + (buffer ^ 1U) * kStageBytes);
            cuda::commit_copies();
            if (active)
                accumulate<kKind>(steps, first, stage, (buffers + buffer * kStageBytes) / 16, add, charges);
            buffer ^= 1U;
            if (stage.converts != 0U) break;
        }
        if (!active) continue;
        const GpuStage& stage = w.stages[last];
        const GpuFold& fold = stage.exact != 0U ? term.exact : term.linear;
        convert<kKind>(w, term, fold, place,
                       {stage.conversion, stage.weight, stage.exact != 0U ? ~linear : linear}, charges,
                       counts, saturated);
        if (s < end && w.stages[s].term == number) continue;
        finish<kKind>(w, term, place, counts, sums, limited_results);
#pragma unroll
        for (int i = 0; i < 16; ++i) counts[i / 8][i / 4 % 2][i % 4] = 0.0F;
    }
    store(w, panel, share, place, first_row, sums);
    add_tally(saturated, &w.tally->saturated);
    add_tally(limited_results, &w.tally->limited);
}

template <GpuKind kKind>
void start_products(const Work& work) {
    constexpr unsigned kBytes = 2 * kStageBytes + kSumBytes;
    cuda::check(cudaFuncSetAttribute(products<kKind>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
                "preparing the kernel for products");
    products<kKind><<<dim3(work.panel_count, work.row_tiles / kWarps), kThreads, kBytes>>>(work);
    cuda::check(cudaGetLastError(), "starting the kernel for products");
}

}  // namespace

void launch_products(const GpuWork& work) {
    Work w;
    static_cast<GpuWork&>(w) = work;
    w.keys = cuda::philox_keys(work.seed);
    constexpr unsigned kTiles = kInputThreads / 32;
    quantize<<<dim3((w.row_tiles + kTiles - 1) / kTiles, w.plane_count), kInputThreads>>>(w);
    cuda::check(cudaGetLastError(), "starting the kernel for inputs");
    switch (work.kind) {
        case GpuKind::general:
            return start_products<GpuKind::general>(w);
        case GpuKind::usual_signed:
            return start_products<GpuKind::usual_signed>(w);
        case GpuKind::usual_unsigned:
            return start_products<GpuKind::usual_unsigned>(w);
    }
}

}  // namespace imka
