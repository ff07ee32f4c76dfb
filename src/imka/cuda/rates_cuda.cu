// Kernels that do one thing as fast as the GPU can.
#include <cuda_runtime.h>

#include <algorithm>

#include "imka/cuda/gpu.hpp"
#include "imka/cuda/matrix_unit.cuh"
#include "imka/cuda/memory.hpp"
#include "imka/cuda/random.cuh"
#include "imka/cuda/rates.hpp"
#include "imka/cuda/status.hpp"

namespace imka::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr int kSteps = 2048;
constexpr int kChains = 8;  // independent sums per thread

enum class Factors { bytes, halves, tf32 };

template <Factors kFactors, class Sum>
__device__ void multiply(const uint4& a, std::uint32_t b, Sum (&c)[4]) {
    if constexpr (kFactors == Factors::bytes) {
        multiply_bytes(a, b, b, c);
    } else if constexpr (kFactors == Factors::halves) {
        multiply_halves(a, b, b, c);
    } else {
        multiply_tf32(a, b, b, c);
    }
}

template <Factors kFactors, class Sum>
__global__ void matrix_products(Sum* out) {
    // Operands depend on the thread: the compiler cannot know the products.
    const uint4 a = make_uint4(threadIdx.x, threadIdx.x + 1, threadIdx.x * 3, threadIdx.x ^ 85U);
    const std::uint32_t b = threadIdx.x * 7 + blockIdx.x;
    Sum c[kChains][4] = {};
    for (int i = 0; i < kSteps; ++i) {
#pragma unroll
        for (int k = 0; k < kChains; ++k) multiply<kFactors>(a, b + static_cast<unsigned>(k), c[k]);
    }
    Sum sum = 0;
    for (int k = 0; k < kChains; ++k) sum += c[k][0] + c[k][1] + c[k][2] + c[k][3];
    out[blockIdx.x * kThreads + threadIdx.x] = sum;
}

__global__ void draw_normals(const __grid_constant__ PhiloxKeys keys, float* out) {
    const std::uint64_t thread = blockIdx.x * kThreads + threadIdx.x;
    float sum = 0.0F;
    for (int i = 0; i < kSteps / 8; ++i) {
        const float4 z = normal_block(keys, thread * kSteps + static_cast<unsigned>(i), 0);
        sum += z.x + z.y + z.z + z.w;
    }
    out[thread] = sum;
}

__global__ void powers_of_two(float* out) {
    float x[kChains];
    for (int k = 0; k < kChains; ++k) x[k] = 0.01F * static_cast<float>(threadIdx.x) - static_cast<float>(k);
    for (int i = 0; i < kSteps; ++i) {
#pragma unroll
        for (int k = 0; k < kChains; ++k) asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(x[k]) : "f"(-x[k]));
    }
    float sum = 0.0F;
    for (int k = 0; k < kChains; ++k) sum += x[k];
    out[blockIdx.x * kThreads + threadIdx.x] = sum;
}

// Shortest time of a few runs of `body` after a warm-up.
template <class Body>
double seconds_of(const Body& body) {
    cudaEvent_t begin = nullptr;
    cudaEvent_t end = nullptr;
    check(cudaEventCreate(&begin), "creating a timer");
    check(cudaEventCreate(&end), "creating a timer");
    float least = 0.0F;
    for (int run = 0; run < 6; ++run) {
        check(cudaEventRecord(begin), "starting a timer");
        body();
        check(cudaGetLastError(), "starting a kernel");
        check(cudaEventRecord(end), "stopping a timer");
        check(cudaEventSynchronize(end), "timing a kernel");
        float milliseconds = 0.0F;
        check(cudaEventElapsedTime(&milliseconds, begin, end), "timing a kernel");
        least = run <= 1 ? milliseconds : std::min(least, milliseconds);
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    return 1e-3 * least;
}

}  // namespace

GpuRates measure_rates(int gpu) {
    select_gpu(gpu);
    int processors = 0;
    check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, gpu),
          "querying the number of multiprocessors");
    const auto blocks = static_cast<unsigned>(processors) * 4 * 8;
    const double threads = 1.0 * blocks * kThreads;
    Buffer<float> out(gpu, static_cast<std::size_t>(threads));
    auto* ints = reinterpret_cast<int*>(out.data());
    const double bytes = seconds_of([&] { matrix_products<Factors::bytes><<<blocks, kThreads>>>(ints); });
    const double halves =
        seconds_of([&] { matrix_products<Factors::halves><<<blocks, kThreads>>>(out.data()); });
    const double tf32 = seconds_of([&] { matrix_products<Factors::tf32><<<blocks, kThreads>>>(out.data()); });
    const auto keys = philox_keys(1);
    const double normals = seconds_of([&] { draw_normals<<<blocks, kThreads>>>(keys, out.data()); });
    const double powers = seconds_of([&] { powers_of_two<<<blocks, kThreads>>>(out.data()); });
    constexpr std::size_t kBytes = std::size_t{2} << 30U;
    const Memory memory(gpu, kBytes);
    const double write = seconds_of([&] { cudaMemsetAsync(memory.data(), 1, kBytes); });
    const double products = threads / 32 * kSteps * kChains * 16 * 8;
    return {.byte_macs = products * 32 / bytes,
            .half_macs = products * 16 / halves,
            .tf32_macs = products * 8 / tf32,
            .normals = threads * (kSteps / 8) * 4 / normals,
            .powers = threads * kSteps * kChains / powers,
            .write_bytes = kBytes / write};
}

}  // namespace imka::cuda
