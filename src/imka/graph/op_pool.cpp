// Pools: the maximum, average or norm of windows.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "imka/graph/copy.hpp"
#include "imka/graph/operator.hpp"
#include "imka/graph/window.hpp"

namespace imka::graph {
namespace {

void infer_pool(Inference& i) {
    std::optional<Dims> dims;
    if (i.ranked(0)) {
        if (i.dims(0).size() < 3) fail_node(i.node, "the input must have at least 3 axes");
        dims = Dims(i.dims(0).begin(), i.dims(0).begin() + 2);
        const Dims spatial(i.dims(0).begin() + 2, i.dims(0).end());
        for (const auto& dim :
             window_dims(window_axes(i.node, spatial, ints_attribute(i.node, "kernel_shape"))))
            dims->push_back(dim);
    }
    i.set(0, i.type(0), dims);
    i.set(1, DType::i64, dims);
}

void infer_global_pool(Inference& i) {
    std::optional<Dims> dims = i.inputs[0].type->dims;
    if (dims) {
        if (dims->size() < 2) fail_node(i.node, "the input must have at least 2 axes");
        for (std::size_t a = 2; a < dims->size(); ++a) (*dims)[a] = {1};
    }
    i.set(0, i.type(0), std::move(dims));
}

// Calls body(channel, position, taps) for every window; `channel` counts over images and channels.
template <class Body>
void for_windows(const Operands& o, const WindowPositions& windows, const Body& body) {
    const auto& shape = o.in(0).shape;
    const auto channels = static_cast<std::size_t>(shape[0] * shape[1]);
    for_parts(o.exec, windows.outputs(), 4096 / (channels * windows.taps() + 1) + 1,
              [&](std::size_t first, std::size_t count) {
                  std::vector<WindowPositions::Tap> taps;
                  for (std::size_t p = first; p < first + count; ++p) {
                      windows.taps_at(p, taps);
                      for (std::size_t c = 0; c < channels; ++c) body(c, p, taps);
                  }
              });
}

WindowPositions windows_of(const Operands& o) {
    const auto& shape = o.in(0).shape;
    return WindowPositions(window_axes(o.node, dims_of(Shape(shape.begin() + 2, shape.end())),
                                       ints_attribute(o.node, "kernel_shape")));
}

// The index of an element of a channel if the last two axes are swapped (storage_order 1).
std::size_t column_major(const Shape& shape, std::size_t index) {
    if (shape.size() < 4) return index;
    const auto width = static_cast<std::size_t>(shape.back());
    const auto height = static_cast<std::size_t>(shape[shape.size() - 2]);
    const std::size_t plane = width * height;
    return index / plane * plane + index % width * height + index % plane / width;
}

template <class T>
void max_pool(const Operands& o) {
    const auto windows = windows_of(o);
    const bool columns_first = int_attribute(o.node, "storage_order", 0) != 0;
    const auto in = o.in(0).values<T>();
    for_windows(o, windows, [&](std::size_t c, std::size_t p, const std::vector<WindowPositions::Tap>& taps) {
        const T* from = in.data() + c * windows.inputs();
        std::size_t best = taps.empty() ? 0 : taps.front().input;
        for (const auto& tap : taps) {
            if (from[tap.input] > from[best] || is_nan(from[tap.input])) best = tap.input;
        }
        const std::size_t to = c * windows.outputs() + p;
        if (o.wants(0))
            o.out(0).values<T>()[to] = taps.empty() ? std::numeric_limits<T>::lowest() : from[best];
        if (o.wants(1)) {
            const std::size_t at = columns_first ? column_major(o.in(0).shape, best) : best;
            o.out(1).values<std::int64_t>()[to] = static_cast<std::int64_t>(c * windows.inputs() + at);
        }
    });
}

void run_max_pool(const Operands& o) {
    switch (o.in(0).type) {
        case DType::f32:
            return max_pool<float>(o);
        case DType::f64:
            return max_pool<double>(o);
        case DType::i8:
            return max_pool<std::int8_t>(o);
        case DType::u8:
            return max_pool<std::uint8_t>(o);
        default:
            fail_type(o.node, o.in(0).type);
    }
}

void run_average_pool(const Operands& o) {
    require_f32(o);
    const auto windows = windows_of(o);
    const bool pads = int_attribute(o.node, "count_include_pad", 0) != 0;
    const auto in = o.in(0).values<float>();
    const auto out = o.out(0).values<float>();
    for_windows(o, windows, [&](std::size_t c, std::size_t p, const std::vector<WindowPositions::Tap>& taps) {
        double sum = 0;
        for (const auto& tap : taps) sum += in[c * windows.inputs() + tap.input];
        const auto count = pads ? windows.padded_count(p) : taps.size();
        out[c * windows.outputs() + p] =
            static_cast<float>(sum / static_cast<double>(std::max<std::size_t>(count, 1)));
    });
}

void run_lp_pool(const Operands& o) {
    require_f32(o);
    const auto windows = windows_of(o);
    const auto power = static_cast<double>(int_attribute(o.node, "p", 2));
    const auto in = o.in(0).values<float>();
    const auto out = o.out(0).values<float>();
    for_windows(o, windows, [&](std::size_t c, std::size_t p, const std::vector<WindowPositions::Tap>& taps) {
        double sum = 0;
        for (const auto& tap : taps)
            sum += std::pow(std::abs(double{in[c * windows.inputs() + tap.input]}), power);
        out[c * windows.outputs() + p] = static_cast<float>(std::pow(sum, 1 / power));
    });
}

template <bool kMaximum>
void run_global_pool(const Operands& o) {
    require_f32(o);
    const auto in = o.in(0).values<float>();
    const auto out = o.out(0).values<float>();
    const std::size_t size = out.empty() ? 0 : in.size() / out.size();
    for_parts(o.exec, out.size(), (std::size_t{1} << 15U) / (size + 1) + 1,
              [&](std::size_t first, std::size_t count) {
                  for (std::size_t c = first; c < first + count; ++c) {
                      const auto channel = in.subspan(c * size, size);
                      double sum = 0;
                      for (const float v : channel) sum += v;
                      out[c] = static_cast<float>(sum / static_cast<double>(std::max<std::size_t>(size, 1)));
                      if (kMaximum && size > 0) out[c] = *std::ranges::max_element(channel);
                  }
              });
}

}  // namespace

std::span<const Operator> pool_operators() {
    static const Operator rows[] = {
        {"MaxPool", 1, 1, 1, infer_pool, run_max_pool},
        {"AveragePool", 1, 1, 1, infer_pool, run_average_pool},
        {"LpPool", 2, 1, 1, infer_pool, run_lp_pool},
        {"GlobalAveragePool", 1, 1, 1, infer_global_pool, run_global_pool<false>},
        {"GlobalMaxPool", 1, 1, 1, infer_global_pool, run_global_pool<true>},
    };
    return rows;
}

}  // namespace imka::graph
