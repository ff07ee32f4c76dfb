// Runs an experiment in a folder that survives everything: each finished run is a line on the disk, a run
// has one worker at a time among all processes that share the folder, and what was finished is never
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

// A data set that runs share: loaded once, dropped after the last of them.
struct PlannedData {
    RunConfig load;  // its settings say how to load it
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
    std::vector<PlannedRun> runs;  // in their order: by data set, the largest first
};
// Everything is checked before anything runs. Runs that are the same are one.
SweepPlan plan_sweep(const Experiment& experiment, const std::filesystem::path& data_dir, const Exec& exec);
RunConfig run_config(const SweepPlan& plan, const PlannedRun& run);

struct SweepStatus {
    std::uint64_t runs = 0;
    std::uint64_t before = 0;     // finished before this start
    std::uint64_t done = 0;       // finished now, by whomever
    std::uint64_t failed = 0;     // of this start
    std::uint64_t running = 0;    // here
    std::uint64_t elsewhere = 0;  // claimed by another process when last looked at
    double seconds = 0.0;         // since the start
    double seconds_left = 0.0;    // 0: not known yet
};

struct SweepConfig {
    std::filesystem::path output;  // the folder; made when it is not there
    std::filesystem::path data_dir;
    double memory_bytes = 0.0;  // that runs may take together; 0: 70 % of the machine's
    bool retry_failed = true;   // run again what failed in an earlier start
    bool wait = true;           // stay until the runs of others are finished too, and take over from the dead
    // Called now and then, from the calling thread.
    std::function<void(const SweepStatus&)> on_status = {};
};

// Seconds, summed over threads.
struct SweepTimes : RunTimes {
    double load = 0.0;    // reading, splitting and scaling data sets
    double record = 0.0;  // claims and records
    double idle = 0.0;    // waiting for data, memory or others
};

struct SweepFailure {
    std::string label;  // the combination and the seed
    std::string error;
};

struct SweepSummary {
    SweepStatus status;
    SweepTimes times;
    int threads = 0;
    double wall_seconds = 0.0;
    double cpu_seconds = 0.0;
    std::uint64_t recorded = 0;          // runs that this process finished
    std::uint64_t unusable_lines = 0;    // lines of records that are torn, of another schema, or malformed
    std::vector<SweepFailure> failures;  // the first few of this process
};

// Error{interrupted} when stopped and Error{io} when a record cannot be written: all records stay, and the
// same call goes on from them.
SweepSummary run_sweep(const SweepPlan& plan, const SweepConfig& config, const Exec& exec);

// What is to do, without doing it.
struct SweepForecast {
    std::uint64_t runs = 0;
    std::uint64_t done = 0;
    std::uint64_t failed = 0;  // in an earlier start; among those to do when they are retried
    std::uint64_t to_do = 0;
    double seconds = 0.0;       // of wall time, with the threads of exec
    bool from_records = false;  // the estimate scales with times in the records, not with a quick measurement
    double disk_bytes = 0.0;
};
SweepForecast forecast_sweep(const SweepPlan& plan, const SweepConfig& config, const Exec& exec);

}  // namespace imka
