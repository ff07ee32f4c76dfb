// Compiled once per instruction set; the best one that the processor supports is called.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "imka/ops/epilogue/epilogue.cpp"
#include "imka/ops/vector_targets.hpp"

#include <hwy/foreach_target.h>

#include "imka/ops/epilogue/epilogue.hpp"

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace imka::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Largest |u| for the argument reduction: at most 13 bits of quarter turns.
constexpr float kLargestAngle = 12800.0F;
// exp overflows above this and underflows to zero below its negative.
constexpr float kLargestExponent = 104.0F;

struct CosSin {
    V cos;
    V sin;
};

// cos x and sin x for |x| <= kLargestAngle. x = n π/2 + r; the first two parts of π/2 have so few bits that
// their products with n are exact. The polynomials in r are minimax fits.
HWY_INLINE CosSin cos_sin_of(V x) {
    const D d;
    const hn::RebindToSigned<D> di;
    const V n = hn::Round(hn::Mul(x, hn::Set(d, 0.636619772F)));
    V r = hn::NegMulAdd(n, hn::Set(d, 0x1.92p0F), x);
    r = hn::NegMulAdd(n, hn::Set(d, 0x1.fb4p-12F), r);
    r = hn::NegMulAdd(n, hn::Set(d, 0x1.4442d2p-24F), r);
    const V r2 = hn::Mul(r, r);
    V s = hn::MulAdd(r2, hn::Set(d, -0.00019517233886290342F), hn::Set(d, 0.008332177996635437F));
    s = hn::MulAdd(r2, s, hn::Set(d, -0.16666655242443085F));
    s = hn::MulAdd(hn::Mul(s, r2), r, r);
    V c = hn::MulAdd(r2, hn::Set(d, 2.4438377295155078e-05F), hn::Set(d, -0.0013887366512790322F));
    c = hn::MulAdd(r2, c, hn::Set(d, 0.04166664555668831F));
    c = hn::MulAdd(hn::Mul(r2, r2), c, hn::NegMulAdd(r2, hn::Set(d, 0.5F), hn::Set(d, 1.0F)));
    // Odd quarter turns swap the two; the second bit of n (of n + 1) is the sign of sin (of cos).
    const auto q = hn::ConvertTo(di, n);
    const auto one = hn::Set(di, 1);
    const auto swap = hn::MaskFromVec(hn::BitCast(d, hn::Neg(hn::And(q, one))));
    const auto sign_s = hn::ShiftLeft<30>(hn::And(q, hn::Set(di, 2)));
    const auto sign_c = hn::ShiftLeft<30>(hn::And(hn::Add(q, one), hn::Set(di, 2)));
    return {hn::Xor(hn::IfThenElse(swap, s, c), hn::BitCast(d, sign_c)),
            hn::Xor(hn::IfThenElse(swap, c, s), hn::BitCast(d, sign_s))};
}

// Whether all lanes are within the bound (false for NaN).
HWY_INLINE bool all_within(V x, float bound) {
    const D d;
    return hn::AllTrue(d, hn::Le(hn::Abs(x), hn::Set(d, bound)));
}

// Lanes beyond the bound are recomputed one by one. Without vector instructions they must not reach the
// formulas at all: converting NaN to an integer is undefined in C++, but harmless in vector instructions.
HWY_INLINE V only_within(V x, float bound) {
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
    const D d;
    return hn::IfThenElseZero(hn::Le(hn::Abs(x), hn::Set(d, bound)), x);
#else
    static_cast<void>(bound);
    return x;
#endif
}

// Calls body(first, count) for each full vector and once for the remainder.
template <class Body>
HWY_INLINE void for_each_vector(std::size_t size, const Body& body) {
    const std::size_t lanes = hn::Lanes(D());
    std::size_t i = 0;
    for (; i + lanes <= size; i += lanes) body(i, lanes);
    if (i < size) body(i, size - i);
}

constexpr std::size_t kMostLanes = hn::MaxLanes(D());
using Buffer = std::array<float, kMostLanes>;

// Full vectors are loaded directly; a remainder is padded, so that the same instructions apply to it.
HWY_INLINE V load(std::span<const float> u, std::size_t first, std::size_t count) {
    const D d;
    if (count == hn::Lanes(d)) return hn::LoadU(d, u.data() + first);
    HWY_ALIGN Buffer buffer{};
    std::copy_n(u.data() + first, count, buffer.data());
    return hn::Load(d, buffer.data());
}

HWY_INLINE void store(V v, std::span<float> out, std::size_t first, std::size_t count) {
    const D d;
    if (count == hn::Lanes(d)) {
        hn::StoreU(v, d, out.data() + first);
        return;
    }
    HWY_ALIGN Buffer buffer;
    hn::Store(v, d, buffer.data());
    std::copy_n(buffer.data(), count, out.data() + first);
}

void cos_sin(std::span<const float> u, float scale, std::span<float> c, std::span<float> s) {
    const V factor = hn::Set(D(), scale);
    for_each_vector(u.size(), [&](std::size_t i, std::size_t count) {
        const V x = load(u, i, count);
        const auto [cosine, sine] = cos_sin_of(only_within(x, kLargestAngle));
        store(hn::Mul(factor, cosine), c, i, count);
        store(hn::Mul(factor, sine), s, i, count);
        if (HWY_LIKELY(all_within(x, kLargestAngle))) return;
        for (std::size_t k = i; k < i + count; ++k) {
            if (std::abs(u[k]) <= kLargestAngle) continue;
            c[k] = scale * std::cos(u[k]);
            s[k] = scale * std::sin(u[k]);
        }
    });
}

void offset_cos(std::span<const float> u, std::span<const float> offset, float scale, std::span<float> out) {
    const V factor = hn::Set(D(), scale);
    for_each_vector(u.size(), [&](std::size_t i, std::size_t count) {
        const V x = hn::Add(load(u, i, count), load(offset, i, count));
        store(hn::Mul(factor, cos_sin_of(only_within(x, kLargestAngle)).cos), out, i, count);
        if (HWY_LIKELY(all_within(x, kLargestAngle))) return;
        for (std::size_t k = i; k < i + count; ++k) {
            if (std::abs(u[k] + offset[k]) <= kLargestAngle) continue;
            out[k] = scale * std::cos(u[k] + offset[k]);
        }
    });
}

void step_power(std::span<const float> u, int power, float scale, std::span<float> out) {
    const D d;
    const V zero = hn::Zero(d);
    const V factor = hn::Set(d, scale);
    for_each_vector(u.size(), [&](std::size_t i, std::size_t count) {
        const V x = load(u, i, count);
        const V positive = hn::IfThenZeroElse(hn::Le(x, zero), x);  // keeps NaN
        V y = hn::Mul(factor, power == 2 ? hn::Mul(positive, positive) : positive);
        if (power == 0) y = hn::IfThenElse(hn::Gt(x, zero), factor, positive);
        store(y, out, i, count);
    });
}

void exp_plus_minus(std::span<const float> u, float shift, float scale, std::span<float> p,
                    std::span<float> n) {
    const D d;
    const V move = hn::Set(d, shift);
    const V factor = hn::Set(d, scale);
    for_each_vector(u.size(), [&](std::size_t i, std::size_t count) {
        const V x = load(u, i, count);
        const V plus = hn::Add(x, move);
        const V minus = hn::Sub(move, x);
        store(hn::Mul(factor, hn::Exp(d, only_within(plus, kLargestExponent))), p, i, count);
        store(hn::Mul(factor, hn::Exp(d, only_within(minus, kLargestExponent))), n, i, count);
        if (HWY_LIKELY(all_within(plus, kLargestExponent) && all_within(minus, kLargestExponent))) return;
        for (std::size_t k = i; k < i + count; ++k) {
            if (std::abs(u[k] + shift) <= kLargestExponent && std::abs(shift - u[k]) <= kLargestExponent)
                continue;
            p[k] = scale * std::exp(u[k] + shift);
            n[k] = scale * std::exp(shift - u[k]);
        }
    });
}

}  // namespace imka::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace imka::ops {

HWY_EXPORT(cos_sin);
HWY_EXPORT(offset_cos);
HWY_EXPORT(step_power);
HWY_EXPORT(exp_plus_minus);

void cos_sin(std::span<const float> u, float scale, std::span<float> c, std::span<float> s) {
    assert(c.size() == u.size() && s.size() == u.size());
    HWY_DYNAMIC_DISPATCH(cos_sin)(u, scale, c, s);
}

void offset_cos(std::span<const float> u, std::span<const float> offset, float scale, std::span<float> out) {
    assert(offset.size() == u.size() && out.size() == u.size());
    HWY_DYNAMIC_DISPATCH(offset_cos)(u, offset, scale, out);
}

void step_power(std::span<const float> u, int power, float scale, std::span<float> out) {
    assert(out.size() == u.size() && power >= 0 && power <= 2);
    HWY_DYNAMIC_DISPATCH(step_power)(u, power, scale, out);
}

void exp_plus_minus(std::span<const float> u, float shift, float scale, std::span<float> p,
                    std::span<float> n) {
    assert(p.size() == u.size() && n.size() == u.size());
    HWY_DYNAMIC_DISPATCH(exp_plus_minus)(u, shift, scale, p, n);
}

}  // namespace imka::ops
#endif
