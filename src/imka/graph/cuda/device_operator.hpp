// The table of operators that have a variant for GPUs.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "imka/cuda/memory.hpp"
#include "imka/graph/cuda/kernels.hpp"
#include "imka/graph/graph.hpp"

namespace imka::graph {

// Products with a constant weight matrix that are computed outside the graph.
class DeviceProducts {
public:
    virtual ~DeviceProducts() = default;
    // False if the product stays digital; then y is not written.
    virtual bool multiply(const cuda::ProductRows& rows) = 0;
};

// One node on a GPU. Views point to memory of the GPU; `data` of omitted inputs is null.
struct DeviceOperands {
    const Node& node;
    std::span<const TensorView> inputs;
    std::span<const TensorView> on_host;  // the same; `data` is null if the values are not on the host
    std::span<const MutableTensorView> outputs;
    int gpu = 0;
    gpu::Status* status = nullptr;
    gpu::Status code = 0;                // of errors in this node, plus a position
    DeviceProducts* products = nullptr;  // of a node whose weights are constant; may be null

    bool has(std::size_t i) const { return i < inputs.size() && inputs[i].data != nullptr; }
    const TensorView& in(std::size_t i) const { return inputs[i]; }
    const MutableTensorView& out() const { return outputs[0]; }
};

struct DeviceOperator {
    std::string_view name;
    // False if there is no variant for these types, shapes or attributes. Starts kernels, does not wait.
    bool (*run)(const DeviceOperands&) = nullptr;
    // The error of a code; null if the operator reports none.
    void (*fail)(const Node& node, const Shape& output, std::size_t position) = nullptr;
};

// Whether a node with constant weights has a variant that multiplies rows with them.
bool has_device_products(const Node& node);

// Null if the operator has no variant.
const DeviceOperator* find_device_operator(std::string_view op);

}  // namespace imka::graph
