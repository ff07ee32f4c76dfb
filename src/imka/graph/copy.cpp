#include "imka/graph/copy.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace imka::graph {
namespace {

struct Axis {
    std::size_t size;
    std::int64_t from;
    std::int64_t to;
};

// Neighbouring axes that are one run in both tensors become one axis.
std::vector<Axis> merged_axes(const StridedCopy& copy) {
    std::vector<Axis> axes;
    for (std::size_t i = 0; i < copy.shape.size(); ++i) {
        const Axis next{static_cast<std::size_t>(copy.shape[i]), copy.from_strides[i], copy.to_strides[i]};
        if (next.size == 1) continue;
        const auto size = static_cast<std::int64_t>(next.size);
        if (!axes.empty() && axes.back().from == next.from * size && axes.back().to == next.to * size) {
            axes.back() = {axes.back().size * next.size, next.from, next.to};
        } else {
            axes.push_back(next);
        }
    }
    return axes;
}

// Two inner axes: `col` is the last axis of `to`; `row` is contiguous in `from` if `col` is not and such an
// axis exists.
struct Plane {
    Axis row;
    Axis col;
};

template <class T>
void copy_plane(const Plane& p, const std::byte* from_bytes, std::byte* to_bytes) {
    const auto* from = reinterpret_cast<const T*>(from_bytes);
    auto* to = reinterpret_cast<T*>(to_bytes);
    constexpr std::size_t kTile = 16;  // lines of both tensors stay in the cache
    for (std::size_t r0 = 0; r0 < p.row.size; r0 += kTile) {
        const std::size_t r1 = std::min(p.row.size, r0 + kTile);
        for (std::size_t c0 = 0; c0 < p.col.size; c0 += kTile) {
            const std::size_t c1 = std::min(p.col.size, c0 + kTile);
            for (std::size_t r = r0; r < r1; ++r) {
                const auto row = static_cast<std::int64_t>(r);
                for (std::size_t c = c0; c < c1; ++c) {
                    const auto col = static_cast<std::int64_t>(c);
                    to[row * p.row.to + col * p.col.to] = from[row * p.row.from + col * p.col.from];
                }
            }
        }
    }
}

void copy_plane(const Plane& p, std::size_t bytes, const std::byte* from, std::byte* to) {
    if (p.col.from == 1 && p.col.to == 1) {
        const auto size = static_cast<std::int64_t>(bytes);
        for (std::size_t r = 0; r < p.row.size; ++r) {
            const auto row = static_cast<std::int64_t>(r) * size;
            std::memcpy(to + row * p.row.to, from + row * p.row.from, p.col.size * bytes);
        }
    } else if (bytes == 4) {
        copy_plane<std::uint32_t>(p, from, to);
    } else if (bytes == 8) {
        copy_plane<std::uint64_t>(p, from, to);
    } else if (bytes == 2) {
        copy_plane<std::uint16_t>(p, from, to);
    } else {
        copy_plane<std::uint8_t>(p, from, to);
    }
}

// Removes the two inner axes from `axes`.
Plane take_plane(std::vector<Axis>& axes) {
    Plane plane{{1, 0, 0}, {1, 1, 1}};
    if (axes.empty()) return plane;
    plane.col = axes.back();
    axes.pop_back();
    if (axes.empty()) return plane;
    auto row = axes.end() - 1;
    if (plane.col.from != 1) {
        const auto neighbours = std::ranges::find(axes, 1, &Axis::from);
        if (neighbours != axes.end()) row = neighbours;
    }
    plane.row = *row;
    axes.erase(row);
    return plane;
}

}  // namespace

void copy_strided(const StridedCopy& copy, std::size_t element_bytes, const Exec& exec, const std::byte* from,
                  std::byte* to) {
    if (element_count(copy.shape) == 0) return;
    auto axes = merged_axes(copy);
    const Plane plane = take_plane(axes);
    std::size_t planes = 1;
    for (const auto& a : axes) planes *= a.size;
    const std::size_t grain = (std::size_t{1} << 16U) / (plane.row.size * plane.col.size) + 1;
    const auto size = static_cast<std::int64_t>(element_bytes);
    for_parts(exec, planes, grain, [&](std::size_t first, std::size_t count) {
        for (std::size_t p = first; p < first + count; ++p) {
            std::int64_t at_from = 0;
            std::int64_t at_to = 0;
            std::size_t rest = p;
            for (std::size_t i = axes.size(); i-- > 0;) {
                const auto index = static_cast<std::int64_t>(rest % axes[i].size);
                rest /= axes[i].size;
                at_from += index * axes[i].from;
                at_to += index * axes[i].to;
            }
            copy_plane(plane, element_bytes, from + at_from * size, to + at_to * size);
        }
    });
}

void transpose(const TensorView& in, const std::vector<std::size_t>& order, const Exec& exec,
               const MutableTensorView& out) {
    const auto strides = strides_of(in.shape);
    StridedCopy copy{out.shape, {}, strides_of(out.shape)};
    for (const auto axis : order) copy.from_strides.push_back(strides[axis]);
    copy_strided(copy, byte_size(in.type), exec, in.data, out.data);
}

void expand(const TensorView& in, const Exec& exec, const MutableTensorView& out) {
    const auto strides = strides_of(in.shape);
    StridedCopy copy{out.shape, std::vector<std::int64_t>(out.shape.size(), 0), strides_of(out.shape)};
    const std::size_t added = out.shape.size() - in.shape.size();
    for (std::size_t i = 0; i < in.shape.size(); ++i) {
        assert(in.shape[i] == 1 || in.shape[i] == out.shape[added + i]);
        if (in.shape[i] != 1) copy.from_strides[added + i] = strides[i];
    }
    copy_strided(copy, byte_size(in.type), exec, in.data, out.data);
}

AroundAxis around(const Shape& shape, std::size_t axis) {
    AroundAxis a;
    for (std::size_t i = 0; i < shape.size(); ++i) {
        const auto size = static_cast<std::size_t>(shape[i]);
        (i < axis ? a.outer : i == axis ? a.axis : a.inner) *= size;
    }
    return a;
}

}  // namespace imka::graph
