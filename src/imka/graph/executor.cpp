#include "imka/graph/executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "imka/base/machine.hpp"
#include "imka/base/parallel.hpp"
#include "imka/graph/cuda/device_operator.hpp"
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
    }
    chains_ = find_chains(graph_, [&](std::size_t n) { return !node_matrices_[n].empty(); });
    uses_.resize(graph_.values.size());
    for (const auto& node : graph_.nodes) {
        for (const auto id : node.inputs) {
            if (id != kNoValue) ++uses_[id];
        }
    }
    for (const auto id : graph_.outputs) ++uses_[id];
}

// One run: the location of each value, and the number of nodes that still read it.
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
    void multiply(const MatrixCall& call, MatrixView<const float> x, const Exec& exec, MatrixView<float> y);

private:
    struct Slot {
        TensorView view;
        std::byte* memory = nullptr;        // of the view; null: an input or constant
        std::optional<std::size_t> buffer;  // which the slot gives back; nullopt: none
    };

    // A node with the views of its inputs and outputs, or of slices of them.
    struct Views {
        std::vector<const TensorView*> inputs;
        std::vector<TensorView> input_slices;
        std::vector<MutableTensorView> memory;
        std::vector<MutableTensorView*> outputs;
    };
    // Units [first, first + count) of a chain.
    struct Slice {
        const Chain& chain;
        std::size_t first;
        std::size_t count;
    };

    void pack(std::size_t matrix);
    bool runs_as_chain(const Chain& chain) const;
    void run_chain(const Chain& chain);
    void run_slice(const Slice& slice, const Exec& exec);
    void run_node(std::size_t index);
    void place_outputs(std::size_t index);
    void read_inputs(std::size_t index);
    void compute(std::size_t index, const Views& views, const Exec& exec);
    void release_node(std::size_t index);
    Views views_of(std::size_t index);
    std::optional<ValueId> replaceable_input(const Node& node, const TensorView& output) const;
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
    NodeProducts(GraphRun& run, std::size_t node, std::span<const std::size_t> matrices, const Exec& exec)
        : run_(run), node_(node), matrices_(matrices), exec_(exec) {}
    void multiply(std::size_t group, std::size_t first_row, MatrixView<const float> x,
                  MatrixView<float> y) override {
        run_.multiply({matrices_[group], node_, first_row}, x, exec_, y);
    }

private:
    GraphRun& run_;
    std::size_t node_;
    std::span<const std::size_t> matrices_;
    const Exec& exec_;
};

}  // namespace

void GraphRun::multiply(const MatrixCall& call, MatrixView<const float> x, const Exec& exec,
                        MatrixView<float> y) {
    if (hook_ != nullptr && hook_->multiply(call, x, exec, y)) return;
    const auto& matrix = e_.matrices_[call.matrix];
    if (!matrix.transposed) {
        if (hook_ != nullptr) pack(call.matrix);
        return gemm_rows(x, e_.packed_[call.matrix], exec, y);
    }
    const auto* weights = e_.graph_.values[matrix.weight].constant->values<float>().data();
    weights += matrix.group * matrix.inputs * matrix.outputs;
    gemm_nt_rows(x, {weights, matrix.outputs, matrix.inputs}, exec, y);
}

void GraphRun::pack(std::size_t matrix) {
    auto& packed = e_.packed_[matrix];
    if (e_.matrices_[matrix].transposed || packed.rows() > 0) return;
    packed = ops::packed(weights_of(e_.graph_, e_.matrices_[matrix]).view());
}

namespace {

void check_input(const Value& value, const TensorView& tensor) {
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
}

}  // namespace

void Executor::check_inputs(std::span<const TensorView> inputs) const {
    if (inputs.size() != graph_.inputs.size())
        fail(ErrorCode::bad_data,
             fmt::format("expected {} inputs, got {}", graph_.inputs.size(), inputs.size()));
    for (std::size_t k = 0; k < inputs.size(); ++k) check_input(graph_.values[graph_.inputs[k]], inputs[k]);
}

std::byte* GraphRun::place(ValueId id, std::size_t bytes) {
    const auto buffer = e_.pool_.take(bytes);
    users_[buffer] = 1;
    slots_[id].buffer = buffer;
    return e_.pool_.data(buffer);
}

// Lets `to` share the elements of `from`.
void GraphRun::share(ValueId from, ValueId to) {
    slots_[to].buffer = slots_[from].buffer;
    slots_[to].memory = slots_[from].memory;
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

// An input that nothing else reads, so that the output can reuse its memory.
std::optional<ValueId> GraphRun::replaceable_input(const Node& node, const TensorView& output) const {
    if (!runs_in_place(node)) return std::nullopt;
    for (const auto id : node.inputs) {
        if (id == kNoValue || uses_[id] != 1 || !slots_[id].buffer) continue;
        const auto& view = slots_[id].view;
        if (view.type == output.type && view.shape == output.shape && users_.at(*slots_[id].buffer) == 1)
            return id;
    }
    return std::nullopt;
}

void GraphRun::place_outputs(std::size_t index) {
    const auto& node = e_.graph_.nodes[index];
    std::vector<const TensorView*> inputs;
    for (const auto id : node.inputs) inputs.push_back(id == kNoValue ? nullptr : &slots_[id].view);
    const auto types = output_types(node, inputs);
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
        const auto id = node.outputs[k];
        if (id == kNoValue) continue;
        const auto bytes = checked_bytes(node, types[k], physical_memory_bytes());
        auto& slot = slots_[id];
        slot.view = {types[k].type, *known_shape(types[k]), nullptr};
        if (operator_of(node).run == nullptr) {
            share(node.inputs[0], id);
        } else if (const auto input = replaceable_input(node, slot.view)) {
            slot.buffer = std::exchange(slots_[*input].buffer, std::nullopt);
            slot.memory = slots_[*input].memory;
        } else {
            slot.memory = place(id, bytes);
        }
        if (slot.memory != nullptr) slot.view.data = slot.memory;
    }
}

void GraphRun::read_inputs(std::size_t index) {
    for (const auto id : e_.graph_.nodes[index].inputs) {
        if (id != kNoValue) --uses_[id];
    }
}

GraphRun::Views GraphRun::views_of(std::size_t index) {
    const auto& node = e_.graph_.nodes[index];
    Views v;
    for (const auto id : node.inputs) v.inputs.push_back(id == kNoValue ? nullptr : &slots_[id].view);
    for (const auto id : node.outputs) {
        auto& m = v.memory.emplace_back();
        if (id == kNoValue) continue;
        m = {slots_[id].view.type, slots_[id].view.shape, slots_[id].memory};
    }
    for (std::size_t k = 0; k < node.outputs.size(); ++k)
        v.outputs.push_back(node.outputs[k] == kNoValue ? nullptr : &v.memory[k]);
    return v;
}

void GraphRun::compute(std::size_t index, const Views& views, const Exec& exec) {
    const auto& node = e_.graph_.nodes[index];
    const auto& op = operator_of(node);
    if (op.run == nullptr) return;
    const auto& matrices = e_.node_matrices_[index];
    NodeProducts products(*this, index, matrices, exec);
    // Without a hook a Conv multiplies blocks of windows in parallel and writes them in place. A hook gets
    // rows of many windows, which are copied and transposed: this is slower.
    const bool is_static = !matrices.empty() && (node.op != "Conv" || hook_ != nullptr);
    op.run({node, views.inputs, views.outputs, exec, is_static ? &products : nullptr});
}

void GraphRun::release_node(std::size_t index) {
    const auto& node = e_.graph_.nodes[index];
    for (const auto* ids : {&node.inputs, &node.outputs}) {
        for (const auto id : *ids) {
            if (id != kNoValue) release(id);
        }
    }
}

void GraphRun::run_node(std::size_t index) {
    check_cancelled(exec_);
    if (hook_ == nullptr) {
        for (const auto m : e_.node_matrices_[index]) pack(m);
    }
    place_outputs(index);
    compute(index, views_of(index), exec_);
    read_inputs(index);
    release_node(index);
}

// A hook takes all rows of a product at once, one product after another. Few slices would leave threads idle.
bool GraphRun::runs_as_chain(const Chain& chain) const {
    if (chain.slices() < static_cast<std::size_t>(thread_count(exec_))) return false;
    for (std::size_t n = chain.first_node; n < chain.first_node + chain.nodes(); ++n) {
        if (hook_ != nullptr && !e_.node_matrices_[n].empty()) return false;
    }
    return true;
}

void GraphRun::run_chain(const Chain& chain) {
    for (std::size_t k = 0; k < chain.nodes(); ++k) {
        for (const auto m : e_.node_matrices_[chain.first_node + k]) pack(m);
        place_outputs(chain.first_node + k);
        read_inputs(chain.first_node + k);
    }
    Exec one = exec_;
    one.threads = 1;
    parallel_for(exec_, chain.slices(), [&](std::size_t s) {
        const auto first = s * chain.units_per_slice;
        run_slice({chain, first, std::min(chain.units_per_slice, chain.units - first)}, one);
    });
    for (std::size_t k = 0; k < chain.nodes(); ++k) release_node(chain.first_node + k);
}

void GraphRun::run_slice(const Slice& slice, const Exec& exec) {
    const auto& chain = slice.chain;
    // The slice as a separate tensor with one leading axis.
    const auto cut = [&](auto view) {
        const auto inner = view.shape.end() - static_cast<std::ptrdiff_t>(chain.inner_axes);
        Shape shape = {static_cast<std::int64_t>(slice.count)};
        shape.insert(shape.end(), inner, view.shape.end());
        view.data += slice.first * (view.bytes() / chain.units);
        view.shape = std::move(shape);
        return view;
    };
    for (std::size_t k = 0; k < chain.nodes(); ++k) {
        auto views = views_of(chain.first_node + k);
        views.input_slices.reserve(views.inputs.size());
        for (std::size_t i = 0; i < views.inputs.size(); ++i) {
            if (chain.sliced[k][i]) views.inputs[i] = &views.input_slices.emplace_back(cut(*views.inputs[i]));
        }
        views.memory[0] = cut(views.memory[0]);
        compute(chain.first_node + k, views, exec);
    }
}

RunResult GraphRun::run(std::span<const TensorView> inputs) {
    const auto& graph = e_.graph_;
    for (std::size_t id = 0; id < graph.values.size(); ++id) {
        if (graph.values[id].constant) slots_[id].view = graph.values[id].constant->view();
    }
    for (std::size_t k = 0; k < inputs.size(); ++k) slots_[graph.inputs[k]].view = inputs[k];
    auto chain = e_.chains_.begin();
    for (std::size_t n = 0; n < graph.nodes.size();) {
        const bool starts = chain != e_.chains_.end() && chain->first_node == n;
        if (starts && runs_as_chain(*chain)) {
            run_chain(*chain);
            n += chain++->nodes();
            continue;
        }
        if (starts) ++chain;
        run_node(n++);
    }
    RunResult result;
    for (const auto id : graph.outputs) result.outputs.push_back(copy_of(slots_[id].view));
    result.peak_bytes = e_.pool_.bytes();
    return result;
}

// Networks with convolutions run on the processor: on a GPU they would spend their time on copies.
bool Executor::runs_on_gpu(const MatrixHook* hook, const Exec& exec) const {
    if (exec.device.kind != DeviceKind::cuda || (hook != nullptr && !hook->takes_gpu_rows())) return false;
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
        if (!node_matrices_[n].empty() && !has_device_products(graph_.nodes[n])) return false;
    }
    return true;
}

RunResult Executor::run(std::span<const TensorView> inputs, MatrixHook* hook, const Exec& exec) {
    check_inputs(inputs);
    if (runs_on_gpu(hook, exec))
        return run_on_gpu({graph_, node_matrices_, uses_, hook}, inputs, exec, device_);
    auto result = GraphRun(*this, hook, exec).run(inputs);
    if (exec.device.kind == DeviceKind::cuda) {
        result.on_processor.resize(graph_.nodes.size());
        std::iota(result.on_processor.begin(), result.on_processor.end(), std::size_t{0});
    }
    return result;
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
    memory.reserve(results.size());
    for (auto& t : results) memory.push_back(t.view());
    std::vector<MutableTensorView*> outputs;
    for (std::size_t k = 0; k < types.size(); ++k)
        outputs.push_back(node.outputs[k] == kNoValue ? nullptr : &memory[k]);
    op.run({node, inputs, outputs, exec});
    return results;
}

}  // namespace imka::graph
