// Kernels of fused attention. Two loops do the work:
//
//   accumulate: Σ φ(x) [z, e]ᵀ over the tokens of a sequence. A warp has 16 directions and all tokens; the
//   sums stay in its registers. Keys: z = v, e = 1. Queries (backward): z = dy / n, e = -dyᵀ(y - mean) / n.
//   attend, differentiate: a warp has 16 tokens and all directions; the sums are in shared memory.
//
// With S = Σ φ(k) (v - mean)ᵀ and n the normaliser, y = mean + φ(q)ᵀS / φ(q)ᵀΣφ(k) for any mean: sums
// relative to the mean lose less to rounding, and so do the gradients, which are differences from the mean.
//   dφ(q) = S dy / n - Σφ(k) dyᵀ(y - mean) / n,   dφ(k) = dS (v - mean) + de,   dv = dSᵀφ(k)
// where dS and de are the sums over queries.
#include <cuda_runtime.h>

#include <cmath>
#include <numbers>

#include "imka/cuda/status.hpp"
#include "imka/ops/attention/fused_tiles.cuh"
#include "imka/ops/attention/fused_work.hpp"

namespace imka::ops {
namespace {

using namespace fused;

enum class Side { keys, queries };

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kDirections = 16 * kWarps;  // of a block of accumulate
template <int D>
constexpr int kBlocks = D == 64 ? 1 : 2;  // per multiprocessor: registers for the sums
constexpr int kBlockRows = 1024;          // tokens of a block of attend and differentiate

// A head of a sequence.
struct Head {
    int number;
    int sequence;
    int head;
    int length;
};
__device__ inline Head head_of(const FusedWork& w, unsigned number) {
    const int n = static_cast<int>(number);
    const int b = n / w.heads_per_token;
    const int length = w.in.lengths == nullptr ? w.tokens : min(max(w.in.lengths[b], 0), w.tokens);
    return {n, b, n % w.heads_per_token, length};
}
// Offset of a token's row of a head.
template <int D>
__device__ inline std::int64_t row_at(const FusedWork& w, const Head& h, int token, std::int64_t stride) {
    return (std::int64_t{h.sequence} * w.tokens + token) * stride + h.head * D;
}
template <int D>
__device__ inline std::int64_t deviation_at(const FusedWork& w, const Head& h, int token) {
    return row_at<D>(w, h, token, std::int64_t{w.heads_per_token} * D);
}

template <int D>
constexpr float kNormFactor = static_cast<float>(-0.5 * std::numbers::log2e /
                                                 (D == 64   ? 8.0
                                                  : D == 16 ? 4.0
                                                            : 5.656854249492381));

// Exponent of 2 that all features of a row share, before the exponent of the sums is subtracted.
template <int D, AttentionForm F, Side S>
__device__ inline float shift_of(float bound, float norm) {
    if constexpr (F != AttentionForm::positive) return 0.0F;
    return S == Side::keys ? kNormFactor<D> * norm : -bound * fast_root(norm);
}

// Computes Ω in the layout of the products, scaled so that features are powers of two, and half of the
// largest |ω|.
template <class T, int D, AttentionForm F>
__global__ void __launch_bounds__(1024) prepare(const __grid_constant__ FusedWork w) {
    constexpr int kLanes = D / 2;  // per row
    const float scale =
        (F == AttentionForm::positive ? std::numbers::log2e_v<float> : 1.0F) / sqrtf(sqrtf(D));
    const Tile<kParts<T>, D> out{static_cast<Bfloat*>(w.omega), w.directions};
    float largest = 0.0F;
    const int c = 2 * (static_cast<int>(threadIdx.x) % kLanes);
    for (int row = static_cast<int>(threadIdx.x) / kLanes; row < w.directions; row += 1024 / kLanes) {
        const float2 v = *reinterpret_cast<const float2*>(w.in.omega + row * D + c);
        const float x = scale * v.x;
        const float y = scale * v.y;
        std::uint32_t words[kParts<T>];
        to_factors(x, y, words);
        for (int p = 0; p < kParts<T>; ++p)
            *reinterpret_cast<std::uint32_t*>(out.at(p, row, column_of<D>(c))) = words[p];
        largest = fmaxf(largest, lane_sum<kLanes>(x * x + y * y));
    }
    __shared__ float shared[32];
    for (int i = 1; i < 32; i *= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, i));
    if (threadIdx.x % 32 == 0U) shared[threadIdx.x / 32] = largest;
    __syncthreads();
    if (threadIdx.x != 0U) return;
    for (int i = 1; i < 32; ++i) largest = fmaxf(largest, shared[i]);
    *w.bound = 0.5F * sqrtf(largest);
}

// Eight columns of a token per thread.
template <class T, Side S>
struct Loaded {
    Raw<T, 8> x;
    Raw<T, 8> z;
    Raw<T, 8> deviation;  // of queries
    float inverse = 0.0F;
    bool used = false;
};
template <class T, int D, Side S>
__device__ inline Loaded<T, S> load_token(const FusedWork& w, const Head& h, int token, int end) {
    Loaded<T, S> r;
    r.used = token < end;
    if (!r.used) return r;
    const int c = static_cast<int>(threadIdx.x) % (D / 8) * 8;
    const auto at = row_at<D>(w, h, token, w.stride) + c;
    if constexpr (S == Side::keys) {
        r.x.load_from(static_cast<const T*>(w.in.k) + at);
        r.z.load_from(static_cast<const T*>(w.in.v) + at);
    } else {
        r.x.load_from(static_cast<const T*>(w.in.q) + at);
        r.z.load_from(static_cast<const T*>(w.dy) + row_at<D>(w, h, token, w.out_stride) + c);
        r.deviation.load_from(static_cast<const T*>(w.deviations) + deviation_at<D>(w, h, token) + c);
        r.inverse = w.inverses[std::int64_t{h.number} * w.tokens + token];
    }
    return r;
}

// Shared memory of accumulate, one of two buffers.
template <class T, int D>
struct TokenTile {
    static constexpr int kTokens = kThreads * 8 / D;
    Bfloat x[kParts<T> * kTokens * (D + 8)];
    Bfloat z[kParts<T> * kTokens * (D + 8)];
    float shifts[kTokens];
    float levels[kWarps];  // largest exponent of each warp's tokens, for the exponent of the sums
    __device__ Tile<kParts<T>, D> tile_x() { return {x, kTokens}; }
    __device__ Tile<kParts<T>, D> tile_z() { return {z, kTokens}; }
};

template <int P, int D>
__device__ inline void put(const float (&v)[8], int row, int col, const Tile<P, D>& out) {
    std::uint32_t words[4][P];
#pragma unroll
    for (int i = 0; i < 4; ++i) to_factors(v[2 * i], v[2 * i + 1], words[i]);
#pragma unroll
    for (int p = 0; p < P; ++p)
        *reinterpret_cast<uint4*>(out.at(p, row, col)) =
            make_uint4(words[0][p], words[1][p], words[2][p], words[3][p]);
}

template <class T, int D, AttentionForm F, Side S>
__device__ inline void put_token(const Loaded<T, S>& r, float bound, TokenTile<T, D>& tile) {
    constexpr int kLanes = D / 8;
    const int row = static_cast<int>(threadIdx.x) / kLanes;
    const int part = static_cast<int>(threadIdx.x) % kLanes;
    float x[8];
    float z[8];
    r.x.read(x);
    r.z.read(z);
    float extra[8] = {r.used ? 1.0F : 0.0F};
    if constexpr (S == Side::queries) {
        float deviation[8];
        r.deviation.read(deviation);
        extra[0] = -r.inverse * lane_sum<kLanes>(dot(z, deviation));
#pragma unroll
        for (float& v : z) v *= r.inverse;
    }
    put(x, row, 8 * part, tile.tile_x());
    put(z, row, 8 * part, tile.tile_z());
    if (part == 0) put(extra, row, D, tile.tile_z());
    if constexpr (F == AttentionForm::positive) {
        const float norm = lane_sum<kLanes>(dot(x, x));
        const float shift = shift_of<D, F, S>(bound, norm);
        if (part == 0) tile.shifts[row] = shift;
        if constexpr (S == Side::keys) {
            float level = r.used ? shift + bound * fast_root(norm) : -INFINITY;
#pragma unroll
            for (int i = kLanes; i < 32; i *= 2) level = fmaxf(level, __shfl_xor_sync(0xffffffffU, level, i));
            if (threadIdx.x % 32 == 0U) tile.levels[threadIdx.x / 32] = level;
        }
    }
}

// Sums of 16 directions: [sign][8 columns of z, then e].
template <int D, AttentionForm F>
struct Sums {
    float v[kSigns<F>][D / 8 + 1][4] = {};
};

template <int P, int D, int Signs>
__device__ inline void add_outer(const Left<P> (&features)[Signs], const SharedTile<P, D>& z, int row,
                                 float (&sums)[Signs][D / 8 + 1][4]) {
#pragma unroll
    for (int j = 0; j < D / 8; j += 2) {
        const auto b = right_by_columns(z, row, 8 * j);
#pragma unroll
        for (int s = 0; s < Signs; ++s) {
            multiply(features[s], b.v[0], sums[s][j]);
            multiply(features[s], b.v[1], sums[s][j + 1]);
        }
    }
    const auto b = half_by_columns(z, row, D);
#pragma unroll
    for (int s = 0; s < Signs; ++s) multiply(features[s], b, sums[s][D / 8]);
}

// A complete tile of tokens.
template <int P, int D>
struct Tokens {
    SharedTile<P, D> x;
    SharedTile<P, D> z;
    const float* shifts;
};

// Adds tokens `row` to `row` + 15.
template <AttentionForm F, int P, int D>
__device__ inline void add_tokens(const Left<P> (&omega)[D / 16], const Tokens<P, D>& tokens, int row,
                                  float exponent, float epsilon, Sums<D, F>& sums) {
    float shift[2][2] = {};
    if constexpr (F == AttentionForm::positive) {
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            const auto* at = tokens.shifts + row + 8 * n + 2 * static_cast<int>(threadIdx.x & 3U);
            const float2 v = *reinterpret_cast<const float2*>(at);
            shift[n][0] = v.x - exponent;
            shift[n][1] = v.y - exponent;
        }
    }
    float c[2][4];
#pragma unroll
    for (int i = 0; i < 8; ++i) c[i / 4][i % 4] = shift[i / 4][i % 2];
#pragma unroll
    for (int s = 0; s < D / 16; ++s) {
        const auto b = right_by_rows(tokens.x, row, 16 * s);
        multiply(omega[s], b.v[0], c[0]);
        multiply(omega[s], b.v[1], c[1]);
    }
    float minus[2][4];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const auto f = features_of<F>(c[i / 4][i % 4], 2.0F * shift[i / 4][i % 2], epsilon);
        c[i / 4][i % 4] = f.plus;
        minus[i / 4][i % 4] = f.minus;
    }
    Left<P> features[kSigns<F>];
    features[0] = left_of<P>(c);
    if constexpr (kSigns<F> == 2) features[1] = left_of<P>(minus);
    add_outer(features, tokens.z, row, sums.v);
}

template <int D>
__host__ __device__ constexpr std::int64_t partial_size(int features) {
    return std::int64_t{features} * (D + 1) + 4;
}

// The exponent of the sums grows with the largest exponent of the keys so far.
template <class T, int D, AttentionForm F>
__device__ inline void raise_exponent(const TokenTile<T, D>& tile, float& exponent, Sums<D, F>& sums) {
    float level = exponent;
#pragma unroll
    for (const float v : tile.levels) level = fmaxf(level, v);
    if (level == exponent) return;
    const float factor = power_of_two(exponent - level);
    exponent = level;
#pragma unroll
    for (auto& sign : sums.v)
        for (auto& columns : sign)
            for (float& v : columns) v *= factor;
}

template <int P, int D>
__device__ inline void load_directions(const FusedWork& w, int first, Left<P> (&omega)[D / 16]) {
    const Tile<P, D> t{static_cast<Bfloat*>(w.omega), w.directions};
    const int g = static_cast<int>(threadIdx.x & 31U) / 4;
    const int q = static_cast<int>(threadIdx.x & 3U);
#pragma unroll
    for (int s = 0; s < D / 16; ++s)
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int p = 0; p < P; ++p)
                omega[s].v[p][i] = *reinterpret_cast<const std::uint32_t*>(
                    t.at(p, first + g + 8 * (i % 2), column_of<D>(16 * s + 8 * (i / 2) + 2 * q)));
}

template <int D, AttentionForm F>
__device__ inline void write_sums(const Sums<D, F>& sums, int directions, int first, float* out) {
    const int g = static_cast<int>(threadIdx.x & 31U) / 4;
    const int q = static_cast<int>(threadIdx.x & 3U);
    float* normalisers = out + std::int64_t{kSigns<F>} * directions * D;
#pragma unroll
    for (int s = 0; s < kSigns<F>; ++s)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int feature = s * directions + first + g + 8 * half;
#pragma unroll
            for (int j = 0; j < D / 8; ++j)
                *reinterpret_cast<float2*>(out + feature * D + 8 * j + 2 * q) =
                    make_float2(sums.v[s][j][2 * half], sums.v[s][j][2 * half + 1]);
            if (q == 0) normalisers[feature] = sums.v[s][D / 8][2 * half];
        }
}

// Blocks: heads of sequences x splits of the tokens x 128 directions.
template <class T, int D, AttentionForm F, Side S>
__global__ void __launch_bounds__(kThreads, kBlocks<D>) accumulate(const __grid_constant__ FusedWork w) {
    extern __shared__ uint4 memory[];
    auto* tiles = reinterpret_cast<TokenTile<T, D>*>(memory);
    constexpr int kTokens = TokenTile<T, D>::kTokens;
    const Head h = head_of(w, blockIdx.x);
    const int share = (w.tokens + w.splits * kTokens - 1) / (w.splits * kTokens) * kTokens;
    const int begin = static_cast<int>(blockIdx.y) * share;
    const int end = min(begin + share, h.length);
    const int direction =
        static_cast<int>(blockIdx.z) * kDirections + static_cast<int>(threadIdx.x) / 32 * 16;
    const bool active = direction < w.directions;
    const int row = static_cast<int>(threadIdx.x) / (D / 8);
    const float bound = *w.bound;
    Left<kParts<T>> omega[D / 16] = {};
    if (active) load_directions<kParts<T>, D>(w, direction, omega);
    Sums<D, F> sums;
    float exponent = F == AttentionForm::positive && S == Side::keys ? -INFINITY : 0.0F;
    auto next = load_token<T, D, S>(w, h, begin + row, end);
    int buffer = 0;
    for (int first = begin; first < end; first += kTokens, buffer ^= 1) {
        auto& tile = tiles[buffer];
        put_token<T, D, F, S>(next, bound, tile);
        next = load_token<T, D, S>(w, h, first + kTokens + row, end);
        __syncthreads();
        if (!active) continue;
        if constexpr (F == AttentionForm::positive && S == Side::keys) raise_exponent(tile, exponent, sums);
        const Tokens<kParts<T>, D> tokens{shared_tile(tile.tile_x()), shared_tile(tile.tile_z()),
                                          tile.shifts};
#pragma unroll 4
        for (int r = 0; r < kTokens; r += 16)
            add_tokens<F, kParts<T>, D>(omega, tokens, r, exponent, w.epsilon, sums);
    }
    float* out =
        w.partials + (std::int64_t{blockIdx.x} * w.splits + blockIdx.y) * partial_size<D>(w.features);
    if (active) write_sums(sums, w.directions, direction, out);
    if (threadIdx.x == 0U && blockIdx.z == 0U) out[std::int64_t{w.features} * (D + 1)] = exponent;
}

// Adds up the partial sums of a head, relative to their largest exponent, and returns this exponent.
template <int D>
__device__ inline float add_partials(const FusedWork& w, float* sums) {
    const auto size = partial_size<D>(w.features);
    const float* partials = w.partials + std::int64_t{blockIdx.x} * w.splits * size;
    float exponent = -INFINITY;
    for (int i = 0; i < w.splits; ++i) exponent = fmaxf(exponent, partials[(i + 1) * size - 4]);
#pragma unroll 4
    for (int at = 4 * static_cast<int>(threadIdx.x); at < size - 4; at += 4 * kThreads) {
        float total[4] = {};
        for (int i = 0; i < w.splits; ++i) {
            const float own = partials[(i + 1) * size - 4];
            if (own == -INFINITY) continue;
            const float factor = power_of_two(own - exponent);
            float v[4];
            load(partials + i * size + at, v);
#pragma unroll
            for (int k = 0; k < 4; ++k) total[k] += factor * v[k];
        }
        store(total, sums + at);
    }
    __syncthreads();
    return exponent;
}

// mean = Σ_f S_f / Σ_f n_f, 0 without keys. Needs 2 kThreads floats of scratch memory.
template <int D>
__device__ inline void mean_of(const float* sums, int features, float* scratch, float (&mean)[D]) {
    const int c = static_cast<int>(threadIdx.x) % D;
    float column = 0.0F;
    float normaliser = 0.0F;
    for (int f = static_cast<int>(threadIdx.x) / D; f < features; f += kThreads / D) {
        column += sums[f * D + c];
        normaliser += sums[features * D + f];
    }
    scratch[threadIdx.x] = column;
    scratch[kThreads + threadIdx.x] = normaliser;
    __syncthreads();
    if (threadIdx.x < D) {
        for (int i = c + D; i < kThreads; i += D) {
            column += scratch[i];
            normaliser += scratch[kThreads + i];
        }
        mean[c] = normaliser > 0.0F ? column / normaliser : 0.0F;
    }
    __syncthreads();
}

// Converts partial sums to the layout of the products. Keys: relative to the mean, which is computed here.
template <class T, int D, Side S>
__global__ void __launch_bounds__(kThreads) combine(const __grid_constant__ FusedWork w) {
    constexpr int P = kParts<T>;
    constexpr int kWords = D / 8 + 1;  // of a row, 8 values each
    extern __shared__ uint4 memory[];
    auto* sums = reinterpret_cast<float*>(memory);
    __shared__ float scratch[2 * kThreads];
    __shared__ float mean[D];
    const float exponent = add_partials<D>(w, sums);
    if constexpr (S == Side::keys) {
        mean_of(sums, w.features, scratch, mean);
        float* head = w.heads + std::int64_t{blockIdx.x} * (D + 4);
        if (threadIdx.x < D) head[threadIdx.x] = mean[threadIdx.x];
        if (threadIdx.x == D) head[D] = exponent;
    }
    auto* all = static_cast<Bfloat*>(S == Side::keys ? w.sums : w.gradient_sums);
    const Tile<P, D> out{all + std::int64_t{blockIdx.x} * P * w.features * (D + 8), w.features};
    for (int i = static_cast<int>(threadIdx.x); i < w.features * kWords; i += kThreads) {
        const int f = i / kWords;
        const int j = i % kWords;
        const float n = sums[w.features * D + f];
        float v[8] = {j == kWords - 1 ? n : 0.0F};
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            const int c = k / 2 * (D / 4) + 2 * j + k % 2;  // column_of(c) = 8 j + k
            if (j < kWords - 1) v[k] = sums[f * D + c] - (S == Side::keys ? n * mean[c] : 0.0F);
        }
        put(v, f, 8 * j, out);
    }
}

// Ω and the sums of a head in shared memory.
template <int P, int D>
struct HeadTiles {
    SharedTile<P, D> omega;
    SharedTile<P, D> sums;
};
template <int P, int D>
__device__ inline HeadTiles<P, D> load_head(const FusedWork& w, const void* sums, void* memory) {
    const int omega_words = P * w.directions * (D + 8) / 8;
    const int words = omega_words + P * w.features * (D + 8) / 8;
    auto* to = static_cast<uint4*>(memory);
    const auto* omega = static_cast<const uint4*>(w.omega);
    const auto* from = static_cast<const uint4*>(sums) + std::int64_t{blockIdx.x} * (words - omega_words);
    for (int i = static_cast<int>(threadIdx.x); i < words; i += kThreads)
        to[i] = i < omega_words ? omega[i] : from[i - omega_words];
    __syncthreads();
    auto* data = static_cast<Bfloat*>(memory);
    return {shared_tile(Tile<P, D>{data, w.directions}),
            shared_tile(Tile<P, D>{data + P * w.directions * (D + 8), w.features})};
}

// Rows g and g + 8 of 16 tokens, the columns of this thread.
template <int E>
struct TwoRows {
    float v[2][E] = {};
};
// The same as loaded; 0 beyond `rows`.
template <class T, int E>
struct RawRows {
    Raw<T, E> v[2];
    __device__ TwoRows<E> read() const {
        TwoRows<E> r;
        v[0].read(r.v[0]);
        v[1].read(r.v[1]);
        return r;
    }
};
template <int E, class T>
__device__ inline RawRows<T, E> load_rows(const T* from, std::int64_t stride, int rows) {
    const int g = static_cast<int>(threadIdx.x & 31U) / 4;
    const int q = static_cast<int>(threadIdx.x & 3U);
    RawRows<T, E> to;
#pragma unroll
    for (int i = 0; i < 2; ++i)
        if (g + 8 * i < rows) to.v[i].load_from(from + (g + 8 * i) * stride + q * E);
    return to;
}
template <class T, int E>
__device__ inline void store_rows(const TwoRows<E>& from, std::int64_t stride, int rows, T* to) {
    const int g = static_cast<int>(threadIdx.x & 31U) / 4;
    const int q = static_cast<int>(threadIdx.x & 3U);
#pragma unroll
    for (int i = 0; i < 2; ++i)
        if (g + 8 * i < rows) store(from.v[i], to + (g + 8 * i) * stride + q * E);
}
template <int E>
__device__ inline void clear_padding(int rows, TwoRows<E>& r) {
    const int g = static_cast<int>(threadIdx.x & 31U) / 4;
#pragma unroll
    for (int i = 0; i < 2 * E; ++i)
        if (g + 8 * (i / E) >= rows) r.v[i / E][i % E] = 0.0F;
}
// Results of products as rows.
template <int E>
__device__ inline TwoRows<E> rows_of(const float (&c)[E / 2][4]) {
    TwoRows<E> r;
#pragma unroll
    for (int j = 0; j < E / 2; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) r.v[i / 2][2 * j + i % 2] = c[j][i];
    return r;
}

// Data of 16 tokens in a warp: q or k, and the exponents of rows g and g + 8.
template <int P, int D>
struct Group {
    Left<P> x[D / 16];
    float shift[2];
};
template <int P, int D, AttentionForm F, Side S>
__device__ inline Group<P, D> group_of(const TwoRows<D / 4>& rows, float bound, float exponent) {
    Group<P, D> group;
#pragma unroll
    for (int i = 0; i < 2; ++i)
        group.shift[i] = shift_of<D, F, S>(bound, lane_sum<4>(dot(rows.v[i], rows.v[i]))) - exponent;
#pragma unroll
    for (int s = 0; s < D / 16; ++s) group.x[s] = left_of<P>(rows.v[0], rows.v[1], s);
    return group;
}

// Restores q or k from the factors.
template <int P, int D>
__device__ inline TwoRows<D / 4> rows_of(const Group<P, D>& group) {
    TwoRows<D / 4> r;
#pragma unroll
    for (int i = 0; i < D / 4; ++i) {
        const auto& words = group.x[i / 4].v;
#pragma unroll
        for (int p = 0; p < P; ++p) {
            r.v[i % 2][i / 4 * 4 + i / 2 % 2 * 2] += low(words[p][i % 4]);
            r.v[i % 2][i / 4 * 4 + i / 2 % 2 * 2 + 1] += high(words[p][i % 4]);
        }
    }
    return r;
}

// Projections on directions j to j + 15, plus the exponents.
template <int P, int D>
__device__ inline void project(const Group<P, D>& group, const SharedTile<P, D>& omega, int j,
                               float (&c)[2][4]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) c[i / 4][i % 4] = group.shift[i % 4 / 2];
#pragma unroll
    for (int s = 0; s < D / 16; ++s) {
        const auto b = right_by_rows(omega, j, 16 * s);
        multiply(group.x[s], b.v[0], c[0]);
        multiply(group.x[s], b.v[1], c[1]);
    }
}

// [sign][8 directions]
template <AttentionForm F>
struct FeatureBlock {
    float v[kSigns<F>][2][4];
};
template <AttentionForm F, int P, int D>
__device__ inline FeatureBlock<F> feature_block(const Group<P, D>& group, const float (&c)[2][4],
                                                float epsilon) {
    FeatureBlock<F> out;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const auto f = features_of<F>(c[i / 4][i % 4], 2.0F * group.shift[i % 4 / 2], epsilon);
        out.v[0][i / 4][i % 4] = f.plus;
        if constexpr (kSigns<F> == 2) out.v[1][i / 4][i % 4] = f.minus;
    }
    return out;
}

// sums += c t, rows `row` to `row` + 15 of t. C: number of groups of 8 columns, with or without the
// normaliser.
template <int P, int D, int C>
__device__ inline void add_products(const float (&c)[2][4], const SharedTile<P, D>& t, int row,
                                    float (&sums)[C][4]) {
    const Left<P> a = left_of<P>(c);
#pragma unroll
    for (int k = 0; k + 1 < C; k += 2) {
        const auto b = right_by_columns(t, row, 8 * k);
        multiply(a, b.v[0], sums[k]);
        multiply(a, b.v[1], sums[k + 1]);
    }
    if constexpr (C % 2 == 1) multiply(a, half_by_columns(t, row, 8 * (C - 1)), sums[C - 1]);
}

// Writes the outputs of 16 tokens, and the values that the backward pass needs.
template <class T, int D>
__device__ inline void write_outputs(const FusedWork& w, const Head& h, int token, int end,
                                     const float (&sums)[D / 8 + 1][4]) {
    constexpr int E = D / 4;
    const int q = static_cast<int>(threadIdx.x & 3U);
    const int row = token + static_cast<int>(threadIdx.x & 31U) / 4;
    float mean[E];
    load(w.heads + std::int64_t{h.number} * (D + 4) + q * E, mean);
    TwoRows<E> deviation;
    TwoRows<E> out;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const float normaliser =
            __shfl_sync(0xffffffffU, sums[D / 8][2 * i], static_cast<int>(threadIdx.x & 28U));
        if (row + 8 * i >= h.length) continue;
        const float inverse = __fdividef(1.0F, normaliser);
        if (q == 0) w.inverses[std::int64_t{h.number} * w.tokens + row + 8 * i] = inverse;
#pragma unroll
        for (int e = 0; e < E; ++e) {
            deviation.v[i][e] = sums[e / 2][2 * i + e % 2] * inverse;
            out.v[i][e] = mean[e] + deviation.v[i][e];
        }
    }
    store_rows(deviation, std::int64_t{w.heads_per_token} * D, end - token,
               static_cast<T*>(w.deviations) + deviation_at<D>(w, h, token));
    store_rows(out, w.out_stride, end - token, static_cast<T*>(w.y) + row_at<D>(w, h, token, w.out_stride));
}

// Blocks: heads of sequences x kBlockRows tokens.
template <class T, int D, AttentionForm F>
__global__ void __launch_bounds__(kThreads, kBlocks<D>) attend(const __grid_constant__ FusedWork w) {
    constexpr int P = kParts<T>;
    extern __shared__ uint4 memory[];
    const Head h = head_of(w, blockIdx.x);
    const auto tiles = load_head<P, D>(w, w.sums, memory);
    const float bound = *w.bound;
    const int begin = static_cast<int>(blockIdx.y) * kBlockRows;
    const int end = min(begin + kBlockRows, w.tokens);
    const auto load_queries = [&](int token) {
        return load_rows<D / 4>(static_cast<const T*>(w.in.q) + row_at<D>(w, h, token, w.stride), w.stride,
                                min(end, h.length) - token);
    };
    int token = begin + static_cast<int>(threadIdx.x) / 32 * 16;
    auto next = load_queries(token);
    for (; token < end; token += kWarps * 16) {
        const auto group = group_of<P, D, F, Side::queries>(next.read(), bound, 0.0F);
        next = load_queries(token + kWarps * 16);
        float sums[D / 8 + 1][4] = {};
        const int directions = token < h.length ? w.directions : 0;  // nothing to do for padding
#pragma unroll 1
        for (int j = 0; j < directions; j += 16) {
            float c[2][4];
            project(group, tiles.omega, j, c);
            const auto features = feature_block<F>(group, c, w.epsilon);
#pragma unroll
            for (int s = 0; s < kSigns<F>; ++s)
                add_products(features.v[s], tiles.sums, s * w.directions + j, sums);
        }
        write_outputs<T, D>(w, h, token, end, sums);
    }
}

// The other factor of the gradient of 16 tokens' features: z = dy / n or v - mean, and the factor of the
// normaliser.
template <int P, int D>
struct Factor {
    Left<P> z[D / 16];
    std::uint32_t extra[P][2];
};
template <int P, int D>
__device__ inline Factor<P, D> factor_of(const TwoRows<D / 4>& z, const float (&extra)[2]) {
    Factor<P, D> out;
#pragma unroll
    for (int s = 0; s < D / 16; ++s) out.z[s] = left_of<P>(z.v[0], z.v[1], s);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        std::uint32_t words[P];
        to_factors((threadIdx.x & 3U) == 0U ? extra[i] : 0.0F, 0.0F, words);
#pragma unroll
        for (int p = 0; p < P; ++p) out.extra[p][i] = words[p];
    }
    return out;
}

// Inputs of differentiate for 16 tokens.
template <class T, int D>
struct RowInputs {
    RawRows<T, D / 4> x;
    RawRows<T, D / 4> z;
    RawRows<T, D / 4> deviation;  // of queries
    float inverse[2] = {};
};
template <class T, int D, Side S>
__device__ inline RowInputs<T, D> load_inputs(const FusedWork& w, const Head& h, int token, int end) {
    constexpr int E = D / 4;
    RowInputs<T, D> in;
    const int rows = min(end, h.length) - token;
    const auto at = row_at<D>(w, h, token, w.stride);
    if constexpr (S == Side::keys) {
        in.x = load_rows<E>(static_cast<const T*>(w.in.k) + at, w.stride, rows);
        in.z = load_rows<E>(static_cast<const T*>(w.in.v) + at, w.stride, rows);
    } else {
        in.x = load_rows<E>(static_cast<const T*>(w.in.q) + at, w.stride, rows);
        in.z = load_rows<E>(static_cast<const T*>(w.dy) + row_at<D>(w, h, token, w.out_stride), w.out_stride,
                            rows);
        in.deviation = load_rows<E>(static_cast<const T*>(w.deviations) + deviation_at<D>(w, h, token),
                                    std::int64_t{w.heads_per_token} * D, rows);
        const int g = static_cast<int>(threadIdx.x & 31U) / 4;
#pragma unroll
        for (int i = 0; i < 2; ++i)
            if (g + 8 * i < rows)
                in.inverse[i] = w.inverses[std::int64_t{h.number} * w.tokens + token + g + 8 * i];
    }
    return in;
}

template <class T, int D, Side S>
__device__ inline Factor<kParts<T>, D> factor_of(const FusedWork& w, const Head& h,
                                                 const RowInputs<T, D>& in) {
    constexpr int E = D / 4;
    auto z = in.z.read();
    float extra[2] = {1.0F, 1.0F};
    if constexpr (S == Side::keys) {
        float mean[E];
        load(w.heads + std::int64_t{h.number} * (D + 4) + static_cast<int>(threadIdx.x & 3U) * E, mean);
#pragma unroll
        for (int i = 0; i < 2 * E; ++i) z.v[i / E][i % E] -= mean[i % E];
    } else {
        const auto deviation = in.deviation.read();
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            extra[i] = -in.inverse[i] * lane_sum<4>(dot(z.v[i], deviation.v[i]));
#pragma unroll
            for (float& v : z.v[i]) v *= in.inverse[i];
        }
    }
    return factor_of<kParts<T>, D>(z, extra);
}

// Gradients of the features of 16 directions: d = z tᵀ, rows `row` to `row` + 15 of t.
template <int P, int D>
__device__ inline void feature_gradients(const Factor<P, D>& factor, const SharedTile<P, D>& t, int row,
                                         float (&d)[2][4]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) d[i / 4][i % 4] = 0.0F;
#pragma unroll
    for (int s = 0; s < D / 16; ++s) {
        const auto b = right_by_rows(t, row, 16 * s);
        multiply(factor.z[s], b.v[0], d[0]);
        multiply(factor.z[s], b.v[1], d[1]);
    }
    const auto b = half_by_rows(t, row, D);
    multiply(factor.extra, b.v[0], d[0]);
    multiply(factor.extra, b.v[1], d[1]);
}

// Gradients of projections, in place of c; norms += the gradient of the exponent of each row.
template <AttentionForm F>
__device__ inline void projection_gradients(const FeatureBlock<F>& features,
                                            const float (&d)[kSigns<F>][2][4], float (&c)[2][4],
                                            float (&norms)[2]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int n = i / 4;
        const int k = i % 4;
        if constexpr (F == AttentionForm::positive) {
            const float plus = features.v[0][n][k] * d[0][n][k];
            c[n][k] = __fmaf_rn(-features.v[1][n][k], d[1][n][k], plus);
            norms[k / 2] += __fmaf_rn(features.v[1][n][k], d[1][n][k], plus);
        } else {
            c[n][k] = c[n][k] > 0.0F ? d[0][n][k] : 0.0F;
        }
    }
}

// Writes dq or dk of 16 tokens: through the projections, and for keys through -|x'|²/2.
template <class T, int D, AttentionForm F, Side S>
__device__ inline void write_gradients(const FusedWork& w, const Head& h, int token, int end,
                                       const TwoRows<D / 4>& x, const float (&through)[D / 8][4],
                                       const float (&norms)[2]) {
    constexpr int E = D / 4;
    const auto at = row_at<D>(w, h, token, w.stride);
    auto out = rows_of<E>(through);
#pragma unroll
    for (int i = 0; i < 2 * E; ++i)
        out.v[i / E][i % E] *= F == AttentionForm::positive ? std::numbers::ln2_v<float> : 1.0F;
    if constexpr (F == AttentionForm::positive && S == Side::keys) {
        const float root = rsqrtf(static_cast<float>(D));
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const float factor = -root * lane_sum<4>(norms[i]);
#pragma unroll
            for (int e = 0; e < E; ++e) out.v[i][e] += factor * x.v[i][e];
        }
    }
    clear_padding(h.length - token, out);
    store_rows(out, w.stride, end - token, static_cast<T*>(S == Side::keys ? w.dk : w.dq) + at);
}

// dq, or dk and dv. Blocks as in attend.
template <class T, int D, AttentionForm F, Side S>
__global__ void __launch_bounds__(kThreads, kBlocks<D>) differentiate(const __grid_constant__ FusedWork w) {
    constexpr int P = kParts<T>;
    extern __shared__ uint4 memory[];
    const Head h = head_of(w, blockIdx.x);
    const auto tiles = load_head<P, D>(w, S == Side::keys ? w.gradient_sums : w.sums, memory);
    const float bound = *w.bound;
    const float exponent = S == Side::keys ? w.heads[std::int64_t{h.number} * (D + 4) + D] : 0.0F;
    const int begin = static_cast<int>(blockIdx.y) * kBlockRows;
    const int end = min(begin + kBlockRows, w.tokens);
    int token = begin + static_cast<int>(threadIdx.x) / 32 * 16;
    auto next = load_inputs<T, D, S>(w, h, token, end);
    for (; token < end; token += kWarps * 16) {
        const auto group = group_of<P, D, F, S>(next.x.read(), bound, exponent);
        const auto factor = factor_of<T, D, S>(w, h, next);
        next = load_inputs<T, D, S>(w, h, token + kWarps * 16, end);
        float through[D / 8][4] = {};
        float values[D / 8][4] = {};  // of keys
        float norms[2] = {};
        const int directions = token < h.length ? w.directions : 0;  // nothing to do for padding
#pragma unroll 1
        for (int j = 0; j < directions; j += 16) {
            float c[2][4];
            project(group, tiles.omega, j, c);
            const auto features = feature_block<F>(group, c, w.epsilon);
            float d[kSigns<F>][2][4];
#pragma unroll
            for (int s = 0; s < kSigns<F>; ++s) {
                feature_gradients(factor, tiles.sums, s * w.directions + j, d[s]);
                if constexpr (S == Side::keys)
                    add_products(features.v[s], tiles.sums, s * w.directions + j, values);
            }
            projection_gradients<F>(features, d, c, norms);
            if (!w.cut_gradient) add_products(c, tiles.omega, j, through);
        }
        if constexpr (S == Side::keys) {
            auto dv = rows_of<D / 4>(values);
            clear_padding(h.length - token, dv);
            store_rows(dv, w.stride, end - token, static_cast<T*>(w.dv) + row_at<D>(w, h, token, w.stride));
        }
        write_gradients<T, D, F, S>(w, h, token, end, rows_of(group), through, norms);
    }
}

// Starts kernels with more shared memory than usual.
struct Starter {
    cudaStream_t stream;
    template <class Kernel>
    void operator()(Kernel kernel, dim3 blocks, std::size_t shared, const FusedWork& w) const {
        cuda::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(shared)),
                    "reserving shared memory");
        kernel<<<blocks, kThreads, shared, stream>>>(w);
        cuda::check(cudaGetLastError(), "starting a kernel of attention");
    }
};

template <class T, int D, AttentionForm F>
struct Passes {
    const FusedWork& w;
    Starter start;
    unsigned heads = static_cast<unsigned>(w.batch) * static_cast<unsigned>(w.heads_per_token);

    template <Side S>
    void sum() const {
        const dim3 blocks(heads, static_cast<unsigned>(w.splits),
                          static_cast<unsigned>((w.directions + kDirections - 1) / kDirections));
        start(accumulate<T, D, F, S>, blocks, 2 * sizeof(TokenTile<T, D>), w);
        start(combine<T, D, S>, heads, sizeof(float) * static_cast<std::size_t>(partial_size<D>(w.features)),
              w);
    }
    dim3 row_blocks() const {
        return {heads, static_cast<unsigned>((w.tokens + kBlockRows - 1) / kBlockRows)};
    }
    std::size_t head_bytes() const {
        return sizeof(Bfloat) * kParts<T> * (D + 8) * static_cast<std::size_t>(w.directions + w.features);
    }
    void forward() const {
        prepare<T, D, F><<<1, 1024, 0, start.stream>>>(w);
        sum<Side::keys>();
        start(attend<T, D, F>, row_blocks(), head_bytes(), w);
    }
    void backward() const {
        sum<Side::queries>();
        if (w.cut_gradient) {
            // |q'|² cancels: nothing is left.
            cuda::check(
                cudaMemset2DAsync(w.dq, static_cast<std::size_t>(w.stride) * sizeof(T), 0,
                                  static_cast<std::size_t>(w.heads_per_token) * D * sizeof(T),
                                  static_cast<std::size_t>(w.batch) * static_cast<std::size_t>(w.tokens),
                                  start.stream),
                "clearing a gradient");
        } else {
            start(differentiate<T, D, F, Side::queries>, row_blocks(), head_bytes(), w);
        }
        start(differentiate<T, D, F, Side::keys>, row_blocks(), head_bytes(), w);
    }
};

template <class T, int D, class Run>
void with_form(const FusedAttention& shape, const FusedWork& w, void* stream, const Run& run) {
    const Starter start{static_cast<cudaStream_t>(stream)};
    if (shape.form == AttentionForm::positive) return run(Passes<T, D, AttentionForm::positive>{w, start});
    run(Passes<T, D, AttentionForm::relu>{w, start});
}
template <class T, class Run>
void with_size(const FusedAttention& shape, const FusedWork& w, void* stream, const Run& run) {
    if (shape.head_size == 16) return with_form<T, 16>(shape, w, stream, run);
    if (shape.head_size == 32) return with_form<T, 32>(shape, w, stream, run);
    with_form<T, 64>(shape, w, stream, run);
}
template <class Run>
void with_type(const FusedAttention& shape, const FusedWork& w, void* stream, const Run& run) {
    if (shape.type == FusedType::float32) return with_size<float>(shape, w, stream, run);
    with_size<Bfloat>(shape, w, stream, run);
}

}  // namespace

void start_fused_forward(const FusedAttention& shape, const FusedWork& work, void* stream) {
    with_type(shape, work, stream, [](const auto& passes) { passes.forward(); });
}

void start_fused_backward(const FusedAttention& shape, const FusedWork& work, void* stream) {
    with_type(shape, work, stream, [](const auto& passes) { passes.backward(); });
}

}  // namespace imka::ops
