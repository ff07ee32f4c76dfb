#include "sweep_progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "app.hpp"
#include "terminal.hpp"

namespace imka::app {
namespace {

struct TimePart {
    const char* key;  // in JSON
    const char* text;
    double SweepTimes::*seconds;
};
constexpr std::array kParts = {TimePart{"load", "loading data", &SweepTimes::load},
                               TimePart{"chip", "programming chips", &SweepTimes::chip},
                               TimePart{"features", "features", &SweepTimes::features},
                               TimePart{"products", "products ZᵀZ", &SweepTimes::products},
                               TimePart{"solve", "solve", &SweepTimes::solve},
                               TimePart{"predict", "predict", &SweepTimes::predict},
                               TimePart{"gram", "Gram", &SweepTimes::gram},
                               TimePart{"record", "claims, records", &SweepTimes::record},
                               TimePart{"idle", "idle", &SweepTimes::idle}};

std::string status_text(const SweepStatus& s) {
    const auto done = s.before + s.done;
    std::string text = fmt::format("{}/{} done, {} running", done, s.runs, s.running);
    if (s.elsewhere > 0) text += fmt::format(", {} elsewhere", s.elsewhere);
    text += fmt::format(", {} failed", s.failed);
    if (s.done > 0) {
        text += fmt::format(", {:.3g}/s, {} left", static_cast<double>(s.done) / s.seconds,
                            clock_text(s.seconds_left));
    }
    return text;
}

}  // namespace

SweepSummary run_shown(const SweepPlan& plan, SweepConfig config, const Exec& exec) {
    ProgressLine line;
    if (exec.progress != nullptr) {
        config.on_status = [&line](const SweepStatus& s) {
            if (!line.due()) return;
            const double share = static_cast<double>(s.before + s.done + s.failed) /
                                 static_cast<double>(std::max<std::uint64_t>(1, s.runs));
            line.show("sweep", share, status_text(s));
        };
    }
    return run_sweep(plan, config, exec);
}

std::string summary_text(const SweepSummary& s) {
    std::string text =
        fmt::format("{0} runs: {1} done before, {2} done now, {4} failed; this process recorded {3}",
                    s.status.runs, s.status.before, s.status.done, s.recorded, s.status.failed);
    if (s.status.elsewhere > 0) text += fmt::format(", {} running in other processes", s.status.elsewhere);
    text += fmt::format("\n{:.1f} s on {} threads, {:.1f} s of processor time\n", s.wall_seconds, s.threads,
                        s.cpu_seconds);
    if (s.unusable_lines > 0)
        text += fmt::format("{} lines of records could not be used (truncated, or from another version)\n",
                            s.unusable_lines);
    if (s.recorded > 0) {
        double sum = 0.0;
        for (const auto& part : kParts) sum += s.times.*part.seconds;
        std::vector<std::vector<std::string>> rows = {{"time, summed over threads", "s", "%"}};
        for (const auto& part : kParts) {
            const double seconds = s.times.*part.seconds;
            rows.push_back({part.text, fmt::format("{:.1f}", seconds),
                            fmt::format("{:.1f}", 100.0 * seconds / std::max(sum, 1e-9))});
        }
        text += "\n" + format_table(rows);
    }
    if (!s.failures.empty()) text += "\nfailed in this process (the next start retries them):\n";
    for (const auto& f : s.failures) text += fmt::format("  {}: {}\n", f.label, f.error);
    return text;
}

std::string summary_json(const Experiment& experiment, const std::string& output, const SweepSummary& s) {
    nlohmann::ordered_json times;
    for (const auto& part : kParts) times[part.key] = s.times.*part.seconds;
    nlohmann::ordered_json failures = nlohmann::ordered_json::array();
    for (const auto& f : s.failures) failures.push_back({{"run", f.label}, {"error", f.error}});
    const nlohmann::ordered_json j = {{"experiment", experiment.name},
                                      {"output", output},
                                      {"runs", s.status.runs},
                                      {"done_before", s.status.before},
                                      {"done", s.status.done},
                                      {"recorded", s.recorded},
                                      {"failed", s.status.failed},
                                      {"elsewhere", s.status.elsewhere},
                                      {"unusable_lines", s.unusable_lines},
                                      {"threads", s.threads},
                                      {"wall_seconds", s.wall_seconds},
                                      {"cpu_seconds", s.cpu_seconds},
                                      {"thread_seconds", times},
                                      {"failures", failures}};
    return j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace imka::app
