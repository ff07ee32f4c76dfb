#include "ranks.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace imka::app {
namespace {

// The number a variable begins with: Slurm writes "4(x2)" for 4 tasks on each of 2 machines.
std::optional<int> number(const char* name) {
    const char* value = std::getenv(name);
    if (value == nullptr) return std::nullopt;
    const std::string_view text(value);
    int n = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error != std::errc{} || n < 0) return std::nullopt;
    return n;
}

std::optional<Ranks> ranks_from(const char* rank, const char* size, const char* local_size) {
    const auto r = number(rank);
    const auto s = number(size);
    if (!r || !s || *s < 1 || *r >= *s) return std::nullopt;
    // Without a number for this machine, all are taken to be on it: too few threads are better than too many.
    return Ranks{.rank = *r, .size = *s, .local_size = std::clamp(number(local_size).value_or(*s), 1, *s)};
}

}  // namespace

Ranks find_ranks() {
    if (const auto r =
            ranks_from("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"))
        return *r;
    if (const auto r = ranks_from("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS")) return *r;
    if (const auto r = ranks_from("SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_TASKS_PER_NODE")) return *r;
    return {};
}

}  // namespace imka::app
