// Operators that make tensors from sizes and constants.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "imka/graph/operator.hpp"

namespace imka::graph {
namespace {

Tensor constant_of(const Node& node) {
    if (node.attributes.size() != 1) fail_node(node, "expected exactly one attribute, the value");
    const auto& [name, attribute] = *node.attributes.begin();
    if (const auto* t = std::get_if<Tensor>(&attribute)) return *t;
    if (const auto* x = std::get_if<float>(&attribute)) return make_tensor<float>({}, std::vector{*x});
    if (const auto* k = std::get_if<std::int64_t>(&attribute))
        return make_tensor<std::int64_t>({}, std::vector{*k});
    if (const auto* x = std::get_if<std::vector<float>>(&attribute))
        return make_tensor<float>({std::ssize(*x)}, *x);
    if (const auto* k = std::get_if<std::vector<std::int64_t>>(&attribute))
        return make_tensor<std::int64_t>({std::ssize(*k)}, *k);
    fail_unsupported(node, fmt::format("attribute {} is not supported", in_quotes(name)));
}

void infer_constant(Inference& i) {
    const auto value = constant_of(i.node);
    i.set(0, value.type, dims_of(value.shape));
}

void run_constant(const Operands& o) {
    const auto value = constant_of(o.node);
    if (!value.bytes.empty()) std::memcpy(o.out(0).data, value.bytes.data(), value.bytes.size());
}

Tensor fill_value(const Node& node) {
    const auto found = node.attributes.find("value");
    if (found == node.attributes.end()) return make_tensor<float>({1}, std::vector{0.0F});
    const auto* value = std::get_if<Tensor>(&found->second);
    if (value == nullptr || element_count(value->shape) != 1)
        fail_node(node, "value must be a tensor with one element");
    return *value;
}

void infer_constant_of_shape(Inference& i) {
    const auto type = fill_value(i.node).type;
    const auto shape = i.ints(0);
    if (!shape) return i.set(0, type, std::nullopt);
    for (const auto size : *shape) {
        if (size < 0) fail_node(i.node, fmt::format("invalid size {} in the shape", size));
    }
    i.set(0, type, dims_of(*shape));
}

void run_constant_of_shape(const Operands& o) {
    const auto value = fill_value(o.node);
    visit_dtype(value.type, [&](auto zero) {
        using T = decltype(zero);
        std::ranges::fill(o.out(0).template values<T>(), value.template values<T>()[0]);
    });
}

void infer_range(Inference& i) {
    check_same_type(i, 0, 1);
    check_same_type(i, 0, 2);
    Dim count;
    if (i.inputs[0].value != nullptr && i.inputs[1].value != nullptr && i.inputs[2].value != nullptr) {
        const double start = to_number(*i.inputs[0].value);
        const double step = to_number(*i.inputs[2].value);
        const double n = std::max(0.0, std::ceil((to_number(*i.inputs[1].value) - start) / step));
        if (step == 0 || !(n < 1e12)) fail_node(i.node, "the range is infinite or too long");
        count.size = static_cast<std::int64_t>(n);
    }
    i.set(0, i.type(0), Dims{count});
}

void run_range(const Operands& o) {
    visit_dtype(o.in(0).type, [&](auto zero) {
        using T = decltype(zero);
        const auto start = widened(o.in(0).template values<T>()[0]);
        const auto step = widened(o.in(2).template values<T>()[0]);
        const auto out = o.out(0).template values<T>();
        for (std::size_t k = 0; k < out.size(); ++k)
            out[k] = converted<T>(add_wrapped(start, mul_wrapped(static_cast<Wide<T>>(k), step)));
    });
}

void infer_eye_like(Inference& i) {
    if (i.ranked(0) && i.dims(0).size() != 2) fail_node(i.node, "the input must have 2 axes");
    i.set(0, dtype_attribute(i.node, "dtype", i.type(0)), i.inputs[0].type->dims);
}

void run_eye_like(const Operands& o) {
    const auto k = int_attribute(o.node, "k", 0);
    const auto rows = o.out(0).shape[0];
    const auto cols = o.out(0).shape[1];
    visit_dtype(o.out(0).type, [&](auto zero) {
        using T = decltype(zero);
        const auto out = o.out(0).template values<T>();
        std::ranges::fill(out, T{});
        if (k > cols || k < -rows) return;
        for (std::int64_t r = 0; r < rows; ++r) {
            if (r + k >= 0 && r + k < cols) out[static_cast<std::size_t>(r * cols + r + k)] = converted<T>(1);
        }
    });
}

// Windows a0 - a1 cos(x) + a2 cos(2x) over one period.
struct Window {
    double a0;
    double a1;
    double a2;
};
constexpr Window kHann{0.5, 0.5, 0.0};
constexpr Window kHamming{25.0 / 46.0, 21.0 / 46.0, 0.0};
constexpr Window kBlackman{0.42, 0.5, 0.08};

void infer_window(Inference& i) {
    Dim count;
    if (const auto size = i.ints(0)) {
        if (size->size() != 1 || size->front() < 0) fail_node(i.node, "size must be one number, 0 or more");
        count.size = size->front();
    }
    i.set(0, dtype_attribute(i.node, "output_datatype", DType::f32), Dims{count});
}

template <const Window& kWindow>
void run_window(const Operands& o) {
    const bool periodic = int_attribute(o.node, "periodic", 1) != 0;
    visit_dtype(o.out(0).type, [&](auto zero) {
        using T = decltype(zero);
        const auto out = o.out(0).template values<T>();
        const auto period = static_cast<double>(out.size()) - (periodic ? 0 : 1);
        for (std::size_t k = 0; k < out.size(); ++k) {
            const double x = period == 0 ? 0 : 2 * std::numbers::pi * static_cast<double>(k) / period;
            out[k] = converted<T>(kWindow.a0 - kWindow.a1 * std::cos(x) + kWindow.a2 * std::cos(2 * x));
        }
    });
}

}  // namespace

std::span<const Operator> create_operators() {
    static const Operator rows[] = {
        {"Constant", 1, 0, 0, infer_constant, run_constant},
        {"ConstantOfShape", 9, 1, 1, infer_constant_of_shape, run_constant_of_shape},
        {"Range", 11, 3, 3, infer_range, run_range},
        {"EyeLike", 9, 1, 1, infer_eye_like, run_eye_like},
        {"HannWindow", 17, 1, 1, infer_window, run_window<kHann>},
        {"HammingWindow", 17, 1, 1, infer_window, run_window<kHamming>},
        {"BlackmanWindow", 17, 1, 1, infer_window, run_window<kBlackman>},
    };
    return rows;
}

}  // namespace imka::graph
