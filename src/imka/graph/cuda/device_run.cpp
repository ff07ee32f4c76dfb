#include "imka/graph/cuda/device_run.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "imka/base/machine.hpp"
#include "imka/cuda/gpu.hpp"
#include "imka/graph/cuda/device_operator.hpp"
#include "imka/graph/executor.hpp"
#include "imka/graph/operator.hpp"

namespace imka::graph {
namespace {

// Products of one node that the hook computes.
class HookProducts : public DeviceProducts {
public:
    HookProducts(MatrixHook& hook, MatrixCall call, const Exec& exec)
        : hook_(hook), call_(call), exec_(exec) {}
    bool multiply(const cuda::ProductRows& rows) override {
        return hook_.multiply_on_gpu(call_, rows, exec_);
    }

private:
    MatrixHook& hook_;
    MatrixCall call_;
    const Exec& exec_;
};

// One run: the location of each value, and the number of nodes that still read it.
class DeviceRun {
public:
    DeviceRun(const DeviceJob& job, const Exec& exec, DeviceConstants& constants)
        : graph_(job.graph),
          job_(job),
          exec_(exec),
          cpu_(exec),
          gpu_(exec.device.number),
          constants_(constants),
          slots_(job.graph.values.size()),
          uses_(job.uses.begin(), job.uses.end()) {
        cpu_.device = {};
        if (constants_.gpu == gpu_) return;
        constants_.gpu = gpu_;
        constants_.memory = std::vector<cuda::Memory>(graph_.values.size());
    }

    RunResult run(std::span<const TensorView> inputs);

private:
    // A value in the memory of the GPU, of the host, or both.
    struct Slot {
        TensorView view;                    // data: on the GPU; null if it is not there
        const std::byte* host = nullptr;    // null if it is not there
        std::optional<std::size_t> buffer;  // of the view; nullopt: a constant
        Tensor copy;                        // of the host, unless it is an input or constant
    };
    struct Buffer {
        cuda::Memory memory;
        std::size_t users = 0;
    };

    void run_node(std::size_t index);
    bool set_types(std::size_t index);
    bool has_empty_values(const Node& node) const;
    bool run_there(std::size_t index);
    void run_here(std::size_t index);
    void share(ValueId from, ValueId to);
    std::byte* place(ValueId id);
    void upload(ValueId id);
    void download(ValueId id);
    void release(ValueId id);
    void give_back(ValueId id);
    void check_status();

    const Graph& graph_;
    const DeviceJob& job_;
    const Exec& exec_;
    Exec cpu_;  // for nodes that run on the processor
    int gpu_;
    DeviceConstants& constants_;
    std::vector<Slot> slots_;
    std::vector<std::size_t> uses_;
    std::vector<Buffer> buffers_;
    std::size_t bytes_ = 0;  // of all buffers now
    std::size_t peak_bytes_ = 0;
    cuda::Memory status_;
    std::vector<std::size_t> on_processor_;
};

std::byte* DeviceRun::place(ValueId id) {
    auto& slot = slots_[id];
    const auto bytes = slot.view.bytes();
    const auto unused = std::ranges::find(buffers_, std::size_t{0}, &Buffer::users);
    const auto number = static_cast<std::size_t>(unused - buffers_.begin());
    if (unused == buffers_.end()) buffers_.emplace_back();
    buffers_[number] = {cuda::Memory(gpu_, bytes, cuda::MemorySource::pooled), 1};
    slot.buffer = number;
    bytes_ += bytes;
    peak_bytes_ = std::max(peak_bytes_, bytes_);
    auto* memory = static_cast<std::byte*>(buffers_[number].memory.data());
    slot.view.data = memory;
    return memory;
}

// Copies a value to the GPU, unless it is already there.
void DeviceRun::upload(ValueId id) {
    auto& slot = slots_[id];
    if (slot.view.data != nullptr || slot.view.count() == 0) return;
    if (!graph_.values[id].constant) {
        place(id);
        return buffers_[*slot.buffer].memory.upload(slot.host, slot.view.bytes());
    }
    auto& memory = constants_.memory[id];
    if (memory.data() == nullptr) {
        memory = cuda::Memory(gpu_, slot.view.bytes(), cuda::MemorySource::pooled);
        memory.upload(slot.host, slot.view.bytes());
    }
    slot.view.data = static_cast<const std::byte*>(memory.data());
}

// Copies a value to the host, unless it is already there.
void DeviceRun::download(ValueId id) {
    auto& slot = slots_[id];
    if (slot.host != nullptr) return;
    slot.copy = Tensor(slot.view.type, slot.view.shape);
    cuda::download(slot.view.data, slot.view.bytes(), slot.copy.bytes.data());
    slot.host = slot.copy.bytes.data();
}

void DeviceRun::release(ValueId id) {
    auto& slot = slots_[id];
    if (uses_[id] > 0) return;
    slot.copy = {};
    if (slot.buffer) give_back(id);
}

void DeviceRun::give_back(ValueId id) {
    auto& buffer = buffers_[*std::exchange(slots_[id].buffer, std::nullopt)];
    if (--buffer.users > 0) return;
    bytes_ -= buffer.memory.bytes();
    buffer.memory = {};
}

// Lets `to` share the elements of `from`.
void DeviceRun::share(ValueId from, ValueId to) {
    upload(from);
    slots_[to].view.data = slots_[from].view.data;
    slots_[to].buffer = slots_[from].buffer;
    if (slots_[from].copy.bytes.empty()) slots_[to].host = slots_[from].host;
    if (slots_[to].buffer) ++buffers_[*slots_[to].buffer].users;
}

// False if types or shapes of the outputs depend on values that are not on the host.
bool DeviceRun::set_types(std::size_t index) {
    const auto& node = graph_.nodes[index];
    std::vector<TensorType> types(node.inputs.size());
    std::vector<TensorView> values(node.inputs.size());
    Inference i{node, {}, std::vector<TensorType>(node.outputs.size())};
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        const auto id = node.inputs[k];
        if (id == kNoValue) {
            i.inputs.push_back({});
            continue;
        }
        types[k] = type_of(slots_[id].view);
        values[k] = slots_[id].view;
        values[k].data = slots_[id].host;
        i.inputs.push_back({&types[k], values[k].data != nullptr ? &values[k] : nullptr});
    }
    operator_of(node).infer(i);
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
        if (node.outputs[k] == kNoValue) continue;
        const auto shape = known_shape(i.outputs[k]);
        if (!shape) return false;
        slots_[node.outputs[k]].view = {i.outputs[k].type, *shape, nullptr};
    }
    return true;
}

// Kernels need at least one element.
bool DeviceRun::has_empty_values(const Node& node) const {
    const auto empty = [&](ValueId id) { return id != kNoValue && slots_[id].view.count() == 0; };
    return std::ranges::any_of(node.inputs, empty) || std::ranges::any_of(node.outputs, empty);
}

bool DeviceRun::run_there(std::size_t index) {
    const auto& node = graph_.nodes[index];
    const auto* op = find_device_operator(node.op);
    if (op == nullptr || has_empty_values(node)) return false;
    std::vector<TensorView> inputs(node.inputs.size());
    std::vector<TensorView> on_host(node.inputs.size());
    for (std::size_t k = 0; k < inputs.size(); ++k) {
        if (node.inputs[k] == kNoValue) continue;
        upload(node.inputs[k]);
        inputs[k] = on_host[k] = slots_[node.inputs[k]].view;
        on_host[k].data = slots_[node.inputs[k]].host;
    }
    std::vector<MutableTensorView> outputs(node.outputs.size());
    for (std::size_t k = 0; k < outputs.size(); ++k) {
        const auto id = node.outputs[k];
        if (id == kNoValue) continue;
        outputs[k] = {slots_[id].view.type, slots_[id].view.shape, place(id)};
    }
    std::optional<HookProducts> products;
    const auto& matrices = job_.node_matrices[index];
    if (job_.hook != nullptr && !matrices.empty())
        products.emplace(*job_.hook, MatrixCall{matrices[0], index, 0}, exec_);
    const gpu::Status code = gpu::Status{index} << gpu::kStatusBits;
    if (op->run({node, inputs, on_host, outputs, gpu_, static_cast<gpu::Status*>(status_.data()), code,
                 products ? &*products : nullptr}))
        return true;
    for (const auto id : node.outputs) {
        if (id == kNoValue) continue;
        give_back(id);
        slots_[id].view.data = nullptr;
    }
    return false;
}

void DeviceRun::run_here(std::size_t index) {
    const auto& node = graph_.nodes[index];
    std::vector<TensorView> views(node.inputs.size());
    std::vector<const TensorView*> inputs(node.inputs.size(), nullptr);
    for (std::size_t k = 0; k < inputs.size(); ++k) {
        const auto id = node.inputs[k];
        if (id == kNoValue) continue;
        download(id);
        views[k] = slots_[id].view;
        views[k].data = slots_[id].host;
        inputs[k] = &views[k];
    }
    check_status();  // wrong values must not be used
    auto results = graph::run_node(node, inputs, static_cast<std::size_t>(physical_memory_bytes()), cpu_);
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
        if (node.outputs[k] == kNoValue) continue;
        auto& slot = slots_[node.outputs[k]];
        slot.copy = std::move(results[k]);
        slot.view = std::as_const(slot.copy).view();
        slot.view.data = nullptr;
        slot.host = slot.copy.bytes.data();
    }
    on_processor_.push_back(index);
}

void DeviceRun::run_node(std::size_t index) {
    check_cancelled(exec_);
    const auto& node = graph_.nodes[index];
    const bool known = set_types(index);
    if (known && operator_of(node).run == nullptr) {
        share(node.inputs[0], node.outputs[0]);
    } else if (!known || !run_there(index)) {
        run_here(index);
    }
    for (const auto id : node.inputs) {
        if (id == kNoValue) continue;
        --uses_[id];
        release(id);
    }
    for (const auto id : node.outputs) {
        if (id != kNoValue) release(id);
    }
}

void DeviceRun::check_status() {
    gpu::Status status = gpu::kNoError;
    status_.download(&status, sizeof(status));
    if (status == gpu::kNoError) return;
    const auto& node = graph_.nodes[static_cast<std::size_t>(status >> gpu::kStatusBits)];
    const auto position = static_cast<std::size_t>(status & ((gpu::Status{1} << gpu::kStatusBits) - 1));
    find_device_operator(node.op)->fail(node, slots_[node.outputs[0]].view.shape, position);
}

RunResult DeviceRun::run(std::span<const TensorView> inputs) {
    cuda::select_gpu(gpu_);
    status_ = cuda::Memory(gpu_, sizeof(gpu::Status), cuda::MemorySource::pooled);
    status_.upload(&gpu::kNoError, sizeof(gpu::kNoError));
    for (std::size_t id = 0; id < graph_.values.size(); ++id) {
        if (!graph_.values[id].constant) continue;
        slots_[id].view = graph_.values[id].constant->view();
        slots_[id].host = std::exchange(slots_[id].view.data, nullptr);
    }
    for (std::size_t k = 0; k < inputs.size(); ++k) {
        auto& slot = slots_[graph_.inputs[k]];
        slot.view = inputs[k];
        slot.host = std::exchange(slot.view.data, nullptr);
    }
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) run_node(n);
    RunResult result;
    for (const auto id : graph_.outputs) {
        download(id);
        auto view = slots_[id].view;
        view.data = slots_[id].host;
        result.outputs.push_back(copy_of(view));
    }
    check_status();
    result.peak_bytes = peak_bytes_;
    result.on_processor = std::move(on_processor_);
    return result;
}

}  // namespace

RunResult run_on_gpu(const DeviceJob& job, std::span<const TensorView> inputs, const Exec& exec,
                     DeviceConstants& constants) {
    return DeviceRun(job, exec, constants).run(inputs);
}

}  // namespace imka::graph
