// Compiled once per instruction set; the best one that the processor supports is called.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "imka/ops/attention/attention.cpp"
#include "imka/ops/vector_targets.hpp"

#include <hwy/foreach_target.h>

#include "imka/ops/attention/attention.hpp"

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "imka/ops/epilogue/epilogue.hpp"

HWY_BEFORE_NAMESPACE();
namespace imka::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// exp(x) for x <= 88 within 2 ULP; exactly 0 below -87. x = n log 2 + r; adding 1.5 2^23 rounds x / log 2 to
// n, which is then in the low bits, and from there goes into the exponent of the result. The polynomial is a
// minimax fit of exp(r).
HWY_INLINE V exp_of(V x) {
    const D d;
    const hn::RebindToUnsigned<D> du;
    const V magic = hn::Set(d, 12582912.0F);
    const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504F), magic);
    const V n = hn::Sub(shifted, magic);
    V r = hn::NegMulAdd(n, hn::Set(d, 0x1.62e4p-1F), x);
    r = hn::NegMulAdd(n, hn::Set(d, 0x1.7f7d1cp-20F), r);
    V p = hn::MulAdd(r, hn::Set(d, 0.0013813146F), hn::Set(d, 0.008369419F));
    p = hn::MulAdd(r, p, hn::Set(d, 0.041668457F));
    p = hn::MulAdd(r, p, hn::Set(d, 0.16666515F));
    p = hn::MulAdd(r, p, hn::Set(d, 0.49999993F));
    p = hn::MulAdd(hn::Mul(r, r), p, r);
    p = hn::Add(p, hn::Set(d, 1.0F));
    const auto bits = hn::Add(hn::BitCast(du, p), hn::ShiftLeft<23>(hn::BitCast(du, shifted)));
    return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.0F)), hn::BitCast(d, bits));
}

// exp_of for a single number, with the same bits.
HWY_INLINE float exp_of_number(float x) {
    return hn::GetLane(exp_of(hn::Set(D(), x)));
}

// Features of one vector: the first, and the second if there are two per direction.
struct Positive {
    static constexpr bool two = true;
    static V first(V u, V shift, V) { return exp_of(hn::Add(u, shift)); }
    static V second(V u, V shift) { return exp_of(hn::Sub(shift, u)); }
    static V exponent(V u) { return hn::Abs(u); }
};
struct Single {
    static constexpr bool two = false;
    static V first(V u, V shift, V) { return exp_of(hn::Add(u, shift)); }
    static V second(V u, V) { return u; }
    static V exponent(V u) { return u; }
};
struct Relu {
    static constexpr bool two = false;
    static V first(V u, V, V epsilon) { return hn::Add(hn::Max(u, hn::Zero(D())), epsilon); }
    static V second(V u, V) { return u; }
};
struct Elu {
    static constexpr bool two = false;
    static V first(V u, V, V epsilon) {
        const V zero = hn::Zero(D());
        return hn::Add(hn::Add(hn::Max(u, zero), exp_of(hn::Min(u, zero))), epsilon);
    }
    static V second(V u, V) { return u; }
};
struct Square {
    static constexpr bool two = false;
    static V first(V u, V, V epsilon) { return hn::MulAdd(u, u, epsilon); }
    static V second(V u, V) { return u; }
};

template <class F>
void keys(const FeatureRule& rule, std::span<const float> shifts, Panels& t) {
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    const std::size_t width = t.width();
    const std::size_t second = rule.padded() * width;
    const V epsilon = hn::Set(d, rule.epsilon);
    for (std::size_t p = 0; p < t.panels(); ++p) {
        float* HWY_RESTRICT panel = t.panel(p);
        for (std::size_t lane = 0; lane < width; lane += lanes) {
            const V shift = hn::LoadU(d, shifts.data() + p * width + lane);
            const auto used = hn::Gt(shift, hn::Set(d, -kInfinity));
            for (std::size_t f = 0; f < rule.directions; ++f) {
                float* at = panel + f * width + lane;
                const V u = hn::Load(d, at);
                hn::Store(hn::IfThenElseZero(used, F::first(u, shift, epsilon)), d, at);
                if constexpr (F::two) hn::Store(F::second(u, shift), d, at + second);
            }
        }
    }
}

// cos u and sin u, times exp(shift).
void keys_cos_sin(const FeatureRule& rule, std::span<const float> shifts, Panels& t) {
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    const std::size_t width = t.width();
    const std::size_t size = rule.directions * width;
    std::vector<float> u(size);
    for (std::size_t p = 0; p < t.panels(); ++p) {
        float* cosines = t.panel(p);
        float* sines = cosines + rule.padded() * width;
        std::copy_n(cosines, size, u.data());
        ops::cos_sin(u, 1.0F, {cosines, size}, {sines, size});
        for (std::size_t i = 0; i < size; i += lanes) {
            const V amplitude = exp_of(hn::LoadU(d, shifts.data() + p * width + i % width));
            hn::Store(hn::Mul(amplitude, hn::Load(d, cosines + i)), d, cosines + i);
            hn::Store(hn::Mul(amplitude, hn::Load(d, sines + i)), d, sines + i);
        }
    }
}

// Clears the features of directions that do not exist.
void clear_padding_rows(const FeatureRule& rule, Panels& t) {
    const std::size_t rest = (rule.padded() - rule.directions) * t.width();
    for (std::size_t p = 0; p < t.panels(); ++p) {
        for (std::size_t first = rule.directions; first < rule.features(); first += rule.padded())
            std::fill_n(t.panel(p) + first * t.width(), rest, 0.0F);
    }
}

void key_features(const FeatureRule& rule, std::span<const float> shifts, Panels& t) {
    switch (rule.form) {
        case AttentionForm::positive:
            keys<Positive>(rule, shifts, t);
            break;
        case AttentionForm::single:
        case AttentionForm::exp:
            keys<Single>(rule, shifts, t);
            break;
        case AttentionForm::cos_sin:
            keys_cos_sin(rule, shifts, t);
            break;
        case AttentionForm::relu:
            keys<Relu>(rule, shifts, t);
            break;
        case AttentionForm::elu:
            keys<Elu>(rule, shifts, t);
            break;
        case AttentionForm::square:
            keys<Square>(rule, shifts, t);
            break;
    }
    clear_padding_rows(rule, t);
}

template <class F>
void exponents_of(std::size_t directions, std::span<const float> shifts, const Panels& t,
                  std::span<float> out) {
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    const std::size_t width = t.width();
    for (std::size_t p = 0; p < t.panels(); ++p) {
        for (std::size_t lane = 0; lane < width; lane += lanes) {
            const float* at = t.panel(p) + lane;
            V most = hn::Set(d, -kInfinity);
            for (std::size_t f = 0; f < directions; ++f, at += width)
                most = hn::Max(most, F::exponent(hn::Load(d, at)));
            const std::size_t first = p * width + lane;
            hn::StoreU(hn::Add(most, hn::LoadU(d, shifts.data() + first)), d, out.data() + first);
        }
    }
}

void key_exponents(const FeatureRule& rule, std::span<const float> shifts, const Panels& t,
                   std::span<float> exponents) {
    switch (rule.form) {
        case AttentionForm::positive:
            return exponents_of<Positive>(rule.directions, shifts, t, exponents);
        case AttentionForm::single:
        case AttentionForm::exp:
            return exponents_of<Single>(rule.directions, shifts, t, exponents);
        default:
            std::ranges::copy(shifts, exponents.begin());  // 0 if not exponential
    }
}

void column_squares(const Panels& x, std::span<float> sums) {
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    const std::size_t width = x.width();
    for (std::size_t p = 0; p < x.panels(); ++p) {
        for (std::size_t lane = 0; lane < width; lane += lanes) {
            const float* at = x.panel(p) + lane;
            V sum = hn::Zero(d);
            for (std::size_t k = 0; k < x.rows(); ++k, at += width) {
                const V v = hn::Load(d, at);
                sum = hn::MulAdd(v, v, sum);
            }
            hn::StoreU(sum, d, sums.data() + p * width + lane);
        }
    }
}

void row_sums(const Panels& t, std::span<float> sums) {
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    const std::size_t width = t.width();
    for (std::size_t r = 0; r < t.rows(); ++r) {
        V sum = hn::Zero(d);
        for (std::size_t p = 0; p < t.panels(); ++p) {
            const float* at = t.panel(p) + r * width;
            sum = hn::Add(sum, hn::Add(hn::Load(d, at), hn::Load(d, at + lanes)));
        }
        sums[r] = hn::GetLane(hn::SumOfLanes(d, sum));
    }
}

void row_dots(const Panels& z, std::span<const float> w, std::span<float> out) {
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    const std::size_t width = z.width();
    for (std::size_t r = 0; r < z.rows(); ++r) {
        V low = hn::Zero(d);
        V high = hn::Zero(d);
        for (std::size_t p = 0; p < z.panels(); ++p) {
            const float* at = z.panel(p) + r * width;
            const float* with = w.data() + p * width;
            low = hn::MulAdd(hn::Load(d, at), hn::LoadU(d, with), low);
            high = hn::MulAdd(hn::Load(d, at + lanes), hn::LoadU(d, with + lanes), high);
        }
        out[r] = hn::GetLane(hn::SumOfLanes(d, hn::Add(low, high)));
    }
}

// Calls body(offset, count) for the projections of a row: full vectors, then the remaining values.
template <class Body>
HWY_INLINE void for_row(const Panels& z, std::size_t r, std::size_t directions, const Body& body) {
    const std::size_t lanes = hn::Lanes(D());
    for (std::size_t first = 0; first < directions; first += lanes)
        body((first / z.width()) * z.rows() * z.width() + r * z.width() + first % z.width(),
             std::min(lanes, directions - first));
}

// Calls body(vector, row, mask of the lanes that hold directions) panel by panel: a row of all panels would
// map to few sets of the cache.
template <class Body>
HWY_INLINE void for_queries(std::size_t directions, Panels& z, const Body& body) {
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    for (std::size_t first = 0; first < directions; first += lanes) {
        const auto used = hn::FirstN(d, std::min(lanes, directions - first));
        float* at = z.panel(first / z.width()) + first % z.width();
        for (std::size_t r = 0; r < z.rows(); ++r, at += z.width()) body(at, r, used);
    }
}

template <class F>
void query_maxima(std::size_t directions, Panels& z, std::span<float> maxima) {
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    std::vector<float> most(z.rows() * lanes, -kInfinity);
    for_queries(directions, z, [&](const float* at, std::size_t r, auto used) HWY_ATTR {
        float* here = most.data() + r * lanes;
        const V e = hn::IfThenElse(used, F::exponent(hn::Load(d, at)), hn::Set(d, -kInfinity));
        hn::StoreU(hn::Max(hn::LoadU(d, here), e), d, here);
    });
    for (std::size_t r = 0; r < z.rows(); ++r)
        maxima[r] = hn::GetLane(hn::MaxOfLanes(d, hn::LoadU(d, most.data() + r * lanes)));
}

template <class F, bool exponential>
void queries(const FeatureRule& rule, std::span<float> maxima, Panels& z) {
    const D d;
    const std::size_t second = rule.padded() * z.rows();
    const V epsilon = hn::Set(d, rule.epsilon);
    std::ranges::fill(maxima, 0.0F);
    if constexpr (exponential) query_maxima<F>(rule.directions, z, maxima);
    for_queries(rule.directions, z, [&](float* at, std::size_t r, auto used) HWY_ATTR {
        const V shift = hn::Set(d, -maxima[r]);
        const V u = hn::Load(d, at);
        V first = F::first(u, shift, epsilon);
        if constexpr (exponential) first = hn::Add(first, epsilon);
        hn::Store(hn::IfThenElseZero(used, first), d, at);
        if constexpr (F::two)
            hn::Store(hn::IfThenElseZero(used, hn::Add(F::second(u, shift), epsilon)), d, at + second);
    });
}

void queries_cos_sin(const FeatureRule& rule, std::span<float> maxima, Panels& z) {
    std::ranges::fill(maxima, 0.0F);
    std::vector<float> u(z.rows() * z.width());
    const std::size_t panels = rule.padded() / z.width();
    for (std::size_t p = 0; p < panels; ++p) {
        std::copy_n(z.panel(p), u.size(), u.data());
        ops::cos_sin(u, 1.0F, {z.panel(p), u.size()}, {z.panel(p + panels), u.size()});
    }
}

// Clears the features of directions that do not exist: the last columns of each part.
void clear_padding_columns(const FeatureRule& rule, Panels& z) {
    for (std::size_t part = 0; part < rule.features(); part += rule.padded()) {
        for (std::size_t c = part + rule.directions; c < part + rule.padded(); ++c) {
            for (std::size_t r = 0; r < z.rows(); ++r) z(r, c) = 0.0F;
        }
    }
}

void query_features(const FeatureRule& rule, std::span<float> maxima, Panels& z) {
    switch (rule.form) {
        case AttentionForm::positive:
            queries<Positive, true>(rule, maxima, z);
            break;
        case AttentionForm::single:
        case AttentionForm::exp:
            queries<Single, true>(rule, maxima, z);
            break;
        case AttentionForm::cos_sin:
            queries_cos_sin(rule, maxima, z);
            break;
        case AttentionForm::relu:
            queries<Relu, false>(rule, maxima, z);
            break;
        case AttentionForm::elu:
            queries<Elu, false>(rule, maxima, z);
            break;
        case AttentionForm::square:
            queries<Square, false>(rule, maxima, z);
            break;
    }
    clear_padding_columns(rule, z);
}

// One row of softmax_block.
HWY_INLINE void softmax_row(std::size_t r, std::size_t limit, std::span<const float> biases, SoftmaxRow& row,
                            Panels& scores) {
    const D d;
    const V none = hn::Set(d, -kInfinity);
    const std::size_t lanes = hn::Lanes(d);
    float* base = scores.panel(0);
    V most = hn::Set(d, row.most);
    const std::size_t columns = biases.size();
    std::size_t first = 0;
    for_row(scores, r, columns, [&](std::size_t at, std::size_t) HWY_ATTR {
        const auto used = hn::FirstN(d, limit > first ? std::min(limit - first, lanes) : 0);
        const V s = hn::Add(hn::Load(d, base + at), hn::LoadU(d, biases.data() + first));
        const V score = hn::IfThenElse(used, s, none);
        hn::Store(score, d, base + at);
        most = hn::Max(most, score);
        first += lanes;
    });
    const float now = hn::GetLane(hn::MaxOfLanes(d, most));
    row.factor = row.most == now ? 1.0F : exp_of_number(row.most - now);
    row.most = now;
    const V shift = hn::Set(d, now == -kInfinity ? 0.0F : now);
    V sum = hn::Zero(d);
    for_row(scores, r, columns, [&](std::size_t at, std::size_t) HWY_ATTR {
        const V p = exp_of(hn::Sub(hn::Load(d, base + at), shift));
        hn::Store(p, d, base + at);
        sum = hn::Add(sum, p);
    });
    row.sum = row.sum * row.factor + hn::GetLane(hn::SumOfLanes(d, sum));
}

void softmax_block(std::span<const std::size_t> limits, std::span<const float> biases,
                   std::span<SoftmaxRow> rows, Panels& scores) {
    for (std::size_t r = 0; r < scores.rows(); ++r) softmax_row(r, limits[r], biases, rows[r], scores);
}

}  // namespace imka::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace imka::ops {

HWY_EXPORT(key_features);
HWY_EXPORT(key_exponents);
HWY_EXPORT(column_squares);
HWY_EXPORT(row_sums);
HWY_EXPORT(query_features);
HWY_EXPORT(row_dots);
HWY_EXPORT(softmax_block);

void key_exponents(const FeatureRule& rule, std::span<const float> shifts, const Panels& t,
                   std::span<float> exponents) {
    assert(shifts.size() == t.panels() * t.width() && t.rows() == rule.features());
    assert(exponents.size() == shifts.size());
    HWY_DYNAMIC_DISPATCH(key_exponents)(rule, shifts, t, exponents);
}

void column_squares(const Panels& x, std::span<float> sums) {
    assert(sums.size() == x.panels() * x.width());
    HWY_DYNAMIC_DISPATCH(column_squares)(x, sums);
}

void key_features(const FeatureRule& rule, std::span<const float> shifts, Panels& t) {
    assert(shifts.size() == t.panels() * t.width() && t.rows() == rule.features());
    HWY_DYNAMIC_DISPATCH(key_features)(rule, shifts, t);
}

void row_sums(const Panels& t, std::span<float> sums) {
    assert(sums.size() == t.rows());
    HWY_DYNAMIC_DISPATCH(row_sums)(t, sums);
}

void query_features(const FeatureRule& rule, std::span<float> maxima, Panels& z) {
    assert(maxima.size() == z.rows() && z.cols() == rule.features());
    HWY_DYNAMIC_DISPATCH(query_features)(rule, maxima, z);
}

void row_dots(const Panels& z, std::span<const float> w, std::span<float> out) {
    assert(w.size() == z.panels() * z.width() && out.size() == z.rows());
    HWY_DYNAMIC_DISPATCH(row_dots)(z, w, out);
}

void softmax_block(std::span<const std::size_t> limits, std::span<const float> biases,
                   std::span<SoftmaxRow> rows, Panels& scores) {
    assert(limits.size() == scores.rows() && rows.size() == scores.rows());
    assert(biases.size() == scores.panels() * scores.width());
    HWY_DYNAMIC_DISPATCH(softmax_block)(limits, biases, rows, scores);
}

}  // namespace imka::ops
#endif
