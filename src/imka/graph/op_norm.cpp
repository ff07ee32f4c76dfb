// Normalisations: batch, instance, layer, group, RMS, local response.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "imka/graph/copy.hpp"
#include "imka/graph/operator.hpp"
#include "imka/ops/activation/activation.hpp"

namespace imka::graph {
namespace {

// Inputs first..last have one value per channel (axis 1 of input 0).
void check_per_channel(const Inference& i, std::size_t first, std::size_t last) {
    for (std::size_t k = first; k <= last; ++k) check_same_type(i, 0, k);
    if (!i.ranked(0)) return;
    if (i.dims(0).empty()) fail_node(i.node, "the input must have at least 1 axis");
    const Dim channels = i.dims(0).size() > 1 ? i.dims(0)[1] : Dim{1};
    for (std::size_t k = first; k <= last; ++k) {
        if (!i.has(k) || !i.ranked(k)) continue;
        if (i.dims(k).size() != 1) fail_node(i.node, fmt::format("input {} must have 1 axis", k));
        (void)same_dim(i.node, channels, i.dims(k)[0]);
    }
}

// Channel c of image n is row n channels + c.
struct ChannelRows {
    std::size_t rows;
    std::size_t channels;
    std::size_t size;
};

ChannelRows channel_rows(const Shape& shape) {
    const std::size_t channels = shape.size() > 1 ? static_cast<std::size_t>(shape[1]) : 1;
    const auto rows = static_cast<std::size_t>(shape[0]) * channels;
    return {rows, channels, rows == 0 ? 0 : element_count(shape) / rows};
}

void infer_batch_norm(Inference& i) {
    check_per_channel(i, 1, 4);
    infer_same(i);
    std::optional<Dims> channels;
    if (i.ranked(1)) channels = i.dims(1);
    for (std::size_t k = 1; k < i.outputs.size(); ++k) i.set(k, i.type(3), channels);
    if (i.node.opset >= 14 && int_attribute(i.node, "training_mode", 0) != 0 && i.outputs.size() > 3)
        fail_node(i.node, "expected at most 3 outputs");
}

struct Moments {
    double mean;
    double variance;
};

// Over all images of one channel.
Moments channel_moments(std::span<const float> in, const ChannelRows& c, std::size_t channel) {
    double sum = 0;
    double squares = 0;
    const auto images = c.rows / c.channels;
    const auto count = static_cast<double>(images * c.size);
    const auto each = [&](const auto& f) {
        for (std::size_t row = channel; row < c.rows; row += c.channels) {
            for (const float v : in.subspan(row * c.size, c.size)) f(v);
        }
    };
    each([&](float v) { sum += v; });
    const double mean = sum / count;
    each([&](float v) { squares += (v - mean) * (v - mean); });
    return {mean, squares / count};
}

void run_batch_norm(const Operands& o) {
    require_f32(o);
    const auto c = channel_rows(o.in(0).shape);
    const auto in = o.in(0).values<float>();
    const auto out = o.out(0).values<float>();
    const auto scale = o.in(1).values<float>();
    const auto bias = o.in(2).values<float>();
    const double epsilon = float_attribute(o.node, "epsilon", 1e-5F);
    const bool training = o.node.opset >= 14 && int_attribute(o.node, "training_mode", 0) != 0;
    const double momentum = float_attribute(o.node, "momentum", 0.9F);
    std::vector<Moments> moments(c.channels);
    for (std::size_t k = 0; k < c.channels; ++k) {
        moments[k] = {o.in(3).values<float>()[k], o.in(4).values<float>()[k]};
        if (!training) continue;
        const auto now = channel_moments(in, c, k);
        const auto mixed = [&](double before, double value) {
            return static_cast<float>(momentum * before + (1 - momentum) * value);
        };
        if (o.wants(1)) o.out(1).values<float>()[k] = mixed(moments[k].mean, now.mean);
        if (o.wants(2)) o.out(2).values<float>()[k] = mixed(moments[k].variance, now.variance);
        moments[k] = now;
    }
    for_parts(o.exec, c.rows, (std::size_t{1} << 15U) / (c.size + 1) + 1,
              [&](std::size_t first, std::size_t count) {
                  for (std::size_t row = first; row < first + count; ++row) {
                      const std::size_t k = row % c.channels;
                      const double factor = scale[k] / std::sqrt(moments[k].variance + epsilon);
                      const auto a = static_cast<float>(factor);
                      const auto b = static_cast<float>(bias[k] - factor * moments[k].mean);
                      for (std::size_t e = row * c.size; e < (row + 1) * c.size; ++e) out[e] = in[e] * a + b;
                  }
              });
}

Moments row_moments(std::span<const float> row) {
    double sum = 0;
    for (const float v : row) sum += v;
    const double mean = sum / static_cast<double>(std::max<std::size_t>(row.size(), 1));
    double squares = 0;
    for (const float v : row) squares += (v - mean) * (v - mean);
    return {mean, squares / static_cast<double>(std::max<std::size_t>(row.size(), 1))};
}

void infer_instance_norm(Inference& i) {
    check_per_channel(i, 1, 2);
    infer_same(i);
}

void run_instance_norm(const Operands& o) {
    require_f32(o);
    const auto c = channel_rows(o.in(0).shape);
    const auto in = o.in(0).values<float>();
    const auto out = o.out(0).values<float>();
    const double epsilon = float_attribute(o.node, "epsilon", 1e-5F);
    for_parts(o.exec, c.rows, (std::size_t{1} << 14U) / (c.size + 1) + 1,
              [&](std::size_t first, std::size_t count) {
                  for (std::size_t row = first; row < first + count; ++row) {
                      const auto m = row_moments(in.subspan(row * c.size, c.size));
                      const double factor =
                          o.in(1).values<float>()[row % c.channels] / std::sqrt(m.variance + epsilon);
                      const double shift = o.in(2).values<float>()[row % c.channels] - factor * m.mean;
                      for (std::size_t e = row * c.size; e < (row + 1) * c.size; ++e)
                          out[e] = static_cast<float>(in[e] * factor + shift);
                  }
              });
}

// Scale and bias of layer norms have the shape of the normalised axes, or broadcast to it.
void infer_layer_norm(Inference& i) {
    check_same_type(i, 0, 1);
    check_same_type(i, 0, 2);
    infer_same(i);
    if (!i.ranked(0)) return;
    const auto axis = axis_of(i.node, int_attribute(i.node, "axis", -1), i.dims(0).size());
    Dims moments = i.dims(0);
    for (std::size_t a = axis; a < moments.size(); ++a) moments[a] = {1};
    i.set(1, DType::f32, moments);
    i.set(2, DType::f32, moments);
    for (const std::size_t k : {1U, 2U}) {
        if (!i.has(k) || !i.ranked(k)) continue;
        const auto both = broadcast_dims(i.node, i.dims(0), i.dims(k));
        for (std::size_t a = 0; a < both.size(); ++a) {
            if (both.size() != i.dims(0).size() ||
                (i.dims(0)[a].known() && both[a].size != i.dims(0)[a].size))
                fail_node(i.node, fmt::format("input {} cannot be broadcast to the normalised axes", k));
        }
    }
}

Tensor expanded(const TensorView& t, const Shape& shape, std::size_t axis, const Exec& exec) {
    Tensor out(t.type, Shape(shape.begin() + static_cast<std::ptrdiff_t>(axis), shape.end()));
    if (t.shape.size() > out.shape.size())
        fail(ErrorCode::bad_data, "the scale or bias of a normalisation has more axes than are normalised");
    expand(t, exec, out.view());
    return out;
}

// Calls body(row, its elements in the input, its elements in the output) for the rows of the normalised axes,
// in parallel.
template <class Body>
void for_normalized(const Operands& o, std::size_t size, const Body& body) {
    const auto in = o.in(0).values<float>();
    const auto out = o.out(0).values<float>();
    if (size == 0) return;
    for_parts(o.exec, in.size() / size, (std::size_t{1} << 14U) / size + 1,
              [&](std::size_t first, std::size_t count) {
                  for (std::size_t row = first; row < first + count; ++row)
                      body(row, in.subspan(row * size, size), out.subspan(row * size, size));
              });
}

void run_layer_norm(const Operands& o) {
    require_f32(o);
    const auto& shape = o.in(0).shape;
    const auto axis = axis_of(o.node, int_attribute(o.node, "axis", -1), shape.size());
    const auto scale = expanded(o.in(1), shape, axis, o.exec);
    const auto bias = o.has(2) ? expanded(o.in(2), shape, axis, o.exec) : Tensor(DType::f32, scale.shape);
    const float epsilon = float_attribute(o.node, "epsilon", 1e-5F);
    const auto s = scale.values<float>();
    const auto b = bias.values<float>();
    for_normalized(o, s.size(), [&](std::size_t row, std::span<const float> x, std::span<float> y) {
        const auto [mean, inverse] = ops::layer_norm(x, {s, b, epsilon}, y);
        if (o.wants(1)) o.out(1).values<float>()[row] = mean;
        if (o.wants(2)) o.out(2).values<float>()[row] = inverse;
    });
}

void run_rms_norm(const Operands& o) {
    require_f32(o);
    const auto& shape = o.in(0).shape;
    const auto axis = axis_of(o.node, int_attribute(o.node, "axis", -1), shape.size());
    const auto scale = expanded(o.in(1), shape, axis, o.exec);
    const double epsilon = float_attribute(o.node, "epsilon", 1e-5F);
    const auto s = scale.values<float>();
    for_normalized(o, s.size(), [&](std::size_t, std::span<const float> x, std::span<float> y) {
        const auto m = row_moments(x);
        const auto inverse = static_cast<float>(1 / std::sqrt(m.variance + m.mean * m.mean + epsilon));
        for (std::size_t e = 0; e < x.size(); ++e) y[e] = x[e] * inverse * s[e];
    });
}

void infer_group_norm(Inference& i) {
    const auto groups = int_attribute(i.node, "num_groups", 0);
    if (groups < 1) fail_node(i.node, "num_groups must be positive");
    check_per_channel(i, 1, 2);
    if (i.ranked(0) && i.dims(0).size() > 1 && i.dims(0)[1].known() && i.dims(0)[1].size % groups != 0)
        fail_node(i.node, fmt::format("{} channels cannot be divided into {} equal groups", i.dims(0)[1].size,
                                      groups));
    infer_same(i);
}

void run_group_norm(const Operands& o) {
    require_f32(o);
    const auto c = channel_rows(o.in(0).shape);
    const auto groups = static_cast<std::size_t>(int_attribute(o.node, "num_groups", 1));
    const std::size_t per_group = c.channels / groups;
    const auto in = o.in(0).values<float>();
    const auto out = o.out(0).values<float>();
    const double epsilon = float_attribute(o.node, "epsilon", 1e-5F);
    const std::size_t size = per_group * c.size;
    if (size == 0) return;
    for (std::size_t g = 0; g < c.rows / per_group; ++g) {
        const auto m = row_moments(in.subspan(g * size, size));
        const double factor = 1 / std::sqrt(m.variance + epsilon);
        for (std::size_t e = 0; e < size; ++e) {
            const std::size_t channel = g % groups * per_group + e / c.size;
            out[g * size + e] =
                static_cast<float>((in[g * size + e] - m.mean) * factor * o.in(1).values<float>()[channel] +
                                   o.in(2).values<float>()[channel]);
        }
    }
}

// Local response normalisation over neighbouring channels.
void infer_lrn(Inference& i) {
    if (int_attribute(i.node, "size", 0) < 1) fail_node(i.node, "size must be positive");
    if (i.ranked(0) && i.dims(0).size() < 3) fail_node(i.node, "the input must have at least 3 axes");
    infer_same(i);
}

void run_lrn(const Operands& o) {
    require_f32(o);
    const auto c = channel_rows(o.in(0).shape);
    const auto in = o.in(0).values<float>();
    const auto out = o.out(0).values<float>();
    const auto size = std::min<std::int64_t>(int_attribute(o.node, "size", 1), std::int64_t{1} << 30U);
    const double alpha = float_attribute(o.node, "alpha", 1e-4F);
    const double beta = float_attribute(o.node, "beta", 0.75F);
    const double bias = float_attribute(o.node, "bias", 1.0F);
    const auto channels = static_cast<std::int64_t>(c.channels);
    for (std::size_t row = 0; row < c.rows; ++row) {
        const auto channel = static_cast<std::int64_t>(row % c.channels);
        const auto first = std::max<std::int64_t>(0, channel - (size - 1) / 2);
        const auto last = std::min(channels - 1, channel + size / 2);
        for (std::size_t e = 0; e < c.size; ++e) {
            double squares = 0;
            for (auto k = first; k <= last; ++k) {
                const double v =
                    in[(row - static_cast<std::size_t>(channel) + static_cast<std::size_t>(k)) * c.size + e];
                squares += v * v;
            }
            const std::size_t at = row * c.size + e;
            out[at] = static_cast<float>(in[at] /
                                         std::pow(bias + alpha / static_cast<double>(size) * squares, beta));
        }
    }
}

}  // namespace

std::span<const Operator> norm_operators() {
    static const Operator rows[] = {
        {"BatchNormalization", 7, 5, 5, infer_batch_norm, run_batch_norm},
        {"InstanceNormalization", 6, 3, 3, infer_instance_norm, run_instance_norm},
        {"LayerNormalization", 17, 2, 3, infer_layer_norm, run_layer_norm},
        {"RMSNormalization", 23, 2, 2, infer_layer_norm, run_rms_norm},
        {"GroupNormalization", 21, 3, 3, infer_group_norm, run_group_norm},
        {"LRN", 1, 1, 1, infer_lrn, run_lrn},
    };
    return rows;
}

}  // namespace imka::graph
