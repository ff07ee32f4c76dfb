// Parallel loops over fixed tiles. What a tile computes may not depend on which thread runs it or on how many
// there are; sums over tiles are added in a fixed tree, so results have the same bits for any thread count.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "imka/base/exec.hpp"

namespace imka {

// Calls body(i) for i in [0, count), each once, on thread_count(exec) threads. The exception of the lowest
// failing i among those that ran is rethrown after all threads have stopped.
void parallel_for(const Exec& exec, std::size_t count, const std::function<void(std::size_t)>& body);

// The same where a worker needs something of its own (scratch memory): make_worker() is called at most once
// on each thread and gives the body that this thread runs.
using Worker = std::function<void(std::size_t)>;
void parallel_for_workers(const Exec& exec, std::size_t count, const std::function<Worker()>& make_worker);

// Pairwise sum in an order that depends on values.size() alone.
double tree_sum(std::span<const double> values);

// tree_sum of term(0), ..., term(count - 1), the terms computed in parallel.
double parallel_sum(const Exec& exec, std::size_t count, const std::function<double(std::size_t)>& term);

}  // namespace imka
