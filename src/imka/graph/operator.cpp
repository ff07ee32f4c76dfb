#include "imka/graph/operator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

namespace imka::graph {
namespace {

using Table = std::map<std::string_view, std::vector<Operator>>;  // versions of a name, oldest first

const Table& table() {
    static const Table rows = [] {
        Table t;
        for (const auto family :
             {elementwise_operators(), reduce_operators(), shape_operators(), gather_operators(),
              matmul_operators(), conv_operators(), pool_operators(), norm_operators(), quantize_operators(),
              create_operators(), imka_operators()}) {
            for (const auto& row : family) t[row.name].push_back(row);
        }
        for (auto& [name, versions] : t) std::ranges::sort(versions, {}, &Operator::since);
        return t;
    }();
    return rows;
}

struct Replacement {
    std::string_view op;  // or a prefix of several names, with '*'
    std::string_view advice;
};
constexpr Replacement kReplacements[] = {
    {"AffineGrid", "compute the grid beforehand and make it an input"},
    {"Attention", "export the attention as MatMul and Softmax (operator set 22 or lower)"},
    {"Bernoulli", "make the random numbers an input of the model"},
    {"BitCast", "Cast, or constants of the right type"},
    {"CausalConvWithState", "Concat of the state and the input, and Conv"},
    {"CenterCropPad", "Slice and Pad"},
    {"Col2Im", "ConvTranspose"},
    {"ConcatFromSequence", "Concat"},
    {"ConvInteger", "DequantizeLinear, Conv and QuantizeLinear"},
    {"CumProd", "Log, CumSum and Exp for positive numbers"},
    {"DFT", "MatMul with the constant matrix of the transform"},
    {"DeformConv", "Conv, or compute the offsets beforehand"},
    {"Det", "compute the determinant outside the model"},
    {"GRU", "export the cell as MatMul, Sigmoid and Tanh"},
    {"GlobalLpPool", "ReduceL1 or ReduceL2 over the positions"},
    {"GridSample", "GatherND with indices that are computed beforehand"},
    {"If", "export the model with a fixed branch"},
    {"ImageDecoder", "decode the images beforehand and make the pixels an input"},
    {"LSTM", "export the cell as MatMul, Sigmoid and Tanh"},
    {"LinearAttention", "export the attention as MatMul and element-wise operators"},
    {"Loop", "export the model with the loop unrolled"},
    {"MaxRoiPool", "export the model without its post-processing"},
    {"MaxUnpool", "ScatterElements with the indices of the pool"},
    {"MelWeightMatrix", "a constant that is computed beforehand"},
    {"Multinomial", "make the random numbers an input of the model"},
    {"NegativeLogLikelihoodLoss", "export the model without its loss"},
    {"NonMaxSuppression", "export the model without its post-processing"},
    {"Optional*", "export the model with or without the optional value"},
    {"QLinearConv", "DequantizeLinear, Conv and QuantizeLinear"},
    {"RNN", "export the cell as MatMul and Tanh"},
    {"Random*", "make the random numbers an input of the model"},
    {"RegexFullMatch", "process the text beforehand and make the numbers an input"},
    {"Resize", "Unsqueeze, Expand and Reshape for whole factors, or ConvTranspose with constant weights"},
    {"RoiAlign", "export the model without its post-processing"},
    {"RotaryEmbedding", "Mul, Add, Split and Concat with constant cosines and sines"},
    {"STFT", "Conv with the constant matrix of the transform as kernel"},
    {"Scan", "export the model with the loop unrolled"},
    {"Scatter", "ScatterElements, in operator set 11 or higher"},
    {"Sequence*", "export the model with tensors instead of sequences"},
    {"SoftmaxCrossEntropyLoss", "export the model without its loss"},
    {"SplitToSequence", "Split"},
    {"String*", "process the text beforehand and make the numbers an input"},
    {"TensorScatter", "ScatterND"},
    {"TfIdfVectorizer", "process the text beforehand and make the numbers an input"},
    {"Unique", "find the values beforehand and make them an input"},
    {"Upsample", "Unsqueeze, Expand and Reshape for whole factors, or ConvTranspose with constant weights"},
};

bool is_for(std::string_view pattern, std::string_view op) {
    return pattern.ends_with('*') ? op.starts_with(pattern.substr(0, pattern.size() - 1)) : op == pattern;
}

std::string advice_for(std::string_view op) {
    for (const auto& r : kReplacements) {
        if (is_for(r.op, op)) return fmt::format("; instead: {}", r.advice);
    }
    std::vector<std::string_view> names;
    for (const auto& [name, rows] : table()) names.push_back(name);
    const auto nearest = nearest_names(op, names);
    return nearest.empty() ? std::string("; docs/graph.md lists the supported operators") : "; " + nearest;
}

}  // namespace

const Operator* find_operator(std::string_view op, int opset) {
    const auto found = table().find(op);
    if (found == table().end()) return nullptr;
    const Operator* best = nullptr;
    for (const auto& row : found->second) {
        if (row.since <= opset) best = &row;
    }
    return best;
}

const Operator& operator_of(const Node& node) {
    if (const auto* row = find_operator(node.op, node.opset)) return *row;
    const auto found = table().find(node.op);
    if (found != table().end()) {
        fail_unsupported(
            node,
            fmt::format(
                "the version of this operator in operator set {} is not supported; convert the model to "
                "operator set {} or higher",
                node.opset, found->second.front().since));
    }
    fail_unsupported(node,
                     fmt::format("operator {} is not supported{}", in_quotes(node.op), advice_for(node.op)));
}

std::vector<Operator> all_operators() {
    std::vector<Operator> all;
    for (const auto& [name, versions] : table()) all.insert(all.end(), versions.begin(), versions.end());
    return all;
}

std::optional<std::vector<std::int64_t>> Inference::ints(std::size_t i) const {
    if (!has(i) || inputs[i].value == nullptr) return std::nullopt;
    if (is_float(inputs[i].value->type)) fail_node(node, fmt::format("input {} must be integers", i));
    return to_ints(*inputs[i].value);
}

void Inference::set(std::size_t output, DType type, std::optional<Dims> dims) {
    if (output < outputs.size()) outputs[output] = {type, std::move(dims)};
}

std::size_t axis_of(const Node& node, std::int64_t axis, std::size_t rank) {
    const auto n = static_cast<std::int64_t>(rank);
    if (axis < -n || axis >= n)
        fail_node(node, fmt::format("axis {} is out of range for a tensor with {} axes", axis, rank));
    return static_cast<std::size_t>(axis < 0 ? axis + n : axis);
}

Dim same_dim(const Node& node, const Dim& a, const Dim& b) {
    if (!a.known()) return b.known() || a.name.empty() ? b : a;
    if (b.known() && a.size != b.size) fail_node(node, fmt::format("sizes {} and {} differ", a.size, b.size));
    return a;
}

Dim broadcast_dim(const Node& node, const Dim& a, const Dim& b) {
    if (a.size == 1) return b;
    if (b.size == 1) return a;
    if (a.known() && b.known() && a.size != b.size)
        fail_node(node, fmt::format("sizes {} and {} cannot be broadcast", a.size, b.size));
    if (a.known()) return a;  // the other one must be this size or 1
    if (b.known()) return b;
    return a.name == b.name ? a : Dim{};
}

Dims broadcast_dims(const Node& node, const Dims& a, const Dims& b) {
    Dims out(std::max(a.size(), b.size()));
    for (std::size_t i = 0; i < out.size(); ++i) {
        const auto pick = [&](const Dims& d) {
            return i + d.size() < out.size() ? Dim{1} : d[i + d.size() - out.size()];
        };
        out[i] = broadcast_dim(node, pick(a), pick(b));
    }
    return out;
}

Dims dims_of(const Shape& shape) {
    Dims dims;
    for (const auto size : shape) dims.push_back({size});
    return dims;
}

void infer_same(Inference& i) {
    i.set(0, i.type(0), i.inputs[0].type->dims);
}

void fail_type(const Node& node, DType type) {
    fail_unsupported(node, fmt::format("elements of type {} are not supported", to_string(type)));
}

void require_f32(const Operands& o) {
    if (o.in(0).type != DType::f32) fail_type(o.node, o.in(0).type);
}

void check_same_type(const Inference& i, std::size_t a, std::size_t b) {
    if (i.has(a) && i.has(b) && i.type(a) != i.type(b)) {
        fail_node(i.node, fmt::format("inputs {} and {} have types {} and {}; they must be the same", a, b,
                                      to_string(i.type(a)), to_string(i.type(b))));
    }
}

void infer_broadcast(Inference& i) {
    std::optional<Dims> dims = Dims{};
    for (std::size_t k = 0; k < i.inputs.size(); ++k) {
        if (!i.has(k)) continue;
        if (!i.ranked(k)) {
            dims.reset();
            break;
        }
        dims = broadcast_dims(i.node, *dims, i.dims(k));
    }
    i.set(0, i.type(0), std::move(dims));
}

}  // namespace imka::graph
