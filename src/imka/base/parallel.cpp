#include "imka/base/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace imka {

void parallel_for_workers(const Exec& exec, std::size_t count, const std::function<Worker()>& make_worker) {
    std::atomic<std::size_t> next{0};
    std::mutex mutex;
    std::exception_ptr error;
    std::size_t error_index = count;
    const auto work = [&] {
        Worker body;
        for (std::size_t i = next++; i < count; i = next++) {
            try {
                check_cancelled(exec);
                if (!body) body = make_worker();
                body(i);
            } catch (...) {
                const std::scoped_lock lock(mutex);
                if (i < error_index) {
                    error_index = i;
                    error = std::current_exception();
                }
                next = count;
            }
        }
    };
    const auto threads = std::min(count, static_cast<std::size_t>(thread_count(exec)));
    {
        std::vector<std::jthread> helpers;
        try {
            for (std::size_t t = 1; t < threads; ++t) helpers.emplace_back(work);
        } catch (const std::system_error&) {
            // No more threads available: the running ones do the work.
        }
        work();
    }
    if (error) std::rethrow_exception(error);
}

void parallel_for(const Exec& exec, std::size_t count, const std::function<void(std::size_t)>& body) {
    parallel_for_workers(exec, count, [&body] { return Worker([&body](std::size_t i) { body(i); }); });
}

double tree_sum(std::span<const double> values) {
    if (values.size() <= 2) {
        double sum = 0.0;
        for (const double v : values) sum += v;
        return sum;
    }
    const std::size_t half = values.size() / 2;
    return tree_sum(values.first(half)) + tree_sum(values.subspan(half));
}

double parallel_sum(const Exec& exec, std::size_t count, const std::function<double(std::size_t)>& term) {
    std::vector<double> terms(count);
    parallel_for(exec, count, [&](std::size_t i) { terms[i] = term(i); });
    return tree_sum(terms);
}

}  // namespace imka
