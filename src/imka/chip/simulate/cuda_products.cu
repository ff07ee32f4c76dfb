// Kernels of the fast simulator: inputs to steps, then charges, conversions, corrections and sums. Operations
// after the charge are those of ops/readout, in the same order. Layout of the weights: cuda_pack.hpp.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "imka/base/random.hpp"
#include "imka/chip/simulate/cuda_work.hpp"
#include "imka/cuda/matrix_unit.cuh"
#include "imka/cuda/random.cuh"
#include "imka/cuda/status.hpp"

namespace imka {
namespace {

constexpr unsigned kWarps = 4;
constexpr unsigned kBlocks = 4;  // per multiprocessor: at most 128 registers per thread
constexpr unsigned kThreads = 32 * kWarps;
constexpr unsigned kChunks = kGpuPanelCols / kGpuChunkCols;

// Arguments of the kernels, with what the host derives from them.
struct Work : GpuWork {
    cuda::PhiloxKeys keys;
};

// row_share() of chip/simulate/layout.hpp.
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

// The float estimate is wrong by less than 2e-5 steps where it is not clipped; closer than 1e-4 to a boundary
// the exact formula decides.
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
__global__ void __launch_bounds__(kThreads) quantize(const __grid_constant__ Work w) {
    const std::uint32_t tile = blockIdx.x * kWarps + threadIdx.x / 32;
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

// The wanted part of four steps; `bit` < 0: all bits.
__device__ inline std::uint32_t part_of(std::uint32_t steps, StepPart part, int bit) {
    if (part == StepPart::whole && bit < 0) return steps;
    const std::uint32_t sign = (steps >> 7U) & 0x01010101U;
    const std::uint32_t negative = sign * 255U;  // bytes of negative steps
    std::uint32_t magnitude = (steps ^ negative) + sign;
    if (bit >= 0) magnitude = (magnitude >> bit) & 0x01010101U;
    if (part == StepPart::positive) return magnitude & ~negative;
    if (part == StepPart::negative) return magnitude & negative;
    return (magnitude & ~negative) | ((magnitude * 255U) & negative);  // one bit: 1 becomes -1
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

// Sums of 32 rows x 16 columns: by digit, row tile, column tile.
struct Charges {
    int digits[3][2][2][4];
    float variance[2][2][4];
};

__device__ inline void clear(Charges& c) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        const int m = i / 8;
        const int t = i / 4 % 2;
        c.digits[0][m][t][i % 4] = c.digits[1][m][t][i % 4] = c.digits[2][m][t][i % 4] = 0;
        c.variance[m][t][i % 4] = 0.0F;
    }
}

// Adds the products of all inputs. `steps`: of the first row tile; the second is `blocks` further.
__device__ inline void accumulate(const uint4* steps, const uint4* weights, std::uint32_t blocks,
                                  const GpuPass& pass, int bit, Charges& c) {
#pragma unroll 1
    for (std::uint32_t k = 0; k < blocks; ++k) {
        std::uint32_t b[20];
#pragma unroll
        for (int i = 0; i < 5; ++i) {
            const uint4 v = __ldg(weights + (k * 5 + i) * 32);
            b[4 * i] = v.x;
            b[4 * i + 1] = v.y;
            b[4 * i + 2] = v.z;
            b[4 * i + 3] = v.w;
        }
#pragma unroll
        for (int m = 0; m < 2; ++m) {
            uint4 a = __ldg(steps + (m * blocks + k) * 32);
            a = make_uint4(part_of(a.x, pass.part, bit), part_of(a.y, pass.part, bit),
                           part_of(a.z, pass.part, bit), part_of(a.w, pass.part, bit));
            const uint2 sx = squares_of(a.x);
            const uint2 sy = squares_of(a.y);
            const uint2 sz = squares_of(a.z);
            const uint2 sw = squares_of(a.w);
#pragma unroll
            for (int t = 0; t < 2; ++t) {
#pragma unroll
                for (int d = 0; d < 3; ++d)
                    cuda::multiply_bytes(a, b[(t * 3 + d) * 2], b[(t * 3 + d) * 2 + 1], c.digits[d][m][t]);
                cuda::multiply_halves(make_uint4(sx.x, sy.x, sx.y, sy.y), b[12 + t * 4], b[13 + t * 4],
                                      c.variance[m][t]);
                cuda::multiply_halves(make_uint4(sz.x, sw.x, sz.y, sw.y), b[14 + t * 4], b[15 + t * 4],
                                      c.variance[m][t]);
            }
        }
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

// What one column adds to a charge.
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
    const bool either_sign =
        kKind == GpuKind::general ? fold.either_sign != 0U : kKind == GpuKind::signed_charges;
    if (either_sign && in.charge < 0.0F) {
        in.charge = column.negative_gain * in.charge;
        in.variance = column.negative_gain * column.negative_gain * in.variance;
    }
    float v = in.charge + column.offset;
    // The variance is of half precision already: the fast square root is good enough.
    v += fast_root(in.variance + fold.noise_variance) * in.normal;
    if (!either_sign) {
        v = fminf(fmaxf(rounded(fold.rounding, v), 0.0F), fold.most);
        return {v, v};
    }
    const float magnitude = fminf(rounded(fold.rounding, fabsf(v)), fold.most);
    if (kKind == GpuKind::general) v += fold.polarity_error * in.comparator;
    return {copysignf(magnitude, v), magnitude};
}

__device__ inline float part(const float4& v, int i) {
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// Where a thread works: 4 rows (g, g + 8, g + 16, g + 24 of the warp's), 4 neighbouring columns of a chunk.
struct Place {
    std::uint64_t product;     // of the first row
    std::uint32_t column;      // in the panel
    std::uint32_t valid_rows;  // bits
    std::uint32_t valid_cols;  // count, 0 to 4
};

// One conversion of a fold: its number, its weight, and the rows that take this fold.
struct Conversion {
    std::uint32_t number;
    float weight;
    std::uint32_t rows;
};

// Four normals for neighbouring columns of one row.
template <GpuKind kKind>
__device__ inline float4 normals_of(const Work& w, const GpuFold& fold, std::uint64_t index) {
    if (fold.noisy == 0U) return make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    constexpr auto kStream = static_cast<std::uint32_t>(Stream::chip_adc_noise);
    if (kKind == GpuKind::general) return cuda::normals_at(w.keys, index, kStream);
    return cuda::normal_block(w.keys, index / 4, kStream);
}

template <GpuKind kKind>
__device__ inline void convert(const Work& w, const GpuTerm& term, const GpuFold& fold, const Place& place,
                               const Conversion& conversion, const Charges& c, float (&counts)[4][4],
                               std::uint32_t& saturated) {
    const auto* columns = reinterpret_cast<const float4*>(w.columns + fold.columns + place.column);
    const float4 scale = __ldg(columns);
    const float4 variance_scale = __ldg(columns + kGpuPanelCols / 4);
    const float4 offset = __ldg(columns + 2 * (kGpuPanelCols / 4));
    const float4 gain = __ldg(columns + 3 * (kGpuPanelCols / 4));
    const std::uint32_t low = (conversion.number << 26U) + term.converter + place.column;
#pragma unroll
    for (int q = 0; q < 4; ++q) {
        const std::uint64_t index = ((place.product + 8 * q) << 32U) | low;
        const float4 normals = normals_of<kKind>(w, fold, index);
        float4 comparator = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
        if (kKind == GpuKind::general && fold.polarity_error > 0.0F)
            comparator =
                cuda::normals_at(w.keys, index, static_cast<std::uint32_t>(Stream::chip_polarity_error));
        const bool takes = kKind != GpuKind::general || ((conversion.rows >> q) & 1U) != 0U;
        const bool valid = takes && ((place.valid_rows >> q) & 1U) != 0U;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int m = q / 2;
            const int t = e / 2;
            const int i = q % 2 * 2 + e % 2;
            const float rest = __int2float_rn(c.digits[1][m][t][i] * 256 + c.digits[0][m][t][i]);
            const float charge = __fmaf_rn(__int2float_rn(c.digits[2][m][t][i]), 65536.0F, rest);
            const Column column{part(scale, e), part(variance_scale, e), part(offset, e), part(gain, e)};
            const auto count =
                count_of<kKind>(fold, column,
                                {charge * column.scale, c.variance[m][t][i] * column.variance_scale,
                                 part(normals, e), part(comparator, e)});
            if (valid && e < place.valid_cols && count.magnitude >= fold.most) ++saturated;
            if (takes) counts[q][e] += conversion.weight * count.value;
        }
    }
}

// Counts of the rows that take the fold.
template <GpuKind kKind>
__device__ inline void run_fold(const Work& w, const GpuTerm& term, const GpuFold& fold, const uint4* steps,
                                const Place& place, std::uint32_t rows, float (&counts)[4][4],
                                std::uint32_t& saturated) {
    const std::uint32_t lane = threadIdx.x & 31U;
    const std::uint32_t chunk = place.column / kGpuChunkCols;
    const std::uint32_t slices = kKind == GpuKind::general ? max(fold.bits, 1U) : 1U;
    for (std::uint32_t slice = 0; slice < slices; ++slice) {
        const bool whole = kKind != GpuKind::general || fold.bits == 0U;
        const int bit = whole ? -1 : static_cast<int>(slice);
        const float weight = whole ? 1.0F : static_cast<float>(1U << slice) / term.levels;
        std::uint32_t number = slice * fold.charges;
        Charges charges;
        clear(charges);
        for (std::uint32_t p = 0; p < fold.pass_count; ++p) {
            const GpuPass pass = fold.passes[p];
            const std::uint64_t word = fold.weights + pass.weights * fold.words_per_matrix +
                                       std::uint64_t{chunk} * term.blocks * kGpuBlockWords;
            accumulate(steps, reinterpret_cast<const uint4*>(w.weights + word) + lane, term.blocks, pass, bit,
                       charges);
            if (pass.converts == 0U) continue;
            convert<kKind>(w, term, fold, place, {number++, weight * pass.sign, rows}, charges, counts,
                           saturated);
            clear(charges);
        }
    }
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
    if (term.output_floor != 0U) v = floorf(v);
    if (term.half != 0U) v = to_half(v);
    v = affine.scale * v + affine.offset;
    if (term.half != 0U) v = to_half(v);
    at_limit = term.limits != 0U && fabsf(v) >= affine.limit;
    if (kKind == GpuKind::general && term.limits == 2U) {
        v = soft_limited(v, affine.limit);
    } else if (term.limits != 0U) {
        v = fminf(fmaxf(v, -affine.limit), affine.limit);
    }
    if (term.most < INFINITY) {
        v = fminf(fmaxf(v, -term.most), term.most);
        v = (term.rounds_down != 0U ? floorf(v) : rintf(v)) + 0.0F;
    }
    return affine.factor * v;
}

// Adds the corrected results of a term to the sums of the thread.
template <GpuKind kKind>
__device__ inline void finish(const Work& w, const GpuTerm& term, const Place& place,
                              const float (&counts)[4][4], float4* sums, std::uint32_t& limited_results) {
    const auto* columns = reinterpret_cast<const float4*>(w.columns + term.columns + place.column);
    const float4 scale = __ldg(columns);
    const float4 offset = __ldg(columns + kGpuPanelCols / 4);
    const float4 factor = __ldg(columns + 2 * (kGpuPanelCols / 4));
    const float4 limit = __ldg(columns + 3 * (kGpuPanelCols / 4));
#pragma unroll
    for (int q = 0; q < 4; ++q) {
        float out[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            bool at_limit = false;
            const Affine affine{part(scale, e), part(offset, e), part(factor, e), part(limit, e)};
            out[e] = term.factor * corrected<kKind>(term, affine, counts[q][e], at_limit);
            if (at_limit && ((place.valid_rows >> q) & 1U) != 0U && e < place.valid_cols) ++limited_results;
        }
        float4& sum = sums[q * kThreads];
        sum = make_float4(sum.x + out[0], sum.y + out[1], sum.z + out[2], sum.w + out[3]);
    }
}

// Bit q: row g + 8 q takes the linear fold.
__device__ inline std::uint32_t linear_rows(const Work& w, const GpuTerm& term, std::uint32_t first_row) {
    if (term.linear.pass_count == 0U) return 0U;
    if (w.planes[term.plane].spreads == 0U) return 15U;
    const std::size_t row = std::size_t{term.plane} * w.row_tiles * 16 + first_row;
    std::uint32_t bits = 0;
    for (std::uint32_t q = 0; q < 4; ++q) bits |= std::uint32_t{w.linear_rows[row + 8 * q]} << q;
    return bits;
}

__device__ inline void store(const Work& w, const GpuPanel& panel, const Share& share, const Place& place,
                             std::uint32_t first_row, const float4* sums) {
#pragma unroll
    for (std::uint32_t q = 0; q < 4; ++q) {
        if (((place.valid_rows >> q) & 1U) == 0U) continue;
        const std::size_t row = share.first_row + std::size_t{first_row + 8 * q} * w.copies;
        float* out = w.y + row * w.outputs + panel.first_col + place.column;
        const float4 v = sums[q * kThreads];
        for (std::uint32_t e = 0; e < place.valid_cols; ++e) out[e] = part(v, static_cast<int>(e));
    }
}

// A block has 128 rows of a panel, a warp 32 of them; warps work independently.
template <GpuKind kKind>
__global__ void __launch_bounds__(kThreads, kBlocks) products(const __grid_constant__ Work w) {
    __shared__ float4 shared_sums[kChunks][4][kThreads];
    const GpuPanel panel = w.panels[blockIdx.x];
    const Share share = share_of(w, panel.copy);
    const std::uint32_t warp_tile = blockIdx.y * kWarps + threadIdx.x / 32;
    if (warp_tile * kGpuWarpRows >= share.count) return;
    const std::uint32_t lane = threadIdx.x & 31U;
    const std::uint32_t first_row = warp_tile * kGpuWarpRows + lane / 4;
    const std::uint32_t chunks = (panel.cols + kGpuChunkCols - 1) / kGpuChunkCols;
    Place place{.product = share.first_product + first_row};
    for (std::uint32_t q = 0; q < 4; ++q)
        place.valid_rows |= (first_row + 8 * q < share.count ? 1U : 0U) << q;
    const auto go_to = [&](std::uint32_t chunk) {
        place.column = chunk * kGpuChunkCols + lane % 4 * 4;
        place.valid_cols = place.column >= panel.cols ? 0U : min(4U, panel.cols - place.column);
        return &shared_sums[chunk][0][threadIdx.x];
    };
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk)
        for (std::uint32_t q = 0; q < 4; ++q)
            shared_sums[chunk][q][threadIdx.x] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    std::uint32_t saturated = 0;
    std::uint32_t limited_results = 0;
    for (std::uint32_t i = 0; i < panel.terms; ++i) {
        const GpuTerm& term = w.terms[panel.first_term + i];
        const std::size_t tiles = std::size_t{w.planes[term.plane].blocks_before} * w.row_tiles +
                                  std::size_t{2 * warp_tile} * term.blocks;
        const uint4* steps = reinterpret_cast<const uint4*>(w.steps) + tiles * 32 + lane;
        const std::uint32_t linear = kKind == GpuKind::general ? linear_rows(w, term, first_row) : 0U;
        for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
            float4* sums = go_to(chunk);
            float counts[4][4] = {};
            if constexpr (kKind == GpuKind::general) {
                for (int f = 0; f < 2; ++f) {
                    const GpuFold& fold = f == 0 ? term.linear : term.exact;
                    const std::uint32_t rows = f == 0 ? linear : ~linear & 15U;
                    if (fold.pass_count > 0U && __any_sync(0xffffffffU, rows != 0U) != 0)
                        run_fold<kKind>(w, term, fold, steps, place, rows, counts, saturated);
                }
            } else {
                const GpuFold& fold = term.linear.pass_count > 0U ? term.linear : term.exact;
                run_fold<kKind>(w, term, fold, steps, place, 15U, counts, saturated);
            }
            finish<kKind>(w, term, place, counts, sums, limited_results);
        }
    }
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
        const float4* sums = go_to(chunk);
        store(w, panel, share, place, first_row, sums);
    }
    add_tally(saturated, &w.tally->saturated);
    add_tally(limited_results, &w.tally->limited);
}

}  // namespace

void launch_products(const GpuWork& work) {
    Work w;
    static_cast<GpuWork&>(w) = work;
    w.keys = cuda::philox_keys(work.seed);
    quantize<<<dim3((w.row_tiles + kWarps - 1) / kWarps, w.plane_count), kThreads>>>(w);
    cuda::check(cudaGetLastError(), "starting the kernel for inputs");
    const dim3 grid(w.panel_count, (w.row_tiles / 2 + kWarps - 1) / kWarps);
    if (work.kind == GpuKind::general) products<GpuKind::general><<<grid, kThreads>>>(w);
    if (work.kind == GpuKind::signed_charges) products<GpuKind::signed_charges><<<grid, kThreads>>>(w);
    if (work.kind == GpuKind::unsigned_charges) products<GpuKind::unsigned_charges><<<grid, kThreads>>>(w);
    cuda::check(cudaGetLastError(), "starting the kernel for products");
}

}  // namespace imka
