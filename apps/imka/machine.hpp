// Properties of the machine, for reports.
#pragma once

#include <string>
#include <vector>

#include "imka/base/machine.hpp"

namespace imka::app {

// Vector instruction sets of this processor, from narrow to wide.
std::vector<std::string> instruction_sets();

double memory_gigabytes();

// Restarts peak_memory_bytes(). False if the system cannot: the peak then covers the whole run.
bool reset_peak_memory();

}  // namespace imka::app
