// Parts of the kernels of fused attention: rows of q, k and v, factors of the matrix units, features.
//
// A factor is one bfloat16 per value, or two (value and rest) if elements are floats. Matrices in shared
// memory have rows of d + 8 values: rows start in different banks, and the last 8 columns hold the
// normaliser.
#pragma once

#include <cstdint>

#include "imka/cuda/matrix_unit.cuh"
#include "imka/ops/attention/form.hpp"
#include "imka/ops/elements.cuh"

namespace imka::ops::fused {

template <class T>
inline constexpr int kParts = sizeof(T) == 2 ? 1 : 2;
template <AttentionForm F>
inline constexpr int kSigns = F == AttentionForm::positive ? 2 : 1;

// Thread q of the four that share a row has columns q d/4 to (q + 1) d/4 - 1, so that it reads and writes
// whole words. In products, column c has this position.
template <int D>
__host__ __device__ constexpr int column_of(int c) {
    const int e = c % (D / 4);
    return 8 * (e / 2) + 2 * (c / (D / 4)) + e % 2;
}

// Two values as factors, one word per part.
template <int P>
__device__ inline void to_factors(float a, float b, std::uint32_t (&words)[P]) {
    words[0] = pair_of(a, b);
    if constexpr (P == 2) words[1] = pair_of(a - low(words[0]), b - high(words[0]));
}

// The left factor, 16 x 16. The pair of row g + 8 i and columns 2 q + 8 j is v[part][i + 2 j].
template <int P>
struct Left {
    std::uint32_t v[P][4];
};
template <int P>
__device__ inline void set(Left<P>& a, int i, float x, float y) {
    std::uint32_t words[P];
    to_factors(x, y, words);
#pragma unroll
    for (int p = 0; p < P; ++p) a.v[p][i] = words[p];
}
// Turns results of products into the left factor of another product: columns 0 to 7 and 8 to 15.
template <int P>
__device__ inline Left<P> left_of(const float (&c)[2][4]) {
    Left<P> a;
#pragma unroll
    for (int i = 0; i < 4; ++i) set(a, i, c[i / 2][2 * (i % 2)], c[i / 2][2 * (i % 2) + 1]);
    return a;
}
// Two rows of thread q: x of row g, y of row g + 8. Step s of the columns.
template <int P, int E>
__device__ inline Left<P> left_of(const float (&x)[E], const float (&y)[E], int s) {
    Left<P> a;
    set(a, 0, x[4 * s], x[4 * s + 1]);
    set(a, 1, y[4 * s], y[4 * s + 1]);
    set(a, 2, x[4 * s + 2], x[4 * s + 3]);
    set(a, 3, y[4 * s + 2], y[4 * s + 3]);
    return a;
}

// Right factors of two products of 8 columns each: v[product][part][half].
template <int P>
struct Right {
    std::uint32_t v[2][P][2];
};
// Right factors with one half, or of one product: v[product or half][part].
template <int P>
struct RightHalf {
    std::uint32_t v[2][P];
};

// A matrix of rows of factors: parts of `rows` x (d + 8).
template <int P, int D>
struct Tile {
    static constexpr int kRow = D + 8;
    Bfloat* data;
    int rows;
    __device__ Bfloat* at(int part, int row, int col) const {
        return data + (part * rows + row) * kRow + col;
    }
};

// A complete tile in shared memory: created after the barrier, and not used after the next one. Loads from it
// are pure functions of its addresses, so that the compiler can move them before earlier products.
template <int P, int D>
struct SharedTile {
    std::uint32_t by_rows;     // where this thread reads for right_by_rows
    std::uint32_t by_columns;  // and for the other functions
    std::uint32_t part;        // bytes
};
template <int P, int D>
__device__ inline SharedTile<P, D> shared_tile(const Tile<P, D>& t) {
    const int lane = static_cast<int>(threadIdx.x & 31U);
    const auto address = [](const Bfloat* at) {
        return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
    };
    SharedTile<P, D> out{address(t.at(0, lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8)),
                         address(t.at(0, lane % 16, lane / 16 * 8)),
                         2U * static_cast<std::uint32_t>(t.rows * Tile<P, D>::kRow)};
    asm volatile("" : "+r"(out.by_rows), "+r"(out.by_columns)::"memory");
    return out;
}
template <int D>
__device__ inline std::uint32_t offset_of(int row, int col) {
    return 2U * static_cast<std::uint32_t>(row * (D + 8) + col);
}

// The columns of the two products are 16 rows of t; the sum is over 16 columns of t.
template <int P, int D>
__device__ inline Right<P> right_by_rows(const SharedTile<P, D>& t, int row, int col) {
    Right<P> b;
#pragma unroll
    for (unsigned p = 0; p < P; ++p)
        asm("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
            : "=r"(b.v[0][p][0]), "=r"(b.v[0][p][1]), "=r"(b.v[1][p][0]), "=r"(b.v[1][p][1])
            : "r"(t.by_rows + p * t.part + offset_of<D>(row, col)));
    return b;
}
// The same with a sum over 8 columns.
template <int P, int D>
__device__ inline RightHalf<P> half_by_rows(const SharedTile<P, D>& t, int row, int col) {
    RightHalf<P> b;
#pragma unroll
    for (unsigned p = 0; p < P; ++p)
        asm("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
            : "=r"(b.v[0][p]), "=r"(b.v[1][p])
            : "r"(t.by_columns + p * t.part + offset_of<D>(row, col)));
    return b;
}
// The sum is over 16 rows of t; the columns of the two products are 16 columns of t.
template <int P, int D>
__device__ inline Right<P> right_by_columns(const SharedTile<P, D>& t, int row, int col) {
    Right<P> b;
#pragma unroll
    for (unsigned p = 0; p < P; ++p)
        asm("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
            : "=r"(b.v[0][p][0]), "=r"(b.v[0][p][1]), "=r"(b.v[1][p][0]), "=r"(b.v[1][p][1])
            : "r"(t.by_columns + p * t.part + offset_of<D>(row, col)));
    return b;
}
// The same for 8 columns: one product.
template <int P, int D>
__device__ inline RightHalf<P> half_by_columns(const SharedTile<P, D>& t, int row, int col) {
    RightHalf<P> b;
#pragma unroll
    for (unsigned p = 0; p < P; ++p)
        asm("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
            : "=r"(b.v[0][p]), "=r"(b.v[1][p])
            : "r"(t.by_columns + p * t.part + offset_of<D>(row, col)));
    return b;
}

// c += a b. With two parts, the product of the second parts is left out.
template <int P>
__device__ inline void multiply(const Left<P>& a, const std::uint32_t (&b)[P][2], float (&c)[4]) {
    cuda::multiply_bfloats(a.v[0], b[0][0], b[0][1], c);
    if constexpr (P == 2) {
        cuda::multiply_bfloats(a.v[0], b[1][0], b[1][1], c);
        cuda::multiply_bfloats(a.v[1], b[0][0], b[0][1], c);
    }
}
template <int P>
__device__ inline void multiply(const Left<P>& a, const RightHalf<P>& b, float (&c)[4]) {
    cuda::multiply_bfloats(a.v[0], b.v[0][0], b.v[1][0], c);
    if constexpr (P == 2) {
        cuda::multiply_bfloats(a.v[0], b.v[0][1], b.v[1][1], c);
        cuda::multiply_bfloats(a.v[1], b.v[0][0], b.v[1][0], c);
    }
}
// The left factor has 8 columns; row g + 8 i is a[part][i].
template <int P>
__device__ inline void multiply(const std::uint32_t (&a)[P][2], const std::uint32_t (&b)[P], float (&c)[4]) {
    cuda::multiply_bfloats(a[0], b[0], c);
    if constexpr (P == 2) {
        cuda::multiply_bfloats(a[0], b[1], c);
        cuda::multiply_bfloats(a[1], b[0], c);
    }
}

// Square roots enter only exponents that cancel: the fast instruction is good enough.
__device__ inline float fast_root(float x) {
    float y;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ inline float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Features of a projection c that includes the shift of its row: one per sign, or only one.
struct Features {
    float plus;
    float minus;
};
template <AttentionForm F>
__device__ inline Features features_of(float c, float twice_shift, float epsilon) {
    if constexpr (F == AttentionForm::positive) return {power_of_two(c), power_of_two(twice_shift - c)};
    return {fmaxf(c, 0.0F) + epsilon, 0.0F};
}

template <int N>
__device__ inline float dot(const float (&a)[N], const float (&b)[N]) {
    float sum = 0.0F;
#pragma unroll
    for (int i = 0; i < N; ++i) sum = __fmaf_rn(a[i], b[i], sum);
    return sum;
}

}  // namespace imka::ops::fused
