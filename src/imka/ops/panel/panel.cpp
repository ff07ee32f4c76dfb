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
// Length of the next chain if `left` products of a sum remain (results in rows): at most 448, so that panels
// of the right factor stay in a cache. The last two chains have about the same length. The lengths define the
// bits of results, which are those of the AVX-512 kernels of OpenBLAS 0.3.21.
inline std::size_t chain_length(std::size_t left) {
    constexpr std::size_t kMost = 448;
    if (left >= 2 * kMost) return kMost;
    return left > kMost ? (left / 2 + 15) / 16 * 16 : left;
}
struct ResultRows {
    float* base;
    std::size_t stride;
    std::size_t cols;
};
// Rows of b for rows of panels. keep: rows with 0 there become 0; none: all are kept.
struct CopiedRows {
    const float* base;
    std::size_t rows;
    std::size_t stride;
    std::size_t cols;
    float scale;
    const unsigned char* keep;
};
// Rows of b as columns of a panel; from[c] is null for a column of zeros.
struct Transposition {
    const float* const* from;
    std::size_t depth;
    float scale;
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

// Destination of the results of some rows and one panel.
struct ToPanel {
    float* c;
    HWY_INLINE void operator()(std::size_t r, V low, V high) const {
        const D d;
        const std::size_t lanes = hn::Lanes(d);
        hn::Store(low, d, c + r * 2 * lanes);
        hn::Store(high, d, c + r * 2 * lanes + lanes);
    }
};
struct ToRows {
    float* c;
    std::size_t stride;
    std::size_t cols;  // of the panel
    bool adds;
    HWY_INLINE void operator()(std::size_t r, V low, V high) const {
        const D d;
        const std::size_t lanes = hn::Lanes(d);
        float* to = c + r * stride;
        if (cols == 2 * lanes) {
            hn::StoreU(adds ? hn::Add(hn::LoadU(d, to), low) : low, d, to);
            hn::StoreU(adds ? hn::Add(hn::LoadU(d, to + lanes), high) : high, d, to + lanes);
        } else {
            write_some(low, cols, to);
            if (cols > lanes) write_some(high, cols - lanes, to + lanes);
        }
    }
    HWY_INLINE void write_some(V v, std::size_t count, float* to) const {
        const D d;
        HWY_ALIGN float values[hn::MaxLanes(D())];
        hn::Store(v, d, values);
        for (std::size_t i = 0; i < std::min(count, hn::Lanes(d)); ++i)
            to[i] = adds ? to[i] + values[i] : values[i];
    }
};

// Sums over k of a(r, k) b(k) for sizeof...(R) rows and one panel. kTransposed: left.row and left.depth
// are 1.
template <bool kTransposed, class To, std::size_t... R>
HWY_INLINE void rows_times_panel(const float* HWY_RESTRICT a, const LeftFactor& left,
                                 const float* HWY_RESTRICT b, std::size_t depth, const To& to,
                                 std::index_sequence<R...>) {
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    const std::size_t row = kTransposed ? 1 : left.row;
    const std::size_t run = kTransposed ? 1 : left.depth;
    std::array<V, sizeof...(R)> low{((void)R, hn::Zero(d))...};
    std::array<V, sizeof...(R)> high{((void)R, hn::Zero(d))...};
    for (std::size_t first = 0; first < depth; first += run, a += left.leap) {
        const std::size_t count = kTransposed ? 1 : std::min(run, depth - first);
        for (std::size_t k = 0; k < count; ++k, b += 2 * lanes) {
            const V b0 = hn::Load(d, b);
            const V b1 = hn::Load(d, b + lanes);
            // Indexed by constants only: the compiler keeps the accumulators in registers.
            ((low[R] = hn::MulAdd(hn::Set(d, a[R * row + k]), b0, low[R]),
              high[R] = hn::MulAdd(hn::Set(d, a[R * row + k]), b1, high[R])),
             ...);
        }
    }
    (to(R, low[R], high[R]), ...);
}

// The remaining rows, fewer than kRows.
template <bool kTransposed, std::size_t Rows, class To>
HWY_INLINE void last_rows(std::size_t rows, const float* a, const LeftFactor& left, const float* b,
                          std::size_t depth, const To& to) {
    if constexpr (Rows > 0) {
        if (rows == Rows)
            return rows_times_panel<kTransposed>(a, left, b, depth, to, std::make_index_sequence<Rows>());
        last_rows<kTransposed, Rows - 1>(rows, a, left, b, depth, to);
    }
}

void multiply_panels(const LeftFactor& a, const RightFactor& b, const ResultPanels& c) {
    const std::size_t width = panel_width();
    for (std::size_t p = 0; p < b.panels; ++p) {
        const float* panel = b.base + p * b.rows * width;
        float* out = c.base + p * c.leap;
        std::size_t i = 0;
        for (; i + kRows <= a.rows; i += kRows)
            rows_times_panel<false>(a.base + i * a.row, a, panel, b.rows, ToPanel{out + i * width},
                                    std::make_index_sequence<kRows>());
        last_rows<false, kRows - 1>(a.rows - i, a.base + i * a.row, a, panel, b.rows,
                                    ToPanel{out + i * width});
    }
}

template <bool kTransposed>
HWY_INLINE void multiply_to_rows(const LeftFactor& a, const RightFactor& b, const ResultRows& c) {
    const std::size_t width = panel_width();
    for (std::size_t k = 0, depth = 0; k < b.rows; k += depth) {
        depth = chain_length(b.rows - k);
        for (std::size_t p = 0; p < b.panels; ++p) {
            const float* panel = b.base + (p * b.rows + k) * width;
            ToRows to{c.base + p * width, c.stride, std::min(width, c.cols - p * width), k > 0};
            const float* rows = a.base + k / a.depth * a.leap + k % a.depth;
            std::size_t left = a.rows;
            for (; left >= kRows; left -= kRows, rows += kRows * a.row, to.c += kRows * c.stride)
                rows_times_panel<kTransposed>(rows, a, panel, depth, to, std::make_index_sequence<kRows>());
            last_rows<kTransposed, kRows - 1>(left, rows, a, panel, depth, to);
        }
    }
}

void multiply_rows(const LeftFactor& a, const RightFactor& b, const ResultRows& c) {
    a.row == 1 && a.depth == 1 ? multiply_to_rows<true>(a, b, c) : multiply_to_rows<false>(a, b, c);
}

// Rows [k, last) of four columns of a panel, in blocks of 4 x 4.
HWY_INLINE void transpose_four(const float* const* from, float scale, std::size_t k, std::size_t last,
                               std::size_t width, float* to) {
#if HWY_TARGET != HWY_SCALAR
    const hn::FixedTag<float, 4> d;
    const auto factor = hn::Set(d, scale);
    for (; k + 4 <= last; k += 4) {
        const auto r0 = hn::LoadU(d, from[0] + k);
        const auto r1 = hn::LoadU(d, from[1] + k);
        const auto r2 = hn::LoadU(d, from[2] + k);
        const auto r3 = hn::LoadU(d, from[3] + k);
        const auto low01 = hn::InterleaveLower(d, r0, r1);
        const auto low23 = hn::InterleaveLower(d, r2, r3);
        const auto high01 = hn::InterleaveUpper(d, r0, r1);
        const auto high23 = hn::InterleaveUpper(d, r2, r3);
        float* out = to + k * width;
        hn::StoreU(hn::Mul(factor, hn::ConcatLowerLower(d, low23, low01)), d, out);
        hn::StoreU(hn::Mul(factor, hn::ConcatUpperUpper(d, low23, low01)), d, out + width);
        hn::StoreU(hn::Mul(factor, hn::ConcatLowerLower(d, high23, high01)), d, out + 2 * width);
        hn::StoreU(hn::Mul(factor, hn::ConcatUpperUpper(d, high23, high01)), d, out + 3 * width);
    }
#endif
    for (; k < last; ++k) {
        for (std::size_t c = 0; c < 4; ++c) to[k * width + c] = scale * from[c][k];
    }
}

void transpose_panel(const Transposition& t, float* to) {
    constexpr std::size_t kBlock = 64;  // rows of a panel that stay in the cache
    const std::size_t width = panel_width();
    for (std::size_t k = 0; k < t.depth; k += kBlock) {
        const std::size_t last = std::min(k + kBlock, t.depth);
        for (std::size_t c = 0; c < width;) {
            const auto used = [&](std::size_t i) { return t.from[i] != nullptr; };
            if (c + 4 <= width && used(c) && used(c + 1) && used(c + 2) && used(c + 3)) {
                transpose_four(t.from + c, t.scale, k, last, width, to + c);
                c += 4;
            } else {
                for (std::size_t i = k; i < last; ++i)
                    to[i * width + c] = used(c) ? t.scale * t.from[c][i] : 0.0F;
                ++c;
            }
        }
    }
}

// Copies a row of b, or zeros if it is null, to the same row of all panels.
HWY_INLINE void copy_row(const float* from, std::size_t cols, float scale, std::size_t leap, float* to) {
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    const std::size_t width = 2 * lanes;
    const V factor = hn::Set(d, scale);
    std::size_t c = 0;
    if (from != nullptr) {
        for (; c + width <= cols; c += width, to += leap) {
            hn::Store(hn::Mul(factor, hn::LoadU(d, from + c)), d, to);
            hn::Store(hn::Mul(factor, hn::LoadU(d, from + c + lanes)), d, to + lanes);
        }
    }
    for (; c < cols; c += width, to += leap) {
        for (std::size_t i = 0; i < width; ++i)
            to[i] = from != nullptr && c + i < cols ? scale * from[c + i] : 0.0F;
    }
}

void copy_rows(const CopiedRows& b, const ResultPanels& to) {
    for (std::size_t r = 0; r < b.rows; ++r) {
        const bool keeps = b.keep == nullptr || b.keep[r] != 0;
        copy_row(keeps ? b.base + r * b.stride : nullptr, b.cols, b.scale, to.leap,
                 to.base + r * panel_width());
    }
}

}  // namespace imka::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace imka::ops {

HWY_EXPORT(panel_width);
HWY_EXPORT(multiply_panels);
HWY_EXPORT(multiply_rows);
HWY_EXPORT(transpose_panel);
HWY_EXPORT(copy_rows);

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
    HWY_DYNAMIC_DISPATCH(copy_rows)
    ({.base = b.data(),
      .rows = b.rows(),
      .stride = b.stride(),
      .cols = b.cols(),
      .scale = scale,
      .keep = keep.empty() ? nullptr : keep.data()},
     {.base = out.panel(0), .leap = out.rows() * out.width()});
}

void pack_transposed(MatrixView<const float> b, float scale, std::span<const unsigned char> keep,
                     Panels& out) {
    assert(out.rows() >= b.cols() && out.cols() == b.rows());
    std::vector<const float*> from(out.width());
    for (std::size_t p = 0; p < out.panels(); ++p) {
        for (std::size_t c = 0; c < out.width(); ++c) {
            const std::size_t r = p * out.width() + c;
            from[c] = r < b.rows() && (keep.empty() || keep[r] != 0) ? b.row(r).data() : nullptr;
        }
        HWY_DYNAMIC_DISPATCH(transpose_panel)({from.data(), b.cols(), scale}, out.panel(p));
    }
}

void repack(MatrixView<const float> b, Panels& out) {
    out.reshape(b.rows(), b.cols());
    pack(b, 1.0F, {}, out);
}

Panels packed(MatrixView<const float> b) {
    Panels out;
    repack(b, out);
    return out;
}

Panels packed_transposed(MatrixView<const float> b) {
    Panels out(b.cols(), b.rows());
    pack_transposed(b, 1.0F, {}, out);
    return out;
}

void multiply(MatrixView<const float> a, const Panels& b, Panels& c) {
    assert(a.cols() == b.rows() && c.rows() >= a.rows() && c.panels() >= b.panels());
    const std::size_t depth = std::max<std::size_t>(1, a.cols());
    HWY_DYNAMIC_DISPATCH(multiply_panels)
    ({.base = a.data(), .rows = a.rows(), .row = a.stride(), .depth = depth, .leap = 0},
     {.base = b.panel(0), .rows = b.rows(), .panels = b.panels()},
     {.base = c.panel(0), .leap = c.rows() * c.width()});
}

namespace {

struct PanelRange {
    const Panels* panels;
    std::size_t first;
    std::size_t count;
};

void multiply_into(const LeftFactor& a, const PanelRange& range, MatrixView<float> c) {
    const Panels& b = *range.panels;
    if (b.rows() == 0) {
        for (std::size_t r = 0; r < c.rows(); ++r) std::ranges::fill(c.row(r), 0.0F);
        return;
    }
    HWY_DYNAMIC_DISPATCH(multiply_rows)
    (a, {.base = b.panel(range.first), .rows = b.rows(), .panels = range.count},
     {.base = c.data(), .stride = c.stride(), .cols = c.cols()});
}

}  // namespace

void multiply(MatrixView<const float> a, const Panels& b, MatrixView<float> c) {
    assert(a.cols() == b.rows() && c.rows() == a.rows() && c.cols() == b.cols());
    multiply_into({.base = a.data(), .rows = a.rows(), .row = a.stride(), .depth = a.cols(), .leap = 0},
                  {&b, 0, b.panels()}, c);
}

void multiply_transposed(MatrixView<const float> a, const Panels& b, MatrixView<float> c) {
    assert(a.rows() == b.rows() && c.rows() == a.cols() && c.cols() == b.cols());
    multiply_into({.base = a.data(), .rows = a.cols(), .row = 1, .depth = 1, .leap = a.stride()},
                  {&b, 0, b.panels()}, c);
}

namespace {

// Panels of the right factor that stay in the L2 cache while the left factor is read.
constexpr std::size_t kStaying = 4;

// Computes the rows of c that belong to panel `left` of a.
void multiply_panel(const Panels& a, std::size_t left, const PanelRange& b, MatrixView<float> c) {
    const std::size_t width = a.width();
    const std::size_t row = left * width;
    const std::size_t col = b.first * width;
    const std::size_t rows = std::min(width, c.rows() - row);
    const std::size_t cols = std::min(b.count * width, c.cols() - col);
    multiply_into({.base = a.panel(left), .rows = rows, .row = 1, .depth = 1, .leap = width}, b,
                  c.slice_rows(row, rows).slice_cols(col, cols));
}

}  // namespace

void multiply_transposed(const Panels& a, const Panels& b, MatrixView<float> c) {
    assert(a.rows() == b.rows() && c.rows() == a.cols() && c.cols() == b.cols());
    for (std::size_t first = 0; first < b.panels(); first += kStaying) {
        const PanelRange right{&b, first, std::min(kStaying, b.panels() - first)};
        for (std::size_t left = 0; left < a.panels(); ++left) multiply_panel(a, left, right, c);
    }
}

void multiply_transposed_upper(const Panels& a, MatrixView<float> c) {
    assert(c.rows() == a.cols() && c.cols() == a.cols());
    for (std::size_t first = 0; first < a.panels(); first += kStaying) {
        const std::size_t last = std::min(first + kStaying, a.panels());
        for (std::size_t left = 0; left < last; ++left) {
            const std::size_t right = std::max(first, left);
            multiply_panel(a, left, {&a, right, last - right}, c);
        }
    }
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
