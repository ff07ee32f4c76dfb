#include "imka/deploy/small_batches.hpp"

#include <algorithm>
#include <list>
#include <mutex>
#include <numeric>

#include "imka/base/parallel.hpp"
#include "imka/deploy/batch_size.hpp"

namespace imka {
namespace {

// Limits for one tensor of a batch, and for the graphs and tensors of all batches that run at once.
constexpr std::size_t kSmallElements = std::size_t{1} << 18U;
constexpr std::size_t kElementsAtOnce = std::size_t{1} << 27U;

// Every batch that runs has a copy of the graph.
int batches_at_once(const BatchJob& job, std::span<const graph::TensorView> inputs, std::size_t size,
                    const Exec& exec) {
    auto elements = size * largest_tensor(job.graph, inputs);
    for (const auto& value : job.graph.values)
        elements += value.constant ? graph::element_count(value.constant->shape) : 0;
    const auto fit = std::max<std::size_t>(1, kElementsAtOnce / elements);
    return static_cast<int>(std::min(fit, static_cast<std::size_t>(thread_count(exec))));
}

}  // namespace

std::size_t small_batch_size(const graph::Graph& graph, std::span<const graph::TensorView> inputs) {
    return batch_size(graph, inputs, kSmallElements);
}

void for_small_batches(const BatchJob& job, const BatchBody& body, const Exec& exec) {
    const auto all = views_of(job.inputs);
    const auto inferences = count_inferences(job.graph, all);
    const auto size = small_batch_size(job.graph, all);
    auto outer = exec;
    outer.threads = batches_at_once(job, all, size, exec);
    auto inner = without_progress(exec);
    inner.threads = std::max(1, thread_count(exec) / outer.threads);
    Progress progress(exec, job.label, inferences);
    std::mutex mutex;
    std::size_t done = 0;
    std::list<BatchRunner> runners;  // one per thread
    parallel_for_workers(outer, (inferences + size - 1) / size, [&] {
        const std::scoped_lock making(mutex);
        auto* runner = &runners.emplace_back(job.graph, job.matrices);
        return [&, runner](std::size_t b) {
            const auto first = b * size;
            std::vector<std::uint32_t> rows(std::min(size, inferences - first));
            std::iota(rows.begin(), rows.end(), static_cast<std::uint32_t>(first));
            const auto inputs = select_inferences(all, rows);
            body(first, [&](ModelHook& hook) { (void)runner->run(inputs, &hook, inner); });
            const std::scoped_lock lock(mutex);
            progress.update(done += rows.size());
        };
    });
}

}  // namespace imka
