// imka data show --task: examples and statistics of the tasks of Long Range Arena.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app.hpp"

namespace imka::app {

struct ShowTaskOptions {
    std::string task;  // empty: a data set is shown
    std::uint64_t index = 0;
    std::uint64_t count = 0;  // 0: one example; with statistics, the whole part
    std::uint64_t seed = 0;
    bool statistics = false;
    std::string output;  // file for a picture
};

// Flags that need --task.
std::vector<std::string> task_flags();
void add_task_options(CLI::App& verb, ShowTaskOptions& options);
void run_show_task(const ShowTaskOptions& options, const std::string& part, const Context& context);

}  // namespace imka::app
