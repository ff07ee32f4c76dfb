// Compiled once per instruction set; the best one that the processor supports is called.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "imka/ops/readout/readout.cpp"
#include "imka/ops/vector_targets.hpp"

#include <hwy/foreach_target.h>

#include "imka/ops/readout/readout.hpp"

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace imka::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Calls body(first, count) for each full vector and once for the remainder.
template <class Body>
HWY_INLINE void for_each_vector(std::size_t size, std::size_t lanes, const Body& body) {
    std::size_t i = 0;
    for (; i + lanes <= size; i += lanes) body(i, lanes);
    if (i < size) body(i, size - i);
}

constexpr std::size_t kMostLanes = hn::MaxLanes(D());
using Buffer = std::array<float, kMostLanes>;

// Full vectors are loaded directly; a remainder is padded with zeros.
template <class Tag>
HWY_INLINE hn::Vec<Tag> load(Tag d, std::span<const float> u, std::size_t first, std::size_t count) {
    if (count == hn::Lanes(d)) return hn::LoadU(d, u.data() + first);
    HWY_ALIGN Buffer buffer{};
    std::copy_n(u.data() + first, std::min(count, kMostLanes), buffer.data());
    return hn::Load(d, buffer.data());
}

template <class Tag>
HWY_INLINE void store(Tag d, hn::Vec<Tag> v, std::span<float> out, std::size_t first, std::size_t count) {
    if (count == hn::Lanes(d)) {
        hn::StoreU(v, d, out.data() + first);
        return;
    }
    HWY_ALIGN Buffer buffer;
    hn::Store(v, d, buffer.data());
    std::copy_n(buffer.data(), std::min(count, kMostLanes), out.data() + first);
}

template <StepRounding kRounding>
StepSums quantize_row_as(const StepScale& scale, std::span<const float> x, std::span<float> steps) {
    const hn::ScalableTag<double> dd;
    const hn::Rebind<float, decltype(dd)> df;
    const auto ranges = hn::Set(dd, scale.range);
    const auto most = hn::Set(dd, static_cast<double>(scale.levels));
    const auto one = hn::Set(dd, 1.0);
    const auto zero = hn::Zero(dd);
    const auto largest = hn::Set(df, std::numeric_limits<float>::max());
    StepSums sums;
    auto plus = zero;
    auto minus = zero;
    auto plus_squares = zero;
    auto minus_squares = zero;
    for_each_vector(x.size(), hn::Lanes(df), [&](std::size_t i, std::size_t count) {
        const auto in = load(df, x, i, count);
        sums.finite = sums.finite && hn::AllTrue(df, hn::Le(hn::Abs(in), largest));
        const auto share = hn::Div(hn::PromoteTo(dd, in), ranges);
        const auto clipped = hn::Min(hn::Max(share, hn::Neg(one)), one);
        const auto exact = hn::Mul(clipped, most);
        const auto step =
            hn::Add(kRounding == StepRounding::nearest ? hn::Round(exact) : hn::Trunc(exact), zero);
        store(df, hn::DemoteTo(df, step), steps, i, count);
        const auto p = hn::Max(step, zero);
        const auto m = hn::Max(hn::Neg(step), zero);
        plus = hn::Add(plus, p);
        minus = hn::Add(minus, m);
        plus_squares = hn::Add(plus_squares, hn::Mul(p, p));
        minus_squares = hn::Add(minus_squares, hn::Mul(m, m));
    });
    sums.positive = hn::GetLane(hn::SumOfLanes(dd, plus));
    sums.negative = hn::GetLane(hn::SumOfLanes(dd, minus));
    sums.positive_squares = hn::GetLane(hn::SumOfLanes(dd, plus_squares));
    sums.negative_squares = hn::GetLane(hn::SumOfLanes(dd, minus_squares));
    return sums;
}

StepSums quantize_row(const StepScale& scale, std::span<const float> x, std::span<float> steps) {
    return scale.rounding == StepRounding::nearest ? quantize_row_as<StepRounding::nearest>(scale, x, steps)
                                                   : quantize_row_as<StepRounding::truncate>(scale, x, steps);
}

template <CountRounding kRounding>
HWY_INLINE V rounded(V v) {
    if constexpr (kRounding == CountRounding::round) return hn::Round(v);
    if constexpr (kRounding == CountRounding::floor) return hn::Floor(v);
    return v;
}

// Counts only the first `lanes` lanes: a remainder is padded.
HWY_INLINE std::size_t count_saturated(V counts, V most, std::size_t lanes) {
    const D d;
    const auto valid = hn::FirstN(d, lanes);
    return hn::CountTrue(d, hn::And(valid, hn::Ge(counts, most)));
}

HWY_INLINE V noise(const ChargeRow& row, V variance, V noise_variance, std::size_t i, std::size_t count) {
    const D d;
    if (row.normals.empty()) return hn::Zero(d);
    return hn::Mul(hn::Sqrt(hn::Add(variance, noise_variance)), load(d, row.normals, i, count));
}

template <CountRounding kRounding>
std::size_t add_counts_as(const Counter& counter, const ChargeRow& row, std::span<float> counts) {
    const D d;
    const V most = hn::Set(d, counter.most);
    const V weight = hn::Set(d, counter.weight);
    const V own = hn::Set(d, counter.noise_variance);
    const bool can_saturate = counter.most < std::numeric_limits<float>::infinity();
    std::size_t saturated = 0;
    for_each_vector(counts.size(), hn::Lanes(d), [&](std::size_t i, std::size_t count) {
        const V variance = row.variance.empty() ? hn::Zero(d) : load(d, row.variance, i, count);
        V v = hn::Add(load(d, row.charge, i, count), load(d, row.offset, i, count));
        v = hn::Add(v, noise(row, variance, own, i, count));
        v = hn::Min(hn::Max(rounded<kRounding>(v), hn::Zero(d)), most);
        if (can_saturate) saturated += count_saturated(v, most, count);
        store(d, hn::Add(load(d, counts, i, count), hn::Mul(weight, v)), counts, i, count);
    });
    return saturated;
}

template <CountRounding kRounding>
std::size_t add_signed_counts_as(const Counter& counter, const ChargeRow& row,
                                 std::span<const float> negative_gain, std::span<float> counts) {
    const D d;
    const V most = hn::Set(d, counter.most);
    const V weight = hn::Set(d, counter.weight);
    const V own = hn::Set(d, counter.noise_variance);
    const V one = hn::Set(d, 1.0F);
    const V comparator_sd = hn::Set(d, counter.polarity_error);
    const bool can_saturate = counter.most < std::numeric_limits<float>::infinity();
    std::size_t saturated = 0;
    for_each_vector(counts.size(), hn::Lanes(d), [&](std::size_t i, std::size_t count) {
        V variance = row.variance.empty() ? hn::Zero(d) : load(d, row.variance, i, count);
        V charge = load(d, row.charge, i, count);
        if (!negative_gain.empty()) {
            const auto negative = hn::Lt(charge, hn::Zero(d));
            const V gain = hn::IfThenElse(negative, load(d, negative_gain, i, count), one);
            charge = hn::Mul(gain, charge);
            variance = hn::Mul(hn::Mul(gain, gain), variance);
        }
        V v = hn::Add(charge, load(d, row.offset, i, count));
        v = hn::Add(v, noise(row, variance, own, i, count));
        const V magnitude = hn::Min(rounded<kRounding>(hn::Abs(v)), most);
        if (can_saturate) saturated += count_saturated(magnitude, most, count);
        if (!row.comparator.empty())
            v = hn::Add(v, hn::Mul(comparator_sd, load(d, row.comparator, i, count)));
        const V signed_count = hn::CopySignToAbs(magnitude, v);
        store(d, hn::Add(load(d, counts, i, count), hn::Mul(weight, signed_count)), counts, i, count);
    });
    return saturated;
}

std::size_t add_counts(const Counter& counter, const ChargeRow& row, std::span<float> counts) {
    switch (counter.rounding) {
        case CountRounding::round:
            return add_counts_as<CountRounding::round>(counter, row, counts);
        case CountRounding::floor:
            return add_counts_as<CountRounding::floor>(counter, row, counts);
        case CountRounding::none:
            break;
    }
    return add_counts_as<CountRounding::none>(counter, row, counts);
}

std::size_t add_signed_counts(const Counter& counter, const ChargeRow& row,
                              std::span<const float> negative_gain, std::span<float> counts) {
    switch (counter.rounding) {
        case CountRounding::round:
            return add_signed_counts_as<CountRounding::round>(counter, row, negative_gain, counts);
        case CountRounding::floor:
            return add_signed_counts_as<CountRounding::floor>(counter, row, negative_gain, counts);
        case CountRounding::none:
            break;
    }
    return add_signed_counts_as<CountRounding::none>(counter, row, negative_gain, counts);
}

// Rounds to 11 significant bits by integer arithmetic on the float; below 2^-14, where the spacing is 2^-24,
// by adding 1/2, where floats have the same spacing.
HWY_INLINE V to_half(V x) {
    const D d;
    const hn::RebindToUnsigned<D> du;
    const V magnitude = hn::Abs(x);
    const auto bits = hn::BitCast(du, magnitude);
    const auto odd = hn::And(hn::ShiftRight<13>(bits), hn::Set(du, 1U));
    const auto raised = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x0fffU)));
    const V normal = hn::BitCast(d, hn::AndNot(hn::Set(du, 0x1fffU), raised));
    const V half = hn::Set(d, 0.5F);
    const V tiny = hn::Sub(hn::Add(magnitude, half), half);
    V out = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0x1p-14F)), tiny, normal);
    const V infinite = hn::Set(d, std::numeric_limits<float>::infinity());
    out = hn::IfThenElse(hn::Gt(out, hn::Set(d, 65504.0F)), infinite, out);
    return hn::CopySignToAbs(out, x);
}

HWY_INLINE V limited(const AffineRow& affine, V v, V limit) {
    const D d;
    if (!affine.soft_limit) return hn::Min(hn::Max(v, hn::Neg(limit)), limit);
    // Values far beyond the limit are clipped: the result no longer changes, and infinite values would give
    // NaN.
    const V most = hn::Mul(hn::Set(d, kSoftRange), limit);
    const V near = hn::Min(hn::Max(v, hn::Neg(most)), most);
    const V ratio = hn::Div(near, limit);
    return hn::Div(near, hn::Sqrt(hn::Add(hn::Set(d, 1.0F), hn::Mul(ratio, ratio))));
}

std::size_t affine_row(const AffineRow& affine, std::span<const float> counts, std::span<float> out) {
    const D d;
    const V most = hn::Set(d, affine.most);
    const bool rounds = affine.most < std::numeric_limits<float>::infinity();
    std::size_t at_limit = 0;
    for_each_vector(counts.size(), hn::Lanes(d), [&](std::size_t i, std::size_t count) {
        V v = load(d, counts, i, count);
        if (affine.half) v = to_half(v);
        v = hn::Add(hn::Mul(load(d, affine.scale, i, count), v), load(d, affine.offset, i, count));
        if (affine.half) v = to_half(v);
        if (!affine.limit.empty()) {
            const V limit = load(d, affine.limit, i, count);
            at_limit += count_saturated(hn::Abs(v), limit, count);
            v = limited(affine, v, limit);
        }
        if (rounds) {
            const V clipped = hn::Min(hn::Max(v, hn::Neg(most)), most);
            v = hn::Add(affine.floor ? hn::Floor(clipped) : hn::Round(clipped), hn::Zero(d));
        }
        store(d, hn::Mul(load(d, affine.factor, i, count), v), out, i, count);
    });
    return at_limit;
}

}  // namespace imka::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace imka::ops {
namespace {

[[maybe_unused]] bool fits(const ChargeRow& row, std::size_t size) {
    const auto empty_or = [&](std::size_t n) { return n == 0 || n == size; };
    return row.charge.size() == size && row.offset.size() == size && empty_or(row.variance.size()) &&
           empty_or(row.normals.size()) && empty_or(row.comparator.size());
}

}  // namespace

HWY_EXPORT(quantize_row);
HWY_EXPORT(add_counts);
HWY_EXPORT(add_signed_counts);
HWY_EXPORT(affine_row);

StepSums quantize_row(const StepScale& scale, std::span<const float> x, std::span<float> steps) {
    assert(steps.size() == x.size() && scale.range > 0.0);
    return HWY_DYNAMIC_DISPATCH(quantize_row)(scale, x, steps);
}

std::size_t add_counts(const Counter& counter, const ChargeRow& row, std::span<float> counts) {
    assert(fits(row, counts.size()));
    return HWY_DYNAMIC_DISPATCH(add_counts)(counter, row, counts);
}

std::size_t add_signed_counts(const Counter& counter, const ChargeRow& row,
                              std::span<const float> negative_gain, std::span<float> counts) {
    assert(fits(row, counts.size()));
    return HWY_DYNAMIC_DISPATCH(add_signed_counts)(counter, row, negative_gain, counts);
}

std::size_t affine_row(const AffineRow& affine, std::span<const float> counts, std::span<float> out) {
    assert(out.size() == counts.size() && affine.scale.size() == counts.size());
    return HWY_DYNAMIC_DISPATCH(affine_row)(affine, counts, out);
}

double to_half(double x) {
    if (x == 0.0 || !std::isfinite(x)) return x;
    // 11 significant bits; below 2^-14 the spacing is 2^-24.
    int exponent = 0;
    std::frexp(x, &exponent);
    const int place = std::max(exponent - 11, -24);
    const double value = std::ldexp(std::nearbyint(std::ldexp(x, -place)), place);
    return std::abs(value) > 65504.0 ? std::copysign(std::numeric_limits<double>::infinity(), x) : value;
}

}  // namespace imka::ops
#endif
