#include "imka/base/exec.hpp"

#include <algorithm>
#include <thread>

#include "imka/base/error.hpp"

namespace imka {

int thread_count(const Exec& exec) {
    if (exec.threads > 0) return exec.threads;
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

Exec without_progress(Exec exec) {
    exec.progress = nullptr;
    return exec;
}

void check_cancelled(const Exec& exec) {
    if (exec.cancel != nullptr && exec.cancel->load(std::memory_order_relaxed)) {
        fail(ErrorCode::interrupted, "interrupted");
    }
}

void note(const Exec& exec, std::string_view text) {
    if (exec.log != nullptr) exec.log->note(text);
}

StopWatch::StopWatch(const Exec& exec, double WorkTimes::*part)
    : sum_(exec.times != nullptr ? &(exec.times->*part) : nullptr),
      begin_(std::chrono::steady_clock::now()) {}

StopWatch::~StopWatch() {
    if (sum_ == nullptr) return;
    *sum_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

Progress::Progress(const Exec& exec, std::string_view label, std::uint64_t total, std::uint64_t done)
    : sink_(exec.progress) {
    if (sink_ != nullptr) sink_->start(label, total, done);
}

Progress::~Progress() {
    if (sink_ != nullptr) sink_->finish();
}

void Progress::update(std::uint64_t done) {
    if (sink_ != nullptr) sink_->update(done);
}

}  // namespace imka
