#include "machine.hpp"

#include <malloc.h>

#include <fstream>

namespace imka::app {

std::vector<std::string> instruction_sets() {
    std::vector<std::string> sets;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2")) sets.emplace_back("sse4.2");
    if (__builtin_cpu_supports("avx2")) sets.emplace_back("avx2");
    if (__builtin_cpu_supports("fma")) sets.emplace_back("fma");
    if (__builtin_cpu_supports("avx512f")) sets.emplace_back("avx512f");
    if (__builtin_cpu_supports("avx512vnni")) sets.emplace_back("avx512vnni");
#elif defined(__aarch64__)
    sets.emplace_back("neon");
#endif
    return sets;
}

double memory_gigabytes() {
    return physical_memory_bytes() * 1e-9;
}

bool reset_peak_memory() {
    malloc_trim(0);
    // 5 resets the peak to the current use (proc(5)).
    std::ofstream refs("/proc/self/clear_refs");
    refs << "5" << std::flush;
    return refs.good();
}

}  // namespace imka::app
