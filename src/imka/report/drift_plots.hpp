// Accuracy of Performers on a chip against the time since programming.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "imka/experiment/record.hpp"
#include "imka/report/plot.hpp"

namespace imka::report {

// By experiment: one plot per task with runs at several times, one curve per mode and compensation. Runs that
// are read immediately after programming are drawn at 1 s.
std::map<std::string, std::vector<Plot>> drift_plots(const std::vector<Record>& records);

}  // namespace imka::report
