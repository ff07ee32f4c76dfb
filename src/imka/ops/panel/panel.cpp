// Compiled once per instruction set; the best one that the processor supports is called.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "imka/ops/panel/panel.cpp"
#include "imka/ops/vector_targets.hpp"

#include <hwy/foreach_target.h>

#include "imka/ops/panel/panel.hpp"

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <utility>

#ifndef IMKA_OPS_PANEL_LEFT
#define IMKA_OPS_PANEL_LEFT
namespace imka::ops {
// A left factor: value (i, k) is at base + (k / depth) * leap + i * row + k % depth.
struct LeftFactor {
    const float* base;
    std::size_t rows;
    std::size_t row;
    std::size_t depth;
    std::size_t leap;
};
// Panels of a right factor and of a result.
struct RightFactor {
    const float* base;
    std::size_t rows;    // k
    std::size_t panels;  // each rows x width
};
struct ResultPanels {
    float* base;
    std::size_t leap;  // from panel to panel
};
}  // namespace imka::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace imka::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Rows per step: two accumulators each, and registers for two vectors of b and one value of a.
#if HWY_TARGET <= HWY_AVX3
constexpr std::size_t kRows = 12;
#else
constexpr std::size_t kRows = 6;
#endif

std::size_t panel_width() {
    return 2 * hn::Lanes(D());
}

// c[r] = sum over k of a(r, k) b(k) for sizeof...(R) rows and one panel.
template <std::size_t... R>
HWY_INLINE void rows_times_panel(const float* HWY_RESTRICT a, const LeftFactor& left,
                                 const float* HWY_RESTRICT b, std::size_t depth, float* HWY_RESTRICT c,
                                 std::index_sequence<R...>) {
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    const std::size_t row = left.row;
    std::array<V, sizeof...(R)> low{((void)R, hn::Zero(d))...};
    std::array<V, sizeof...(R)> high{((void)R, hn::Zero(d))...};
    for (std::size_t first = 0; first < depth; first += left.depth, a += left.leap) {
        const std::size_t count = std::min(left.depth, depth - first);
        for (std::size_t k = 0; k < count; ++k, b += 2 * lanes) {
            const V b0 = hn::Load(d, b);
            const V b1 = hn::Load(d, b + lanes);
            // Indexed by constants only: the compiler keeps the accumulators in registers.
            ((low[R] = hn::MulAdd(hn::Set(d, a[R * row + k]), b0, low[R]),
              high[R] = hn::MulAdd(hn::Set(d, a[R * row + k]), b1, high[R])),
             ...);
        }
    }
    ((hn::Store(low[R], d, c + R * 2 * lanes), hn::Store(high[R], d, c + R * 2 * lanes + lanes)), ...);
}

// The remaining rows, fewer than kRows.
template <std::size_t Rows>
HWY_INLINE void last_rows(std::size_t rows, const float* a, const LeftFactor& left, const float* b,
                          std::size_t depth, float* c) {
    if constexpr (Rows > 0) {
        if (rows == Rows) return rows_times_panel(a, left, b, depth, c, std::make_index_sequence<Rows>());
        last_rows<Rows - 1>(rows, a, left, b, depth, c);
    }
}

void multiply_panels(const LeftFactor& a, const RightFactor& b, const ResultPanels& c) {
    const std::size_t width = panel_width();
    for (std::size_t p = 0; p < b.panels; ++p) {
        const float* panel = b.base + p * b.rows * width;
        float* out = c.base + p * c.leap;
        std::size_t i = 0;
        for (; i + kRows <= a.rows; i += kRows)
            rows_times_panel(a.base + i * a.row, a, panel, b.rows, out + i * width,
                             std::make_index_sequence<kRows>());
        last_rows<kRows - 1>(a.rows - i, a.base + i * a.row, a, panel, b.rows, out + i * width);
    }
}

}  // namespace imka::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace imka::ops {

HWY_EXPORT(panel_width);
HWY_EXPORT(multiply_panels);

std::size_t panel_width() {
    return HWY_DYNAMIC_DISPATCH(panel_width)();
}

void Panels::reshape(std::size_t rows, std::size_t cols) {
    width_ = panel_width();
    rows_ = rows;
    cols_ = cols;
    const std::size_t size = panels() * rows * width_;
    if (values_.size() < size) values_.resize(size);
}

void pack(MatrixView<const float> b, float scale, std::span<const unsigned char> keep, Panels& out) {
    assert(out.rows() == b.rows() && out.panels() * out.width() >= b.cols());
    for (std::size_t first = 0, p = 0; first < b.cols(); first += out.width(), ++p) {
        const std::size_t count = std::min(out.width(), b.cols() - first);
        float* to = out.panel(p);
        for (std::size_t r = 0; r < b.rows(); ++r, to += out.width()) {
            std::fill_n(to, out.width(), 0.0F);
            if (!keep.empty() && keep[r] == 0) continue;
            const float* from = b.row(r).data() + first;
            for (std::size_t c = 0; c < count; ++c) to[c] = scale * from[c];
        }
    }
}

void pack_transposed(MatrixView<const float> b, float scale, std::span<const unsigned char> keep,
                     Panels& out) {
    assert(out.rows() >= b.cols() && out.cols() == b.rows());
    const std::size_t width = out.width();
    for (std::size_t p = 0; p < out.panels(); ++p) {
        float* to = out.panel(p);
        for (std::size_t c = 0; c < width; ++c) {
            const std::size_t r = p * width + c;
            const bool used = r < b.rows() && (keep.empty() || keep[r] != 0);
            const float* from = used ? b.row(r).data() : nullptr;
            for (std::size_t k = 0; k < b.cols(); ++k) to[k * width + c] = used ? scale * from[k] : 0.0F;
        }
    }
}

void multiply(MatrixView<const float> a, const Panels& b, Panels& c) {
    assert(a.cols() == b.rows() && c.rows() >= a.rows() && c.panels() >= b.panels());
    const std::size_t depth = std::max<std::size_t>(1, a.cols());
    HWY_DYNAMIC_DISPATCH(multiply_panels)
    ({.base = a.data(), .rows = a.rows(), .row = a.stride(), .depth = depth, .leap = 0},
     {.base = b.panel(0), .rows = b.rows(), .panels = b.panels()},
     {.base = c.panel(0), .leap = c.rows() * c.width()});
}

void multiply(const Panels& a, const Panels& b, Panels& c) {
    assert(a.cols() == b.rows() && c.rows() >= a.rows() && c.panels() >= b.panels());
    HWY_DYNAMIC_DISPATCH(multiply_panels)
    ({.base = a.panel(0),
      .rows = a.rows(),
      .row = a.width(),
      .depth = a.width(),
      .leap = a.rows() * a.width()},
     {.base = b.panel(0), .rows = b.rows(), .panels = b.panels()},
     {.base = c.panel(0), .leap = c.rows() * c.width()});
}

}  // namespace imka::ops
#endif
