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

// "AVX3", "AVX2", ...: the instruction set of the ops, which is the best one that they were compiled for and
// this machine supports.
std::string instruction_set();

// "host" if unknown.
std::string host_name();

}  // namespace imka
