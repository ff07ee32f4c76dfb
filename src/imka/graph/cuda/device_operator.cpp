#include "imka/graph/cuda/device_operator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "imka/graph/copy.hpp"
#include "imka/graph/operator.hpp"
#include "imka/ops/attention/gpu_attention.hpp"
#include "imka/ops/attention/kernel_heads.hpp"
#include "imka/ops/product/gpu_product.hpp"

namespace imka::graph {
namespace {

using gpu::ElementsWork;
using gpu::Function;

bool is_f32(const TensorView& t) {
    return t.type == DType::f32;
}

template <class T, class Byte>
auto* pointer(const BasicTensorView<Byte>& t) {
    using Element = std::conditional_t<std::is_const_v<Byte>, const T, T>;
    return reinterpret_cast<Element*>(t.data);
}

// Strides of a tensor that is broadcast to a shape: 0 along repeated axes.
std::vector<std::int64_t> broadcast_strides(const Shape& own, const Shape& shape) {
    const auto strides = strides_of(own);
    std::vector<std::int64_t> out(shape.size(), 0);
    const auto extra = shape.size() - own.size();
    for (std::size_t a = 0; a < own.size(); ++a) {
        if (own[a] != 1) out[extra + a] = strides[a];
    }
    return out;
}

// Inputs with their strides along the axes of the output.
struct Strided {
    std::vector<const std::byte*> data;
    std::vector<std::vector<std::int64_t>> strides;
};

// Sizes and strides with neighbouring axes merged where all inputs allow it; false if too many axes remain.
bool set_axes(const Strided& in, const Shape& shape, ElementsWork& work) {
    const auto inputs = in.data.size();
    work.inputs = static_cast<int>(inputs);
    for (std::size_t k = 0; k < inputs; ++k) work.in[k] = in.data[k];
    for (std::size_t a = 0; a < shape.size(); ++a) {
        if (shape[a] == 1) continue;
        const auto last = static_cast<std::size_t>(work.axes - 1);
        bool merges = work.axes > 0;
        for (std::size_t k = 0; k < inputs && merges; ++k)
            merges = work.strides[k][last] == in.strides[k][a] * shape[a];
        if (!merges && work.axes == gpu::kMostAxes) return false;
        const auto at = merges ? last : static_cast<std::size_t>(work.axes++);
        work.sizes[at] = merges ? work.sizes[at] * shape[a] : shape[a];
        for (std::size_t k = 0; k < inputs; ++k) work.strides[k][at] = in.strides[k][a];
    }
    if (work.axes == 0) {
        work.axes = 1;
        work.sizes[0] = 1;
    }
    work.count = static_cast<std::int64_t>(element_count(shape));
    return work.count <= std::numeric_limits<std::int32_t>::max();
}

bool run_elements(const Strided& in, const MutableTensorView& out, ElementsWork work) {
    work.out = out.data;
    work.to = out.type;
    if (!set_axes(in, out.shape, work)) return false;
    return gpu::start_elements(work);
}

// All inputs broadcast to the output. `from`: type of the inputs.
bool run_broadcast(const DeviceOperands& o, DType from, ElementsWork work) {
    Strided in;
    for (const auto& t : o.inputs.first(static_cast<std::size_t>(work.inputs))) {
        in.data.push_back(t.data);
        in.strides.push_back(broadcast_strides(t.shape, o.out().shape));
    }
    work.from = from;
    return run_elements(in, o.out(), work);
}

template <Function F>
bool run_unary(const DeviceOperands& o) {
    return run_broadcast(o, o.in(0).type, {.function = F, .inputs = 1});
}

template <Function F>
bool run_binary(const DeviceOperands& o) {
    if (o.inputs.size() != 2 || o.in(0).type != o.in(1).type) return false;
    return run_broadcast(o, o.in(0).type, {.function = F, .inputs = 2});
}

bool run_where(const DeviceOperands& o) {
    return run_broadcast(o, o.in(1).type, {.function = Function::where, .inputs = 3});
}

bool run_gelu(const DeviceOperands& o) {
    const bool tanh = text_attribute(o.node, "approximate", "none") == "tanh";
    return tanh ? run_unary<Function::gelu_tanh>(o) : run_unary<Function::gelu>(o);
}

bool run_clip(const DeviceOperands& o) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    if (!is_f32(o.in(0))) return false;
    ElementsWork work{.function = Function::clip,
                      .inputs = 1,
                      .low = float_attribute(o.node, "min", -kInfinity),
                      .high = float_attribute(o.node, "max", kInfinity)};
    for (const std::size_t k : {1U, 2U}) {
        if (!o.has(k)) continue;
        if (o.on_host[k].data == nullptr) return false;
        (k == 1 ? work.low : work.high) = *pointer<float>(o.on_host[k]);
    }
    return run_broadcast(o, DType::f32, work);
}

// Integers of an input; nullopt if they are not on the host.
std::optional<std::vector<std::int64_t>> ints_of(const DeviceOperands& o, std::size_t i) {
    if (!o.has(i) || o.on_host[i].data == nullptr) return std::nullopt;
    return to_ints(o.on_host[i]);
}

bool run_transpose(const DeviceOperands& o) {
    const auto& in = o.in(0);
    const auto rank = in.shape.size();
    auto order = ints_attribute(o.node, "perm");
    if (order.empty()) {
        for (std::size_t a = rank; a-- > 0;) order.push_back(static_cast<std::int64_t>(a));
    }
    const auto strides = strides_of(in.shape);
    std::vector<std::int64_t> own;
    own.reserve(order.size());
    for (const auto a : order) own.push_back(strides[static_cast<std::size_t>(a)]);
    return run_elements({{in.data}, {std::move(own)}}, o.out(),
                        {.function = Function::copy, .from = in.type});
}

bool run_expand(const DeviceOperands& o) {
    return run_unary<Function::copy>(o);
}

// Copies the inputs one after another along the axis.
bool run_concat(const DeviceOperands& o) {
    const auto& out = o.out();
    const auto axis = axis_of(o.node, int_attribute(o.node, "axis", 0), out.shape.size());
    const auto size = byte_size(out.type);
    const auto whole = around(out.shape, axis);
    std::size_t offset = 0;
    for (const auto& in : o.inputs) {
        const auto bytes = around(in.shape, axis).axis * whole.inner * size;
        cuda::copy_rows({.from = in.data,
                         .to = out.data + offset,
                         .count = whole.outer,
                         .bytes = bytes,
                         .from_stride = bytes,
                         .to_stride = whole.axis * whole.inner * size});
        offset += bytes;
    }
    return true;
}

bool run_split(const DeviceOperands& o) {
    const auto& in = o.in(0);
    const auto axis = axis_of(o.node, int_attribute(o.node, "axis", 0), in.shape.size());
    const auto size = byte_size(in.type);
    const auto whole = around(in.shape, axis);
    std::size_t offset = 0;
    for (const auto& out : o.outputs) {
        if (out.data == nullptr) return false;
        const auto bytes = around(out.shape, axis).axis * whole.inner * size;
        cuda::copy_rows({.from = in.data + offset,
                         .to = out.data,
                         .count = whole.outer,
                         .bytes = bytes,
                         .from_stride = whole.axis * whole.inner * size,
                         .to_stride = bytes});
        offset += bytes;
    }
    return true;
}

bool run_gather(const DeviceOperands& o) {
    const auto& in = o.in(0);
    if (byte_size(in.type) != sizeof(float)) return false;
    const auto a = around(in.shape, axis_of(o.node, int_attribute(o.node, "axis", 0), in.shape.size()));
    gpu::start_gather({.x = pointer<float>(in),
                       .indices = o.in(1).data,
                       .index_type = o.in(1).type,
                       .y = pointer<float>(o.out()),
                       .outer = static_cast<std::int64_t>(a.outer),
                       .axis = static_cast<std::int64_t>(a.axis),
                       .inner = static_cast<std::int64_t>(a.inner),
                       .count = static_cast<std::int64_t>(o.in(1).count()),
                       .status = o.status,
                       .code = o.code});
    return true;
}

void fail_gather(const Node& node, const Shape&, std::size_t position) {
    fail_node(node, fmt::format("the index at position {} is out of range", position));
}

// Reduces one axis or several neighbouring axes.
template <bool kMean>
bool run_reduce(const DeviceOperands& o) {
    const auto& in = o.in(0);
    auto axes = o.has(1) ? ints_of(o, 1) : ints_attribute(o.node, "axes");
    if (!is_f32(in) || !axes || axes->empty()) return false;
    std::vector<std::size_t> reduced;
    for (const auto a : *axes) reduced.push_back(axis_of(o.node, a, in.shape.size()));
    std::ranges::sort(reduced);
    gpu::ReduceWork work{
        .x = pointer<float>(in), .y = pointer<float>(o.out()), .outer = 1, .axis = 1, .inner = 1};
    for (std::size_t k = 0; k + 1 < reduced.size(); ++k) {
        if (reduced[k + 1] != reduced[k] + 1) return false;
    }
    for (std::size_t a = 0; a < in.shape.size(); ++a) {
        auto& size = a < reduced.front() ? work.outer : a > reduced.back() ? work.inner : work.axis;
        size *= in.shape[a];
    }
    if (kMean) work.factor = work.axis == 0 ? 0.0 : 1.0 / static_cast<double>(work.axis);
    gpu::start_reduce(work);
    return true;
}

std::int64_t rows_of(const TensorView& t, std::int64_t size) {
    return size == 0 ? 0 : static_cast<std::int64_t>(t.count()) / size;
}

// Supports only the last axis.
bool run_layer_norm(const DeviceOperands& o) {
    const auto& in = o.in(0);
    const auto size = in.shape.empty() ? 0 : in.shape.back();
    const auto fits = [&](const TensorView& t) { return static_cast<std::int64_t>(t.count()) == size; };
    const auto axis = int_attribute(o.node, "axis", -1);
    const bool last = axis == -1 || axis == std::ssize(in.shape) - 1;
    if (!is_f32(in) || !last || o.outputs.size() != 1 || !fits(o.in(1)) || (o.has(2) && !fits(o.in(2))))
        return false;
    gpu::start_layer_norm({.x = pointer<float>(in),
                           .scale = pointer<float>(o.in(1)),
                           .bias = o.has(2) ? pointer<float>(o.in(2)) : nullptr,
                           .y = pointer<float>(o.out()),
                           .rows = rows_of(in, size),
                           .size = static_cast<int>(size),
                           .epsilon = float_attribute(o.node, "epsilon", 1e-5F)});
    return true;
}

bool run_softmax(const DeviceOperands& o) {
    const auto& in = o.in(0);
    const auto axis = int_attribute(o.node, "axis", o.node.opset >= 13 ? -1 : 1);
    const bool last = axis == -1 || axis == std::ssize(in.shape) - 1;
    if (!is_f32(in) || !last) return false;
    gpu::start_softmax({.x = pointer<float>(in),
                        .y = pointer<float>(o.out()),
                        .rows = rows_of(in, in.shape.back()),
                        .size = static_cast<int>(in.shape.back())});
    return true;
}

bool multiply(const DeviceOperands& o, ops::GpuProduct work) {
    work.a = pointer<float>(o.in(0));
    work.b = pointer<float>(o.in(1));
    work.c = pointer<float>(o.out());
    if (o.products != nullptr && o.products->multiply({work.a, work.c, static_cast<std::size_t>(work.rows)}))
        return true;
    ops::start_products(work);
    return true;
}

bool is_plain_gemm(const Node& node) {
    return int_attribute(node, "transA", 0) == 0 && float_attribute(node, "alpha", 1.0F) == 1.0F &&
           float_attribute(node, "beta", 1.0F) == 1.0F;
}

// Supports one matrix for all rows, or inputs with the same leading axes.
bool run_matmul(const DeviceOperands& o) {
    const auto& a = o.in(0).shape;
    const auto& b = o.in(1).shape;
    if (!is_f32(o.in(0)) || b.size() < 2) return false;
    ops::GpuProduct work{.inner = a.back(), .cols = b.back()};
    if (b.size() == 2) {
        work.rows = rows_of(o.in(0), work.inner);
        return multiply(o, work);
    }
    if (a.size() < 2 || !std::equal(a.begin(), a.end() - 2, b.begin(), b.end() - 2)) return false;
    work.rows = a[a.size() - 2];
    work.batch = static_cast<std::int64_t>(element_count({a.begin(), a.end() - 2}));
    work.a_stride = work.rows * work.inner;
    work.b_stride = work.inner * work.cols;
    return multiply(o, work);
}

bool run_gemm(const DeviceOperands& o) {
    const auto& node = o.node;
    if (!is_plain_gemm(node) || !is_f32(o.in(0))) return false;
    const auto done = multiply(o, {.rows = o.in(0).shape[0],
                                   .inner = o.in(0).shape[1],
                                   .cols = o.out().shape[1],
                                   .transposed = int_attribute(node, "transB", 0) != 0});
    if (!done || !o.has(2)) return done;
    const auto& c = o.in(2);
    const Strided in{{o.out().data, c.data},
                     {strides_of(o.out().shape), broadcast_strides(c.shape, o.out().shape)}};
    return run_elements(in, o.out(), {.function = Function::add, .from = DType::f32});
}

// Inputs of imka.Attention: projections of queries and of keys, values, keys, mask of keys.
std::size_t from_end(const Shape& shape, std::size_t k) {
    return k < shape.size() ? static_cast<std::size_t>(shape[shape.size() - 1 - k]) : 1;
}
int size_from_end(const TensorView& t, std::size_t k) {
    return static_cast<int>(from_end(t.shape, k));
}

double input_scale(const Node& node) {
    const auto found = node.attributes.find("input_scale");
    return found == node.attributes.end() ? 1.0 : to_number(std::get<Tensor>(found->second).view());
}

bool run_attention(const DeviceOperands& o) {
    const auto& form =
        ops::attention_form(parse_enum<ops::AttentionForm>(text_attribute(o.node, "form", "positive")));
    const auto& q = o.in(0);
    const auto& k = o.in(1);
    const double scale = input_scale(o.node);
    ops::GpuKernelAttention work{
        .size = {.sequences = static_cast<std::int64_t>(
                     q.count() / (from_end(q.shape, 0) * from_end(q.shape, 1) * from_end(q.shape, 2))),
                 .heads = size_from_end(q, 2),
                 .key_heads = size_from_end(k, 2),
                 .queries = size_from_end(q, 1),
                 .keys = size_from_end(k, 1),
                 .value_size = size_from_end(o.in(2), 0),
                 .causal = int_attribute(o.node, "causal", 0) != 0,
                 .key_mask = o.has(4) ? pointer<std::uint8_t>(o.in(4)) : nullptr},
        .form = form.form,
        .directions = size_from_end(q, 0),
        .epsilon = float_attribute(o.node, "epsilon", 0.0F),
        .query_projections = pointer<float>(q),
        .key_projections = pointer<float>(k),
        .values = pointer<float>(o.in(2)),
        .keys = o.has(3) ? pointer<float>(o.in(3)) : nullptr,
        .key_size = o.has(3) ? size_from_end(o.in(3), 0) : 0,
        .norm_exponent = static_cast<float>(form.norm_exponent * scale * scale),
        .y = pointer<float>(o.out()),
        .status = o.status,
        .code = o.code};
    const cuda::Memory scratch(o.gpu, ops::kernel_attention_scratch_bytes(work), cuda::MemorySource::pooled);
    work.scratch = scratch.data();
    ops::start_kernel_attention(work);
    return true;
}

void fail_attention(const Node&, const Shape& output, std::size_t position) {
    const auto queries = from_end(output, 1);
    ops::fail_normaliser(position / queries % from_end(output, 2), position % queries);
}

constexpr auto kTable = std::to_array<DeviceOperator>({
    {"Abs", run_unary<Function::abs>},
    {"Add", run_binary<Function::add>},
    {"Cast", run_unary<Function::cast>},
    {"Clip", run_clip},
    {"Concat", run_concat},
    {"Div", run_binary<Function::div>},
    {"Equal", run_binary<Function::equal>},
    {"Erf", run_unary<Function::erf>},
    {"Exp", run_unary<Function::exp>},
    {"Expand", run_expand},
    {"Gather", run_gather, fail_gather},
    {"Gelu", run_gelu},
    {"Gemm", run_gemm},
    {"Greater", run_binary<Function::greater>},
    {"GreaterOrEqual", run_binary<Function::greater_or_equal>},
    {"LayerNormalization", run_layer_norm},
    {"Less", run_binary<Function::less>},
    {"LessOrEqual", run_binary<Function::less_or_equal>},
    {"Log", run_unary<Function::log>},
    {"MatMul", run_matmul},
    {"Max", run_binary<Function::max>},
    {"Min", run_binary<Function::min>},
    {"Mul", run_binary<Function::mul>},
    {"Neg", run_unary<Function::neg>},
    {"Not", run_unary<Function::logical_not>},
    {"Pow", run_binary<Function::pow>},
    {"Reciprocal", run_unary<Function::reciprocal>},
    {"ReduceMean", run_reduce<true>},
    {"ReduceSum", run_reduce<false>},
    {"Relu", run_unary<Function::relu>},
    {"Sigmoid", run_unary<Function::sigmoid>},
    {"Softmax", run_softmax},
    {"Split", run_split},
    {"Sqrt", run_unary<Function::sqrt>},
    {"Sub", run_binary<Function::sub>},
    {"Tanh", run_unary<Function::tanh>},
    {"Transpose", run_transpose},
    {"Where", run_where},
    {"imka.Attention", run_attention, fail_attention},
});

}  // namespace

bool has_device_products(const Node& node) {
    return node.op == "MatMul" || (node.op == "Gemm" && is_plain_gemm(node));
}

const DeviceOperator* find_device_operator(std::string_view op) {
    const auto found = std::ranges::find(kTable, op, &DeviceOperator::name);
    return found == kTable.end() ? nullptr : &*found;
}

}  // namespace imka::graph
