// Runs a graph over many inputs, in batches that it accepts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/deploy/pipeline.hpp"
#include "imka/graph/executor.hpp"

namespace imka {

// Rows that a node multiplies with a matrix.
struct ModelCall {
    std::uint32_t matrix = 0;     // index in the names given to run_batches
    std::uint32_t use = 0;        // number of the node among those that share the matrix
    std::uint64_t first_row = 0;  // rows of this use so far, over all batches
};

// Multiplies the rows, or only observes them. Calls come from one thread.
class ModelHook {
public:
    virtual ~ModelHook() = default;
    // False if the product stays digital; then y is not used.
    virtual bool multiply(const ModelCall& call, MatrixView<const float> x, const Exec& exec,
                          MatrixView<float> y) = 0;
    // Whether multiply_on_gpu works. If not, runs with this hook use the processor.
    virtual bool takes_gpu_rows() const { return false; }
    // The same for rows in the memory of GPU exec.device.number.
    virtual bool multiply_on_gpu(const ModelCall& /*call*/, const cuda::ProductRows& /*rows*/,
                                 const Exec& /*exec*/) {
        return false;
    }
};

// Number of inferences in the inputs: the size of their first axis. Error{bad_data} if they differ, or an
// input does not fit the graph.
std::size_t count_inferences(const graph::Graph& graph, std::span<const graph::TensorView> inputs);

std::vector<graph::TensorView> views_of(std::span<const graph::Tensor> tensors);

// A graph prepared for many runs over inputs of the same shape.
class BatchRunner {
public:
    // Both must outlive the runner. matrices: names of the static matrices passed to hooks. label: shown with
    // the progress.
    BatchRunner(const graph::Graph& graph, std::span<const std::string> matrices,
                std::string_view label = "inferences");
    ~BatchRunner();
    BatchRunner(const BatchRunner&) = delete;
    BatchRunner& operator=(const BatchRunner&) = delete;

    // Inputs and outputs in the order of the graph's. A graph with a fixed first axis runs in chunks of that
    // size; the last chunk is filled up by repeating its last inference. Results do not depend on the size of
    // the batches. hook may be null. Error{bad_data} if inputs do not fit.
    std::vector<graph::Tensor> run(std::span<const graph::TensorView> inputs, ModelHook* hook,
                                   const Exec& exec);
    std::vector<graph::Tensor> run(std::span<const graph::Tensor> inputs, ModelHook* hook, const Exec& exec) {
        return run(views_of(inputs), hook, exec);
    }
    // Of the last run: the steps of a batch, with `matrices` as products, and how many batches ran.
    struct BatchSteps {
        Pipeline pipeline;
        double runs = 0.0;
    };
    std::vector<BatchSteps> steps() const;
    // Of the last run: names of nodes that have no variant for the GPU of exec.device.
    std::vector<std::string> on_processor() const;

private:
    struct Prepared;
    Prepared& prepared(std::span<const graph::TensorView> inputs, std::size_t batch);

    const graph::Graph& graph_;
    std::span<const std::string> matrices_;
    std::string label_;
    std::vector<std::unique_ptr<Prepared>> prepared_;  // for the most recent batch sizes
};

// One run.
struct BatchJob {
    const graph::Graph& graph;
    std::span<const std::string> matrices;  // names of the static matrices passed to the hook
    std::span<const graph::Tensor> inputs;  // in the order of the graph's inputs
    std::string_view label = "inferences";  // of the progress
};
std::vector<graph::Tensor> run_batches(const BatchJob& job, ModelHook* hook, const Exec& exec);

// These inferences of all inputs, in this order.
std::vector<graph::Tensor> select_inferences(std::span<const graph::TensorView> inputs,
                                             std::span<const std::uint32_t> order);

}  // namespace imka
