#include "imka/cuda/status.hpp"

#include <fmt/format.h>

#include "imka/base/error.hpp"

#if IMKA_HAVE_CUDA
#include <cuda_runtime_api.h>
#endif

namespace imka::cuda {

#if IMKA_HAVE_CUDA
namespace {

std::string_view advice(cudaError_t status) {
    switch (status) {
        case cudaErrorMemoryAllocation:
            return "free GPU memory or use smaller batches";
        case cudaErrorInsufficientDriver:
            return "update the driver, or use the device cpu";
        case cudaErrorNoKernelImageForDevice:
        case cudaErrorUnsupportedPtxVersion:
            return "rebuild with IMKA_CUDA_ARCHITECTURES set to this GPU, or use the device cpu";
        case cudaErrorDevicesUnavailable:
            return "another program may use the GPU exclusively; try again or use the device cpu";
        default:
            return "start the same command again, or use the device cpu";
    }
}

double gigabytes(std::size_t bytes) {
    return static_cast<double>(bytes) * 1e-9;
}

// A GPU without code in this build, or an error that every later call reports again.
bool ends_all_work(cudaError_t status) {
    return status == cudaErrorNoKernelImageForDevice || status == cudaErrorUnsupportedPtxVersion ||
           cudaStreamSynchronize(nullptr) != cudaSuccess;
}

int current_gpu() {
    int gpu = 0;
    return cudaGetDevice(&gpu) == cudaSuccess ? gpu : 0;
}

}  // namespace

void check(int status, std::string_view what) {
    if (status == cudaSuccess) return;
    const auto code = static_cast<cudaError_t>(status);
    cudaGetLastError();  // errors that end with the call must not be reported again
    const auto reason =
        fmt::format("{} failed: {} ({})", what, cudaGetErrorString(code), cudaGetErrorName(code));
    if (ends_all_work(code))
        throw DeviceLost(fmt::format("{}; this process can no longer use cuda:{}; {}", reason, current_gpu(),
                                     advice(code)));
    fail(ErrorCode::missing_part, fmt::format("{}; {}", reason, advice(code)));
}

void check_allocation(int status, int gpu, std::size_t bytes) {
    if (status != cudaErrorMemoryAllocation) return check(status, "allocating GPU memory");
    cudaGetLastError();
    std::size_t free = 0;
    std::size_t total = 0;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) cudaGetLastError();
    fail(ErrorCode::missing_part,
         fmt::format("cuda:{} is out of memory: {:.3f} GB requested, {:.3f} of {:.3f} GB free; {}", gpu,
                     gigabytes(bytes), gigabytes(free), gigabytes(total), advice(cudaErrorMemoryAllocation)));
}
#else
void check(int, std::string_view) {}
void check_allocation(int, int, std::size_t) {}
#endif

}  // namespace imka::cuda
