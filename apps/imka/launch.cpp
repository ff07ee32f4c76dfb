#include "launch.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <thread>

#include "imka/cuda/gpu.hpp"

namespace imka::app {
namespace {

std::optional<int> number_in(const char* name) {
    const char* text = std::getenv(name);
    if (text == nullptr) return std::nullopt;
    const std::string_view view(text);
    int value = 0;
    // Slurm writes "4(x2)" for two machines with four processes each.
    const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
    if (error != std::errc() || value < 0) return std::nullopt;
    return value;
}

std::optional<int> first_of(std::initializer_list<const char*> names) {
    for (const char* name : names) {
        if (const auto value = number_in(name)) return value;
    }
    return std::nullopt;
}

}  // namespace

Launch current_launch() {
    const auto rank = first_of({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"});
    const auto size = first_of({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"});
    const auto local =
        first_of({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_TASKS_PER_NODE"});
    if (!rank || !size || *size < 1 || *rank >= *size) return {};
    const auto local_rank = first_of({"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"});
    return {.rank = *rank,
            .size = *size,
            .local_size = std::clamp(local.value_or(*size), 1, *size),
            .local_rank = local_rank.value_or(*rank)};
}

ComputeDevice device_of_process(const Launch& launch, const Context& context) {
    const auto& asked = context.exec.device;
    if (asked.kind != DeviceKind::cuda || context.gpu_named) return asked;
    return {DeviceKind::cuda, cuda::gpu_in_turn(launch.local_rank, cuda::gpu_count())};
}

int threads_per_process(const Launch& launch) {
    const auto cores = static_cast<int>(std::thread::hardware_concurrency());
    return std::max(1, cores / launch.local_size);
}

}  // namespace imka::app
