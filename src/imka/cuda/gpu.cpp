#include "imka/cuda/gpu.hpp"

#include <fmt/format.h>

#include <map>

#include "imka/base/error.hpp"
#include "imka/cuda/status.hpp"

#if IMKA_HAVE_CUDA
#include <cuda_runtime_api.h>
#endif

namespace imka::cuda {

#if IMKA_HAVE_CUDA
namespace {

std::string version_text(int version) {
    return version == 0 ? "" : fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Gpu gpu_at(int number) {
    Gpu gpu;
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, number) != cudaSuccess) return gpu;
    gpu.name = properties.name;
    gpu.major = properties.major;
    gpu.minor = properties.minor;
    gpu.multiprocessors = properties.multiProcessorCount;
    gpu.memory_bytes = properties.totalGlobalMem;
    int before = 0;
    std::size_t total = 0;
    if (cudaGetDevice(&before) == cudaSuccess && cudaSetDevice(number) == cudaSuccess) {
        if (cudaMemGetInfo(&gpu.free_bytes, &total) != cudaSuccess) gpu.free_bytes = 0;
        cudaSetDevice(before);
    }
    return gpu;
}

// The number of GPUs, and the reason if there are none.
struct Count {
    int gpus = 0;
    cudaError_t status = cudaSuccess;
};

Count count_gpus() {
    Count count;
    count.status = cudaGetDeviceCount(&count.gpus);
    if (count.status == cudaSuccess) return count;
    cudaGetLastError();  // the next call must not report this error again
    return {0, count.status};
}

// Whether the status means that the machine has no GPU or no driver for it.
bool says_none(cudaError_t status) {
    return status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver;
}

}  // namespace

bool is_compiled() {
    return true;
}

Build build() {
    int runtime = 0;
    int driver = 0;
    cudaRuntimeGetVersion(&runtime);
    if (cudaDriverGetVersion(&driver) != cudaSuccess) driver = 0;
    return {.architectures = IMKA_CUDA_ARCHITECTURES,
            .runtime = version_text(runtime),
            .driver = version_text(driver)};
}

int gpu_count() {
    return count_gpus().gpus;
}

std::vector<Gpu> gpus() {
    const int count = gpu_count();
    std::vector<Gpu> list;
    list.reserve(static_cast<std::size_t>(count));
    for (int number = 0; number < count; ++number) list.push_back(gpu_at(number));
    return list;
}

void require_gpu(int number) {
    const auto count = count_gpus();
    if (!says_none(count.status)) check(count.status, "looking for GPUs");
    if (count.gpus == 0)
        fail(ErrorCode::missing_part,
             fmt::format("no CUDA GPU{}{}; use --device cpu, or install a driver for CUDA {} or later",
                         count.status == cudaSuccess ? "" : ": ",
                         count.status == cudaSuccess ? "" : cudaGetErrorString(count.status),
                         build().runtime));
    if (number >= count.gpus)
        fail(ErrorCode::missing_part,
             fmt::format("no GPU cuda:{}; this machine has cuda:0 to cuda:{}", number, count.gpus - 1));
}

void select_gpu(int number) {
    const auto status = cudaSetDevice(number);
    if (status == cudaErrorInvalidDevice || says_none(status)) {
        cudaGetLastError();
        require_gpu(number);
    }
    check(status, "choosing a GPU");
}

std::size_t free_bytes(int number) {
    select_gpu(number);
    std::size_t free = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&free, &total), "querying the memory of the GPU");
    return free;
}
#else
bool is_compiled() {
    return false;
}

Build build() {
    return {};
}

int gpu_count() {
    return 0;
}

std::vector<Gpu> gpus() {
    return {};
}

void require_gpu(int number) {
    fail(ErrorCode::missing_part,
         fmt::format(
             "cuda:{}: this imka was built without CUDA; install the CUDA toolkit and rebuild, or use the "
             "device cpu",
             number));
}

void select_gpu(int number) {
    require_gpu(number);
}

std::size_t free_bytes(int number) {
    require_gpu(number);
    return 0;
}
#endif

int gpu_in_turn(int local_rank, int gpus) {
    return gpus > 0 ? local_rank % gpus : 0;
}

std::mutex& turns(int number) {
    static std::mutex adding;
    static std::map<int, std::mutex> all;
    const std::scoped_lock lock(adding);
    return all[number];
}

}  // namespace imka::cuda
