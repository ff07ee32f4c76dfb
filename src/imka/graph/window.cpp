#include "imka/graph/window.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace imka::graph {
namespace {

constexpr std::int64_t kMostSize = std::int64_t{1} << 32U;  // products of two sizes do not overflow

std::vector<std::int64_t> sizes(const Node& node, std::string_view name, std::size_t count,
                                std::int64_t otherwise) {
    auto values = ints_attribute(node, name, std::vector<std::int64_t>(count, otherwise));
    if (values.size() != count)
        fail_node(node, fmt::format("{} has {} numbers; expected {}", in_quotes(name), values.size(), count));
    for (const auto v : values) {
        if (v < (otherwise == 0 ? 0 : 1) || v > kMostSize)
            fail_node(node, fmt::format("{} contains the invalid value {}", in_quotes(name), v));
    }
    return values;
}

std::int64_t extent(const WindowAxis& a) {
    return (a.kernel - 1) * a.dilation + 1;
}

// The kernel elements [begin, end) that lie in [low, high) if the window begins at `first`.
struct KernelRange {
    std::int64_t begin;
    std::int64_t end;
};
KernelRange inside(const WindowAxis& a, std::int64_t first, std::int64_t low, std::int64_t high) {
    const auto ceil_divide = [&](std::int64_t x) { return x <= 0 ? 0 : (x - 1) / a.dilation + 1; };
    const auto end = std::min(a.kernel, ceil_divide(high - first));
    return {std::min(ceil_divide(low - first), end), end};
}

void place_same(WindowAxis& a, bool upper) {
    a.out = (a.in + a.stride - 1) / a.stride;
    const std::int64_t pads = std::max<std::int64_t>(0, (a.out - 1) * a.stride + extent(a) - a.in);
    a.before = upper ? pads / 2 : pads - pads / 2;
    a.after = pads - a.before;
}

void place_padded(const Node& node, WindowAxis& a, bool ceil) {
    const std::int64_t room = a.in + a.before + a.after - extent(a);
    if (room < 0)
        fail_node(node,
                  fmt::format("a window of size {} does not fit an input of size {} with pads {} and {}",
                              extent(a), a.in, a.before, a.after));
    a.out = (room + (ceil ? a.stride - 1 : 0)) / a.stride + 1;
    // A window must begin inside the input or the pad before it.
    if (ceil && (a.out - 1) * a.stride >= a.in + a.before) --a.out;
}

}  // namespace

std::vector<WindowAxis> window_axes(const Node& node, const Dims& spatial,
                                    const std::vector<std::int64_t>& kernel) {
    const std::size_t n = spatial.size();
    if (kernel.size() != n)
        fail_node(node,
                  fmt::format("the kernel has {} axes, but the input has {} spatial axes", kernel.size(), n));
    const auto strides = sizes(node, "strides", n, 1);
    const auto dilations = sizes(node, "dilations", n, 1);
    const auto pads = sizes(node, "pads", 2 * n, 0);
    const auto mode = text_attribute(node, "auto_pad", "NOTSET");
    const bool ceil = int_attribute(node, "ceil_mode", 0) != 0;
    std::vector<WindowAxis> axes(n);
    for (std::size_t k = 0; k < n; ++k) {
        auto& a = axes[k];
        if (kernel[k] < 1 || kernel[k] > kMostSize)
            fail_node(node, fmt::format("invalid kernel size {}", kernel[k]));
        if (dilations[k] > kMostSize / kernel[k] || spatial[k].size > kMostSize)
            fail_node(node, "sizes are too large");
        a = {spatial[k].size, Dim::kUnknown, kernel[k], strides[k], dilations[k], pads[k], pads[n + k]};
        if (!spatial[k].known()) continue;
        if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
            place_same(a, mode == "SAME_UPPER");
            continue;
        }
        if (mode == "VALID") a.before = a.after = 0;
        if (mode != "VALID" && mode != "NOTSET" && !mode.empty())
            fail_node(node, fmt::format("unknown auto_pad {}", in_quotes(mode)));
        place_padded(node, a, ceil);
    }
    return axes;
}

Dims window_dims(const std::vector<WindowAxis>& axes) {
    Dims dims;
    for (const auto& a : axes) dims.push_back({a.out});
    return dims;
}

WindowPositions::WindowPositions(std::vector<WindowAxis> axes) : axes_(std::move(axes)) {
    for (const auto& a : axes_) {
        outputs_ *= static_cast<std::size_t>(a.out);
        inputs_ *= static_cast<std::size_t>(a.in);
        taps_ *= static_cast<std::size_t>(a.kernel);
    }
}

void WindowPositions::taps_at(std::size_t position, std::vector<Tap>& taps) const {
    taps.assign(1, {0, 0});
    // Axis by axis from the first: each tap so far is combined with the taps along the next axis.
    std::size_t rest_outputs = outputs_;
    std::size_t rest = position;
    std::vector<Tap> next;
    for (const auto& a : axes_) {
        rest_outputs /= static_cast<std::size_t>(a.out);
        const auto first = static_cast<std::int64_t>(rest / rest_outputs) * a.stride - a.before;
        rest %= rest_outputs;
        next.clear();
        const auto [begin, end] = inside(a, first, 0, a.in);
        for (const auto& tap : taps) {
            for (std::int64_t k = begin; k < end; ++k) {
                next.push_back({tap.kernel * static_cast<std::size_t>(a.kernel) + static_cast<std::size_t>(k),
                                tap.input * static_cast<std::size_t>(a.in) +
                                    static_cast<std::size_t>(first + k * a.dilation)});
            }
        }
        taps.swap(next);
    }
}

std::size_t WindowPositions::padded_count(std::size_t position) const {
    std::size_t count = 1;
    for (std::size_t k = axes_.size(); k-- > 0;) {
        const auto& a = axes_[k];
        const auto first =
            static_cast<std::int64_t>(position % static_cast<std::size_t>(a.out)) * a.stride - a.before;
        position /= static_cast<std::size_t>(a.out);
        const auto [begin, end] = inside(a, first, -a.before, a.in + a.after);
        count *= static_cast<std::size_t>(end - begin);
    }
    return count;
}

}  // namespace imka::graph
