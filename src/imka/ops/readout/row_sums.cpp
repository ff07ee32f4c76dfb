// Compiled once per instruction set; the best one that the processor supports is called.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "imka/ops/readout/row_sums.cpp"
#include "imka/ops/vector_targets.hpp"

#include <hwy/foreach_target.h>

#include "imka/ops/readout/row_sums.hpp"

#include <hwy/highway.h>

#include <array>
#include <cassert>

HWY_BEFORE_NAMESPACE();
namespace imka::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void row_sums(std::span<const std::uint32_t> rows, std::span<const double> factors, MatrixView<const float> m,
              std::span<double> sums) {
    const hn::ScalableTag<double> dd;
    const hn::Rebind<float, decltype(dd)> df;
    const std::size_t lanes = hn::Lanes(dd);
    std::size_t c = 0;
    // Four independent sums hide the latency of additions.
    for (; c + 4 * lanes <= sums.size(); c += 4 * lanes) {
        auto s0 = hn::Zero(dd);
        auto s1 = s0;
        auto s2 = s0;
        auto s3 = s0;
        for (std::size_t k = 0; k < rows.size(); ++k) {
            const auto f = hn::Set(dd, factors[k]);
            const float* w = m.data() + rows[k] * m.stride() + c;
            s0 = hn::Add(s0, hn::Mul(f, hn::PromoteTo(dd, hn::LoadU(df, w))));
            s1 = hn::Add(s1, hn::Mul(f, hn::PromoteTo(dd, hn::LoadU(df, w + lanes))));
            s2 = hn::Add(s2, hn::Mul(f, hn::PromoteTo(dd, hn::LoadU(df, w + 2 * lanes))));
            s3 = hn::Add(s3, hn::Mul(f, hn::PromoteTo(dd, hn::LoadU(df, w + 3 * lanes))));
        }
        hn::StoreU(s0, dd, sums.data() + c);
        hn::StoreU(s1, dd, sums.data() + c + lanes);
        hn::StoreU(s2, dd, sums.data() + c + 2 * lanes);
        hn::StoreU(s3, dd, sums.data() + c + 3 * lanes);
    }
    for (; c + lanes <= sums.size(); c += lanes) {
        auto s = hn::Zero(dd);
        for (std::size_t k = 0; k < rows.size(); ++k) {
            const float* w = m.data() + rows[k] * m.stride() + c;
            s = hn::Add(s, hn::Mul(hn::Set(dd, factors[k]), hn::PromoteTo(dd, hn::LoadU(df, w))));
        }
        hn::StoreU(s, dd, sums.data() + c);
    }
    for (; c < sums.size(); ++c) {
        double s = 0.0;
        for (std::size_t k = 0; k < rows.size(); ++k) s += factors[k] * double{m(rows[k], c)};
        sums[c] = s;
    }
}

}  // namespace imka::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace imka::ops {

HWY_EXPORT(row_sums);

void row_sums(std::span<const std::uint32_t> rows, std::span<const double> factors, MatrixView<const float> m,
              std::span<double> sums) {
    assert(rows.size() == factors.size() && m.cols() == sums.size());
    HWY_DYNAMIC_DISPATCH(row_sums)(rows, factors, m, sums);
}

}  // namespace imka::ops
#endif
