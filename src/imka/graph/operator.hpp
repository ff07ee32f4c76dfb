// The table of operators: for each (name, first operator set) how output types follow from inputs, and how
// outputs are computed. Each family has a file op_<family>.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/graph/graph.hpp"

namespace imka::graph {

// One node and the known properties of its inputs. Before a run only constants have values; during a run all
// inputs do, so that the same function gives the exact shapes.
struct Inference {
    struct Input {
        const TensorType* type = nullptr;   // null: omitted
        const TensorView* value = nullptr;  // null: known only during a run
    };
    const Node& node;
    std::vector<Input> inputs;
    std::vector<TensorType> outputs;

    bool has(std::size_t i) const { return i < inputs.size() && inputs[i].type != nullptr; }
    DType type(std::size_t i) const { return inputs[i].type->type; }
    bool ranked(std::size_t i) const { return inputs[i].type->dims.has_value(); }
    const Dims& dims(std::size_t i) const { return *inputs[i].type->dims; }
    // The integers of an input; nullopt if it is omitted or known only during a run.
    std::optional<std::vector<std::int64_t>> ints(std::size_t i) const;
    void set(std::size_t output, DType type, std::optional<Dims> dims);
};

// Products with a constant weight matrix, computed digitally or on a chip.
class StaticProducts {
public:
    virtual ~StaticProducts() = default;
    // y = x W for rows first_row, first_row + 1, ... of this node; W is the matrix of a group (0 without
    // groups), inputs x outputs.
    virtual void multiply(std::size_t group, std::size_t first_row, MatrixView<const float> x,
                          MatrixView<float> y) = 0;
};

// One node with the values of its inputs and memory for its outputs; omitted ones are null.
struct Operands {
    const Node& node;
    std::span<const TensorView* const> inputs;
    std::span<MutableTensorView* const> outputs;
    const Exec& exec;
    StaticProducts* products = nullptr;  // of a node whose weights are constant; null: multiply directly

    bool has(std::size_t i) const { return i < inputs.size() && inputs[i] != nullptr; }
    const TensorView& in(std::size_t i) const { return *inputs[i]; }
    bool wants(std::size_t i) const { return i < outputs.size() && outputs[i] != nullptr; }
    MutableTensorView& out(std::size_t i) const { return *outputs[i]; }
};

struct Operator {
    std::string_view name;
    int since;                 // first operator set with these rules
    std::size_t least_inputs;  // required ones
    std::size_t most_inputs;   // kAnyNumber: variadic
    void (*infer)(Inference&) = nullptr;
    void (*run)(const Operands&) = nullptr;  // null: output 0 has the elements of input 0
};
inline constexpr std::size_t kAnyNumber = 1U << 16U;

// Operator sets that can be read.
inline constexpr int kFirstOpset = 1;
inline constexpr int kLastOpset = 25;

// The rules of `op` in an operator set; null if there are none.
const Operator* find_operator(std::string_view op, int opset);
// The rules of a node's operator. UnsupportedError names the operator, the node and a possible replacement.
const Operator& operator_of(const Node& node);
// Every row of the table, by name and version.
std::vector<Operator> all_operators();

// Rows of the table, by family.
std::span<const Operator> elementwise_operators();
std::span<const Operator> reduce_operators();
std::span<const Operator> shape_operators();
std::span<const Operator> gather_operators();
std::span<const Operator> matmul_operators();
std::span<const Operator> conv_operators();
std::span<const Operator> pool_operators();
std::span<const Operator> norm_operators();
std::span<const Operator> quantize_operators();
std::span<const Operator> create_operators();
std::span<const Operator> imka_operators();

// Helpers of the families.

// An axis counted from 0; negative ones count from the end. Error{bad_data} if it is out of range.
std::size_t axis_of(const Node& node, std::int64_t axis, std::size_t rank);
// Sizes that fit both; Error{bad_data} names the node if they differ.
Dim same_dim(const Node& node, const Dim& a, const Dim& b);
Dim broadcast_dim(const Node& node, const Dim& a, const Dim& b);
Dims broadcast_dims(const Node& node, const Dims& a, const Dims& b);
Dims dims_of(const Shape& shape);
// Output 0 has the type of input 0.
void infer_same(Inference& i);
// Output 0 has the broadcast shape of all inputs and the type of input 0.
void infer_broadcast(Inference& i);
// UnsupportedError for elements of this type.
[[noreturn]] void fail_type(const Node& node, DType type);
void require_f32(const Operands& o);  // of input 0
// Error{bad_data} if both inputs exist and their types differ.
void check_same_type(const Inference& i, std::size_t a, std::size_t b);

}  // namespace imka::graph
