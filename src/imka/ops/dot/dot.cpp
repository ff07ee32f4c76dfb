// Compiled once per instruction set; the best one that the processor supports is called.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "imka/ops/dot/dot.cpp"
#include "imka/ops/vector_targets.hpp"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cassert>
#include <cstddef>

#include "imka/ops/dot/dot.hpp"

HWY_BEFORE_NAMESPACE();
namespace imka::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

double dot(const float* z, const double* w, std::size_t size) {
    const hn::ScalableTag<double> dd;
    const hn::Rebind<float, decltype(dd)> df;
    const std::size_t lanes = hn::Lanes(dd);
    // Two accumulators hide the latency of the additions.
    auto even = hn::Zero(dd);
    auto odd = hn::Zero(dd);
    std::size_t i = 0;
    for (; i + 2 * lanes <= size; i += 2 * lanes) {
        even = hn::MulAdd(hn::PromoteTo(dd, hn::LoadU(df, z + i)), hn::LoadU(dd, w + i), even);
        odd = hn::MulAdd(hn::PromoteTo(dd, hn::LoadU(df, z + i + lanes)), hn::LoadU(dd, w + i + lanes), odd);
    }
    double sum = hn::GetLane(hn::SumOfLanes(dd, hn::Add(even, odd)));
    for (; i < size; ++i) sum += static_cast<double>(z[i]) * w[i];
    return sum;
}

}  // namespace imka::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace imka::ops {

HWY_EXPORT(dot);

double dot(std::span<const float> z, std::span<const double> w) {
    assert(z.size() == w.size());
    return HWY_DYNAMIC_DISPATCH(dot)(z.data(), w.data(), z.size());
}

}  // namespace imka::ops
#endif
