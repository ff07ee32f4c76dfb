// Convolutions as matrix products: rows are windows, columns the elements of the kernel.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "imka/base/parallel.hpp"
#include "imka/graph/operator.hpp"
#include "imka/graph/window.hpp"
#include "imka/linalg/gemm.hpp"

namespace imka::graph {
namespace {

using Ints = std::vector<std::int64_t>;

constexpr std::size_t kWindows = 256;  // per matrix product; fixed, so that results do not depend on threads

std::int64_t groups_of(const Node& node) {
    const auto groups = int_attribute(node, "group", 1);
    if (groups < 1) fail_node(node, fmt::format("group must be positive, not {}", groups));
    return groups;
}

Ints kernel_of(const Node& node, const Shape& weights) {
    Ints own(weights.begin() + 2, weights.end());
    const auto given = ints_attribute(node, "kernel_shape", own);
    if (given != own)
        fail_node(node,
                  fmt::format("kernel_shape {} differs from the weights {}", to_text(given), to_text(own)));
    return own;
}

Dims spatial_of(const Dims& dims) {
    return {dims.begin() + 2, dims.end()};
}

void check_bias(const Inference& i, const Dim& outputs) {
    check_same_type(i, 0, 2);
    if (!i.has(2) || !i.ranked(2)) return;
    if (i.dims(2).size() != 1) fail_node(i.node, "the bias must have 1 axis");
    (void)same_dim(i.node, i.dims(2)[0], outputs);
}

// Checks ranks and types; false if a shape is not known.
bool check_operands(Inference& i) {
    check_same_type(i, 0, 1);
    if (!i.ranked(0) || !i.ranked(1)) {
        i.set(0, i.type(0), i.ranked(0) ? Dims(i.dims(0).size()) : std::optional<Dims>());
        return false;
    }
    if (i.dims(0).size() < 3 || i.dims(0).size() != i.dims(1).size())
        fail_node(
            i.node,
            fmt::format("the input has {} axes and the weights have {}; expected the same number, at least 3",
                        i.dims(0).size(), i.dims(1).size()));
    if (!known_shape(*i.inputs[1].type)) {
        i.set(0, i.type(0), Dims(i.dims(0).size()));
        return false;
    }
    return true;
}

void infer_conv(Inference& i) {
    if (!check_operands(i)) return;
    const auto weights = *known_shape(*i.inputs[1].type);
    const auto groups = groups_of(i.node);
    const auto& channels = i.dims(0)[1];
    if (channels.known() && (channels.size % groups != 0 || channels.size / groups != weights[1]))
        fail_node(i.node,
                  fmt::format(
                      "the input has {} channels in {} groups, but the weights are for {} channels per group",
                      channels.size, groups, weights[1]));
    if (weights[0] % groups != 0)
        fail_node(i.node, fmt::format("{} output channels cannot be divided into {} equal groups", weights[0],
                                      groups));
    check_bias(i, {weights[0]});
    Dims dims{i.dims(0)[0], {weights[0]}};
    const auto spatial = window_dims(window_axes(i.node, spatial_of(i.dims(0)), kernel_of(i.node, weights)));
    dims.insert(dims.end(), spatial.begin(), spatial.end());
    i.set(0, i.type(0), std::move(dims));
}

// Everything about one convolution.
struct Conv {
    WindowPositions windows;
    std::size_t images;
    std::size_t groups;
    std::size_t channels;  // per group
    std::size_t outputs;   // per group
    std::size_t inner() const { return channels * windows.taps(); }
};

Conv conv_of(const Operands& o) {
    const auto& x = o.in(0).shape;
    const auto& w = o.in(1).shape;
    const auto groups = static_cast<std::size_t>(groups_of(o.node));
    return {WindowPositions(window_axes(o.node, spatial_of(dims_of(x)), kernel_of(o.node, w))),
            static_cast<std::size_t>(x[0]), groups, static_cast<std::size_t>(w[1]),
            static_cast<std::size_t>(w[0]) / groups};
}

// The windows from `first` on as rows: channel by channel, each with the elements of the kernel; pads are 0.
void fill_rows(const Conv& c, const float* image, std::size_t first, MatrixView<float> rows) {
    std::vector<WindowPositions::Tap> taps;
    const std::size_t size = c.windows.taps();
    for (std::size_t r = 0; r < rows.rows(); ++r) {
        c.windows.taps_at(first + r, taps);
        auto row = rows.row(r);
        if (taps.size() < size) std::ranges::fill(row, 0.0F);
        for (std::size_t channel = 0; channel < c.channels; ++channel) {
            const float* from = image + channel * c.windows.inputs();
            float* to = row.data() + channel * size;
            for (const auto& tap : taps) to[tap.kernel] = from[tap.input];
        }
    }
}

// One block of windows of one group of one image.
struct Block {
    std::size_t image;
    std::size_t group;
    std::size_t first;
    std::size_t count;
};

void for_conv_blocks(const Conv& c, const Exec& exec,
                     const std::function<std::function<void(const Block&)>()>& make) {
    const std::size_t blocks = (c.windows.outputs() + kWindows - 1) / kWindows;
    parallel_for_workers(exec, c.images * c.groups * blocks, [&]() -> Worker {
        return [&c, blocks, body = make()](std::size_t k) {
            const std::size_t first = k % blocks * kWindows;
            body({k / blocks / c.groups, k / blocks % c.groups, first,
                  std::min(kWindows, c.windows.outputs() - first)});
        };
    });
}

const float* group_input(const Conv& c, const Operands& o, const Block& b) {
    return reinterpret_cast<const float*>(o.in(0).data) +
           (b.image * c.groups + b.group) * c.channels * c.windows.inputs();
}

// Outputs of a group of an image: one row per output channel.
MatrixView<float> group_output(const Conv& c, const Operands& o, const Block& b) {
    auto* out = reinterpret_cast<float*>(o.out(0).data) +
                (b.image * c.groups + b.group) * c.outputs * c.windows.outputs();
    return MatrixView<float>(out, c.outputs, c.windows.outputs()).slice_cols(b.first, b.count);
}

void multiply_rows(const Conv& c, const float* weights, MatrixView<const float> rows, MatrixView<float> out) {
    const MatrixView<const float> w(weights, c.outputs, c.inner());
    if (c.outputs >= 4) return gemm_nt(w, rows, out);
    for (std::size_t m = 0; m < c.outputs; ++m) {  // a depthwise convolution: too small for panels
        for (std::size_t r = 0; r < rows.rows(); ++r) {
            float sum = 0.0F;
            for (std::size_t k = 0; k < c.inner(); ++k) sum += w(m, k) * rows(r, k);
            out(m, r) = sum;
        }
    }
}

void run_digital(const Conv& c, const Operands& o) {
    const auto* weights = reinterpret_cast<const float*>(o.in(1).data);
    for_conv_blocks(c, o.exec, [&]() -> std::function<void(const Block&)> {
        return [&, rows = Matrix<float>(kWindows, c.inner())](const Block& b) mutable {
            const auto part = rows.view().slice_rows(0, b.count);
            fill_rows(c, group_input(c, o, b), b.first, part);
            multiply_rows(c, weights + b.group * c.outputs * c.inner(), part, group_output(c, o, b));
        };
    });
}

// Passes the windows of all images to the products, a limited number at a time.
void run_static(const Conv& c, const Operands& o) {
    constexpr std::size_t kRows = 16 * kWindows;
    const std::size_t windows = c.windows.outputs();
    for (std::size_t image = 0; image < c.images; ++image) {
        for (std::size_t group = 0; group < c.groups; ++group) {
            for (std::size_t first = 0; first < windows; first += kRows) {
                const Block b{image, group, first, std::min(kRows, windows - first)};
                Matrix<float> x(b.count, c.inner());
                Matrix<float> y(b.count, c.outputs);
                fill_rows(c, group_input(c, o, b), first, x);
                o.products->multiply(group, image * windows + first, x, y);
                const auto out = group_output(c, o, b);
                for (std::size_t r = 0; r < b.count; ++r) {
                    for (std::size_t m = 0; m < c.outputs; ++m) out(m, r) = y(r, m);
                }
            }
        }
    }
}

void add_bias(const Operands& o) {
    if (!o.has(2)) return;
    const auto bias = o.in(2).values<float>();
    const auto out = o.out(0).values<float>();
    const auto channels = static_cast<std::size_t>(o.out(0).shape[1]);
    const std::size_t size =
        out.size() / std::max<std::size_t>(1, channels * static_cast<std::size_t>(o.out(0).shape[0]));
    for (std::size_t k = 0; size > 0 && k < out.size() / size; ++k) {
        for (auto& v : out.subspan(k * size, size)) v += bias[k % channels];
    }
}

void run_conv(const Operands& o) {
    require_f32(o);
    if (o.out(0).count() == 0) return;
    const auto c = conv_of(o);
    o.products != nullptr ? run_static(c, o) : run_digital(c, o);
    add_bias(o);
}

// Transposed convolution: the output sizes are those that a convolution maps to the input.
std::vector<WindowAxis> transposed_axes(const Node& node, const Dims& spatial, const Ints& kernel) {
    const std::size_t n = spatial.size();
    const auto list = [&](std::string_view name, std::size_t count, std::int64_t otherwise) {
        auto values = ints_attribute(node, name, Ints(count, otherwise));
        const auto wrong = [](std::int64_t v) { return v < 0 || v > (std::int64_t{1} << 31U); };
        if (values.size() != count || std::ranges::any_of(values, wrong))
            fail_node(node, fmt::format("{} must have {} values between 0 and 2^31", in_quotes(name), count));
        return values;
    };
    const auto strides = list("strides", n, 1);
    const auto dilations = list("dilations", n, 1);
    const auto pads = list("pads", 2 * n, 0);
    const auto extra = list("output_padding", n, 0);
    const auto wanted = has_attribute(node, "output_shape") ? list("output_shape", n, 0) : Ints();
    const auto mode = text_attribute(node, "auto_pad", "NOTSET");
    const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
    std::vector<WindowAxis> axes(n);
    for (std::size_t k = 0; k < n; ++k) {
        auto& a = axes[k];  // of the convolution: its output is our input
        a = {Dim::kUnknown, spatial[k].size, kernel[k], strides[k], dilations[k], pads[k], pads[n + k]};
        if (!spatial[k].known()) continue;
        if (spatial[k].size > (std::int64_t{1} << 31U) || kernel[k] > (1 << 24))
            fail_node(node, "sizes are too large");
        const std::int64_t full = strides[k] * (a.out - 1) + extra[k] + (kernel[k] - 1) * dilations[k] + 1;
        if (wanted.empty() && !same) {
            a.in = full - a.before - a.after;
        } else {
            a.in = wanted.empty() ? a.out * a.stride : wanted[k];
            const std::int64_t total = std::max<std::int64_t>(0, full - a.in);
            a.before = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
            if (!same) a.before = total / 2;
            a.after = total - a.before;
        }
        if (a.in < 0) fail_node(node, "pads are larger than the output");
    }
    return axes;
}

void infer_conv_transpose(Inference& i) {
    if (!check_operands(i)) return;
    const auto weights = *known_shape(*i.inputs[1].type);
    const auto groups = groups_of(i.node);
    if (weights[0] % groups != 0)
        fail_node(i.node,
                  fmt::format("{} channels cannot be divided into {} equal groups", weights[0], groups));
    (void)same_dim(i.node, i.dims(0)[1], {weights[0]});
    if (groups > 65536) fail_node(i.node, "too many groups");
    check_bias(i, {weights[1] * groups});
    Dims dims{i.dims(0)[0], {weights[1] * groups}};
    for (const auto& a : transposed_axes(i.node, spatial_of(i.dims(0)), kernel_of(i.node, weights)))
        dims.push_back({a.in});
    i.set(0, i.type(0), std::move(dims));
}

void run_conv_transpose(const Operands& o) {
    require_f32(o);
    std::ranges::fill(o.out(0).values<float>(), 0.0F);
    const auto& x = o.in(0).shape;
    const auto& w = o.in(1).shape;
    if (o.out(0).count() == 0) return;
    const auto groups = static_cast<std::size_t>(groups_of(o.node));
    const WindowPositions windows(transposed_axes(o.node, spatial_of(dims_of(x)), kernel_of(o.node, w)));
    const std::size_t channels = static_cast<std::size_t>(w[0]) / groups;
    const auto outputs = static_cast<std::size_t>(w[1]);
    const std::size_t size = windows.taps();
    parallel_for(o.exec, static_cast<std::size_t>(x[0]) * groups, [&](std::size_t k) {
        const MatrixView<const float> in(
            reinterpret_cast<const float*>(o.in(0).data) + k * channels * windows.outputs(), channels,
            windows.outputs());
        const MatrixView<const float> weights(
            reinterpret_cast<const float*>(o.in(1).data) + k % groups * channels * outputs * size, channels,
            outputs * size);
        Matrix<float> parts(windows.outputs(), outputs * size);
        if (windows.outputs() > 0) gemm_tn(in, weights, parts);
        auto* out = reinterpret_cast<float*>(o.out(0).data) + k * outputs * windows.inputs();
        std::vector<WindowPositions::Tap> taps;
        for (std::size_t p = 0; p < windows.outputs(); ++p) {
            windows.taps_at(p, taps);
            for (std::size_t m = 0; m < outputs; ++m) {
                for (const auto& tap : taps)
                    out[m * windows.inputs() + tap.input] += parts(p, m * size + tap.kernel);
            }
        }
    });
    add_bias(o);
}

}  // namespace

std::span<const Operator> conv_operators() {
    static const Operator rows[] = {
        {"Conv", 1, 2, 3, infer_conv, run_conv},
        {"ConvTranspose", 1, 2, 3, infer_conv_transpose, run_conv_transpose},
    };
    return rows;
}

}  // namespace imka::graph
