#include "bench/bench.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/base/matrix.hpp"
#include "imka/base/parallel.hpp"
#include "imka/base/random.hpp"
#include "imka/linalg/gemm.hpp"
#include "imka/ops/epilogue/epilogue.hpp"
#include "imka/ops/normals/normals.hpp"
#include "imka/ops/panel/panel.hpp"

namespace imka::app {
namespace {

// The peer's BLAS or OpenMP threads keep spinning after their work (Intel's for 200 ms) and would slow ours
// down.
constexpr auto kPeerSettles = std::chrono::milliseconds(400);

// Runs one round of a rival; nullopt if it cannot run, with the reason in the result.
std::optional<double> rival_round(const BenchSetup& setup, const Rival& rival, const Sizes& sizes,
                                  RivalResult& result) {
    if (rival.body) return seconds_of(rival.body);
    if (setup.peer == nullptr) {
        result.missing = "python3";
        return std::nullopt;
    }
    auto answer = setup.peer->run(rival.peer, request_json(setup, rival, sizes));
    if (!setup.quick) std::this_thread::sleep_for(kPeerSettles);
    result.missing = std::move(answer.missing);
    result.error = std::move(answer.error);
    return answer.value;
}

std::string time_text(double seconds) {
    if (seconds >= 100.0) return fmt::format("{:.0f} s", seconds);
    if (seconds >= 1.0) return fmt::format("{:.3g} s", seconds);
    if (seconds >= 1e-3) return fmt::format("{:.3g} ms", seconds * 1e3);
    return fmt::format("{:.3g} µs", seconds * 1e6);
}

std::string targets_text(const BenchResult& r) {
    std::vector<std::string> texts;
    for (const auto& t : r.targets)
        texts.push_back(fmt::format("{} {} {:.3g}: {} ({:.3g})", t.what, t.at_most ? "≤" : "≥", t.wanted,
                                    t.met() ? "yes" : "NO", t.reached));
    if (!r.note.empty()) texts.push_back(r.note);
    return fmt::format("{}", fmt::join(texts, "; "));
}

std::string limit_text(const BenchResult& r) {
    if (r.limit_seconds <= 0.0) return "";
    return fmt::format("{:.0f} %", 100.0 * r.limit_seconds / median(r.seconds));
}

Json interval_json(const MedianInterval& i) {
    return {{"median", i.median}, {"low", i.low}, {"high", i.high}, {"confidence", i.confidence}};
}

Json rival_json(const RivalResult& r) {
    Json j = {{"name", r.name}};
    if (!r.missing.empty()) j["missing"] = r.missing;
    if (!r.error.empty()) j["error"] = r.error;
    if (r.seconds.empty()) return j;
    j["median_seconds"] = median(r.seconds);
    j["seconds"] = r.seconds;
    j["ratio"] = interval_json(r.ratio);
    if (r.check) j["check"] = *r.check;
    return j;
}

std::vector<std::string> rival_cells(const RivalResult& r) {
    if (!r.missing.empty()) return {r.name, fmt::format("missing ({})", r.missing), ""};
    if (!r.error.empty()) return {r.name, fmt::format("failed ({})", r.error), ""};
    return {r.name, time_text(median(r.seconds)),
            fmt::format("{:.2f} ({:.2f}–{:.2f})", r.ratio.median, r.ratio.low, r.ratio.high)};
}

// Limits of the machine, measured with our own operations at their best sizes.

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

// Rate of our matrix products or of those of BLAS, whichever is higher.
double sgemm_rate(const Exec& exec, int repeats) {
    constexpr std::size_t kRows = 512;
    constexpr std::size_t kCols = 1024;
    const auto a = normals(kRows, kCols, 0);
    const auto b = normals(kCols, kCols, 1);
    const auto rate = [&](const auto& multiply) {
        return task_rate(exec, repeats, 2.0 * kRows * kCols * kCols, [&] {
            return [&, c = Matrix<float>(kRows, kCols)]() mutable { multiply(a.view(), b.view(), c.view()); };
        });
    };
    return std::max(rate([](auto x, auto y, auto z) { gemm_nt(x, y, z); }),
                    rate([](auto x, auto y, auto z) { blas_gemm_nt(x, y, z); }));
}

double panel_rate(const Exec& exec, int repeats) {
    constexpr std::size_t kSize = 240;  // all three fit in an L2 cache of 1 MB
    constexpr int kPasses = 40;
    return task_rate(exec, repeats, 2.0 * kPasses * kSize * kSize * kSize, [&] {
        ops::Panels b(kSize, kSize);
        ops::pack(normals(kSize, kSize, 1).view(), 1.0F, {}, b);
        return [a = normals(kSize, kSize, 0), b, c = ops::Panels(kSize, kSize)]() mutable {
            for (int p = 0; p < kPasses; ++p) ops::multiply(a.view(), b, c);
        };
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

double seconds_of(const std::function<void()>& body) {
    const auto start = std::chrono::steady_clock::now();
    body();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double least_seconds(int repeats, const std::function<void()>& body) {
    double least = seconds_of(body);
    for (int r = 1; r < repeats; ++r) least = std::min(least, seconds_of(body));
    return least;
}

Matrix<float> normals(std::size_t rows, std::size_t cols, std::uint64_t seed) {
    Matrix<float> x(rows, cols);
    ops::fill_normal(seed, Stream::test, 0, x.values());
    return x;
}

std::string sizes_json(const Sizes& sizes) {
    Json j = Json::object();
    for (const auto& [name, value] : sizes) {
        const auto whole = static_cast<std::int64_t>(value);
        if (static_cast<double>(whole) == value) {
            j[name] = whole;
        } else {
            j[name] = value;
        }
    }
    return j.dump();
}

Exec BenchSetup::exec_on_gpu() const {
    Exec on_gpu = exec;
    on_gpu.device = {DeviceKind::cuda, gpu};
    return on_gpu;
}

std::string request_json(const BenchSetup& setup, const Rival& rival, const Sizes& sizes) {
    Json j = Json::parse(sizes_json(sizes));
    j["gpu"] = setup.gpu;
    if (!rival.folder.empty()) j["folder"] = rival.folder;
    return j.dump();
}

void run_rounds(const BenchSetup& setup, const std::function<void()>& ours, const std::vector<Rival>& rivals,
                BenchResult& result) {
    Progress progress(setup.exec, "bench " + result.name, static_cast<std::uint64_t>(setup.rounds) + 1);
    ours();
    std::vector<bool> runs;
    for (const auto& rival : rivals) {
        const auto version = setup.versions.find(rival.package);
        auto& r = result.rivals.emplace_back();
        r.name = version == setup.versions.end() ? rival.name : rival.name + " " + version->second;
        runs.push_back(rival_round(setup, rival, result.sizes, r).has_value());
    }
    const auto rival_rounds = [&] {
        for (std::size_t i = 0; i < rivals.size(); ++i) {
            if (!runs[i]) continue;
            const auto seconds = rival_round(setup, rivals[i], result.sizes, result.rivals[i]);
            if (seconds) result.rivals[i].seconds.push_back(*seconds);
            runs[i] = seconds.has_value();
        }
    };
    for (int round = 0; round < setup.rounds; ++round) {
        progress.update(static_cast<std::uint64_t>(round) + 1);
        check_cancelled(setup.exec);
        if (round % 2 == 1) rival_rounds();
        result.seconds.push_back(seconds_of(ours));
        if (round % 2 == 0) rival_rounds();
    }
    for (auto& r : result.rivals) {
        std::vector<double> ratios;
        for (std::size_t i = 0; i < r.seconds.size(); ++i) ratios.push_back(r.seconds[i] / result.seconds[i]);
        if (!ratios.empty()) r.ratio = median_interval(ratios);
    }
    if (setup.peer == nullptr) return;
    for (std::size_t i = 0; i < rivals.size(); ++i) {
        if (runs[i] && !rivals[i].peer.empty())
            result.rivals[i].check =
                setup.peer->check(rivals[i].peer, request_json(setup, rivals[i], result.sizes)).value;
    }
    setup.peer->forget();
}

Json to_json(const BenchResult& r) {
    Json j = {{"name", r.name}, {"what", r.title}};
    j["sizes"] = Json::parse(sizes_json(r.sizes));
    if (!r.seconds.empty()) {
        const auto ours = median_interval(r.seconds);
        j["ours"] = {
            {"median_seconds", ours.median}, {"interval", interval_json(ours)}, {"seconds", r.seconds}};
    }
    j["rivals"] = Json::array();
    for (const auto& rival : r.rivals) j["rivals"].push_back(rival_json(rival));
    if (r.limit_seconds > 0.0) {
        j["limit"] = {
            {"what", r.limit}, {"seconds", r.limit_seconds}, {"share", r.limit_seconds / median(r.seconds)}};
    }
    j["targets"] = Json::array();
    for (const auto& t : r.targets) {
        j["targets"].push_back({{"what", t.what},
                                {t.at_most ? "at_most" : "at_least", t.wanted},
                                {"reached", t.reached},
                                {"met", t.met()}});
    }
    j["check"] = {
        {"what", r.check.what}, {"value", r.check.value}, {"bound", r.check.bound}, {"ok", r.check.ok}};
    for (const auto& [name, value] : r.more) j[name] = value;
    return j;
}

TextTable table_rows(const std::vector<BenchResult>& results) {
    TextTable rows = {{"what", "ours", "against", "theirs", "ratio (95 %)", "of limit", "target"}};
    for (const auto& r : results) {
        std::vector<std::string> row = {r.title, r.seconds.empty() ? "" : time_text(median(r.seconds))};
        const std::vector<std::string> end = {limit_text(r), targets_text(r)};
        const auto add = [&](const std::vector<std::string>& cells) {
            row.insert(row.end(), cells.begin(), cells.end());
        };
        add(r.rivals.empty() ? std::vector<std::string>{"", "", ""} : rival_cells(r.rivals.front()));
        add(end);
        rows.push_back(row);
        for (std::size_t i = 1; i < r.rivals.size(); ++i) {
            row = {"", ""};
            add(rival_cells(r.rivals[i]));
            rows.push_back(row);
        }
    }
    return rows;
}

MachineLimits measure_limits(const Exec& exec, int repeats) {
    const auto quiet = without_progress(exec);
    Exec one = quiet;
    one.threads = 1;
    MachineLimits limits;
    limits.sgemm_core = sgemm_rate(one, repeats);
    limits.sgemm_all = sgemm_rate(quiet, repeats);
    limits.panel_all = panel_rate(quiet, repeats);
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
            .panel_all = std::max(a.panel_all, b.panel_all),
            .syrk_all = std::max(a.syrk_all, b.syrk_all),
            .cos_sin_core = std::max(a.cos_sin_core, b.cos_sin_core),
            .cos_sin_all = std::max(a.cos_sin_all, b.cos_sin_all),
            .copy_all = std::max(a.copy_all, b.copy_all),
            .write_all = std::max(a.write_all, b.write_all)};
}

BenchCheck check_peers(const BenchResult& result, double bound) {
    BenchCheck check{.what = "largest difference from the outputs of a peer, relative", .bound = bound};
    std::size_t compared = 0;
    for (const auto& rival : result.rivals) {
        if (!rival.check) continue;
        ++compared;
        check.value = std::max(check.value, *rival.check);
    }
    check.ok = compared > 0 && check.value <= check.bound;
    return check;
}

ScratchFolder::ScratchFolder() {
    auto name = (std::filesystem::temp_directory_path() / "imka-bench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
        fail(ErrorCode::io,
             fmt::format("cannot create a folder in {}", std::filesystem::temp_directory_path().string()));
    path_ = name;
}

ScratchFolder::~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
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
            {"panel_gflops", l.panel_all * 1e-9},
            {"syrk_gflops", l.syrk_all * 1e-9},
            {"cos_sin_gpairs_one_core", l.cos_sin_core * 1e-9},
            {"cos_sin_gpairs", l.cos_sin_all * 1e-9},
            {"copy_gb", l.copy_all * 1e-9},
            {"write_gb", l.write_all * 1e-9}};
}

}  // namespace imka::app
