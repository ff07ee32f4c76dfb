// Limits of the machine, measured with our own operations at their best sizes.
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/bench.hpp"
#include "imka/base/matrix.hpp"
#include "imka/base/parallel.hpp"
#include "imka/linalg/gemm.hpp"
#include "imka/ops/epilogue/epilogue.hpp"

namespace imka::app {
namespace {

constexpr std::size_t kTasksPerThread = 4;
constexpr std::size_t kBandwidthBytes = std::size_t{1} << 28U;  // well beyond the caches

// Best of several repeats after one warm-up.
double best_rate(double units, int repeats, const std::function<void()>& body) {
    body();
    return units / least_seconds(repeats, body);
}

// Total rate over all threads of a task with its own memory; make() returns one task.
double task_rate(const Exec& exec, int repeats, double units,
                 const std::function<std::function<void()>()>& make) {
    const auto threads = static_cast<std::size_t>(thread_count(exec));
    std::vector<std::function<void()>> tasks;
    for (std::size_t t = 0; t < threads; ++t) tasks.push_back(make());
    return best_rate(units * static_cast<double>(threads * kTasksPerThread), repeats, [&] {
        parallel_for(exec, threads, [&](std::size_t t) {
            for (std::size_t i = 0; i < kTasksPerThread; ++i) tasks[t]();
        });
    });
}

double sgemm_rate(const Exec& exec, int repeats) {
    constexpr std::size_t kRows = 512;
    constexpr std::size_t kCols = 1024;
    const auto a = normals(kRows, kCols, 0);
    const auto b = normals(kCols, kCols, 1);
    return task_rate(exec, repeats, 2.0 * kRows * kCols * kCols, [&] {
        return [&, c = Matrix<float>(kRows, kCols)]() mutable { gemm_nt(a.view(), b.view(), c.view()); };
    });
}

double cos_sin_rate(const Exec& exec, int repeats) {
    constexpr std::size_t kValues = 2048;  // fits with both outputs in an L1 cache of 32 KB
    constexpr int kPasses = 400;
    return task_rate(exec, repeats, 1.0 * kValues * kPasses, [&] {
        return [u = normals(1, kValues, 0), out = Matrix<float>(2, kValues)]() mutable {
            for (int p = 0; p < kPasses; ++p) ops::cos_sin(u.row(0), 1.0F, out.row(0), out.row(1));
        };
    });
}

// Bytes per second moved by all threads, each in its own part of the memory.
double bandwidth(const Exec& exec, int repeats,
                 const std::function<void(std::size_t first, std::size_t count)>& move) {
    const auto threads = static_cast<std::size_t>(thread_count(exec));
    const std::size_t part = kBandwidthBytes / threads;
    return best_rate(static_cast<double>(part * threads), repeats,
                     [&] { parallel_for(exec, threads, [&](std::size_t t) { move(t * part, part); }); });
}

}  // namespace

MachineLimits measure_limits(const Exec& exec, int repeats) {
    const auto quiet = without_progress(exec);
    Exec one = quiet;
    one.threads = 1;
    MachineLimits limits;
    limits.sgemm_core = sgemm_rate(one, repeats);
    limits.sgemm_all = sgemm_rate(quiet, repeats);
    limits.syrk_all = measure_syrk(quiet, repeats);
    limits.cos_sin_core = cos_sin_rate(one, repeats);
    limits.cos_sin_all = cos_sin_rate(quiet, repeats);
    std::vector<char> from(kBandwidthBytes);
    std::vector<char> to(kBandwidthBytes);
    limits.copy_all = bandwidth(quiet, repeats, [&](std::size_t first, std::size_t count) {
        std::memcpy(to.data() + first, from.data() + first, count);
    });
    limits.write_all = bandwidth(quiet, repeats, [&](std::size_t first, std::size_t count) {
        std::memset(to.data() + first, 1, count);
    });
    return limits;
}

MachineLimits best_of(const MachineLimits& a, const MachineLimits& b) {
    return {.sgemm_core = std::max(a.sgemm_core, b.sgemm_core),
            .sgemm_all = std::max(a.sgemm_all, b.sgemm_all),
            .syrk_all = std::max(a.syrk_all, b.syrk_all),
            .cos_sin_core = std::max(a.cos_sin_core, b.cos_sin_core),
            .cos_sin_all = std::max(a.cos_sin_all, b.cos_sin_all),
            .copy_all = std::max(a.copy_all, b.copy_all),
            .write_all = std::max(a.write_all, b.write_all)};
}

double measure_syrk(const Exec& exec, int repeats) {
    constexpr std::size_t kRows = 2048;
    constexpr std::size_t kCols = 1024;
    const auto a = normals(kRows, kCols, 0);
    return task_rate(exec, repeats, 1.0 * kRows * kCols * kCols, [&] {
        return [&, c = Matrix<float>(kCols, kCols)]() mutable { syrk_tn(a.view(), c.view()); };
    });
}

Json to_json(const MachineLimits& l) {
    return {{"sgemm_gflops_one_core", l.sgemm_core * 1e-9},
            {"sgemm_gflops", l.sgemm_all * 1e-9},
            {"syrk_gflops", l.syrk_all * 1e-9},
            {"cos_sin_gpairs_one_core", l.cos_sin_core * 1e-9},
            {"cos_sin_gpairs", l.cos_sin_all * 1e-9},
            {"copy_gb", l.copy_all * 1e-9},
            {"write_gb", l.write_all * 1e-9}};
}

}  // namespace imka::app
