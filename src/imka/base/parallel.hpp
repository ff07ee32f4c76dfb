// Parallel loops over fixed tiles. The result of a tile must not depend on the thread or the number of
// threads; sums over tiles are added in a fixed tree, so results have the same bits for any thread count.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "imka/base/exec.hpp"

namespace imka {

// Calls body(i) once for each i in [0, count) on thread_count(exec) threads. If calls throw, the exception of
// the lowest such i is rethrown after all threads have stopped.
void parallel_for(const Exec& exec, std::size_t count, const std::function<void(std::size_t)>& body);

// The same with per-thread state (scratch memory): make_worker() is called at most once per thread and
// returns the body that this thread runs.
using Worker = std::function<void(std::size_t)>;
void parallel_for_workers(const Exec& exec, std::size_t count, const std::function<Worker()>& make_worker);

// Pairwise sum in an order that depends only on values.size().
double tree_sum(std::span<const double> values);

// tree_sum of term(0), ..., term(count - 1); terms are computed in parallel.
double parallel_sum(const Exec& exec, std::size_t count, const std::function<double(std::size_t)>& term);

}  // namespace imka
