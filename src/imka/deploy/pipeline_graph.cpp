// Steps of a graph: what each operator computes digitally, and which rows of its inputs it needs.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/deploy/imka_work.hpp"
#include "imka/deploy/pipeline.hpp"
#include "imka/graph/static_matrices.hpp"
#include "imka/graph/window.hpp"

namespace imka {
namespace {

using graph::Graph;
using graph::Node;
using graph::Shape;
using graph::ValueId;

constexpr std::size_t kNoSource = std::numeric_limits<std::size_t>::max();

// Digital work per element. Comparisons count as additions; square roots, which are as expensive, as
// divisions; all transcendental functions as exponentials.
struct OperatorWork {
    std::string_view op;
    DigitalWork of_output;
    DigitalWork of_input = {};  // of the first input
};

constexpr DigitalWork kAddition{.additions = 1};
constexpr DigitalWork kProduct{.multiplications = 1};
constexpr DigitalWork kDivision{.divisions = 1};
constexpr DigitalWork kExponential{.exponentials = 1};
constexpr DigitalWork kLinear{.additions = 1, .multiplications = 1};
constexpr DigitalWork kNorm{.norm_elements = 1, .additions = 2, .multiplications = 2};

constexpr OperatorWork kWork[] = {
    {"Add", kAddition},
    {"Sub", kAddition},
    {"Sum", kAddition},
    {"Max", kAddition},
    {"Min", kAddition},
    {"Relu", kAddition},
    {"Abs", kAddition},
    {"Neg", kAddition},
    {"Clip", {.additions = 2}},
    {"Where", kAddition},
    {"Equal", kAddition},
    {"Less", kAddition},
    {"Greater", kAddition},
    {"LessOrEqual", kAddition},
    {"GreaterOrEqual", kAddition},
    {"Round", kAddition},
    {"Floor", kAddition},
    {"Ceil", kAddition},
    {"Sign", kAddition},
    {"Mean", kLinear},
    {"Mul", kProduct},
    {"LeakyRelu", kLinear},
    {"PRelu", kLinear},
    {"HardSigmoid", {.additions = 3, .multiplications = 1}},
    {"HardSwish", {.additions = 3, .multiplications = 2}},
    {"Div", kDivision},
    {"Mod", kDivision},
    {"Reciprocal", kDivision},
    {"Sqrt", kDivision},
    {"Softsign", {.divisions = 1, .additions = 2}},
    {"Exp", kExponential},
    {"Log", kExponential},
    {"Sin", kExponential},
    {"Cos", kExponential},
    {"Tan", {.exponentials = 2, .divisions = 1}},
    {"Erf", kExponential},
    {"Pow", {.exponentials = 2, .multiplications = 1}},
    {"Softplus", {.exponentials = 2, .additions = 1}},
    {"Elu", {.exponentials = 1, .additions = 1, .multiplications = 1}},
    {"Selu", {.exponentials = 1, .additions = 1, .multiplications = 2}},
    {"Celu", {.exponentials = 1, .divisions = 1, .additions = 1, .multiplications = 1}},
    {"Gelu", {.exponentials = 1, .additions = 1, .multiplications = 3}},
    {"Sigmoid", {.exponentials = 1, .divisions = 1, .additions = 1}},
    {"Swish", {.exponentials = 1, .divisions = 1, .additions = 1, .multiplications = 1}},
    {"Mish", {.exponentials = 3, .divisions = 1, .additions = 2, .multiplications = 1}},
    {"Tanh", {.exponentials = 1, .divisions = 1, .additions = 2}},
    {"Softmax", {.exponentials = 1, .divisions = 1, .additions = 2}},
    {"LogSoftmax", {.exponentials = 1, .additions = 3}},
    {"BatchNormalization", kLinear},
    {"LayerNormalization", kNorm},
    {"RMSNormalization", kNorm},
    {"InstanceNormalization", kNorm},
    {"GroupNormalization", kNorm},
    {"MeanVarianceNormalization", kNorm},
    {"LpNormalization", {.norm_elements = 1, .multiplications = 1}},
    {"LRN", {.exponentials = 2, .norm_elements = 1, .multiplications = 1}},
    {"ReduceSum", {}, kAddition},
    {"ReduceMean", kProduct, kAddition},
    {"ReduceMax", {}, kAddition},
    {"ReduceMin", {}, kAddition},
    {"ReduceL1", {}, kAddition},
    {"ReduceProd", {}, kProduct},
    {"ReduceL2", kDivision, {.norm_elements = 1}},
    {"ReduceSumSquare", {}, {.norm_elements = 1}},
    {"ReduceLogSum", kExponential, kAddition},
    {"ReduceLogSumExp", kExponential, {.exponentials = 1, .additions = 1}},
    {"ArgMax", {}, kAddition},
    {"ArgMin", {}, kAddition},
    {"CumSum", kAddition},
    {"GlobalAveragePool", kProduct, kAddition},
    {"GlobalMaxPool", {}, kAddition},
    {"QuantizeLinear", kLinear},
    {"DequantizeLinear", kLinear},
    {"DynamicQuantizeLinear", kLinear, kAddition},
};

constexpr std::string_view kWindowed[] = {"Conv", "MaxPool", "AveragePool", "LpPool"};
constexpr std::string_view kChannelsFirst[] = {"Conv",
                                               "ConvTranspose",
                                               "MaxPool",
                                               "AveragePool",
                                               "LpPool",
                                               "LRN",
                                               "GlobalAveragePool",
                                               "GlobalMaxPool",
                                               "BatchNormalization",
                                               "InstanceNormalization",
                                               "GroupNormalization"};
constexpr std::string_view kReshaping[] = {"Reshape", "Flatten", "Squeeze", "Unsqueeze"};
// Operators that change the meaning of the axes.
constexpr std::string_view kOtherAxes[] = {"Transpose", "MatMul", "Gemm", "Einsum", "Gather"};
// Operators with one result per element that are not in the table of work.
constexpr std::string_view kElementwise[] = {
    "Identity", "Dropout",  "Cast",   "CastLike",       "And", "Or", "Xor", "Not", "IsNaN",
    "IsInf",    "BitShift", "Shrink", "ThresholdedRelu"};
// Operators that work along one axis.
constexpr std::string_view kAlongAxis[] = {
    "Softmax",          "LogSoftmax",      "Hardmax", "LayerNormalization",
    "RMSNormalization", "LpNormalization", "Concat",  "Split"};

bool is_one_of(std::string_view op, std::span<const std::string_view> names) {
    return std::ranges::find(names, op) != names.end();
}

double elements(const Shape& shape) {
    double n = 1.0;
    for (const auto size : shape) n *= static_cast<double>(size);
    return n;
}

// A value with its properties for the schedule. channels_first: axis 1 holds the channels, so that a row is
// one position of an image.
struct ValueInfo {
    Shape shape;
    bool channels_first = false;
    std::size_t step = kNoSource;     // that computes it; kNoSource: an input or a constant
    std::size_t network = kNoSource;  // number of an input of the network
    // Order in which the rows are computed: the leading axes without those of size 1, outermost first. Empty:
    // as they are stored. A transpose of leading axes does not move rows, it only renames them.
    std::vector<std::size_t> flow = {};

    // Sizes of the axes of rows, without those of size 1.
    Shape lead() const {
        Shape sizes(shape.begin(), shape.empty() ? shape.end() : shape.end() - 1);
        std::erase(sizes, 1);
        return sizes;
    }
    std::size_t rows() const {
        std::size_t n = 1;
        for (std::size_t a = 0; a < shape.size(); ++a) {
            if (a != (channels_first ? 1 : shape.size() - 1)) n *= static_cast<std::size_t>(shape[a]);
        }
        return std::max<std::size_t>(1, n);
    }
    // The axis of the elements of a row.
    std::size_t row_axis() const { return channels_first || shape.empty() ? 1 : shape.size() - 1; }
};

class GraphPipeline {
public:
    GraphPipeline(const Graph& graph, std::span<const std::size_t> on_chip) : graph_(graph) {
        values_.resize(graph.values.size());
        matrices_.resize(graph.nodes.size());
        const auto all = graph::static_matrices(graph);
        for (std::uint32_t k = 0; k < on_chip.size(); ++k) {
            if (on_chip[k] >= all.size())
                fail(ErrorCode::bad_config,
                     fmt::format("matrix {} of {} of the graph", on_chip[k], all.size()));
            for (const auto& use : all[on_chip[k]].uses) matrices_[use.node].push_back(k);
        }
        for (const auto id : graph.inputs) unread_.insert(id);
    }

    Pipeline build() {
        for (std::size_t n = 0; n < graph_.nodes.size(); ++n) add(n);
        for (const auto id : graph_.outputs) {
            if (const auto s = values_[id].step; s != kNoSource) pipeline_.steps[s].is_output = true;
        }
        pipeline_.chains = chains_of(pipeline_.steps);
        return std::move(pipeline_);
    }

private:
    Shape shape_of(const Node& node, ValueId id) const {
        const auto shape = graph::known_shape(graph_.values[id].type);
        if (!shape)
            fail(ErrorCode::bad_config,
                 fmt::format("{}: the size of {} is unknown; specify the input sizes", graph::describe(node),
                             in_quotes(graph_.values[id].name)));
        return *shape;
    }

    void add(std::size_t number) {
        const auto& node = graph_.nodes[number];
        PipelineStep step{.name = node.name, .op = node.op, .matrices = matrices_[number]};
        for (const auto id : node.inputs) {
            if (id != graph::kNoValue) values_[id].shape = shape_of(node, id);
        }
        const bool sums_keys = node.op == "imka.Attention" && !reads_keys_by_row(node);
        if (sums_keys) add_key_sums(node);
        for (const auto id : node.outputs) {
            if (id == graph::kNoValue) continue;
            values_[id] = {shape_of(node, id), has_channels_first(node, id), pipeline_.steps.size()};
            values_[id].flow = flow_of(node, values_[id]);
            step.output_bytes += elements(values_[id].shape);
            if (step.name.empty()) step.name = graph_.values[id].name;
        }
        const auto& out = values_[node.outputs[0]];
        step.rows = out.rows();
        if (sums_keys) {
            add_input(node, 0, out, step);
            step.inputs.push_back({.step = pipeline_.steps.size() - 1, .reads = Reads::all});
            step.work = attention_work(node, input_shapes(node)).queries;
        } else {
            add_inputs(node, out, step);
            step.work = work_of(node, step);
        }
        pipeline_.steps.push_back(std::move(step));
    }

    // Adds the sums of attention over keys: they read keys row by row, and queries wait for the sums.
    void add_key_sums(const Node& node) {
        const auto& keys = values_[node.inputs[1]];
        PipelineStep step{.name = node.name + ".keys",
                          .op = node.op + " (keys)",
                          .inputs = {},
                          .matrices = {},
                          .rows = keys.rows(),
                          .work = attention_work(node, input_shapes(node)).keys};
        for (std::size_t i = 1; i < node.inputs.size(); ++i) add_input(node, i, keys, step);
        pipeline_.steps.push_back(std::move(step));
    }

    bool has_channels_first(const Node& node, ValueId id) const {
        const auto rank = graph_.values[id].type.dims->size();
        if (rank < 3 || is_one_of(node.op, kReshaping) || is_one_of(node.op, kOtherAxes)) return false;
        if (is_one_of(node.op, kChannelsFirst)) return true;
        return std::ranges::any_of(node.inputs, [&](ValueId in) {
            return in != graph::kNoValue && values_[in].channels_first && values_[in].shape.size() == rank;
        });
    }

    void add_inputs(const Node& node, const ValueInfo& out, PipelineStep& step) {
        if (node.op == "Shape" || node.op == "Size") return;  // known before anything runs
        for (std::size_t i = 0; i < node.inputs.size(); ++i) add_input(node, i, out, step);
    }

    // out: the value with the rows of the step.
    void add_input(const Node& node, std::size_t i, const ValueInfo& out, PipelineStep& step) {
        const auto id = node.inputs[i];
        if (id == graph::kNoValue) return;
        if (unread_.erase(id) > 0) add_network_input(id, step);
        const auto& value = values_[id];
        if (value.step == kNoSource && value.network == kNoSource) return;
        StepInput input = reads(node, i, out);
        input.step = value.step == kNoSource ? value.network : value.step;
        (value.step == kNoSource ? step.network : step.inputs).push_back(input);
    }

    void add_network_input(ValueId id, PipelineStep& step) {
        auto& value = values_[id];
        if (value.shape.size() > 2) value.channels_first = is_one_of(step.op, kChannelsFirst);
        value.network = pipeline_.inputs.size();
        step.input_bytes += elements(value.shape);
        pipeline_.inputs.push_back({graph_.values[id].name, value.rows(), elements(value.shape)});
    }

    // The flow of the input with the same rows. Any flow is right if it tells which rows are computed first.
    std::vector<std::size_t> flow_of(const Node& node, const ValueInfo& out) const {
        if (node.op == "Transpose") return transposed_flow(node, values_[node.inputs[0]]);
        for (const auto id : node.inputs) {
            if (id == graph::kNoValue || values_[id].step == kNoSource) continue;
            if (same_lead(values_[id], out)) return values_[id].flow;
        }
        return {};
    }

    static bool same_lead(const ValueInfo& a, const ValueInfo& b) {
        return !a.channels_first && !b.channels_first && a.lead() == b.lead();
    }

    static std::vector<std::int64_t> order_of(const Node& node, std::size_t rank) {
        std::vector<std::int64_t> reversed;
        for (auto a = static_cast<std::int64_t>(rank); a-- > 0;) reversed.push_back(a);
        return graph::ints_attribute(node, "perm", reversed);
    }

    // The elements of a row stay together.
    static bool permutes_rows(const Node& node, const ValueInfo& in) {
        const auto order = order_of(node, in.shape.size());
        return !in.channels_first && !order.empty() &&
               order.back() + 1 == static_cast<std::int64_t>(order.size());
    }

    // The new positions of the row axes after a transpose, in the order of the flow.
    static std::vector<std::size_t> transposed_flow(const Node& node, const ValueInfo& in) {
        if (!permutes_rows(node, in)) return {};
        const auto order = order_of(node, in.shape.size());
        std::vector<std::size_t> axes;  // of the input, outermost first
        for (std::size_t a = 0; a + 1 < in.shape.size(); ++a) {
            if (in.shape[a] != 1) axes.push_back(a);
        }
        std::vector<std::size_t> moved;  // of the result, as lead() counts them
        for (const auto a : order) {
            const auto axis_of_input = static_cast<std::size_t>(a);
            if (const auto found = std::ranges::find(axes, axis_of_input); found != axes.end())
                moved.push_back(static_cast<std::size_t>(found - axes.begin()));
        }
        std::vector<std::size_t> flow;
        for (std::size_t k = 0; k < axes.size(); ++k) {
            const auto from = in.flow.empty() ? k : in.flow[k];
            flow.push_back(static_cast<std::size_t>(std::ranges::find(moved, from) - moved.begin()));
        }
        if (std::ranges::is_sorted(flow)) flow.clear();
        return flow;
    }

    // Whether both compute their rows in the order in which they are stored, or in the same different order.
    static bool same_flow(const ValueInfo& in, const ValueInfo& out) {
        if (in.rows() == 1 || (in.flow.empty() && out.flow.empty())) return true;
        return in.flow == out.flow && same_lead(in, out);
    }

    StepInput reads(const Node& node, std::size_t i, const ValueInfo& out) const {
        const auto& in = values_[node.inputs[i]];
        if (i == 0 && is_one_of(node.op, kWindowed)) return reads_window(node, in);
        if (node.op == "Transpose" && permutes_rows(node, in)) return {.reads = Reads::rows};
        return {.reads = same_flow(in, out) && reads_rows(node, i, out) ? Reads::rows : Reads::all};
    }

    bool reads_rows(const Node& node, std::size_t i, const ValueInfo& out) const {
        const auto& in = values_[node.inputs[i]];
        const bool same =
            in.rows() == 1 || (in.rows() == out.rows() && in.channels_first == out.channels_first);
        if (node.op == "MatMul") return i == 0 && same;
        if (node.op == "Gemm")
            return i != 1 && same && (i != 0 || graph::int_attribute(node, "transA", 0) == 0);
        if (node.op == "Einsum") return i == 0 && same && einsum_keeps_rows(node);
        if (node.op == "Gather") return i == 1;
        if (node.op == "GlobalAveragePool" || node.op == "GlobalMaxPool") return true;
        if (node.op == "Transpose") return keeps_rows(node, in);
        if (is_one_of(node.op, kReshaping))
            return !in.channels_first || out.rows() == static_cast<std::size_t>(in.shape[0]);
        if (node.op.starts_with("Reduce") || node.op.starts_with("Arg")) return reduces_rows(node, in, out);
        if (is_one_of(node.op, kAlongAxis)) return same && axis(node, in.shape.size()) == in.row_axis();
        if (node.op == "Slice") return same && in.rows() == out.rows();
        if (node.op == "imka.Attention" || node.op == "imka.Features" || node.op == "imka.Scores")
            return same;
        return same && is_elementwise(node.op);
    }

    // A causal attention reads keys only up to the query, unless heads share the keys.
    bool reads_keys_by_row(const Node& node) const {
        return graph::int_attribute(node, "causal", 0) != 0 &&
               values_[node.inputs[1]].rows() == values_[node.inputs[0]].rows();
    }

    static bool is_elementwise(std::string_view op) {
        if (is_one_of(op, kElementwise)) return true;
        if (op == "InstanceNormalization" || op == "GroupNormalization" ||
            op == "MeanVarianceNormalization" || op == "CumSum" || op == "DynamicQuantizeLinear")
            return false;
        return std::ranges::any_of(kWork, [&](const OperatorWork& w) { return w.op == op; });
    }

    static std::size_t axis(const Node& node, std::size_t rank) {
        const bool old_softmax =
            node.opset < 13 && (node.op == "Softmax" || node.op == "LogSoftmax" || node.op == "Hardmax");
        const std::int64_t otherwise = node.op == "Split" ? 0 : old_softmax ? 1 : -1;
        return graph::axis_of(node, graph::int_attribute(node, "axis", otherwise), rank);
    }

    // Rows stay in order if only axes of size 1 move, or if the channels go to the end.
    static bool keeps_rows(const Node& node, const ValueInfo& in) {
        auto order = order_of(node, in.shape.size());
        if (in.channels_first && order.back() == 1) order.pop_back();
        std::erase_if(order, [&](std::int64_t a) { return in.shape[static_cast<std::size_t>(a)] == 1; });
        return std::ranges::is_sorted(order) && (!in.channels_first || order.size() < in.shape.size());
    }

    // "...d,md->...m": the first operand and the result have the same row axes, and the second operand has
    // none of them.
    static bool einsum_keeps_rows(const Node& node) {
        auto equation = graph::text_attribute(node, "equation", "");
        std::erase(equation, ' ');
        const auto comma = equation.find(',');
        const auto arrow = equation.find("->");
        if (comma == std::string::npos || arrow == std::string::npos || arrow < comma + 2) return false;
        const auto first = equation.substr(0, comma);
        const auto second = equation.substr(comma + 1, arrow - comma - 1);
        const auto result = equation.substr(arrow + 2);
        if (first.size() < 2 || first.size() != result.size()) return false;
        const auto rows = first.substr(0, first.size() - 1);
        return result.starts_with(rows) && second.find_first_of(rows) == std::string::npos &&
               second.find(first.back()) != std::string::npos;
    }

    // Leading axes that are kept stay in order.
    bool reduces_rows(const Node& node, const ValueInfo& in, const ValueInfo& out) const {
        std::vector<std::int64_t> axes = graph::ints_attribute(node, "axes");
        if (node.op.starts_with("Arg")) axes = {graph::int_attribute(node, "axis", 0)};
        if (node.inputs.size() > 1 && node.inputs[1] != graph::kNoValue) {
            const auto& constant = graph_.values[node.inputs[1]].constant;
            if (!constant) return false;
            axes = graph::to_ints(constant->view());
        }
        if (axes.empty()) return true;  // all axes: one row
        std::size_t first = in.shape.size();
        for (const auto a : axes) first = std::min(first, graph::axis_of(node, a, in.shape.size()));
        if (in.channels_first) return first >= 2;
        std::size_t kept = 1;
        for (std::size_t a = 0; a < first; ++a) kept *= static_cast<std::size_t>(in.shape[a]);
        return first + 1 == in.shape.size() || out.rows() == kept;
    }

    // Rows that a window reads ahead of the share for its position.
    StepInput reads_window(const Node& node, const ValueInfo& in) const {
        if (!in.channels_first) return {.reads = Reads::all};
        graph::Dims spatial;
        std::vector<std::int64_t> kernel = graph::ints_attribute(node, "kernel_shape");
        for (std::size_t a = 2; a < in.shape.size(); ++a) {
            spatial.push_back({in.shape[a]});
            if (kernel.size() + 2 <= a) kernel.push_back(values_[node.inputs[1]].shape[a]);
        }
        const auto axes = graph::window_axes(node, spatial, kernel);
        std::int64_t inputs = 1;
        std::int64_t outputs = 1;
        for (const auto& a : axes) {
            inputs *= a.in;
            outputs *= a.out;
        }
        std::int64_t ahead = 0;
        for (std::int64_t p = 0; p < outputs; ++p)
            ahead = std::max(ahead, last_input(axes, p) + 1 - ((p + 1) * inputs + outputs - 1) / outputs);
        return {.reads = Reads::window, .ahead = static_cast<std::size_t>(ahead)};
    }

    // The last input position under the window at an output position.
    static std::int64_t last_input(const std::vector<graph::WindowAxis>& axes, std::int64_t position) {
        std::int64_t last = 0;
        std::int64_t stride = 1;
        for (std::size_t k = axes.size(); k-- > 0;) {
            const auto& a = axes[k];
            const auto end = position % a.out * a.stride - a.before + (a.kernel - 1) * a.dilation;
            last += stride * std::clamp<std::int64_t>(end, 0, a.in - 1);
            position /= a.out;
            stride *= a.in;
        }
        return last;
    }

    DigitalWork work_of(const Node& node, const PipelineStep& step) const {
        DigitalWork work;
        const auto outputs = elements(values_[node.outputs[0]].shape);
        const bool bias = node.inputs.size() > 2 && node.inputs[2] != graph::kNoValue;
        const bool product = node.op == "Conv" || node.op == "Gemm";
        if (product && bias) work.additions += outputs;
        if (!step.matrices.empty()) return work;
        if (const auto own = imka_work(node, input_shapes(node))) return *own;
        if (const auto terms = terms_of_product(node); terms > 0.0) {
            add_work(kLinear, outputs * terms, work);
        } else {
            for (const auto& w : kWork) {
                if (w.op != node.op) continue;
                add_work(w.of_output, outputs, work);
                add_work(w.of_input, elements(values_[node.inputs[0]].shape), work);
            }
        }
        return work;
    }

    std::vector<Shape> input_shapes(const Node& node) const {
        std::vector<Shape> shapes;
        for (const auto id : node.inputs)
            shapes.push_back(id == graph::kNoValue ? Shape() : values_[id].shape);
        return shapes;
    }

    // Products that are added up for one element of the result; 0 for other operators.
    double terms_of_product(const Node& node) const {
        const auto size = [&](std::size_t input, std::size_t axis_from_end) {
            const auto& shape = values_[node.inputs[input]].shape;
            return axis_from_end < shape.size() ? static_cast<double>(shape[shape.size() - 1 - axis_from_end])
                                                : 1.0;
        };
        if (node.op == "MatMul" || node.op == "MatMulInteger" || node.op == "QLinearMatMul")
            return size(0, 0);
        if (node.op == "Gemm") return size(0, graph::int_attribute(node, "transA", 0) != 0 ? 1 : 0);
        if (node.op == "Conv" || node.op == "ConvTranspose") {
            const auto& weight = values_[node.inputs[1]].shape;
            return elements(weight) / static_cast<double>(std::max<std::int64_t>(1, weight[0]));
        }
        if (node.op == "MaxPool" || node.op == "AveragePool" || node.op == "LpPool")
            return elements(graph::ints_attribute(node, "kernel_shape"));
        return node.op == "Einsum" ? terms_of_einsum(node) : 0.0;
    }

    // Sizes of the letters that are not in the result.
    double terms_of_einsum(const Node& node) const {
        const auto equation = graph::text_attribute(node, "equation", "");
        const auto arrow = equation.find("->");
        const auto result = arrow == std::string::npos ? std::string() : equation.substr(arrow);
        double terms = 1.0;
        std::set<char> seen;
        std::size_t input = 0;
        std::size_t place = 0;
        for (const char c : equation.substr(0, arrow)) {
            if (c == ',') {
                ++input;
                place = 0;
            } else if (c != ' ') {
                const auto& shape = values_[node.inputs[std::min(input, node.inputs.size() - 1)]].shape;
                const bool summed =
                    arrow != std::string::npos && c != '.' && result.find(c) == std::string::npos;
                if (summed && seen.insert(c).second && place < shape.size())
                    terms *= static_cast<double>(shape[place]);
                ++place;
            }
        }
        return terms;
    }

    const Graph& graph_;
    std::vector<ValueInfo> values_;
    std::vector<std::vector<std::uint32_t>> matrices_;  // of each node
    std::set<ValueId> unread_;                          // inputs of the network
    Pipeline pipeline_;
};

}  // namespace

Pipeline pipeline_of(const graph::Graph& graph, std::span<const std::size_t> on_chip) {
    return GraphPipeline(graph, on_chip).build();
}

}  // namespace imka
