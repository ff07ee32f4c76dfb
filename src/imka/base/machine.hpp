// Properties of the machine and resource use of this process.
#pragma once

#include <string>

namespace imka {

double physical_memory_bytes();

// Peak resident memory of this process since its start (or since the caller reset the counter), in bytes; 0
// if unknown.
double peak_memory_bytes();

// CPU time of all threads of this process, in seconds.
double process_cpu_seconds();

// "AVX3", "AVX2", ...: the instruction set that the ops use, the best one that this machine supports and the
// ops were compiled for.
std::string instruction_set();

// "host" if unknown.
std::string host_name();

}  // namespace imka
