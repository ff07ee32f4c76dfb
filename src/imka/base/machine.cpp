#include "imka/base/machine.hpp"

#include <hwy/targets.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <fstream>

namespace imka {

double physical_memory_bytes() {
    return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
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

double process_cpu_seconds() {
    timespec time{};
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) != 0) return 0.0;
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::string instruction_set() {
    const std::int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
    // Highway orders its targets from best (lowest bit) to worst.
    return hwy::TargetName(usable & -usable);
}

std::string host_name() {
    std::array<char, 256> name{};
    if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "host";
    return name.data();
}

}  // namespace imka
