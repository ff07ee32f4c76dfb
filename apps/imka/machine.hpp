// What the machine offers, for reports.
#pragma once

#include <string>
#include <vector>

#include "imka/base/machine.hpp"

namespace imka::app {

// Vector instructions of this processor, from narrow to wide.
std::vector<std::string> instruction_sets();

double memory_gigabytes();

// Makes peak_memory_bytes() begin anew. False where the system cannot: then the peak is that of the whole
// run.
bool reset_peak_memory();

}  // namespace imka::app
