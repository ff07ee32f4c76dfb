#include "interruptible.hpp"

#include <nanobind/stl/string.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

namespace imka::python {
namespace {

// Passes progress and notes on to a Python object. Its exceptions are reported and ignored: they must not
// stop the computation.
class PySinks : public ProgressSink, public LogSink {
public:
    explicit PySinks(nb::object target) : target_(std::move(target)) {}

    void start(std::string_view label, std::uint64_t total, std::uint64_t done) override {
        call([&] { target_.attr("start")(std::string(label), total, done); });
    }
    void update(std::uint64_t done) override {
        const auto now = Clock::now();
        if (now - shown_ < std::chrono::milliseconds(100)) return;
        shown_ = now;
        call([&] { target_.attr("update")(done); });
    }
    void finish() override {
        call([&] { target_.attr("finish")(); });
    }
    void note(std::string_view text) override {
        call([&] { target_.attr("note")(std::string(text)); });
    }

private:
    using Clock = std::chrono::steady_clock;
    template <class Body>
    void call(Body&& body) {
        const nb::gil_scoped_acquire gil;
        try {
            body();
        } catch (nb::python_error& e) {
            e.discard_as_unraisable("imka: progress");
        }
    }
    nb::object target_;
    Clock::time_point shown_;
};

// The Python exception that a signal handler has raised, if any. Needs the GIL.
std::exception_ptr raised_by_signal() {
    if (PyErr_CheckSignals() == 0) return nullptr;
    try {
        nb::raise_python_error();
    } catch (...) {
        return std::current_exception();
    }
}

// Lets one thread wait for another to finish.
class Finish {
public:
    void set() {
        const std::scoped_lock lock(mutex_);
        done_ = true;
        changed_.notify_all();
    }
    bool wait() {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, std::chrono::milliseconds(50), [this] { return done_; });
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool done_ = false;
};

}  // namespace

void run_interruptible(const PyExec& exec, const std::function<void(const Exec&)>& work) {
    std::atomic<bool> cancel{false};
    std::optional<PySinks> sinks;
    if (!exec.progress.is_none()) sinks.emplace(exec.progress);
    Exec settings{.threads = exec.threads, .cancel = &cancel};
    if (sinks) {
        settings.progress = &*sinks;
        settings.log = &*sinks;
    }
    std::exception_ptr error;
    std::exception_ptr stop;
    {
        const nb::gil_scoped_release release;
        Finish finish;
        const std::jthread worker([&] {
            try {
                work(settings);
            } catch (...) {
                error = std::current_exception();
            }
            finish.set();
        });
        while (!finish.wait()) {
            if (stop) continue;
            const nb::gil_scoped_acquire gil;
            stop = raised_by_signal();
            cancel = stop != nullptr;
        }
    }
    if (stop) std::rethrow_exception(stop);
    if (error) std::rethrow_exception(error);
}

void bind_exec(nb::module_& m) {
    nb::class_<PyExec>(m, "Exec", "Threads and progress of a computation.")
        .def(
            "__init__",
            [](PyExec* self, int threads, nb::object progress) {
                new (self) PyExec{threads, std::move(progress)};
            },
            nb::arg("threads") = 0, nb::arg("progress") = nb::none());
}

}  // namespace imka::python
