// Runs a graph on a GPU. Nodes without a variant for GPUs run on the processor: their inputs are copied.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/cuda/memory.hpp"
#include "imka/graph/graph.hpp"

namespace imka::graph {

class MatrixHook;
struct RunResult;

// Constants of a graph in the memory of a GPU, for many runs; those that no run has needed yet are missing.
struct DeviceConstants {
    int gpu = -1;
    std::vector<cuda::Memory> memory = {};  // by value
};

// The data of an executor that a run needs.
struct DeviceJob {
    const Graph& graph;
    std::span<const std::vector<std::size_t>> node_matrices;  // static matrices by node and group
    std::span<const std::size_t> uses;  // by value: nodes and graph outputs that read it
    MatrixHook* hook = nullptr;         // takes rows in GPU memory; may be null
};

// Inputs have the right types and shapes. Error{missing_part} if the GPU cannot be used or does not have
// enough memory; other errors are those of the processor.
RunResult run_on_gpu(const DeviceJob& job, std::span<const TensorView> inputs, const Exec& exec,
                     DeviceConstants& constants);

}  // namespace imka::graph
