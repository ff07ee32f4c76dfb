// Compiled once per instruction set; the best one that the processor supports is called.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "imka/ops/fwht/fwht.cpp"
#include "imka/ops/vector_targets.hpp"

#include <hwy/foreach_target.h>

#include "imka/ops/fwht/fwht.hpp"

#include <fmt/format.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/ops/fwht/fwht_plain.hpp"

HWY_BEFORE_NAMESPACE();
namespace imka::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
// Without vectors: plain loops.
void transform(float* values, std::size_t n) {
    plain::ascend(values, n);
}

void transform_rows(float* values, std::size_t n, std::size_t count) {
    for (std::size_t r = 0; r < count; ++r) plain::ascend(values + r * n, n);
}

void project_rows(const SignHadamard& matrix, MatrixView<const float> x, MatrixView<float> u) {
    plain::project(matrix, x, u);
}
#else

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

constexpr std::size_t log2_of(std::size_t n) {
    return static_cast<std::size_t>(std::bit_width(n)) - 1;
}

constexpr std::size_t kLanes = hn::MaxLanes(D());
constexpr std::size_t kLaneLevels = log2_of(kLanes);
// Number of vectors transformed in registers at once: half of all registers.
#if HWY_MAX_BYTES >= 64 || HWY_ARCH_ARM_A64
constexpr std::size_t kVectors = 16;
#else
constexpr std::size_t kVectors = 8;
#endif
constexpr std::size_t kChunk = kVectors * kLanes;
constexpr std::size_t kChunkLevels = log2_of(kChunk);
constexpr std::size_t kMostPassLevels = log2_of(kVectors);
static_assert(plain::kGroup % kChunk == 0);
// Number of values that stay in the L1 cache over all levels.
constexpr std::size_t kBlock = 4096;

template <std::size_t kCount>
struct Vectors {
    V v[kCount];
};

// The value 2^kLevel lanes away.
template <std::size_t kLevel>
HWY_INLINE V partner(V v) {
    static_assert(kLevel < kLaneLevels);
    if constexpr (kLevel == 0) return hn::Shuffle2301(v);
    if constexpr (kLevel == 1) return hn::Shuffle1032(v);
#if HWY_MAX_BYTES >= 64
    if constexpr (kLevel == 2) return hn::SwapAdjacentBlocks(v);
#endif
    if constexpr (kLevel + 1 == kLaneLevels && kLevel >= 2) return hn::ConcatLowerUpper(D(), v, v);
}

HWY_ALIGN constexpr float kLaneSigns[4][16] = {{1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1},
                                               {1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1},
                                               {1, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, -1},
                                               {1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1}};

// (a, b) -> (a + b, a - b). A fused multiply-add with factor one gives the exact bits of the difference and
// can run in parallel with the additions.
HWY_INLINE void butterfly(V& a, V& b) {
    const V sum = hn::Add(a, b);
#if HWY_NATIVE_FMA
    b = hn::MulAdd(b, hn::Set(D(), -1.0F), a);
#else
    b = hn::Sub(a, b);
#endif
    a = sum;
}

// Butterflies between lanes: partner + v in the low lane of a pair, partner - v in the high one.
template <std::size_t kLevel, std::size_t... I>
HWY_INLINE void lane_level(V* v, std::index_sequence<I...>) {
    const V signs = hn::Load(D(), kLaneSigns[kLevel]);
    ((v[I] = hn::MulAdd(v[I], signs, partner<kLevel>(v[I]))), ...);
}

template <std::size_t kHalf, std::size_t... I>
HWY_INLINE void vector_level(V* v, std::index_sequence<I...>) {
    (butterfly(v[I / kHalf * 2 * kHalf + I % kHalf], v[I / kHalf * 2 * kHalf + I % kHalf + kHalf]), ...);
}

template <std::size_t kLevel, std::size_t kCount>
HWY_INLINE void level(Vectors<kCount>& x) {
    if constexpr (kLevel < kLaneLevels) {
        lane_level<kLevel>(x.v, std::make_index_sequence<kCount>());
    } else {
        vector_level<(std::size_t{1} << (kLevel - kLaneLevels))>(x.v, std::make_index_sequence<kCount / 2>());
    }
}

// Levels kFrom, kFrom + 1, ... (ascend) or in reverse (descend).
template <std::size_t kFrom, std::size_t kCount, std::size_t... I>
HWY_INLINE void ascend(Vectors<kCount>& x, std::index_sequence<I...>) {
    (level<kFrom + I>(x), ...);
}
template <std::size_t kFrom, std::size_t kCount, std::size_t... I>
HWY_INLINE void descend(Vectors<kCount>& x, std::index_sequence<I...>) {
    (level<kFrom + sizeof...(I) - 1 - I>(x), ...);
}

// Aggregate initialisation: a constructor of Vectors would be compiled without the instruction set.
template <std::size_t... I>
HWY_INLINE Vectors<sizeof...(I)> load(const float* from, std::size_t step, std::index_sequence<I...>) {
    return {{hn::LoadU(D(), from + I * step)...}};
}
template <std::size_t kCount>
HWY_INLINE Vectors<kCount> load(const float* from, std::size_t step) {
    return load(from, step, std::make_index_sequence<kCount>());
}

template <std::size_t kCount, std::size_t... I>
HWY_INLINE void store(const Vectors<kCount>& x, float* to, std::size_t step, std::index_sequence<I...>) {
    (hn::StoreU(x.v[I], D(), to + I * step), ...);
}
template <std::size_t kCount>
HWY_INLINE void store(const Vectors<kCount>& x, float* to, std::size_t step) {
    store(x, to, step, std::make_index_sequence<kCount>());
}

template <std::size_t kCount, std::size_t... I>
HWY_INLINE void multiply(Vectors<kCount>& x, const float* by, std::size_t step, std::index_sequence<I...>) {
    ((x.v[I] = hn::Mul(x.v[I], hn::LoadU(D(), by + I * step))), ...);
}
template <std::size_t kCount>
HWY_INLINE void multiply(Vectors<kCount>& x, const float* by, std::size_t step) {
    multiply(x, by, step, std::make_index_sequence<kCount>());
}

// The first kLevels levels of kCount neighbouring vectors.
template <std::size_t kCount, std::size_t kLevels>
HWY_INLINE void transform_chunk(float* values) {
    auto x = load<kCount>(values, kLanes);
    ascend<0>(x, std::make_index_sequence<kLevels>());
    store(x, values, kLanes);
}

enum class Direction { up, down };

// kLevels levels, the first with partners `half` apart; half is a multiple of the lane count.
template <Direction kDirection, std::size_t kLevels>
void pass(float* values, std::size_t n, std::size_t half) {
    constexpr std::size_t kCount = std::size_t{1} << kLevels;
    constexpr auto kSequence = std::make_index_sequence<kLevels>();
    for (std::size_t start = 0; start < n; start += kCount * half) {
        for (std::size_t j = start; j < start + half; j += kLanes) {
            auto x = load<kCount>(values + j, half);
            if constexpr (kDirection == Direction::up) {
                ascend<kLaneLevels>(x, kSequence);
            } else {
                descend<kLaneLevels>(x, kSequence);
            }
            store(x, values + j, half);
        }
    }
}

template <Direction kDirection>
void pass(float* values, std::size_t n, std::size_t half, std::size_t levels) {
    switch (levels) {
        case 1:
            return pass<kDirection, 1>(values, n, half);
        case 2:
            return pass<kDirection, 2>(values, n, half);
        case 3:
            return pass<kDirection, 3>(values, n, half);
        default:
            assert(levels == kMostPassLevels);
            return pass<kDirection, kMostPassLevels>(values, n, half);
    }
}

// Levels in the last pass of a transform of n > kChunk values. Three beyond the L1 cache: the eight lines in
// use map to the same cache set on most processors.
std::size_t last_pass_levels(std::size_t n) {
    const std::size_t levels = log2_of(n);
    if (n > kBlock) return std::min<std::size_t>(3, levels - log2_of(kBlock));
    const std::size_t rest = (levels - kChunkLevels) % kMostPassLevels;
    return rest == 0 ? kMostPassLevels : rest;
}

// All levels of n >= kChunk values; depth first, so that parts are finished while in cache.
void ascend_all(float* values, std::size_t n) {
    if (n == kChunk) return transform_chunk<kVectors, kChunkLevels>(values);
    const std::size_t levels = last_pass_levels(n);
    const std::size_t part = n >> levels;
    for (std::size_t i = 0; i < n; i += part) ascend_all(values + i, part);
    pass<Direction::up>(values, n, part, levels);
}

void descend_all(float* values, std::size_t n) {
    if (n == kChunk) {
        auto x = load<kVectors>(values, kLanes);
        descend<0>(x, std::make_index_sequence<kChunkLevels>());
        return store(x, values, kLanes);
    }
    const std::size_t levels = last_pass_levels(n);
    const std::size_t part = n >> levels;
    pass<Direction::down>(values, n, part, levels);
    for (std::size_t i = 0; i < n; i += part) descend_all(values + i, part);
}

// n in [kLanes, kChunk).
template <std::size_t kLevels = kChunkLevels - 1>
void transform_small(float* values, std::size_t n) {
    if (n == std::size_t{1} << kLevels) {
        transform_chunk<(std::size_t{1} << (kLevels - kLaneLevels)), kLevels>(values);
    } else if constexpr (kLevels > kLaneLevels) {
        transform_small<kLevels - 1>(values, n);
    }
}

// Eight values in half a vector, if vectors are that wide.
template <std::size_t kWidth = kLanes>
HWY_INLINE void transform_eight(float* values) {
    if constexpr (kWidth > 8) {
        const hn::CappedTag<float, 8> d;
        auto v = hn::LoadU(d, values);
        v = hn::MulAdd(v, hn::Load(d, kLaneSigns[0]), hn::Shuffle2301(v));
        v = hn::MulAdd(v, hn::Load(d, kLaneSigns[1]), hn::Shuffle1032(v));
        v = hn::MulAdd(v, hn::Load(d, kLaneSigns[2]), hn::ConcatLowerUpper(d, v, v));
        hn::StoreU(v, d, values);
    } else {
        plain::ascend(values, 8);
    }
}

void transform(float* values, std::size_t n) {
    if (n < kLanes) return n == 8 ? transform_eight(values) : plain::ascend(values, n);
    if (n < kChunk) return transform_small(values, n);
    ascend_all(values, n);
}

// Contiguous transforms of n = 2^level < kChunk values each: the first levels of whole chunks.
template <std::size_t kLevels = kChunkLevels - 1>
void transform_chunks(float* values, std::size_t n, std::size_t chunks) {
    if (n == std::size_t{1} << kLevels) {
        for (std::size_t c = 0; c < chunks; ++c) transform_chunk<kVectors, kLevels>(values + c * kChunk);
    } else if constexpr (kLevels > 0) {
        transform_chunks<kLevels - 1>(values, n, chunks);
    }
}

void transform_rows(float* values, std::size_t n, std::size_t count) {
    std::size_t done = 0;
    if (n < kChunk) {
        const std::size_t chunks = n * count / kChunk;
        transform_chunks(values, n, chunks);
        done = chunks * kChunk / n;
    }
    for (std::size_t r = done; r < count; ++r) transform(values + r * n, n);
}

// The diagonals for one group of outputs.
struct Group {
    const float* first;
    const float* second;
    const float* third;
    const float* scale;
};

// As many blocks of 2^kLevels <= kChunk rows as fill a chunk, all in registers. x holds the input, repeated.
template <std::size_t kLevels>
HWY_INLINE void project_chunk(const Group& g, const float* x, float* out) {
    constexpr auto kSequence = std::make_index_sequence<kLevels>();
    auto v = load<kVectors>(x, kLanes);
    multiply(v, g.first, kLanes);
    ascend<0>(v, kSequence);
    multiply(v, g.second, kLanes);
    descend<0>(v, kSequence);
    multiply(v, g.third, kLanes);
    ascend<0>(v, kSequence);
    multiply(v, g.scale, kLanes);
    store(v, out, kLanes);
}

// A block of n = kChunk 2^kLevels rows in four passes: the low levels of the first transform, the high ones
// of the first and the second, the low ones of the second and the third, the high ones of the third.
template <std::size_t kLevels>
void project_block(const Group& g, const float* x, float* buffer, float* out) {
    constexpr std::size_t kCount = std::size_t{1} << kLevels;
    constexpr std::size_t n = kChunk << kLevels;
    constexpr auto kLow = std::make_index_sequence<kChunkLevels>();
    constexpr auto kHigh = std::make_index_sequence<kLevels>();
    for (std::size_t i = 0; i < n; i += kChunk) {
        auto v = load<kVectors>(x + i, kLanes);
        multiply(v, g.first + i, kLanes);
        ascend<0>(v, kLow);
        store(v, buffer + i, kLanes);
    }
    for (std::size_t j = 0; j < kChunk; j += kLanes) {
        auto v = load<kCount>(buffer + j, kChunk);
        ascend<kLaneLevels>(v, kHigh);
        multiply(v, g.second + j, kChunk);
        descend<kLaneLevels>(v, kHigh);
        store(v, buffer + j, kChunk);
    }
    for (std::size_t i = 0; i < n; i += kChunk) {
        auto v = load<kVectors>(buffer + i, kLanes);
        descend<0>(v, kLow);
        multiply(v, g.third + i, kLanes);
        ascend<0>(v, kLow);
        store(v, buffer + i, kLanes);
    }
    for (std::size_t j = 0; j < kChunk; j += kLanes) {
        auto v = load<kCount>(buffer + j, kChunk);
        ascend<kLaneLevels>(v, kHigh);
        multiply(v, g.scale + j, kChunk);
        store(v, out + j, kChunk);
    }
}

void multiply(const float* in, const float* by, std::size_t n, float* out) {
    for (std::size_t j = 0; j < n; j += kLanes)
        hn::StoreU(hn::Mul(hn::LoadU(D(), in + j), hn::LoadU(D(), by + j)), D(), out + j);
}

// A block too large for four passes.
void project_large(const Group& g, std::size_t n, const float* x, float* buffer, float* out) {
    multiply(x, g.first, n, buffer);
    ascend_all(buffer, n);
    multiply(buffer, g.second, n, buffer);
    descend_all(buffer, n);
    multiply(buffer, g.third, n, buffer);
    ascend_all(buffer, n);
    multiply(buffer, g.scale, n, out);
}

template <std::size_t kLevels = kMostPassLevels>
void project_blocks(const Group& g, std::size_t n, const float* x, float* buffer, float* out) {
    if (n == kChunk << kLevels) {
        project_block<kLevels>(g, x, buffer, out);
    } else if constexpr (kLevels > 1) {
        project_blocks<kLevels - 1>(g, n, x, buffer, out);
    } else {
        project_large(g, n, x, buffer, out);
    }
}

template <std::size_t kLevels = kChunkLevels>
void project_chunks(const Group& g, std::size_t n, const float* x, float* out) {
    if (n == std::size_t{1} << kLevels) {
        project_chunk<kLevels>(g, x, out);
    } else if constexpr (kLevels > 0) {
        project_chunks<kLevels - 1>(g, n, x, out);
    }
}

using Buffer = std::vector<float, AlignedAllocator<float>>;

// The rows of x padded with zeros to n and, for small n, repeated to the width of a chunk.
void widen(MatrixView<const float> x, std::size_t n, std::size_t width, float* out) {
    for (std::size_t r = 0; r < x.rows(); ++r, out += width) {
        const auto row = x.row(r);
        std::copy(row.begin(), row.end(), out);
        std::fill(out + row.size(), out + n, 0.0F);
        for (std::size_t done = n; done < width; done *= 2) std::copy_n(out, done, out + done);
    }
}

// A few rows through all blocks: the diagonals of a block stay in the L1 cache for all rows.
void project_group(const SignHadamard& matrix, const float* x, MatrixView<float> u, float* buffer) {
    const std::size_t width = std::max(matrix.n, kChunk);
    float* rest = buffer + width;
    for (std::size_t first = 0; first < matrix.m; first += width) {
        const Group g{&matrix.first[first], &matrix.second[first], &matrix.third[first],
                      &matrix.scale[first]};
        const std::size_t count = std::min(width, matrix.m - first);
        for (std::size_t r = 0; r < u.rows(); ++r) {
            float* place = u.row(r).data() + first;
            float* out = count == width ? place : rest;
            if (matrix.n <= kChunk) {
                project_chunks(g, matrix.n, x + r * width, out);
            } else {
                project_blocks(g, matrix.n, x + r * width, buffer, out);
            }
            if (count < width) std::copy_n(rest, count, place);
        }
    }
}

void project_rows(const SignHadamard& matrix, MatrixView<const float> x, MatrixView<float> u) {
    const std::size_t width = std::max(matrix.n, kChunk);
    // Enough rows to reuse the diagonals, few enough to fit in the caches with them.
    constexpr std::size_t kMostValues = 1U << 14U;
    const std::size_t rows =
        std::clamp<std::size_t>(kMostValues / width, 1, std::max<std::size_t>(1, x.rows()));
    Buffer inputs(rows * width);
    Buffer buffer(2 * width);
    for (std::size_t r = 0; r < x.rows(); r += rows) {
        const std::size_t count = std::min(rows, x.rows() - r);
        widen(x.slice_rows(r, count), matrix.n, width, inputs.data());
        project_group(matrix, inputs.data(), u.slice_rows(r, count), buffer.data());
    }
}
#endif

}  // namespace imka::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace imka {
namespace {

void check_size(std::size_t n) {
    if (std::has_single_bit(n)) return;
    fail(ErrorCode::bad_usage, fmt::format("fwht: the size must be a power of two, got {}", n));
}

}  // namespace

HWY_EXPORT(transform);
HWY_EXPORT(transform_rows);
HWY_EXPORT(project_rows);

void fwht(std::span<float> values) {
    check_size(values.size());
    // Selecting the instruction set takes longer than such small transforms.
    if (values.size() <= 4) return plain::ascend(values.data(), values.size());
    HWY_DYNAMIC_DISPATCH(transform)(values.data(), values.size());
}

void fwht(std::span<double> values) {
    check_size(values.size());
    plain::ascend(values.data(), values.size());
}

void fwht_rows(MatrixView<float> rows) {
    check_size(rows.cols());
    if (rows.stride() == rows.cols()) {
        HWY_DYNAMIC_DISPATCH(transform_rows)(rows.data(), rows.cols(), rows.rows());
        return;
    }
    for (std::size_t r = 0; r < rows.rows(); ++r)
        HWY_DYNAMIC_DISPATCH(transform)(rows.row(r).data(), rows.cols());
}

std::size_t padded_outputs(std::size_t n, std::size_t m) {
    const std::size_t width = std::max(n, plain::kGroup);
    return (m + width - 1) / width * width;
}

void project(const SignHadamard& matrix, MatrixView<const float> x, MatrixView<float> u) {
    assert(std::has_single_bit(matrix.n) && matrix.d >= 1 && matrix.d <= matrix.n);
    assert(x.cols() == matrix.d && u.cols() == matrix.m && x.rows() == u.rows());
    assert(matrix.first.size() == padded_outputs(matrix.n, matrix.m) &&
           matrix.second.size() == matrix.first.size());
    assert(matrix.third.size() == matrix.first.size() && matrix.scale.size() == matrix.first.size());
    HWY_DYNAMIC_DISPATCH(project_rows)(matrix, x, u);
}

}  // namespace imka
#endif
