#include "imka/graph/graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <set>
#include <utility>

#include "imka/graph/operator.hpp"

namespace imka::graph {
namespace {

template <class T>
const T* find_attribute(const Node& node, std::string_view name, std::string_view kind) {
    const auto found = node.attributes.find(name);
    if (found == node.attributes.end()) return nullptr;
    const auto* value = std::get_if<T>(&found->second);
    if (value == nullptr) fail_node(node, fmt::format("attribute {} must be {}", in_quotes(name), kind));
    return value;
}

std::string dim_text(const Dim& dim) {
    if (dim.known()) return fmt::format("{}", dim.size);
    return dim.name.empty() ? "?" : dim.name;
}

Inference inference_of(const Graph& graph, const Node& node, std::vector<TensorView>& constants) {
    Inference i{node, {}, {}};
    constants.reserve(node.inputs.size());  // inputs point into it
    for (const auto id : node.inputs) {
        if (id == kNoValue) {
            i.inputs.emplace_back();
            continue;
        }
        const auto& value = graph.values[id];
        if (value.constant) constants.push_back(value.constant->view());
        i.inputs.push_back({&value.type, value.constant ? &constants.back() : nullptr});
    }
    i.outputs.resize(node.outputs.size());
    return i;
}

void check_input_count(const Node& node, const Operator& op) {
    const auto given = node.inputs.size();
    const bool omitted = std::ranges::any_of(std::span(node.inputs).first(std::min(given, op.least_inputs)),
                                             [](ValueId id) { return id == kNoValue; });
    if (given < op.least_inputs || omitted)
        fail_node(node, fmt::format("expected at least {} inputs, got {}", op.least_inputs, given));
    if (given > op.most_inputs)
        fail_node(node, fmt::format("expected at most {} inputs, got {}", op.most_inputs, given));
}

// Operators add lengths of axes: sums must not overflow.
void check_lengths(const Inference& i) {
    constexpr std::int64_t kMost = std::int64_t{1} << 40U;
    for (std::size_t k = 0; k < i.inputs.size(); ++k) {
        if (i.inputs[k].type == nullptr || !i.inputs[k].type->dims) continue;
        for (const auto& dim : *i.inputs[k].type->dims) {
            if (dim.known() && dim.size > kMost)
                fail_node(i.node, fmt::format("input {} has an axis of length {}; the maximum is {}", k,
                                              dim.size, kMost));
        }
    }
}

std::vector<TensorType> inferred(const Graph& graph, const Node& node) {
    const auto& op = operator_of(node);
    check_input_count(node, op);
    std::vector<TensorView> constants;
    auto i = inference_of(graph, node, constants);
    check_lengths(i);
    op.infer(i);
    return std::move(i.outputs);
}

// Combines two descriptions of a type; Error{bad_data} if they contradict each other.
TensorType unified(const Node& node, const TensorType& a, const TensorType& b) {
    if (a.type != b.type)
        fail_node(node, fmt::format("computes {}, but the graph declares {}", to_text(a), to_text(b)));
    if (!a.dims) return b;
    if (!b.dims) return a;
    if (a.dims->size() != b.dims->size())
        fail_node(node, fmt::format("computes {}, but the graph declares {}", to_text(a), to_text(b)));
    TensorType out = a;
    for (std::size_t k = 0; k < a.dims->size(); ++k) {
        const auto& [x, y] = std::pair((*a.dims)[k], (*b.dims)[k]);
        if (x.known() && y.known() && x.size != y.size)
            fail_node(node, fmt::format("computes {}, but the graph declares {}", to_text(a), to_text(b)));
        (*out.dims)[k] = same_dim(node, x, y);
    }
    return out;
}

void check_ids(const Graph& graph) {
    const auto check = [&](ValueId id, const std::string& where) {
        if (id != kNoValue && id >= graph.values.size())
            fail(ErrorCode::bad_data, fmt::format("{}: value {} does not exist", where, id));
    };
    for (const auto& node : graph.nodes) {
        for (const auto id : node.inputs) check(id, describe(node));
        for (const auto id : node.outputs) check(id, describe(node));
    }
    for (const auto id : graph.inputs) check(id, "inputs of the graph");
    for (const auto id : graph.outputs) check(id, "outputs of the graph");
}

void check_names(const Graph& graph) {
    std::set<std::string_view> names;
    for (const auto& value : graph.values) {
        if (!names.insert(value.name).second)
            fail(ErrorCode::bad_data, fmt::format("duplicate tensor name {}", in_quotes(value.name)));
    }
}

// Whether each value is an input or constant of the graph.
std::vector<bool> given_values(const Graph& graph) {
    std::vector<bool> given(graph.values.size());
    for (const auto id : graph.inputs) given[id] = true;
    for (std::size_t id = 0; id < given.size(); ++id) given[id] = given[id] || graph.values[id].constant;
    return given;
}

void check_definitions(const Graph& graph) {
    auto defined = given_values(graph);
    for (const auto& node : graph.nodes) {
        for (const auto id : node.inputs) {
            if (id != kNoValue && !defined[id])
                fail_node(node, fmt::format("input {} is used before it is computed",
                                            in_quotes(graph.values[id].name)));
        }
        for (const auto id : node.outputs) {
            if (id == kNoValue) continue;
            if (defined[id])
                fail_node(node, fmt::format("output {} is defined twice", in_quotes(graph.values[id].name)));
            defined[id] = true;
        }
    }
    for (const auto id : graph.outputs) {
        if (id == kNoValue || !defined[id])
            fail(ErrorCode::bad_data, fmt::format("output {} of the graph is not computed by any node",
                                                  id == kNoValue ? "''" : in_quotes(graph.values[id].name)));
    }
}

}  // namespace

TensorType type_of(const TensorView& tensor) {
    return {tensor.type, dims_of(tensor.shape)};
}

std::optional<Shape> known_shape(const TensorType& type) {
    if (!type.dims) return std::nullopt;
    Shape shape;
    for (const auto& dim : *type.dims) {
        if (!dim.known()) return std::nullopt;
        shape.push_back(dim.size);
    }
    return shape;
}

std::string to_text(const TensorType& type) {
    if (!type.dims) return fmt::format("{}[...]", to_string(type.type));
    std::string text;
    for (const auto& dim : *type.dims) text += (text.empty() ? "" : ", ") + dim_text(dim);
    return fmt::format("{}[{}]", to_string(type.type), text);
}

std::string describe(const Node& node) {
    return fmt::format("node {} ({})", in_quotes(node.name), in_quotes(node.op));
}

void fail_node(const Node& node, std::string_view message) {
    fail(ErrorCode::bad_data, fmt::format("{}: {}", describe(node), message));
}

void fail_unsupported(const Node& node, std::string_view message) {
    throw UnsupportedError(fmt::format("{}: {}", describe(node), message));
}

bool has_attribute(const Node& node, std::string_view name) {
    return node.attributes.contains(name);
}

std::int64_t int_attribute(const Node& node, std::string_view name, std::int64_t otherwise) {
    const auto* value = find_attribute<std::int64_t>(node, name, "an integer");
    return value != nullptr ? *value : otherwise;
}

float float_attribute(const Node& node, std::string_view name, float otherwise) {
    const auto* value = find_attribute<float>(node, name, "a number");
    return value != nullptr ? *value : otherwise;
}

std::string text_attribute(const Node& node, std::string_view name, std::string_view otherwise) {
    const auto* value = find_attribute<std::string>(node, name, "text");
    return value != nullptr ? *value : std::string(otherwise);
}

std::vector<std::int64_t> ints_attribute(const Node& node, std::string_view name,
                                         const std::vector<std::int64_t>& otherwise) {
    const auto* value = find_attribute<std::vector<std::int64_t>>(node, name, "a list of integers");
    return value != nullptr ? *value : otherwise;
}

DType dtype_attribute(const Node& node, std::string_view name, DType otherwise) {
    if (!has_attribute(node, name)) return otherwise;
    const auto number = int_attribute(node, name, 0);
    const auto type = dtype_of_onnx(number);
    if (!type) fail_unsupported(node, fmt::format("element type number {} is not supported", number));
    return *type;
}

ValueId add_value(Graph& graph, Value value) {
    graph.values.push_back(std::move(value));
    return static_cast<ValueId>(graph.values.size() - 1);
}

ValueId add_constant(Graph& graph, std::string name, Tensor value) {
    auto type = type_of(std::as_const(value).view());
    return add_value(graph, {std::move(name), std::move(type), std::move(value)});
}

std::optional<ValueId> find_value(const Graph& graph, std::string_view name) {
    for (std::size_t id = 0; id < graph.values.size(); ++id) {
        if (graph.values[id].name == name) return static_cast<ValueId>(id);
    }
    return std::nullopt;
}

void sort_nodes(Graph& graph) {
    check_ids(graph);
    const auto given = given_values(graph);
    std::vector<std::vector<std::size_t>> users(graph.values.size());
    std::vector<std::size_t> waiting(graph.nodes.size(), 0);
    std::vector<bool> computed(graph.values.size());
    for (const auto& node : graph.nodes) {
        for (const auto id : node.outputs) {
            if (id != kNoValue) computed[id] = true;
        }
    }
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
        for (const auto id : graph.nodes[n].inputs) {
            if (id == kNoValue || given[id]) continue;
            if (!computed[id])
                fail_node(graph.nodes[n],
                          fmt::format("input {} does not exist: no node, input or initializer "
                                      "has this name",
                                      in_quotes(graph.values[id].name)));
            users[id].push_back(n);
            ++waiting[n];
        }
    }
    std::deque<std::size_t> ready;
    for (std::size_t n = 0; n < waiting.size(); ++n) {
        if (waiting[n] == 0) ready.push_back(n);
    }
    std::vector<Node> sorted;
    while (!ready.empty()) {
        const auto n = ready.front();
        ready.pop_front();
        for (const auto id : graph.nodes[n].outputs) {
            if (id == kNoValue) continue;
            for (const auto user : users[id]) {
                if (--waiting[user] == 0) ready.push_back(user);
            }
            users[id].clear();
        }
        sorted.push_back(graph.nodes[n]);
    }
    if (sorted.size() < graph.nodes.size()) {
        const auto stuck = std::ranges::find_if(waiting, [](std::size_t w) { return w > 0; });
        fail_node(graph.nodes[static_cast<std::size_t>(stuck - waiting.begin())],
                  "its inputs depend on its own outputs: the graph has a cycle");
    }
    graph.nodes = std::move(sorted);
}

void infer_types(Graph& graph) {
    for (const auto& node : graph.nodes) {
        const auto types = inferred(graph, node);
        for (std::size_t k = 0; k < node.outputs.size(); ++k) {
            if (node.outputs[k] != kNoValue) graph.values[node.outputs[k]].type = types[k];
        }
    }
}

void verify(const Graph& graph) {
    check_ids(graph);
    check_names(graph);
    check_definitions(graph);
    for (const auto& value : graph.values) {
        if (value.constant && type_of(value.constant->view()) != value.type)
            fail(ErrorCode::bad_data, fmt::format("constant {} does not have the declared type {}",
                                                  in_quotes(value.name), to_text(value.type)));
    }
    for (const auto& node : graph.nodes) {
        const auto types = inferred(graph, node);
        for (std::size_t k = 0; k < node.outputs.size(); ++k) {
            if (node.outputs[k] != kNoValue)
                (void)unified(node, types[k], graph.values[node.outputs[k]].type);
        }
    }
}

Graph with_input_shapes(Graph graph, const std::vector<Shape>& shapes) {
    if (shapes.size() != graph.inputs.size())
        fail(ErrorCode::bad_data,
             fmt::format("expected shapes for {} inputs, got {}", graph.inputs.size(), shapes.size()));
    std::map<std::string, std::int64_t> sizes;  // of named dimensions
    for (std::size_t k = 0; k < shapes.size(); ++k) {
        auto& value = graph.values[graph.inputs[k]];
        const auto mismatch = [&] {
            fail(ErrorCode::bad_data,
                 fmt::format("input {} is {}; it cannot have shape {}", in_quotes(value.name),
                             to_text(value.type), to_text(shapes[k])));
        };
        if (value.type.dims) {
            if (value.type.dims->size() != shapes[k].size()) mismatch();
            for (std::size_t a = 0; a < shapes[k].size(); ++a) {
                const auto& dim = (*value.type.dims)[a];
                if (dim.known() && dim.size != shapes[k][a]) mismatch();
                if (dim.known() || dim.name.empty()) continue;
                if (sizes.try_emplace(dim.name, shapes[k][a]).first->second != shapes[k][a]) mismatch();
            }
        }
        value.type.dims = dims_of(shapes[k]);
    }
    infer_types(graph);
    return graph;
}

}  // namespace imka::graph
