// imka chip fit --measured: fits constants of a chip to Gram errors and accuracies measured on the real chip.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "app.hpp"
#include "chip/options.hpp"

namespace imka::app {

struct MeasuredFitArgs {
    std::filesystem::path measured;
    std::string experiment = "fidelity";
    std::string backend = "hermes";
    std::vector<std::string> free;
    std::vector<std::string> datasets;
    std::string seeds;
    std::int64_t test_rows = 6000;
    int iterations = 6;
    bool no_leave_out = false;
    bool cells = false;
};
void add_measured_options(CLI::App& verb, MeasuredFitArgs& args);
void fit_measured(const MeasuredFitArgs& args, const ChipSpec& chip, const Context& context);

}  // namespace imka::app
