// Compiled once per instruction set; the best one that the processor supports is called. The operations are
// exactly those of base/random.cpp; one lane holds one block of four numbers.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "imka/ops/normals/normals.cpp"
#include "imka/ops/vector_targets.hpp"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>

#include "imka/ops/normals/normals.hpp"

HWY_BEFORE_NAMESPACE();
namespace imka::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
// Without vectors this is never called.
void normal_blocks(std::uint64_t, std::uint32_t, std::uint64_t, std::size_t, float*) {}
std::size_t block_lanes() {
    return 0;
}
#else

using DF = hn::ScalableTag<float>;
using DU = hn::RebindToUnsigned<DF>;
using DI = hn::RebindToSigned<DF>;
using VF = hn::Vec<DF>;
using VU = hn::Vec<DU>;

struct Words {
    VU a, b, c, d;
};

struct HighLow {
    VU high, low;
};

// Both halves of the 64-bit products.
HWY_INLINE HighLow multiply(VU x, std::uint32_t constant) {
    const DU du;
    const hn::RepartitionToWide<DU> dw;
    const VU k = hn::Set(du, constant);
    const auto even = hn::MulEven(x, k);
    const auto odd = hn::MulEven(hn::BitCast(du, hn::ShiftRight<32>(hn::BitCast(dw, x))), k);
    return {hn::OddEven(hn::BitCast(du, odd), hn::BitCast(du, hn::ShiftRight<32>(even))),
            hn::OddEven(hn::BitCast(du, hn::ShiftLeft<32>(odd)), hn::BitCast(du, even))};
}

HWY_INLINE Words philox(Words c, std::uint64_t seed) {
    const DU du;
    auto k0 = static_cast<std::uint32_t>(seed);
    auto k1 = static_cast<std::uint32_t>(seed >> 32U);
    for (int round = 0; round < 10; ++round) {
        const auto p0 = multiply(c.a, 0xD2511F53U);
        const auto p1 = multiply(c.c, 0xCD9E8D57U);
        c = {hn::Xor(hn::Xor(p1.high, c.b), hn::Set(du, k0)), p1.low,
             hn::Xor(hn::Xor(p0.high, c.d), hn::Set(du, k1)), p0.low};
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
    return c;
}

// The nearest float to an unsigned word: two exact halves, one rounding.
HWY_INLINE VF to_float(VU w) {
    const DF df;
    const DI di;
    const VF high = hn::ConvertTo(df, hn::BitCast(di, hn::ShiftRight<16>(w)));
    const VF low = hn::ConvertTo(df, hn::BitCast(di, hn::And(w, hn::Set(DU(), 0xffffU))));
    return hn::Add(hn::Mul(high, hn::Set(df, 65536.0F)), low);
}

// log_word of base/random.cpp.
HWY_INLINE VF log_word(VU word) {
    const DF df;
    const DI di;
    const VF half = hn::Set(df, 0.5F);
    const VF u = hn::Mul(hn::Add(to_float(word), half), hn::Set(df, 0x1p-32F));
    const auto bits = hn::BitCast(di, u);
    const auto e = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3f3504f3)));
    const VF near_one = hn::Mul(hn::Add(to_float(hn::Not(word)), half), hn::Set(df, -0x1p-32F));
    const VF elsewhere = hn::Sub(hn::BitCast(df, hn::Sub(bits, hn::ShiftLeft<23>(e))), hn::Set(df, 1.0F));
    const VF t = hn::IfThenElse(hn::RebindMask(df, hn::Eq(e, hn::Zero(di))), near_one, elsewhere);
    VF p = hn::Set(df, 0.06746601313352585F);
    for (const float c :
         {-0.11675640940666199F, 0.11888174712657928F, -0.12405591458082199F, 0.14219550788402557F,
          -0.1666799634695053F, 0.2000211924314499F, -0.25000008940696716F, 0.3333331346511841F}) {
        p = hn::Add(hn::Mul(p, t), hn::Set(df, c));
    }
    const VF ef = hn::ConvertTo(df, e);
    const VF t2 = hn::Mul(t, t);
    const VF tail = hn::Sub(hn::Mul(hn::Mul(t, t2), p), hn::Mul(half, t2));
    const VF low = hn::Add(hn::Mul(ef, hn::Set(df, -2.12194440e-4F)), tail);
    return hn::Add(hn::Mul(ef, hn::Set(df, 0.693359375F)), hn::Add(t, low));
}

struct CosSin {
    VF cos, sin;
};

// cos_sin_turn of base/random.cpp.
HWY_INLINE CosSin cos_sin_turn(VU angle) {
    const DF df;
    const DU du;
    const DI di;
    const VU quadrant = hn::ShiftRight<30>(hn::Add(angle, hn::Set(du, 0x20000000U)));
    const auto rest = hn::BitCast(di, hn::Sub(angle, hn::ShiftLeft<30>(quadrant)));
    const VF y = hn::Mul(hn::ConvertTo(df, rest), hn::Set(df, 0x1p-30F));
    const VF s = hn::Mul(y, y);
    VF sine = hn::Add(hn::Set(df, 0.07968022674322128F), hn::Mul(s, hn::Set(df, -0.004602177068591118F)));
    sine = hn::Add(hn::Set(df, -0.6459634900093079F), hn::Mul(s, sine));
    sine = hn::Mul(y, hn::Add(hn::Set(df, 1.5707963705062866F), hn::Mul(s, sine)));
    VF cosine = hn::Add(hn::Set(df, -0.02086007222533226F), hn::Mul(s, hn::Set(df, 0.0009036316769197583F)));
    cosine = hn::Add(hn::Set(df, 0.25366920232772827F), hn::Mul(s, cosine));
    cosine = hn::Add(hn::Set(df, -1.2337005138397217F), hn::Mul(s, cosine));
    cosine = hn::Add(hn::Set(df, 1.0F), hn::Mul(s, cosine));
    // Odd quadrants swap the two; the second bit of the quadrant (plus one) is the sign of sin (cos).
    const VU one = hn::Set(du, 1U);
    const VU two = hn::Set(du, 2U);
    const auto swap = hn::RebindMask(df, hn::Eq(hn::And(quadrant, one), one));
    const VU sign_s = hn::ShiftLeft<30>(hn::And(quadrant, two));
    const VU sign_c = hn::ShiftLeft<30>(hn::And(hn::Add(quadrant, one), two));
    return {hn::Xor(hn::IfThenElse(swap, sine, cosine), hn::BitCast(df, sign_c)),
            hn::Xor(hn::IfThenElse(swap, cosine, sine), hn::BitCast(df, sign_s))};
}

// Blocks first .. first + count - 1, four numbers each; count is a multiple of the lane count and the low
// halves of the block numbers do not wrap.
void normal_blocks(std::uint64_t seed, std::uint32_t stream, std::uint64_t first, std::size_t count,
                   float* out) {
    const DF df;
    const DU du;
    const std::size_t lanes = hn::Lanes(du);
    const VU high = hn::Set(du, static_cast<std::uint32_t>(first >> 32U));
    const VU attempt = hn::Zero(du);
    for (std::size_t i = 0; i < count; i += lanes) {
        const auto w = philox(
            {hn::Iota(du, static_cast<std::uint32_t>(first + i)), high, hn::Set(du, stream), attempt}, seed);
        const VF minus_two = hn::Set(df, -2.0F);
        const VF r1 = hn::Sqrt(hn::Mul(minus_two, log_word(w.a)));
        const VF r2 = hn::Sqrt(hn::Mul(minus_two, log_word(w.c)));
        const auto p = cos_sin_turn(w.b);
        const auto q = cos_sin_turn(w.d);
        hn::StoreInterleaved4(hn::Mul(r1, p.cos), hn::Mul(r1, p.sin), hn::Mul(r2, q.cos), hn::Mul(r2, q.sin),
                              df, out + 4 * i);
    }
}

std::size_t block_lanes() {
    return hn::Lanes(DU());
}
#endif

}  // namespace imka::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace imka::ops {

HWY_EXPORT(normal_blocks);
HWY_EXPORT(block_lanes);

void fill_normal(std::uint64_t seed, Stream stream, std::uint64_t first, std::span<float> out) {
    // Single numbers up to a block boundary, then vectors of blocks, then the remainder.
    const std::size_t head = std::min<std::size_t>(out.size(), (4 - first % 4) % 4);
    imka::fill_normal(seed, stream, first, out.first(head));
    const std::uint64_t block = (first + head) / 4;
    const std::size_t lanes = HWY_DYNAMIC_DISPATCH(block_lanes)();
    std::size_t blocks = lanes == 0 ? 0 : (out.size() - head) / 4 / lanes * lanes;
    // If the low half of the block number wraps (once in 2^34 numbers), the plain loop does the work.
    if ((block >> 32U) != ((block + blocks) >> 32U)) blocks = 0;
    if (blocks > 0) {
        HWY_DYNAMIC_DISPATCH(normal_blocks)
        (seed, static_cast<std::uint32_t>(stream), block, blocks, out.data() + head);
    }
    const std::size_t done = head + 4 * blocks;
    imka::fill_normal(seed, stream, first + done, out.subspan(done));
}

}  // namespace imka::ops
#endif
