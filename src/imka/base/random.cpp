#include "imka/base/random.hpp"

#include <bit>
#include <cassert>
#include <cmath>
#include <numeric>
#include <utility>

namespace imka {
namespace {

// Counter layout: words 0-1 the block number, word 2 the stream, word 3 the attempt (rejection samplers).
PhiloxBlock block_at(std::uint64_t seed, Stream stream, std::uint64_t block, std::uint32_t attempt) {
    return philox4x32_10({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32U),
                          static_cast<std::uint32_t>(stream), attempt},
                         {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U)});
}

// ln(u), u = (word + 1/2) / 2^32: u = 2^e (1 + t) with 1 + t in [sqrt(1/2), sqrt(2)), then
// t - t^2/2 + t^3 p(t). p is a minimax polynomial fitted for this file; relative error of the result below
// 2e-7.
float log_word(std::uint32_t word) {
    const float u = (static_cast<float>(word) + 0.5F) * 0x1p-32F;
    const auto bits = std::bit_cast<std::int32_t>(u);
    const std::int32_t e = (bits - 0x3f3504f3) >> 23;
    // Near 1, u rounded to float lacks the low bits of the word that t = u - 1 needs; ~word has them.
    const float t = e == 0 ? (static_cast<float>(~word) + 0.5F) * -0x1p-32F
                           : std::bit_cast<float>(bits - (e << 23)) - 1.0F;
    float p = 0.06746601313352585F;
    for (const float c :
         {-0.11675640940666199F, 0.11888174712657928F, -0.12405591458082199F, 0.14219550788402557F,
          -0.1666799634695053F, 0.2000211924314499F, -0.25000008940696716F, 0.3333331346511841F}) {
        p = p * t + c;
    }
    const auto ef = static_cast<float>(e);
    const float t2 = t * t;
    // ln 2 in two parts: the first has few bits, so its product with e is exact.
    return ef * 0.693359375F + (t + (ef * -2.12194440e-4F + (t * t2 * p - 0.5F * t2)));
}

struct Pair {
    float first;
    float second;
};

// cos and sin of 2 pi angle / 2^32: the top bits give the quadrant, the rest a signed fraction y of a quarter
// turn.
Pair cos_sin_turn(std::uint32_t angle) {
    const std::uint32_t quadrant = (angle + 0x20000000U) >> 30U;
    const auto rest = static_cast<std::int32_t>(angle - (quadrant << 30U));
    const float y = static_cast<float>(rest) * 0x1p-30F;
    const float s = y * y;
    const float sine =
        y * (1.5707963705062866F +
             s * (-0.6459634900093079F + s * (0.07968022674322128F + s * -0.004602177068591118F)));
    const float cosine =
        1.0F + s * (-1.2337005138397217F +
                    s * (0.25366920232772827F + s * (-0.02086007222533226F + s * 0.0009036316769197583F)));
    switch (quadrant & 3U) {
        case 0:
            return {cosine, sine};
        case 1:
            return {-sine, cosine};
        case 2:
            return {-cosine, -sine};
        default:
            return {sine, -cosine};
    }
}

Pair box_muller(std::uint32_t radius_bits, std::uint32_t angle_bits) {
    const float r = std::sqrt(-2.0F * log_word(radius_bits));
    const auto [c, s] = cos_sin_turn(angle_bits);
    return {r * c, r * s};
}

// The integer of a block, half 0 or 1, scaled to [0, n): the high half of a 128-bit product, from 32-bit
// pieces.
std::uint64_t scaled_int(const PhiloxBlock& block, std::size_t half, std::uint64_t n) {
    const std::uint64_t wl = block[2 * half];
    const std::uint64_t wh = block[2 * half + 1];
    const std::uint64_t nl = n & 0xffffffffU;
    const std::uint64_t nh = n >> 32U;
    const std::uint64_t middle = wh * nl + ((wl * nl) >> 32U);
    return wh * nh + (middle >> 32U) + ((wl * nh + (middle & 0xffffffffU)) >> 32U);
}

std::array<float, 4> normals_of(const PhiloxBlock& b) {
    const auto p = box_muller(b[0], b[1]);
    const auto q = box_muller(b[2], b[3]);
    return {p.first, p.second, q.first, q.second};
}

}  // namespace

PhiloxBlock philox4x32_10(PhiloxBlock c, std::array<std::uint32_t, 2> key) {
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c[0];
        const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c[2];
        c = {static_cast<std::uint32_t>(p1 >> 32U) ^ c[1] ^ key[0], static_cast<std::uint32_t>(p1),
             static_cast<std::uint32_t>(p0 >> 32U) ^ c[3] ^ key[1], static_cast<std::uint32_t>(p0)};
        key[0] += 0x9E3779B9U;
        key[1] += 0xBB67AE85U;
    }
    return c;
}

std::uint32_t random_bits(std::uint64_t seed, Stream stream, std::uint64_t index) {
    return block_at(seed, stream, index / 4, 0)[index % 4];
}

double uniform(std::uint64_t seed, Stream stream, std::uint64_t index) {
    return (static_cast<double>(random_bits(seed, stream, index)) + 0.5) * 0x1p-32;
}

std::uint64_t uniform_int(std::uint64_t seed, Stream stream, std::uint64_t index, std::uint64_t n) {
    assert(n >= 1);
    return scaled_int(block_at(seed, stream, index / 2, 0), index % 2, n);
}

float normal(std::uint64_t seed, Stream stream, std::uint64_t index) {
    return normals_of(block_at(seed, stream, index / 4, 0))[index % 4];
}

void fill_normal(std::uint64_t seed, Stream stream, std::uint64_t first, std::span<float> out) {
    std::size_t i = 0;
    while (i < out.size()) {
        const std::uint64_t index = first + i;
        const auto values = normals_of(block_at(seed, stream, index / 4, 0));
        for (std::size_t k = index % 4; k < 4 && i < out.size(); ++k) out[i++] = values[k];
    }
}

float truncated_normal(std::uint64_t seed, Stream stream, std::uint64_t index, float bound) {
    assert(bound > 0.0F);
    if (bound >= 1.0F) {
        for (std::uint32_t attempt = 0;; ++attempt) {
            const float x = normals_of(block_at(seed, stream, index / 4, attempt))[index % 4];
            if (std::abs(x) <= bound) return x;
        }
    }
    // Narrow window: propose uniformly and accept with probability exp(-x^2/2), which is at least exp(-1/2).
    for (std::uint32_t attempt = 0;; ++attempt) {
        const auto b = block_at(seed, stream, index, attempt);
        const float x = bound * (static_cast<float>(static_cast<std::int32_t>(b[0])) * 0x1p-31F);
        if (-2.0F * log_word(b[1]) >= x * x) return x;
    }
}

std::vector<std::uint32_t> permutation(std::uint64_t seed, Stream stream, std::uint32_t n) {
    std::vector<std::uint32_t> p(n);
    std::iota(p.begin(), p.end(), 0U);
    // As with uniform_int(seed, stream, i, i), but two numbers share a block.
    PhiloxBlock block{};
    for (std::uint32_t i = n; i > 1; --i) {
        if (i == n || i % 2 == 1) block = block_at(seed, stream, i / 2, 0);
        std::swap(p[i - 1], p[scaled_int(block, i % 2, i)]);
    }
    return p;
}

}  // namespace imka
