// Options and functions of the verbs that compare a chip with measurements.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "app.hpp"
#include "imka/chip/spec/chip.hpp"

namespace imka::app {

// The measurements to compare with, and the runs that emulate them.
struct ComparisonArgs {
    std::filesystem::path measured;
    std::string experiment = "fidelity";
    std::string backend = "hermes";
    std::vector<std::string> datasets;
    std::string seeds;
    std::int64_t test_rows = 6000;
    std::filesystem::path resume;
};

struct MeasuredFitArgs {
    ComparisonArgs comparison;
    std::vector<std::string> free;
    int iterations = 6;
    bool no_leave_out = false;
    bool cells = false;
    int posterior = 0;
};

// Options of `imka chip fit` that need --measured, and --measured itself.
void add_measured_options(CLI::App& verb, MeasuredFitArgs& args);
// Fits constants of the chip, prints them, and writes the chip to `output` unless that is empty.
void fit_measured(const MeasuredFitArgs& args, const ChipSpec& chip, const std::filesystem::path& output,
                  const Context& context);

}  // namespace imka::app
