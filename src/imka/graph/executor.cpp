#include "imka/graph/executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "imka/base/machine.hpp"
#include "imka/graph/operator.hpp"
#include "imka/linalg/gemm.hpp"

namespace imka::graph {
namespace {

// Exact types of the outputs, from the values of the inputs.
std::vector<TensorType> output_types(const Node& node, const std::vector<const TensorView*>& inputs) {
    std::vector<TensorType> types(inputs.size());
    Inference i{node, {}, std::vector<TensorType>(node.outputs.size())};
    for (std::size_t k = 0; k < inputs.size(); ++k) {
        if (inputs[k] != nullptr) types[k] = type_of(*inputs[k]);
        i.inputs.push_back({inputs[k] != nullptr ? &types[k] : nullptr, inputs[k]});
    }
    operator_of(node).infer(i);
    for (std::size_t k = 0; k < i.outputs.size(); ++k) {
        if (node.outputs[k] != kNoValue && !known_shape(i.outputs[k]))
            fail_node(node, fmt::format("the shape of output {} cannot be determined", k));
    }
    return std::move(i.outputs);
}

std::size_t checked_bytes(const Node& node, const TensorType& type, double max_bytes) {
    const auto shape = *known_shape(type);
    const auto bytes = element_count(shape) * byte_size(type.type);
    if (static_cast<double>(bytes) > max_bytes)
        fail_node(node, fmt::format("its output {} needs {:.3g} GB; the limit is {:.3g} GB", to_text(type),
                                    static_cast<double>(bytes) / 1e9, max_bytes / 1e9));
    return bytes;
}

}  // namespace

std::size_t BufferPool::take(std::size_t bytes) {
    // The smallest free buffer that fits; else the largest one grows.
    std::optional<std::size_t> best;
    for (std::size_t k = 0; k < buffers_.size(); ++k) {
        if (buffers_[k].taken) continue;
        const auto size = buffers_[k].memory.size();
        const auto best_size = best ? buffers_[*best].memory.size() : 0;
        const bool better = best_size >= bytes ? size >= bytes && size < best_size : size > best_size;
        if (!best || better) best = k;
    }
    if (!best) {
        best = buffers_.size();
        buffers_.emplace_back();
    }
    auto& buffer = buffers_[*best];
    buffer.taken = true;
    if (buffer.memory.size() < bytes) {
        buffer.memory = {};  // before the new memory is allocated
        buffer.memory.resize(bytes);
    }
    return *best;
}

std::size_t BufferPool::bytes() const {
    std::size_t sum = 0;
    for (const auto& buffer : buffers_) sum += buffer.memory.size();
    return sum;
}

Executor::Executor(Graph graph) : graph_(std::move(graph)) {
    verify(graph_);
    matrices_ = static_matrices(graph_);
    node_matrices_.resize(graph_.nodes.size());
    packed_.resize(matrices_.size());
    for (std::size_t m = 0; m < matrices_.size(); ++m) {
        for (const auto& use : matrices_[m].uses) node_matrices_[use.node].push_back(m);
        if (!matrices_[m].transposed) packed_[m] = transposed(weights_of(graph_, matrices_[m]).view());
    }
    uses_.resize(graph_.values.size());
    for (const auto& node : graph_.nodes) {
        for (const auto id : node.inputs) {
            if (id != kNoValue) ++uses_[id];
        }
    }
    for (const auto id : graph_.outputs) ++uses_[id];
}

// One run: where each value is, and how many nodes still read it.
class GraphRun {
public:
    GraphRun(Executor& executor, MatrixHook* hook, const Exec& exec)
        : e_(executor),
          hook_(hook),
          exec_(exec),
          slots_(executor.graph_.values.size()),
          uses_(executor.uses_) {}
    GraphRun(const GraphRun&) = delete;
    GraphRun& operator=(const GraphRun&) = delete;
    ~GraphRun() {
        for (const auto& [buffer, users] : users_) e_.pool_.give_back(buffer);
    }

    RunResult run(std::span<const TensorView> inputs);
    void multiply(const MatrixCall& call, MatrixView<const float> x, MatrixView<float> y);

private:
    struct Slot {
        TensorView view;
        std::optional<std::size_t> buffer;  // nullopt: an input or constant
    };

    void bind_input(ValueId id, const TensorView& tensor);
    void run_node(std::size_t index);
    std::byte* place(ValueId id, std::size_t bytes);
    void share(ValueId from, ValueId to);
    void release(ValueId id);

    Executor& e_;
    MatrixHook* hook_;
    const Exec& exec_;
    std::vector<Slot> slots_;
    std::vector<std::size_t> uses_;
    std::map<std::size_t, std::size_t> users_;  // values in each buffer
};

namespace {

// The products of one node.
class NodeProducts : public StaticProducts {
public:
    // matrices: of the node, by group.
    NodeProducts(GraphRun& run, std::size_t node, std::span<const std::size_t> matrices)
        : run_(run), node_(node), matrices_(matrices) {}
    void multiply(std::size_t group, std::size_t first_row, MatrixView<const float> x,
                  MatrixView<float> y) override {
        run_.multiply({matrices_[group], node_, first_row}, x, y);
    }

private:
    GraphRun& run_;
    std::size_t node_;
    std::span<const std::size_t> matrices_;
};

}  // namespace

void GraphRun::multiply(const MatrixCall& call, MatrixView<const float> x, MatrixView<float> y) {
    if (hook_ != nullptr && hook_->multiply(call, x, exec_, y)) return;
    const auto& matrix = e_.matrices_[call.matrix];
    if (!matrix.transposed) return gemm_nt_rows(x, e_.packed_[call.matrix], exec_, y);
    const auto* weights = e_.graph_.values[matrix.weight].constant->values<float>().data();
    weights += matrix.group * matrix.inputs * matrix.outputs;
    gemm_nt_rows(x, {weights, matrix.outputs, matrix.inputs}, exec_, y);
}

void GraphRun::bind_input(ValueId id, const TensorView& tensor) {
    const auto& value = e_.graph_.values[id];
    const auto mismatch = [&] {
        fail(ErrorCode::bad_data, fmt::format("input {} must be {}, got {}", in_quotes(value.name),
                                              to_text(value.type), to_text(type_of(tensor))));
    };
    if (tensor.type != value.type.type) mismatch();
    if (value.type.dims) {
        if (value.type.dims->size() != tensor.shape.size()) mismatch();
        for (std::size_t a = 0; a < tensor.shape.size(); ++a) {
            const auto& dim = (*value.type.dims)[a];
            if (dim.known() && dim.size != tensor.shape[a]) mismatch();
        }
    }
    slots_[id].view = tensor;
}

std::byte* GraphRun::place(ValueId id, std::size_t bytes) {
    const auto buffer = e_.pool_.take(bytes);
    users_[buffer] = 1;
    slots_[id].buffer = buffer;
    return e_.pool_.data(buffer);
}

// `to` has the elements of `from`.
void GraphRun::share(ValueId from, ValueId to) {
    slots_[to].buffer = slots_[from].buffer;
    slots_[to].view.data = slots_[from].view.data;
    if (slots_[to].buffer) ++users_[*slots_[to].buffer];
}

void GraphRun::release(ValueId id) {
    auto& slot = slots_[id];
    if (!slot.buffer || uses_[id] > 0) return;
    const auto users = users_.find(*slot.buffer);
    slot.buffer.reset();
    if (--users->second > 0) return;
    e_.pool_.give_back(users->first);
    users_.erase(users);
}

void GraphRun::run_node(std::size_t index) {
    check_cancelled(exec_);
    const auto& node = e_.graph_.nodes[index];
    const auto& op = operator_of(node);
    std::vector<const TensorView*> inputs;
    for (const auto id : node.inputs) inputs.push_back(id == kNoValue ? nullptr : &slots_[id].view);
    const auto types = output_types(node, inputs);
    std::vector<MutableTensorView> memory(node.outputs.size());
    std::vector<MutableTensorView*> outputs(node.outputs.size(), nullptr);
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
        const auto id = node.outputs[k];
        if (id == kNoValue) continue;
        const auto bytes = checked_bytes(node, types[k], physical_memory_bytes());
        slots_[id].view = {types[k].type, *known_shape(types[k]), nullptr};
        if (op.run == nullptr) {
            share(node.inputs[0], id);
            continue;
        }
        memory[k] = {types[k].type, slots_[id].view.shape, place(id, bytes)};
        slots_[id].view.data = memory[k].data;
        outputs[k] = &memory[k];
    }
    if (op.run != nullptr) {
        NodeProducts products(*this, index, e_.node_matrices_[index]);
        // Without a hook a Conv multiplies blocks of windows in parallel and writes them in place. Products
        // that a hook can take are rows of many windows, copied and transposed: slower.
        const bool is_static = !e_.node_matrices_[index].empty() && (node.op != "Conv" || hook_ != nullptr);
        op.run({node, inputs, outputs, exec_, is_static ? &products : nullptr});
    }
    for (const auto id : node.inputs) {
        if (id == kNoValue) continue;
        --uses_[id];
        release(id);
    }
    for (const auto id : node.outputs) {
        if (id != kNoValue) release(id);  // nothing reads it
    }
}

RunResult GraphRun::run(std::span<const TensorView> inputs) {
    const auto& graph = e_.graph_;
    if (inputs.size() != graph.inputs.size())
        fail(ErrorCode::bad_data,
             fmt::format("expected {} inputs, got {}", graph.inputs.size(), inputs.size()));
    for (std::size_t id = 0; id < graph.values.size(); ++id) {
        if (graph.values[id].constant) slots_[id].view = graph.values[id].constant->view();
    }
    for (std::size_t k = 0; k < inputs.size(); ++k) bind_input(graph.inputs[k], inputs[k]);
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) run_node(n);
    RunResult result;
    for (const auto id : graph.outputs) result.outputs.push_back(copy_of(slots_[id].view));
    result.peak_bytes = e_.pool_.bytes();
    return result;
}

RunResult Executor::run(std::span<const TensorView> inputs, MatrixHook* hook, const Exec& exec) {
    return GraphRun(*this, hook, exec).run(inputs);
}

std::vector<Tensor> run_node(const Node& node, const std::vector<const TensorView*>& inputs,
                             std::size_t max_bytes, const Exec& exec) {
    const auto types = output_types(node, inputs);
    std::vector<Tensor> results;
    for (std::size_t k = 0; k < types.size(); ++k) {
        if (node.outputs[k] == kNoValue) {
            results.emplace_back();
            continue;
        }
        (void)checked_bytes(node, types[k], static_cast<double>(max_bytes));
        results.emplace_back(types[k].type, *known_shape(types[k]));
    }
    const auto& op = operator_of(node);
    if (op.run == nullptr) {
        std::copy_n(inputs[0]->data, results[0].bytes.size(), results[0].bytes.data());
        return results;
    }
    std::vector<MutableTensorView> memory;
    for (auto& t : results) memory.push_back(t.view());
    std::vector<MutableTensorView*> outputs;
    for (std::size_t k = 0; k < types.size(); ++k)
        outputs.push_back(node.outputs[k] == kNoValue ? nullptr : &memory[k]);
    op.run({node, inputs, outputs, exec});
    return results;
}

}  // namespace imka::graph
