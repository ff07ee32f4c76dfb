// Long computations called from Python: without the GIL, with progress, stopped by Ctrl-C.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include "imka/base/exec.hpp"

namespace imka::python {

namespace nb = nanobind;

struct PyExec {
    int threads = 0;  // 0: all cores
    nb::object
        progress;  // None, or an object with start(label, total, done), update(done), finish(), note(text)
};

// Calls work on a separate thread while this thread checks for signals. The first signal that raises a Python
// exception cancels the work; the exception is thrown when the work has stopped.
void run_interruptible(const PyExec& exec, const std::function<void(const Exec&)>& work);

template <class Work>
auto interruptible(const PyExec& exec, Work&& work) {
    using Result = std::invoke_result_t<Work, const Exec&>;
    if constexpr (std::is_void_v<Result>) {
        run_interruptible(exec, std::forward<Work>(work));
    } else {
        std::optional<Result> result;
        run_interruptible(exec, [&](const Exec& e) { result.emplace(work(e)); });
        return std::move(*result);
    }
}

void bind_exec(nb::module_& m);

}  // namespace imka::python
