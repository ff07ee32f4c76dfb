#include "imka/experiment/sweep.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <future>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/base/machine.hpp"
#include "imka/base/version.hpp"
#include "imka/cuda/gpu.hpp"
#include "imka/cuda/status.hpp"
#include "imka/experiment/journal.hpp"

namespace imka {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kStatusEvery = std::chrono::milliseconds(200);
constexpr auto kLookAgain = std::chrono::milliseconds(100);
constexpr double kMemoryShare = 0.7;
constexpr std::size_t kFailuresKept = 20;
// Limits for data sets loaded before their first run starts: their number, and the values in each.
constexpr std::size_t kDataAhead = 4;
constexpr double kMostValuesAhead = 2.5e7;

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string build_text(const ComputeDevice& device) {
    const auto info = build_info();
    std::string text = fmt::format("{}, {}, OpenBLAS", info.compiler, info.build_type);
    if (!info.sanitize.empty()) text += fmt::format(", {}", info.sanitize);
    if (device.kind == DeviceKind::cuda) text += ", CUDA";
    return text;
}

// A data set, loaded by the first run that needs it; the others wait.
class SharedData {
public:
    RunData& get(const RunKind& kind, const PlannedData& planned, const std::filesystem::path& data_dir,
                 const Exec& exec, SweepTimes& times) {
        const std::scoped_lock lock(mutex_);
        if (error_) std::rethrow_exception(error_);
        if (!runs_) {
            const auto begin = Clock::now();
            try {
                inputs_ = kind.family.load(planned.load, data_dir, exec);
                check_unchanged(planned, inputs_);
                runs_.emplace(source_of(inputs_));
            } catch (const Error& e) {
                if (e.code() != ErrorCode::interrupted) error_ = std::current_exception();
                throw;
            }
            times.load += seconds_since(begin);
        }
        return *runs_;
    }

private:
    // A file may change after planning; the keys of its runs contain the earlier hash.
    static void check_unchanged(const PlannedData& planned, const RunInputs& inputs) {
        const auto hash = std::visit([](const auto& data) { return data.source_sha256; }, inputs);
        if (hash == planned.facts.source_sha256) return;
        fail(ErrorCode::bad_data,
             fmt::format("{}: changed during the sweep; restart the sweep", planned.load.dataset));
    }

    std::mutex mutex_;
    RunInputs inputs_;
    std::optional<RunData> runs_;
    std::exception_ptr error_;
};

// Sizes and results of one run for the record.
std::map<std::string, double> record_results(const FeatureSizes& sizes,
                                             std::map<std::string, double> values) {
    values.insert({{"d", static_cast<double>(sizes.d)},
                   {"m", static_cast<double>(sizes.m)},
                   {"D", static_cast<double>(sizes.features)},
                   {"log_ratio", sizes.log_ratio}});
    for (const auto& [name, value] : values) {
        if (!std::isfinite(value))
            fail(ErrorCode::numeric, fmt::format("{} is not a finite number: the features overflow", name));
    }
    return values;
}

void add_times(const SweepTimes& from, double factor, SweepTimes& to) {
    for (const auto part : std::initializer_list<double SweepTimes::*>{
             &SweepTimes::load, &SweepTimes::chip, &SweepTimes::features, &SweepTimes::products,
             &SweepTimes::solve, &SweepTimes::predict, &SweepTimes::gram, &SweepTimes::record,
             &SweepTimes::idle}) {
        to.*part += factor * from.*part;
    }
}

std::filesystem::path made_folder(std::filesystem::path folder) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error)
        fail(ErrorCode::io, fmt::format("{}: cannot be created: {}", folder.string(), error.message()));
    return folder;
}

// Not rewritten if it has the same text: many processes may start at once.
void keep_experiment(const std::filesystem::path& path, const std::string& text) {
    try {
        if (std::filesystem::exists(path) && read_file(path, text.size()) == text) return;
    } catch (const Error&) {
        // Different or unreadable: rewrite it.
    }
    write_file_atomic(path, text);
}

// The part of one process in a sweep: workers take runs in the order of the plan.
class Engine {
public:
    Engine(const SweepPlan& plan, const RunKind& kind, const SweepConfig& config, const Exec& exec)
        : plan_(plan),
          kind_(kind),
          config_(config),
          exec_(exec),
          threads_(thread_count(exec)),
          memory_(config.memory_bytes > 0.0 ? config.memory_bytes : kMemoryShare * physical_memory_bytes()),
          records_folder_(made_folder(config.output / "records")),
          claims_folder_(made_folder(config.output / "claims")),
          index_(records_folder_),
          writer_(records_folder_),
          shared_(plan.data.size()),
          users_(plan.data.size()),
          place_of_data_(plan.data.size()),
          kept_(plan.data.size()),
          failures_before_(plan.runs.size()) {
        keep_experiment(config.output / "experiment.yaml", to_yaml(plan.experiment));
        index_.refresh();
        find_work();
    }

    SweepSummary run() {
        const double cpu = process_cpu_seconds();
        const std::size_t workers =
            std::min<std::size_t>(one_at_a_time() ? 1 : static_cast<std::size_t>(threads_), order_.size());
        {
            std::vector<std::jthread> helpers;
            {
                const std::scoped_lock lock(mutex_);
                for (std::size_t i = 0; i < workers; ++i) {
                    try {
                        helpers.emplace_back([this] { work(); });
                        ++workers_;
                    } catch (const std::system_error&) {
                        if (i == 0) throw;
                        break;  // thread limit of the system: continue with the existing threads
                    }
                }
            }
            show_until_finished();
            if (gpu_lost_) {
                for (auto& helper : helpers) helper.detach();
            }
        }
        if (error_) rethrow();
        remove_dead_claims();
        return summary(process_cpu_seconds() - cpu);
    }

private:
    struct Job {
        std::size_t run = 0;
        Claim claim;
        int threads = 1;
        std::optional<std::size_t> ahead = {};  // a data set to load before the run, for later ones
    };

    bool one_at_a_time() const {
        return kind_.measures_time || (exec_.device.kind == DeviceKind::cuda && !kind_.shares_gpu);
    }

    void find_work() {
        for (std::size_t i = 0; i < plan_.runs.size(); ++i) {
            const auto entry = index_.find(plan_.runs[i].key);
            failures_before_[i] = entry.failures;
            if (entry.state == RecordIndex::State::done) {
                ++status_.before;
            } else if (entry.state == RecordIndex::State::failed && !config_.retry_failed) {
                ++status_.failed;
            } else {
                order_.push_back(i);
                cost_left_ += plan_.runs[i].cost.seconds;
                const auto data = plan_.runs[i].data;
                if (data_order_.empty() || data_order_.back() != data) {
                    place_of_data_[data] = data_order_.size();
                    data_order_.push_back(data);
                }
            }
        }
        status_.runs = plan_.runs.size();
        cost_total_ = cost_left_;
    }

    // Finished since this sweep started, by any process: successfully or, for repeated runs, with a failure.
    bool is_finished(std::size_t run) const {
        const auto entry = index_.find(plan_.runs[run].key);
        return entry.state == RecordIndex::State::done || entry.failures > failures_before_[run];
    }

    void count_finished(std::size_t run) {
        const bool ok = index_.find(plan_.runs[run].key).state == RecordIndex::State::done;
        ++(ok ? status_.done : status_.failed);
        cost_left_ -= plan_.runs[run].cost.seconds;
    }

    // Claims the run unless another process has claimed or finished it.
    std::optional<Claim> take(std::size_t run) {
        if (is_finished(run)) {
            count_finished(run);
            return std::nullopt;
        }
        auto claim = Claim::try_take(claims_folder_, plan_.runs[run].key);
        if (!claim) {
            elsewhere_.push_back(run);
            return std::nullopt;
        }
        // The last holder may have finished the run in the meantime.
        index_.refresh(writer_.path());
        if (!is_finished(run)) return claim;
        count_finished(run);
        return std::nullopt;
    }

    bool fits(std::size_t run) const {
        return status_.running == 0 || memory_used_ + plan_.runs[run].cost.bytes <= memory_;
    }

    // Runs that execute at the same time share the threads.
    int threads_for(std::size_t run) const {
        const double fit = memory_ / std::max(1.0, plan_.runs[run].cost.bytes);
        if (one_at_a_time()) return threads_;
        const auto left = static_cast<double>(order_.size() - cursor_ + status_.running + 1);
        const double beside = std::clamp(std::min(fit, left), 1.0, static_cast<double>(threads_));
        return std::max(1, threads_ / static_cast<int>(beside));
    }

    Job start(std::size_t run, Claim claim) {
        const int threads = threads_for(run);
        ++status_.running;
        const auto data = plan_.runs[run].data;
        use(data);
        memory_used_ += plan_.runs[run].cost.bytes;
        return {.run = run, .claim = std::move(claim), .threads = threads, .ahead = load_ahead(data)};
    }

    void use(std::size_t data) {
        if (users_[data]++ == 0 && !shared_[data]) shared_[data] = std::make_unique<SharedData>();
    }

    void leave(std::size_t data) {
        --users_[data];
        drop_unused(data);
    }

    // Runs can be shorter than loading their data. So a worker that starts a run first loads the data set
    // returned here: one of the next ones, not loaded yet. It is kept until its first run starts.
    std::optional<std::size_t> load_ahead(std::size_t data) {
        if (threads_ == 1 || one_at_a_time()) return std::nullopt;
        const std::size_t place = place_of_data_[data];
        for (; first_kept_ <= place; ++first_kept_) {
            const auto started = data_order_[first_kept_];
            if (kept_[started]) leave(started);
            kept_[started] = false;
        }
        next_ahead_ = std::max(next_ahead_, place + 1);
        if (next_ahead_ > place + kDataAhead || next_ahead_ >= data_order_.size()) return std::nullopt;
        const auto next = data_order_[next_ahead_++];
        if (!is_small(plan_.data[next])) return std::nullopt;
        kept_[next] = true;
        use(next);  // kept
        use(next);  // loaded by this worker
        return next;
    }

    static bool is_small(const PlannedData& data) {
        const auto& facts = data.facts;
        return !data.load.attention && !data.load.performer &&
               static_cast<double>(facts.train_rows + facts.test_rows) *
                       static_cast<double>(facts.features) <=
                   kMostValuesAhead;
    }

    // The next run; nullopt if none is left, or if other processes hold all remaining runs.
    std::optional<Job> next(std::unique_lock<std::mutex>& lock, SweepTimes& times) {
        while (!stop_) {
            check_cancelled(exec_);
            const auto begin = Clock::now();
            if (cursor_ < order_.size()) {
                const auto run = order_[cursor_];
                if (fits(run)) {
                    ++cursor_;
                    auto claim = take(run);
                    times.record += seconds_since(begin);
                    if (claim) return start(run, std::move(*claim));
                    drop_unused(plan_.runs[run].data);
                    continue;
                }
            } else {
                if (auto job = take_over()) return job;
                if (elsewhere_.empty() || !config_.wait) return std::nullopt;
            }
            changed_.wait_for(lock, kLookAgain);
            times.idle += seconds_since(begin);
        }
        return std::nullopt;
    }

    // Checks the runs of other processes: finished, or abandoned by a process that died?
    std::optional<Job> take_over() {
        if (elsewhere_.empty()) return std::nullopt;
        index_.refresh(writer_.path());
        const auto runs = std::exchange(elsewhere_, {});
        for (std::size_t i = 0; i < runs.size(); ++i) {
            if (!fits(runs[i])) {
                elsewhere_.push_back(runs[i]);
            } else if (auto claim = take(runs[i])) {
                elsewhere_.insert(elsewhere_.end(), runs.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                  runs.end());
                return start(runs[i], std::move(*claim));
            }
        }
        return std::nullopt;
    }

    void work() {
        SweepTimes times;
        std::unique_lock lock(mutex_);
        try {
            while (auto job = next(lock, times)) {
                lock.unlock();
                const auto record = execute(*job, times);
                lock.lock();
                if (!finish(*job, record, lock, times)) break;
            }
        } catch (const cuda::DeviceLost&) {
            stop_with_error(lock);
            gpu_lost_ = true;
        } catch (...) {
            stop_with_error(lock);
        }
        add_times(times, 1.0, times_);
        --workers_;
        changed_.notify_all();
        const bool stays = gpu_lost_;
        lock.unlock();
        // The driver may wait forever when a thread that used a lost GPU ends.
        if (stays) std::promise<void>().get_future().wait();
    }

    void stop_with_error(std::unique_lock<std::mutex>& lock) {
        if (!lock.owns_lock()) lock.lock();
        if (!error_) error_ = std::current_exception();
        stop_ = true;
    }

    // The record of the run; nullopt if interrupted.
    std::optional<Record> execute(const Job& job, SweepTimes& times) {
        const auto& planned = plan_.runs[job.run];
        const auto config = run_config(plan_, planned);
        Record record{.key = planned.key,
                      .experiment = plan_.experiment.name,
                      .kind = plan_.experiment.kind,
                      .seed = planned.seed,
                      .config = settings_text(config),
                      .data_sha256 = plan_.data[planned.data].facts.source_sha256,
                      .imka_version = std::string(build_info().version),
                      .build = build_text(exec_.device),
                      .instruction_set = instruction_set()};
        const Exec exec{.threads = job.threads, .cancel = exec_.cancel, .device = exec_.device};
        const auto waited = Clock::now();
        try {
            SweepTimes loading;
            auto& data =
                shared_[planned.data]->get(kind_, plan_.data[planned.data], config_.data_dir, exec, loading);
            times.load += loading.load;
            times.idle += seconds_since(waited) - loading.load;
            if (job.ahead) load(*job.ahead, exec, times);
            const auto begin = Clock::now();
            auto done = kind_.run(config, planned.seed, data, exec);
            record.wall_seconds = seconds_since(begin);
            record.results =
                record_results(kind_.family.sizes(config, data.source()).sizes, std::move(done.values));
            add_times({done.times}, job.threads, times);
        } catch (const cuda::DeviceLost&) {
            throw;  // it would fail all other runs as well
        } catch (const Error& e) {
            if (e.code() == ErrorCode::interrupted) return std::nullopt;
            record.error = e.what();
        } catch (const std::bad_alloc&) {
            record.error = "out of memory";
        } catch (const std::exception& e) {
            record.error = e.what();
        }
        record.peak_memory_mb = std::round(peak_memory_bytes() * 1e-6);
        record.finished =
            fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                        fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
        return record;
    }

    [[noreturn]] void rethrow() const {
        try {
            std::rethrow_exception(error_);
        } catch (const cuda::DeviceLost& e) {
            throw cuda::DeviceLost(fmt::format("{}. {} of {} runs are done and kept", e.what(),
                                               status_.before + status_.done, status_.runs));
        }
    }

    // Ignores errors: the runs on this data set report them.
    void load(std::size_t data, const Exec& exec, SweepTimes& times) {
        try {
            shared_[data]->get(kind_, plan_.data[data], config_.data_dir, exec, times);
        } catch (const std::exception&) {
        }
    }

    // False: no more work.
    bool finish(const Job& job, const std::optional<Record>& record, std::unique_lock<std::mutex>& lock,
                SweepTimes& times) {
        const auto& planned = plan_.runs[job.run];
        --status_.running;
        memory_used_ -= planned.cost.bytes;
        leave(planned.data);
        if (job.ahead) leave(*job.ahead);
        changed_.notify_all();
        if (!record) check_cancelled(exec_);
        if (!record) return false;
        const auto begin = Clock::now();
        writer_.append(*record);
        index_.add(*record);
        count_finished(job.run);
        ++recorded_;
        if (!record->ok() && failures_.size() < kFailuresKept) {
            failures_.push_back(
                {.label = fmt::format("{}, seed {}", plan_.points[planned.point].label, planned.seed),
                 .error = record->error});
        }
        lock.unlock();
        writer_.sync();
        lock.lock();
        times.record += seconds_since(begin);
        return true;
    }

    // Releases a data set when no run in this process uses it and the next run does not need it.
    void drop_unused(std::size_t data) {
        const bool follows = cursor_ < order_.size() && plan_.runs[order_[cursor_]].data == data;
        if (!follows && users_[data] == 0) shared_[data].reset();
    }

    void show_until_finished() {
        std::unique_lock lock(mutex_);
        while (workers_ > 0) {
            changed_.wait_for(lock, kStatusEvery);
            if (!config_.on_status) continue;
            const auto status = status_now();
            lock.unlock();
            config_.on_status(status);
            lock.lock();
        }
    }

    SweepStatus status_now() const {
        SweepStatus s = status_;
        s.elsewhere = elsewhere_.size();
        s.seconds = seconds_since(begin_);
        const double done = cost_total_ - cost_left_;
        if (done > 0.0) s.seconds_left = s.seconds * std::max(0.0, cost_left_) / done;
        return s;
    }

    // Claims of processes that died after writing the record but before releasing the claim.
    void remove_dead_claims() const {
        if (!config_.wait) return;
        std::error_code ignored;
        for (const auto& entry : std::filesystem::directory_iterator(claims_folder_, ignored)) {
            const auto key = entry.path().filename().string();
            if (index_.find(key).state == RecordIndex::State::done)
                (void)Claim::try_take(claims_folder_, key);
        }
    }

    SweepSummary summary(double cpu) const {
        return {.status = status_now(),
                .times = times_,
                .threads = threads_,
                .wall_seconds = seconds_since(begin_),
                .cpu_seconds = cpu,
                .recorded = recorded_,
                .unusable_lines = index_.unusable_lines(),
                .failures = failures_};
    }

    const SweepPlan& plan_;
    const RunKind& kind_;
    const SweepConfig& config_;
    const Exec& exec_;
    const int threads_;
    const double memory_;
    const std::filesystem::path records_folder_;
    const std::filesystem::path claims_folder_;

    std::mutex mutex_;  // everything below
    std::condition_variable changed_;
    RecordIndex index_;
    RecordWriter writer_;
    std::vector<std::unique_ptr<SharedData>> shared_;  // one per data set
    std::vector<std::size_t> users_;                   // runs that use it
    std::vector<std::size_t> order_;                   // runs to do
    std::size_t cursor_ = 0;                           // next run of order_
    std::vector<std::size_t> data_order_;              // data sets of order_, by their first run
    std::vector<std::size_t> place_of_data_;           // in data_order_
    std::size_t next_ahead_ = 0;                       // place of the next data set to load ahead
    std::vector<bool> kept_;                           // loaded ahead, no run started yet
    std::size_t first_kept_ = 0;                       // no data set before this place is kept
    std::vector<std::size_t> elsewhere_;               // runs claimed by other processes
    std::vector<int> failures_before_;                 // failure records per run before this sweep started
    double memory_used_ = 0.0;
    double cost_total_ = 0.0;
    double cost_left_ = 0.0;
    SweepStatus status_;
    SweepTimes times_;
    std::uint64_t recorded_ = 0;
    std::vector<SweepFailure> failures_;
    std::size_t workers_ = 0;
    bool stop_ = false;
    bool gpu_lost_ = false;
    std::exception_ptr error_;
    Clock::time_point begin_ = Clock::now();
};

}  // namespace

SweepSummary run_sweep(const SweepPlan& plan, const SweepConfig& config, const Exec& exec) {
    return run_sweep(plan, run_kind(plan.experiment.kind), config, exec);
}

SweepSummary run_sweep(const SweepPlan& plan, const RunKind& kind, const SweepConfig& config,
                       const Exec& exec) {
    // Otherwise every run would fail.
    if (exec.device.kind == DeviceKind::cuda) cuda::select_gpu(exec.device.number);
    return Engine(plan, kind, config, exec).run();
}

}  // namespace imka
