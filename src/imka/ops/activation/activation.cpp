// Compiled once per instruction set; the best one that the processor supports is called.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "imka/ops/activation/activation.cpp"
#include "imka/ops/vector_targets.hpp"

#include <hwy/foreach_target.h>

#include "imka/ops/activation/activation.hpp"

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace imka::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using Buffer = std::array<float, hn::MaxLanes(D())>;

// Full vectors are loaded directly; a remainder is padded, so that the same instructions apply to it.
HWY_INLINE V load(const float* x, std::size_t count, float padding) {
    const D d;
    if (count >= hn::Lanes(d)) return hn::LoadU(d, x);
    HWY_ALIGN Buffer buffer;
    buffer.fill(padding);
    std::copy_n(x, count, buffer.data());
    return hn::Load(d, buffer.data());
}

HWY_INLINE void store(V v, std::size_t count, float* y) {
    const D d;
    if (count >= hn::Lanes(d)) {
        hn::StoreU(v, d, y);
        return;
    }
    HWY_ALIGN Buffer buffer;
    hn::Store(v, d, buffer.data());
    std::copy_n(buffer.data(), count, y);
}

// Calls body(first, count) for each full vector and once for the remainder.
template <class Body>
HWY_INLINE void for_each_vector(std::size_t size, const Body& body) {
    const std::size_t lanes = hn::Lanes(D());
    for (std::size_t i = 0; i < size; i += lanes) body(i, std::min(lanes, size - i));
}

// erf(x) for |x| <= 4 as a quotient of polynomials in x² (minimax fits); beyond, erf is 1 in float.
HWY_INLINE V erf_of(V x) {
    const D d;
    x = hn::Min(hn::Max(x, hn::Set(d, -4.0F)), hn::Set(d, 4.0F));
    const V s = hn::Mul(x, x);
    V p = hn::Set(d, -2.72614225801306e-10F);
    p = hn::MulAdd(p, s, hn::Set(d, 2.77068142495902e-08F));
    p = hn::MulAdd(p, s, hn::Set(d, -2.10102402082508e-06F));
    p = hn::MulAdd(p, s, hn::Set(d, -5.69250639462346e-05F));
    p = hn::MulAdd(p, s, hn::Set(d, -7.34990630326855e-04F));
    p = hn::MulAdd(p, s, hn::Set(d, -2.95459980854025e-03F));
    p = hn::MulAdd(p, s, hn::Set(d, -1.60960333262415e-02F));
    V q = hn::Set(d, -1.45660718464996e-05F);
    q = hn::MulAdd(q, s, hn::Set(d, -2.13374055278905e-04F));
    q = hn::MulAdd(q, s, hn::Set(d, -1.68282697438203e-03F));
    q = hn::MulAdd(q, s, hn::Set(d, -7.37332916720468e-03F));
    q = hn::MulAdd(q, s, hn::Set(d, -1.42647390514189e-02F));
    return hn::Div(hn::Mul(x, p), q);
}

void gelu(std::span<const float> x, std::span<float> y) {
    const D d;
    for_each_vector(x.size(), [&](std::size_t i, std::size_t count) {
        const V v = load(x.data() + i, count, 0.0F);
        const V half = hn::Mul(v, hn::Set(d, 0.5F));
        const V result = hn::MulAdd(half, erf_of(hn::Mul(v, hn::Set(d, 0.70710678F))), half);
        // Min and Max may drop NaN.
        store(hn::IfThenElse(hn::IsNaN(v), v, result), count, y.data() + i);
    });
}

// The largest element; infinity if one is NaN or infinite.
HWY_INLINE float max_of(std::span<const float> x) {
    const D d;
    V most = hn::Set(d, x[0]);
    auto wrong = hn::IsNaN(most);
    for_each_vector(x.size(), [&](std::size_t i, std::size_t count) {
        const V v = load(x.data() + i, count, x[0]);
        wrong = hn::Or(wrong, hn::IsNaN(v));
        most = hn::Max(most, v);
    });
    if (!hn::AllFalse(d, wrong)) return std::numeric_limits<float>::infinity();
    return hn::GetLane(hn::MaxOfLanes(d, most));
}

// Softmax of rows with NaN or infinities.
void softmax_rest(std::span<const float> x, std::span<float> y) {
    float most = -std::numeric_limits<float>::infinity();
    for (const float v : x) most = v != v || v > most ? v : most;
    const bool infinite = most == std::numeric_limits<float>::infinity();
    float sum = 0.0F;
    for (std::size_t i = 0; i < x.size(); ++i) {
        y[i] = infinite && x[i] == most ? 1.0F : std::exp(x[i] - most);
        sum += y[i];
    }
    for (auto& v : y) v /= sum;
}

void softmax(std::span<const float> x, std::span<float> y) {
    const D d;
    if (x.empty()) return;
    const float most = max_of(x);
    if (!(std::abs(most) <= std::numeric_limits<float>::max())) return softmax_rest(x, y);
    const V shift = hn::Set(d, most);
    const V least = hn::Set(d, -104.0F);  // exp of less is 0
    V sums = hn::Zero(d);
    float rest = 0.0F;
    for_each_vector(x.size(), [&](std::size_t i, std::size_t count) {
        const V v = hn::Exp(d, hn::Max(hn::Sub(load(x.data() + i, count, most), shift), least));
        store(v, count, y.data() + i);
        if (count == hn::Lanes(d)) {
            sums = hn::Add(sums, v);
        } else {
            for (std::size_t k = i; k < i + count; ++k) rest += y[k];
        }
    });
    const V scale = hn::Set(d, 1.0F / (hn::GetLane(hn::SumOfLanes(d, sums)) + rest));
    for_each_vector(x.size(), [&](std::size_t i, std::size_t count) {
        store(hn::Mul(load(y.data() + i, count, 0.0F), scale), count, y.data() + i);
    });
}

// Sum of f(x[i]) over a row; f(padding) must be 0.
template <class F>
HWY_INLINE float sum_of(std::span<const float> x, float padding, const F& f) {
    const D d;
    V sums = hn::Zero(d);
    for_each_vector(x.size(), [&](std::size_t i, std::size_t count) {
        sums = hn::Add(sums, f(load(x.data() + i, count, padding)));
    });
    return hn::GetLane(hn::SumOfLanes(d, sums));
}

LayerMoments layer_norm(std::span<const float> x, const LayerScale& layer, std::span<float> y) {
    const D d;
    const auto n = static_cast<float>(x.size());
    const float mean = sum_of(x, 0.0F, [](V v) { return v; }) / n;
    const V centre = hn::Set(d, mean);
    const float squares = sum_of(x, mean, [&](V v) {
        const V c = hn::Sub(v, centre);
        return hn::Mul(c, c);
    });
    const float inverse = 1.0F / std::sqrt(squares / n + layer.epsilon);
    const V factor = hn::Set(d, inverse);
    for_each_vector(x.size(), [&](std::size_t i, std::size_t count) {
        const V v = hn::Mul(hn::Sub(load(x.data() + i, count, mean), centre), factor);
        store(hn::MulAdd(v, load(layer.scale.data() + i, count, 0.0F),
                         load(layer.bias.data() + i, count, 0.0F)),
              count, y.data() + i);
    });
    return {mean, inverse};
}

}  // namespace imka::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace imka::ops {

HWY_EXPORT(gelu);
HWY_EXPORT(softmax);
HWY_EXPORT(layer_norm);

void gelu(std::span<const float> x, std::span<float> y) {
    assert(y.size() == x.size());
    HWY_DYNAMIC_DISPATCH(gelu)(x, y);
}

void softmax(std::span<const float> x, std::span<float> y) {
    assert(y.size() == x.size());
    HWY_DYNAMIC_DISPATCH(softmax)(x, y);
}

LayerMoments layer_norm(std::span<const float> x, const LayerScale& layer, std::span<float> y) {
    assert(y.size() == x.size() && layer.scale.size() == x.size() && layer.bias.size() == x.size());
    return HWY_DYNAMIC_DISPATCH(layer_norm)(x, layer, y);
}

}  // namespace imka::ops
#endif
