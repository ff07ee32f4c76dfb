// A network as a plain value: typed tensors, and nodes in the order in which they run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/graph/tensor.hpp"

namespace imka::graph {

// One axis of a tensor: a size, or unknown until the graph runs. Unknown sizes of the same name are equal.
struct Dim {
    static constexpr std::int64_t kUnknown = -1;
    std::int64_t size = kUnknown;
    std::string name = {};  // of an unknown size; may be empty
    bool known() const { return size != kUnknown; }
    bool operator==(const Dim&) const = default;
};

using Dims = std::vector<Dim>;

struct TensorType {
    DType type = DType::f32;
    std::optional<Dims> dims = {};  // nullopt: unknown number of axes
    bool operator==(const TensorType&) const = default;
};
TensorType type_of(const TensorView& tensor);
// The shape if every size is known.
std::optional<Shape> known_shape(const TensorType& type);
std::string to_text(const TensorType& type);  // "f32[batch, 3, 32, ?]"

using ValueId = std::uint32_t;
inline constexpr ValueId kNoValue =
    std::numeric_limits<ValueId>::max();  // an omitted optional input or output

struct Value {
    std::string name;
    TensorType type;
    std::optional<Tensor> constant = {};  // an initialiser or the result of constant folding
};

using Attribute = std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>,
                               std::vector<float>, std::vector<std::string>, Tensor>;

struct Node {
    std::string name;
    std::string op;
    int opset = 22;  // version of the operator set that defines op
    std::map<std::string, Attribute, std::less<>> attributes = {};
    std::vector<ValueId> inputs = {};
    std::vector<ValueId> outputs = {};
};

struct Graph {
    std::string name;
    std::vector<Value> values;
    std::vector<Node> nodes;  // every input of a node is computed before the node
    std::vector<ValueId> inputs;
    std::vector<ValueId> outputs;
};

// "node 'conv1' (Conv)"
std::string describe(const Node& node);
// Error{bad_data} "node 'conv1' (Conv): <message>".
[[noreturn]] void fail_node(const Node& node, std::string_view message);

// Thrown for models that this version of imka cannot compute, as opposed to files with errors.
class UnsupportedError : public Error {
public:
    explicit UnsupportedError(const std::string& message) : Error(ErrorCode::bad_data, message) {}
};
[[noreturn]] void fail_unsupported(const Node& node, std::string_view message);

// Attributes of a node; `otherwise` is the value of an omitted attribute. Error{bad_data} if the kind is
// wrong.
bool has_attribute(const Node& node, std::string_view name);
std::int64_t int_attribute(const Node& node, std::string_view name, std::int64_t otherwise);
float float_attribute(const Node& node, std::string_view name, float otherwise);
std::string text_attribute(const Node& node, std::string_view name, std::string_view otherwise);
std::vector<std::int64_t> ints_attribute(const Node& node, std::string_view name,
                                         const std::vector<std::int64_t>& otherwise = {});

DType dtype_attribute(const Node& node, std::string_view name, DType otherwise);

// Adds a value and returns its id.
ValueId add_value(Graph& graph, Value value);
ValueId add_constant(Graph& graph, std::string name, Tensor value);
std::optional<ValueId> find_value(const Graph& graph, std::string_view name);

// Sorts the nodes so that every input is computed before its use. Error{bad_data} names a node of a cycle.
void sort_nodes(Graph& graph);

// Infers the type of every value from the inputs and constants. Error{bad_data} names the node whose inputs
// do not fit.
void infer_types(Graph& graph);

// Error{bad_data} unless names are unique, every value is defined exactly once and before its use, every
// operator is known with the right number of inputs, and types and shapes fit.
void verify(const Graph& graph);

// The graph with these shapes of its inputs, in their order; other unknown sizes are inferred from them.
// Error{bad_data} if a size contradicts the graph.
Graph with_input_shapes(Graph graph, const std::vector<Shape>& shapes);

}  // namespace imka::graph
