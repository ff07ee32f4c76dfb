#include "machine.hpp"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

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
    return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)) * 1e-9;
}

double peak_memory_bytes() {
    std::ifstream status("/proc/self/status");
    std::string word;
    while (status >> word) {
        double kib = 0.0;
        if (word == "VmHWM:" && status >> kib) return kib * 1024.0;
    }
    rusage usage{};
    return getrusage(RUSAGE_SELF, &usage) == 0 ? static_cast<double>(usage.ru_maxrss) * 1024.0 : 0.0;
}

bool reset_peak_memory() {
    malloc_trim(0);
    // 5 sets the peak to what is held now (proc(5)).
    std::ofstream refs("/proc/self/clear_refs");
    refs << "5" << std::flush;
    return refs.good();
}

}  // namespace imka::app
