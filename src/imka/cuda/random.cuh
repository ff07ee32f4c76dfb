// Random numbers of base/random.cpp on a GPU, bit for bit: the same integers, then IEEE operations in the
// same order, none of them fused. Changes there must be repeated here; tests/cuda compares the two.
#pragma once

#include <cstdint>

namespace imka::cuda {

// Keys of the ten rounds of Philox4x32-10. Passed to kernels by value, so that rounds read them as constants.
struct PhiloxKeys {
    std::uint32_t first[10];
    std::uint32_t second[10];
};

__host__ __device__ inline PhiloxKeys philox_keys(std::uint64_t seed) {
    PhiloxKeys keys{};
    for (std::uint32_t r = 0; r < 10; ++r) {
        keys.first[r] = static_cast<std::uint32_t>(seed) + r * 0x9E3779B9U;
        keys.second[r] = static_cast<std::uint32_t>(seed >> 32U) + r * 0xBB67AE85U;
    }
    return keys;
}

__device__ inline uint4 philox(const PhiloxKeys& keys, std::uint64_t block, std::uint32_t stream) {
    uint4 c =
        make_uint4(static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32U), stream, 0U);
#pragma unroll
    for (int r = 0; r < 10; ++r) {
        const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c.x;
        const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c.z;
        c = make_uint4(
            static_cast<std::uint32_t>(p1 >> 32U) ^ c.y ^ keys.first[r], static_cast<std::uint32_t>(p1),
            static_cast<std::uint32_t>(p0 >> 32U) ^ c.w ^ keys.second[r], static_cast<std::uint32_t>(p0));
    }
    return c;
}

__device__ inline float log_word(std::uint32_t word) {
    const float u = (__uint2float_rn(word) + 0.5F) * 0x1p-32F;
    const int bits = __float_as_int(u);
    const int e = (bits - 0x3f3504f3) >> 23;
    const float t =
        e == 0 ? (__uint2float_rn(~word) + 0.5F) * -0x1p-32F : __int_as_float(bits - (e << 23)) - 1.0F;
    float p = 0.06746601313352585F;
    p = p * t + -0.11675640940666199F;
    p = p * t + 0.11888174712657928F;
    p = p * t + -0.12405591458082199F;
    p = p * t + 0.14219550788402557F;
    p = p * t + -0.1666799634695053F;
    p = p * t + 0.2000211924314499F;
    p = p * t + -0.25000008940696716F;
    p = p * t + 0.3333331346511841F;
    const float ef = __int2float_rn(e);
    const float t2 = t * t;
    return ef * 0.693359375F + (t + (ef * -2.12194440e-4F + (t * t2 * p - 0.5F * t2)));
}

__device__ inline float2 cos_sin_turn(std::uint32_t angle) {
    const std::uint32_t quadrant = (angle + 0x20000000U) >> 30U;
    const float y = __int2float_rn(static_cast<std::int32_t>(angle - (quadrant << 30U))) * 0x1p-30F;
    const float s = y * y;
    const float sine =
        y * (1.5707963705062866F +
             s * (-0.6459634900093079F + s * (0.07968022674322128F + s * -0.004602177068591118F)));
    const float cosine =
        1.0F + s * (-1.2337005138397217F +
                    s * (0.25366920232772827F + s * (-0.02086007222533226F + s * 0.0009036316769197583F)));
    // Quadrants 0 to 3: (c, s), (-s, c), (-c, -s), (s, -c).
    const float a = (quadrant & 1U) != 0U ? sine : cosine;
    const float b = (quadrant & 1U) != 0U ? cosine : sine;
    const std::uint32_t flip_a = ((quadrant + 1U) & 2U) << 30U;
    const std::uint32_t flip_b = (quadrant & 2U) << 30U;
    return make_float2(__uint_as_float(__float_as_uint(a) ^ flip_a),
                       __uint_as_float(__float_as_uint(b) ^ flip_b));
}

// sqrtf for 1e-30 < x < 1e30, bit for bit: the same steps without the test for other arguments.
__device__ inline float root(float x) {
    float inverse;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
    const float y = x * inverse;
    return __fmaf_rn(__fmaf_rn(-y, y, x), 0.5F * inverse, y);
}

__device__ inline float2 box_muller(std::uint32_t radius_bits, std::uint32_t angle_bits) {
    const float r = root(-2.0F * log_word(radius_bits));
    const float2 cs = cos_sin_turn(angle_bits);
    return make_float2(r * cs.x, r * cs.y);
}

// Normals 4 block to 4 block + 3.
__device__ inline float4 normal_block(const PhiloxKeys& keys, std::uint64_t block, std::uint32_t stream) {
    const uint4 b = philox(keys, block, stream);
    const float2 p = box_muller(b.x, b.y);
    const float2 q = box_muller(b.z, b.w);
    return make_float4(p.x, p.y, q.x, q.y);
}

// Normals index to index + 3.
__device__ inline float4 normals_at(const PhiloxKeys& keys, std::uint64_t index, std::uint32_t stream) {
    const float4 a = normal_block(keys, index / 4, stream);
    const std::uint32_t lead = static_cast<std::uint32_t>(index) & 3U;
    if (lead == 0U) return a;
    const float4 b = normal_block(keys, index / 4 + 1, stream);
    if (lead == 1U) return make_float4(a.y, a.z, a.w, b.x);
    if (lead == 2U) return make_float4(a.z, a.w, b.x, b.y);
    return make_float4(a.w, b.x, b.y, b.z);
}

}  // namespace imka::cuda
