// Runs an experiment in a folder and can resume after any interruption: each finished run is a line on disk,
// each run has one worker at a time among all processes that share the folder, and finished runs are never
// repeated (docs/formats.md, docs/adr/0009-claims.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "imka/experiment/cost.hpp"
#include "imka/experiment/kinds.hpp"
#include "imka/experiment/record.hpp"
#include "imka/experiment/spec.hpp"

namespace imka {

// A data set shared by runs: loaded once, released after the last of them.
struct PlannedData {
    RunConfig load;  // settings for loading it
    DatasetFacts facts;
};
struct PlannedRun {
    std::size_t point = 0;
    std::uint64_t seed = 0;
    std::size_t data = 0;
    std::string key;
    RunCost cost;
};
struct SweepPlan {
    Experiment experiment;
    std::vector<RunPoint> points;
    std::vector<PlannedData> data;
    std::vector<PlannedRun> runs;  // in execution order: by data set, largest first
    // Messages about missing inputs. Runs that need them are left out (RunKind::may_lack_inputs).
    std::vector<std::string> missing = {};
};
// Checks everything before anything runs. Identical runs are merged.
SweepPlan plan_sweep(const Experiment& experiment, const std::filesystem::path& data_dir, const Exec& exec);
RunConfig run_config(const SweepPlan& plan, const PlannedRun& run);

struct SweepStatus {
    std::uint64_t runs = 0;
    std::uint64_t before = 0;     // finished before this sweep started
    std::uint64_t done = 0;       // finished since then, by any process
    std::uint64_t failed = 0;     // since then
    std::uint64_t running = 0;    // in this process
    std::uint64_t elsewhere = 0;  // claimed by other processes, when last checked
    double seconds = 0.0;         // since the start
    double seconds_left = 0.0;    // 0: unknown
};

struct SweepConfig {
    std::filesystem::path output;  // folder; created if missing
    std::filesystem::path data_dir;
    double memory_bytes = 0.0;  // limit for all runs together; 0: 70 % of the machine's memory
    bool retry_failed = true;   // repeat runs that failed in earlier sweeps
    bool wait = true;           // wait for runs of other processes, and take over if they die
    // Called periodically from the calling thread.
    std::function<void(const SweepStatus&)> on_status = {};
};

// Seconds, summed over threads.
struct SweepTimes : RunTimes {
    double load = 0.0;    // reading, splitting and scaling data sets
    double record = 0.0;  // claims and records
    double idle = 0.0;    // waiting for data, memory or other processes
};

struct SweepFailure {
    std::string label;  // combination and seed
    std::string error;
};

struct SweepSummary {
    SweepStatus status;
    SweepTimes times;
    int threads = 0;
    double wall_seconds = 0.0;
    double cpu_seconds = 0.0;
    std::uint64_t recorded = 0;          // runs finished by this process
    std::uint64_t unusable_lines = 0;    // torn, malformed, or of another schema
    std::vector<SweepFailure> failures;  // the first few of this process
};

// Error{interrupted} if stopped, Error{io} if a record cannot be written and cuda::DeviceLost if the GPU
// fails: all records are kept, and the same call (in a new process, if the GPU failed) resumes from them.
// After DeviceLost the threads of the sweep stay; end the process with std::quick_exit, because exit handlers
// of the driver may wait for them.
SweepSummary run_sweep(const SweepPlan& plan, const SweepConfig& config, const Exec& exec);
// With a different kind of run than the experiment's, such as one that fails in a test.
SweepSummary run_sweep(const SweepPlan& plan, const RunKind& kind, const SweepConfig& config,
                       const Exec& exec);

// The remaining work, without running it.
struct SweepForecast {
    std::uint64_t runs = 0;
    std::uint64_t done = 0;
    std::uint64_t failed = 0;  // in earlier sweeps; also counted in the remaining runs if they are retried
    std::uint64_t to_do = 0;
    double seconds = 0.0;       // wall time with the threads of exec
    bool from_records = false;  // estimated from times in the records, not from a quick measurement
    double disk_bytes = 0.0;
};
SweepForecast forecast_sweep(const SweepPlan& plan, const SweepConfig& config, const Exec& exec);

}  // namespace imka
