// What the machine offers and what this process takes of it, for records and for plans.
#pragma once

#include <string>

namespace imka {

double physical_memory_bytes();

// Largest memory this process has held since it began (or since the caller had the system reset it), in
// bytes; 0 where the system does not tell.
double peak_memory_bytes();

// Processor time of all threads of this process, in seconds.
double process_cpu_seconds();

// "AVX3", "AVX2", ...: the widest set of vector instructions that this machine has and the ops were compiled
// for, which they use.
std::string instruction_set();

// The name of the machine; "host" where the system does not tell.
std::string host_name();

}  // namespace imka
