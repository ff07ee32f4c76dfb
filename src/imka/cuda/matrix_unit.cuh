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

}  // namespace imka::cuda
