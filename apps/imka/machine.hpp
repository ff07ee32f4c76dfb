// What the machine offers, for reports.
#pragma once

#include <string>
#include <vector>

namespace imka::app {

// Vector instructions of this processor, from narrow to wide.
std::vector<std::string> instruction_sets();

double memory_gigabytes();

// Largest memory this process has held since it began or since reset_peak_memory(), in bytes; 0 where the
// system does not tell.
double peak_memory_bytes();

// False where the system cannot: then the peak is that of the whole run.
bool reset_peak_memory();

}  // namespace imka::app
