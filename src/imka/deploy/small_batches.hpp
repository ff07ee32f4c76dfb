// Runs a graph over many inputs in small batches, several at once.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "imka/base/exec.hpp"
#include "imka/deploy/model_batches.hpp"

namespace imka {

// Runs batches that fit the cache of a core in parallel: faster than large batches on many threads. Calls
// body(first, run) once per batch, on any thread, in any order; `first` is the first inference of the batch,
// and run(hook) runs the batch. Rows of calls are counted from the start of the batch. Outputs are not kept.
using RunBatch = std::function<void(ModelHook&)>;
using BatchBody = std::function<void(std::size_t first, const RunBatch& run)>;
void for_small_batches(const BatchJob& job, const BatchBody& body, const Exec& exec);

// Inferences per batch of for_small_batches.
std::size_t small_batch_size(const graph::Graph& graph, std::span<const graph::TensorView> inputs);

}  // namespace imka
