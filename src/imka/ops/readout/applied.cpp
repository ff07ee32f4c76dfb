// Compiled once per instruction set; the best one that the processor supports is called.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "imka/ops/readout/applied.cpp"
#include "imka/ops/vector_targets.hpp"

#include <hwy/foreach_target.h>

#include "imka/ops/readout/applied.hpp"

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace imka::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <StepRounding kRounding>
bool apply_row_as(const StepScale& scale, std::span<const float> x, std::span<float> out) {
    const hn::ScalableTag<double> dd;
    const hn::Rebind<float, decltype(dd)> df;
    const auto range = hn::Set(dd, scale.range);
    const auto levels = hn::Set(dd, static_cast<double>(scale.levels));
    const auto size = hn::Set(dd, scale.range / scale.levels);
    const auto one = hn::Set(dd, 1.0);
    const auto largest = hn::Set(df, std::numeric_limits<float>::max());
    auto finite = hn::Eq(largest, largest);
    const auto apply = [&](auto in) {
        finite = hn::And(finite, hn::Le(hn::Abs(in), largest));
        const auto share = hn::Div(hn::PromoteTo(dd, in), range);
        const auto exact = hn::Mul(hn::Min(hn::Max(share, hn::Neg(one)), one), levels);
        // A step that rounds to -0 is 0.
        const auto step =
            hn::Add(kRounding == StepRounding::nearest ? hn::Round(exact) : hn::Trunc(exact), hn::Zero(dd));
        return hn::DemoteTo(df, hn::Mul(size, step));
    };
    const std::size_t lanes = hn::Lanes(df);
    std::size_t i = 0;
    for (; i + lanes <= x.size(); i += lanes)
        hn::StoreU(apply(hn::LoadU(df, x.data() + i)), df, out.data() + i);
    if (i < x.size()) {
        HWY_ALIGN std::array<float, hn::MaxLanes(df)> rest{};
        std::copy(x.begin() + static_cast<std::ptrdiff_t>(i), x.end(), rest.begin());
        hn::Store(apply(hn::Load(df, rest.data())), df, rest.data());
        std::copy_n(rest.begin(), x.size() - i, out.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return hn::AllTrue(df, finite);
}

bool apply_row(const StepScale& scale, std::span<const float> x, std::span<float> out) {
    return scale.rounding == StepRounding::nearest ? apply_row_as<StepRounding::nearest>(scale, x, out)
                                                   : apply_row_as<StepRounding::truncate>(scale, x, out);
}

}  // namespace imka::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace imka::ops {

HWY_EXPORT(apply_row);

bool apply_row(const StepScale& scale, std::span<const float> x, std::span<float> out) {
    assert(out.size() == x.size() && scale.range > 0.0);
    return HWY_DYNAMIC_DISPATCH(apply_row)(scale, x, out);
}

}  // namespace imka::ops
#endif
