// How work is run: threads, where progress and notes go, how to stop. Passed down by the caller; the library
// itself never prints and never reads the environment.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>

#include "imka/base/trace.hpp"

namespace imka {

class Team;

// Receives progress of long work. Called from one thread at a time.
class ProgressSink {
public:
    virtual ~ProgressSink() = default;
    // total 0: unknown. done: finished before this work began (it went on from a stop).
    virtual void start(std::string_view label, std::uint64_t total, std::uint64_t done) = 0;
    virtual void update(std::uint64_t done) = 0;
    virtual void finish() = 0;
};

// Receives remarks that a person may want to see but that are not results.
class LogSink {
public:
    virtual ~LogSink() = default;
    virtual void note(std::string_view text) = 0;
};

// Where the time of one piece of work went, in seconds of the thread that called for it.
struct WorkTimes {
    double features = 0.0;  // z(x)
    double solve = 0.0;     // linear systems
};

struct Exec {
    int threads = 0;                            // worker threads; 0 = all cores. Never changes a result
    ProgressSink* progress = nullptr;           // none
    LogSink* log = nullptr;                     // none
    const std::atomic<bool>* cancel = nullptr;  // set to true to stop: the work throws Error{interrupted}
    const Team* team = nullptr;  // processes that share the work (base/team.hpp). Never changes a result
    WorkTimes* times = nullptr;  // none. One caller at a time adds to it
    Trace* trace = nullptr;      // none. Receives what chips did (record below)
};

int thread_count(const Exec& exec);
// For the steps of work that shows its own progress.
Exec without_progress(Exec exec);
void check_cancelled(const Exec& exec);
void note(const Exec& exec, std::string_view text);
// Adds to exec.trace, where the caller wants it. Any number of threads may call it.
void record(const Exec& exec, const Trace& trace);

// Adds the time until it goes out of scope to one of the times, where the caller wants them.
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

// Progress of one piece of work; finishes itself.
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
