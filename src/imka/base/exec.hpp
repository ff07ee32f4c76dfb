// Execution settings: threads, device, progress, notes, cancellation. Passed by the caller; the library
// itself never prints or reads the environment.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>

#include "imka/base/device.hpp"
#include "imka/base/trace.hpp"

namespace imka {

class Team;
namespace cuda {
class ResidentRows;
}

// Receives the progress of long computations. Called from one thread at a time.
class ProgressSink {
public:
    virtual ~ProgressSink() = default;
    // total: 0 if unknown. done: what an earlier run has finished, when resuming.
    virtual void start(std::string_view label, std::uint64_t total, std::uint64_t done) = 0;
    virtual void update(std::uint64_t done) = 0;
    virtual void finish() = 0;
};

// Receives notes for the user that are not results.
class LogSink {
public:
    virtual ~LogSink() = default;
    virtual void note(std::string_view text) = 0;
};

// Time per part of a computation, in seconds on the calling thread.
struct WorkTimes {
    double features = 0.0;  // z(x)
    double solve = 0.0;     // linear systems
};

struct Exec {
    int threads = 0;                            // worker threads; 0 = all cores. Never changes a result
    ProgressSink* progress = nullptr;           // none
    LogSink* log = nullptr;                     // none
    const std::atomic<bool>* cancel = nullptr;  // set to true to stop with Error{interrupted}
    const Team* team = nullptr;  // processes that share the work (base/team.hpp). Never changes a result
    WorkTimes* times = nullptr;  // none. Only one thread may add to it at a time
    Trace* trace = nullptr;      // none. Receives the counts of chips (record below)
    ComputeDevice device = {};   // for operations that have a GPU variant; the others run on the processor
    // Inputs that are already on the device (cuda/resident.hpp). Never changes a result
    const cuda::ResidentRows* resident = nullptr;  // none
};

int thread_count(const Exec& exec);
// For the steps of a computation that reports its own progress.
Exec without_progress(Exec exec);
void check_cancelled(const Exec& exec);
void note(const Exec& exec, std::string_view text);
// Adds to exec.trace, if set. Thread-safe.
void record(const Exec& exec, const Trace& trace);

// Adds the time until it goes out of scope to one of exec.times, if set.
class StopWatch {
public:
    StopWatch(const Exec& exec, double WorkTimes::*part);
    ~StopWatch();
    StopWatch(const StopWatch&) = delete;
    StopWatch& operator=(const StopWatch&) = delete;

private:
    double* sum_;
    std::chrono::steady_clock::time_point begin_;
};

// Progress of one computation; calls finish() when it goes out of scope.
class Progress {
public:
    Progress(const Exec& exec, std::string_view label, std::uint64_t total, std::uint64_t done = 0);
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    void update(std::uint64_t done);

private:
    ProgressSink* sink_;
};

}  // namespace imka
