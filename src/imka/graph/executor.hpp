// Runs a graph digitally, on all cores or on a GPU. Products with constant weights can be delegated, for
// example to a chip.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/cuda/memory.hpp"
#include "imka/graph/chains.hpp"
#include "imka/graph/cuda/device_run.hpp"
#include "imka/graph/graph.hpp"
#include "imka/graph/static_matrices.hpp"
#include "imka/ops/panel/panel.hpp"

namespace imka::graph {

// One call of MatrixHook::multiply.
struct MatrixCall {
    std::size_t matrix = 0;     // index in Executor::matrices()
    std::size_t node = 0;       // index in Graph::nodes
    std::size_t first_row = 0;  // rows of this node so far in this run
};

// Multiplies rows with the static matrices of a graph. Calls come from one thread, in the order of the nodes.
class MatrixHook {
public:
    virtual ~MatrixHook() = default;
    // y = x W for the matrix W of the call. False if this matrix stays digital; then y is not used.
    virtual bool multiply(const MatrixCall& call, MatrixView<const float> x, const Exec& exec,
                          MatrixView<float> y) = 0;
    // Whether multiply_on_gpu works. If not, runs with this hook use the processor.
    virtual bool takes_gpu_rows() const { return false; }
    // The same for rows in the memory of GPU exec.device.number.
    virtual bool multiply_on_gpu(const MatrixCall& /*call*/, const cuda::ProductRows& /*rows*/,
                                 const Exec& /*exec*/) {
        return false;
    }
};

struct RunResult {
    std::vector<Tensor> outputs;                 // in the order of Graph::outputs
    std::size_t peak_bytes = 0;                  // memory of all intermediate tensors
    std::vector<std::size_t> on_processor = {};  // nodes that have no variant for the GPU of exec.device
};

// Memory of tensors: later tensors reuse the buffers that earlier ones gave back.
class BufferPool {
public:
    std::size_t take(std::size_t bytes);  // returns the number of a buffer
    void give_back(std::size_t buffer) { buffers_[buffer].taken = false; }
    std::byte* data(std::size_t buffer) { return buffers_[buffer].memory.data(); }
    std::size_t bytes() const;

private:
    struct Buffer {
        std::vector<std::byte, AlignedAllocator<std::byte>> memory;
        bool taken = false;
    };
    std::vector<Buffer> buffers_;
};

// A graph prepared for many runs. The memory of a run is kept for the next one.
class Executor {
public:
    // Error{bad_data} if the graph is not valid (verify).
    explicit Executor(Graph graph);

    const Graph& graph() const { return graph_; }
    const std::vector<StaticMatrix>& matrices() const { return matrices_; }

    // Inputs in the order of Graph::inputs. Results do not depend on the number of threads. hook may be null.
    // Runs on a GPU if exec.device is one, unless the graph has convolutions or the hook needs rows on the
    // host. Error{bad_data} if an input has the wrong type or shape, or a node does not accept its inputs.
    RunResult run(std::span<const TensorView> inputs, MatrixHook* hook, const Exec& exec);

private:
    friend class GraphRun;
    void check_inputs(std::span<const TensorView> inputs) const;
    bool runs_on_gpu(const MatrixHook* hook, const Exec& exec) const;

    Graph graph_;
    std::vector<StaticMatrix> matrices_;
    std::vector<std::vector<std::size_t>> node_matrices_;  // by node and group
    // By matrix, inputs x outputs; empty if it is stored transposed, or not needed yet.
    std::vector<ops::Panels> packed_;
    std::vector<Chain> chains_;
    std::vector<std::size_t> uses_;  // by value: nodes and graph outputs that read it
    BufferPool pool_;
    DeviceConstants device_;
};

// The outputs of one node. Error{bad_data} if an output would have more than max_bytes.
std::vector<Tensor> run_node(const Node& node, const std::vector<const TensorView*>& inputs,
                             std::size_t max_bytes, const Exec& exec);

}  // namespace imka::graph
