#include "imka/base/exec.hpp"

#include <algorithm>
#include <mutex>
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

void Trace::add(const Trace& other) {
    core_products.resize(std::max(core_products.size(), other.core_products.size()));
    for (std::size_t c = 0; c < other.core_products.size(); ++c) core_products[c] += other.core_products[c];
    conversions += other.conversions;
    saturated += other.saturated;
    results += other.results;
    limited += other.limited;
    inputs += other.inputs;
    clipped_inputs += other.clipped_inputs;
    bytes_in += other.bytes_in;
    bytes_out += other.bytes_out;
    digital_operations += other.digital_operations;
}

void record(const Exec& exec, const Trace& trace) {
    if (exec.trace == nullptr) return;
    static std::mutex mutex;
    const std::scoped_lock lock(mutex);
    exec.trace->add(trace);
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
