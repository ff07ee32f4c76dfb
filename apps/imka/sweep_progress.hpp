// Progress and results of a sweep, for display.
#pragma once

#include <string>

#include "imka/experiment/sweep.hpp"

namespace imka::app {

// Runs the sweep; shows done, running, failed, rate and time left if exec.progress is set.
SweepSummary run_shown(const SweepPlan& plan, SweepConfig config, const Exec& exec);

// "letter: 300 runs done ...", for standard output.
std::string summary_text(const SweepSummary& summary);
// The same as a JSON object.
std::string summary_json(const Experiment& experiment, const std::string& output,
                         const SweepSummary& summary);

}  // namespace imka::app
