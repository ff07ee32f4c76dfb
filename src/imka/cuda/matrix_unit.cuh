// Instructions of the matrix units. Thread t = 4 g + q of a warp has rows g and g + 8 of the result, columns
// 2 q and 2 q + 1: c[0], c[1] in row g, c[2], c[3] in row g + 8.
#pragma once

#include <cstdint>

namespace imka::cuda {

// c += a b for 16 x 32 and 32 x 8 signed bytes. a: bytes 4 q to 4 q + 3 of rows g and g + 8, then 16 bytes
// later; b: the same bytes of column g, then 16 bytes later.
__device__ inline void multiply_bytes(const uint4& a, std::uint32_t b0, std::uint32_t b1, int (&c)[4]) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

// c += a b for 16 x 16 and 16 x 8 halves. a: halves 2 q, 2 q + 1 of rows g and g + 8, then 8 halves later; b:
// the same halves of column g, then 8 halves later.
__device__ inline void multiply_halves(const uint4& a, std::uint32_t b0, std::uint32_t b1, float (&c)[4]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

// c += a b for 16 x 8 and 8 x 8 floats, of which 11 bits are used (TF32).
__device__ inline void multiply_tf32(const uint4& a, std::uint32_t b0, std::uint32_t b1, float (&c)[4]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

// The same for bfloat16.
__device__ inline void multiply_bfloats(const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                                        float (&c)[4]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// c += a b for 16 x 8 and 8 x 8 bfloat16: the first half of the operands above.
__device__ inline void multiply_bfloats(const std::uint32_t (&a)[2], std::uint32_t b, float (&c)[4]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(b));
}

// Products of a warpgroup: 128 threads of a block, the first a multiple of 128. Only Hopper has them; code
// for other GPUs uses the instructions above.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define IMKA_WARPGROUP_PRODUCTS 1

// The second factor, in shared memory from byte 16 `chunk` on: pieces of 8 columns x 16 bytes, one column
// after another. Two pieces hold 32 bytes of the same columns; the next columns follow.
__device__ inline std::uint64_t pieces_at(std::uint32_t chunk) {
    constexpr std::uint64_t kNextInner = 128 / 16;
    constexpr std::uint64_t kNextColumns = 256 / 16;
    return chunk | kNextInner << 16U | kNextColumns << 32U;
}

// Makes this thread's copies to shared memory visible to products; called before a barrier.
__device__ inline void show_copies_to_products() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Called before the first product, and after other code has written registers that products read.
__device__ inline void begin_products() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
// Waits for the products since begin_products. Use `keep` on their sums before reading them.
__device__ inline void finish_products() {
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
}
// Keeps the compiler from reading the sums too early.
template <int kTiles>
__device__ inline void keep(int (&c)[kTiles][4]) {
#pragma unroll
    for (int i = 0; i < 4 * kTiles; ++i) asm volatile("" : "+r"(c[i / 4][i % 4])::"memory");
}
template <int kTiles>
__device__ inline void keep(float (&c)[kTiles][4]) {
#pragma unroll
    for (int i = 0; i < 4 * kTiles; ++i) asm volatile("" : "+f"(c[i / 4][i % 4])::"memory");
}

// c = a b, or c += a b, for 64 x 32 and 32 x 96 signed bytes. A warp has 16 rows; a and c[tile of 8 columns]
// as in multiply_bytes.
__device__ inline void start_bytes(const uint4& a, std::uint64_t b, bool add, int (&c)[12][4]) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %53, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n96k32.s32.s8.s8 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, "
        "{%48, %49, %50, %51}, %52, add;\n}"
        : "+r"(c[0][0]), "+r"(c[0][1]), "+r"(c[0][2]), "+r"(c[0][3]), "+r"(c[1][0]), "+r"(c[1][1]),
          "+r"(c[1][2]), "+r"(c[1][3]), "+r"(c[2][0]), "+r"(c[2][1]), "+r"(c[2][2]), "+r"(c[2][3]),
          "+r"(c[3][0]), "+r"(c[3][1]), "+r"(c[3][2]), "+r"(c[3][3]), "+r"(c[4][0]), "+r"(c[4][1]),
          "+r"(c[4][2]), "+r"(c[4][3]), "+r"(c[5][0]), "+r"(c[5][1]), "+r"(c[5][2]), "+r"(c[5][3]),
          "+r"(c[6][0]), "+r"(c[6][1]), "+r"(c[6][2]), "+r"(c[6][3]), "+r"(c[7][0]), "+r"(c[7][1]),
          "+r"(c[7][2]), "+r"(c[7][3]), "+r"(c[8][0]), "+r"(c[8][1]), "+r"(c[8][2]), "+r"(c[8][3]),
          "+r"(c[9][0]), "+r"(c[9][1]), "+r"(c[9][2]), "+r"(c[9][3]), "+r"(c[10][0]), "+r"(c[10][1]),
          "+r"(c[10][2]), "+r"(c[10][3]), "+r"(c[11][0]), "+r"(c[11][1]), "+r"(c[11][2]), "+r"(c[11][3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"(static_cast<int>(add)));
}

// The same for 64 x 16 and 16 x 32 halves.
__device__ inline void start_halves(const uint4& a, std::uint64_t b, bool add, float (&c)[4][4]) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %21, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
        "{%16, %17, %18, %19}, %20, add, 1, 1, 0;\n}"
        : "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]),
          "+f"(c[1][2]), "+f"(c[1][3]), "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]),
          "+f"(c[3][0]), "+f"(c[3][1]), "+f"(c[3][2]), "+f"(c[3][3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"(static_cast<int>(add)));
}
// c = a b, or c += a b, for 64 x 16 and 16 x 128 halves, both factors in shared memory, a by rows.
__device__ inline void start_halves(std::uint64_t a, std::uint64_t b, bool add, float (&c)[16][4]) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
        "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, "
        "%41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, "
        "%61, %62, %63}, "
        "%64, %65, add, 1, 1, 0, 0;\n}"
        : "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]),
          "+f"(c[1][2]), "+f"(c[1][3]), "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]),
          "+f"(c[3][0]), "+f"(c[3][1]), "+f"(c[3][2]), "+f"(c[3][3]), "+f"(c[4][0]), "+f"(c[4][1]),
          "+f"(c[4][2]), "+f"(c[4][3]), "+f"(c[5][0]), "+f"(c[5][1]), "+f"(c[5][2]), "+f"(c[5][3]),
          "+f"(c[6][0]), "+f"(c[6][1]), "+f"(c[6][2]), "+f"(c[6][3]), "+f"(c[7][0]), "+f"(c[7][1]),
          "+f"(c[7][2]), "+f"(c[7][3]), "+f"(c[8][0]), "+f"(c[8][1]), "+f"(c[8][2]), "+f"(c[8][3]),
          "+f"(c[9][0]), "+f"(c[9][1]), "+f"(c[9][2]), "+f"(c[9][3]), "+f"(c[10][0]), "+f"(c[10][1]),
          "+f"(c[10][2]), "+f"(c[10][3]), "+f"(c[11][0]), "+f"(c[11][1]), "+f"(c[11][2]), "+f"(c[11][3]),
          "+f"(c[12][0]), "+f"(c[12][1]), "+f"(c[12][2]), "+f"(c[12][3]), "+f"(c[13][0]), "+f"(c[13][1]),
          "+f"(c[13][2]), "+f"(c[13][3]), "+f"(c[14][0]), "+f"(c[14][1]), "+f"(c[14][2]), "+f"(c[14][3]),
          "+f"(c[15][0]), "+f"(c[15][1]), "+f"(c[15][2]), "+f"(c[15][3])
        : "l"(a), "l"(b), "r"(static_cast<int>(add)));
}
#else
#define IMKA_WARPGROUP_PRODUCTS 0
__device__ inline void show_copies_to_products() {}
// A word of shared memory, for factors that the instructions above need in registers.
__device__ inline std::uint32_t word_at(std::uint32_t address) {
    std::uint32_t v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
    return v;
}
#endif

}  // namespace imka::cuda
