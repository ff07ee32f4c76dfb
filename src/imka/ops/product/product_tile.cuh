// 128 x 64 results of a matrix product in float per block of 256 threads, 8 x 4 per thread: thread t has rows
// t / 16 * 8 and columns t % 16 * 4 onwards. Factors are in shared memory, 16 of the inner index at a time.
#pragma once

#include <cstdint>

namespace imka::ops::tile {

constexpr int kThreads = 256;
constexpr int kRows = 128;
constexpr int kCols = 64;
constexpr int kInner = 16;  // per step
constexpr int kPad = 4;     // keeps rows aligned to 16 bytes

using Left = float[kInner][kRows + kPad];
using Right = float[kInner][kCols + kPad];
using Sums = float[8][4];

// The first row and column of the calling thread.
__device__ inline int own_row() {
    return static_cast<int>(threadIdx.x) / 16 * 8;
}
__device__ inline int own_col() {
    return static_cast<int>(threadIdx.x) % 16 * 4;
}

// N neighbours of a row of `size` elements from `first` on; 0 outside and without a row.
template <int N>
__device__ inline void load_run(const float* row, std::int64_t first, std::int64_t size, bool vectors,
                                float (&out)[N]) {
    if (vectors && row != nullptr && first + N <= size) {
#pragma unroll
        for (int i = 0; i < N; i += 4) {
            const float4 v = *reinterpret_cast<const float4*>(row + first + i);
            out[i] = v.x;
            out[i + 1] = v.y;
            out[i + 2] = v.z;
            out[i + 3] = v.w;
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < N; ++i) out[i] = row != nullptr && first + i < size ? row[first + i] : 0.0F;
}

// A step of the left factor: the calling thread has 8 values of row left_row() from left_first() on.
__device__ inline int left_row() {
    return static_cast<int>(threadIdx.x) / 2;
}
__device__ inline int left_first() {
    return static_cast<int>(threadIdx.x) % 2 * 8;
}
__device__ inline void store_left(const float (&v)[8], Left& a) {
#pragma unroll
    for (int i = 0; i < 8; ++i) a[left_first() + i][left_row()] = v[i];
}

// A step of the right factor, given by columns: 4 values of column right_col() from right_first() on.
__device__ inline int right_col() {
    return static_cast<int>(threadIdx.x) / 4;
}
__device__ inline int right_first() {
    return static_cast<int>(threadIdx.x) % 4 * 4;
}
__device__ inline void store_columns(const float (&v)[4], Right& b) {
#pragma unroll
    for (int i = 0; i < 4; ++i) b[right_first() + i][right_col()] = v[i];
}

// The same given by rows: 4 values of row inner_row() from own_col() on.
__device__ inline int inner_row() {
    return static_cast<int>(threadIdx.x) / 16;
}
__device__ inline void store_rows(const float (&v)[4], Right& b) {
    *reinterpret_cast<float4*>(&b[inner_row()][own_col()]) = make_float4(v[0], v[1], v[2], v[3]);
}

__device__ inline void multiply_step(const Left& a, const Right& b, Sums& sums) {
#pragma unroll
    for (int k = 0; k < kInner; ++k) {
        const float4 low = *reinterpret_cast<const float4*>(&a[k][own_row()]);
        const float4 high = *reinterpret_cast<const float4*>(&a[k][own_row() + 4]);
        const float4 right = *reinterpret_cast<const float4*>(&b[k][own_col()]);
        const float left[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            sums[i][0] = __fmaf_rn(left[i], right.x, sums[i][0]);
            sums[i][1] = __fmaf_rn(left[i], right.y, sums[i][1]);
            sums[i][2] = __fmaf_rn(left[i], right.z, sums[i][2]);
            sums[i][3] = __fmaf_rn(left[i], right.w, sums[i][3]);
        }
    }
}

// Four neighbours of a row that has `size` elements.
__device__ inline void store_run(const float (&v)[4], int first, int size, bool vectors, float* row) {
    if (vectors && first + 4 <= size) {
        *reinterpret_cast<float4*>(row + first) = make_float4(v[0], v[1], v[2], v[3]);
        return;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        if (first + j < size) row[first + j] = v[j];
    }
}

inline bool is_aligned(const void* p) {
    return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
}

}  // namespace imka::ops::tile
