// Exact kernel values in double, with the formulas and the order of sums of kernel.cpp.
#include <cuda_runtime.h>

#include <algorithm>
#include <numbers>

#include "imka/cuda/memory.hpp"
#include "imka/cuda/status.hpp"
#include "imka/kernel/gram_gpu.hpp"

namespace imka {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::size_t kValues = std::size_t{1} << 26U;  // of the result on the GPU at a time

// term(0) + ... in four lanes, without fused operations.
template <class Term>
__device__ inline double lane_sum(unsigned n, const Term& term) {
    double lanes[4] = {};
    unsigned i = 0;
    for (; i + 4 <= n; i += 4) {
#pragma unroll
        for (unsigned k = 0; k < 4; ++k) lanes[k] = __dadd_rn(lanes[k], term(i + k));
    }
#pragma unroll
    for (unsigned k = 0; k < 3; ++k) {
        if (i + k < n) lanes[k] = __dadd_rn(lanes[k], term(i + k));
    }
    return __dadd_rn(__dadd_rn(lanes[0], lanes[1]), __dadd_rn(lanes[2], lanes[3]));
}

struct Pair {
    const float* x;
    const float* y;
    unsigned d;
};

__device__ inline double dot(const float* x, const float* y, unsigned d) {
    return lane_sum(d, [=](unsigned i) { return __dmul_rn(double{x[i]}, double{y[i]}); });
}

__device__ inline double squared_distance(const Pair& p) {
    return lane_sum(p.d, [=](unsigned i) {
        const double difference = __dsub_rn(double{p.x[i]}, double{p.y[i]});
        return __dmul_rn(difference, difference);
    });
}

struct GpuAngle {
    double norms;       // |x| |y|
    double supplement;  // as in Angle
};

__device__ inline GpuAngle angle_of(const Pair& p) {
    const double x = sqrt(dot(p.x, p.x, p.d));
    const double y = sqrt(dot(p.y, p.y, p.d));
    if (x == 0.0 || y == 0.0) return {0.0, 0.0};
    const auto length = [&](double sign) {
        return sqrt(lane_sum(p.d, [&](unsigned i) {
            const double v = __dadd_rn(__dmul_rn(double{p.x[i]}, y), sign * __dmul_rn(double{p.y[i]}, x));
            return __dmul_rn(v, v);
        }));
    };
    return {x * y, 2.0 * atan2(length(1.0), length(-1.0))};
}

__device__ inline double value_of(Kernel kernel, double gamma, const Pair& p) {
    switch (kernel) {
        case Kernel::rbf:
            return exp(-gamma * squared_distance(p));
        case Kernel::laplace:
            return exp(-gamma * lane_sum(p.d, [=](unsigned i) {
                return fabs(__dsub_rn(double{p.x[i]}, double{p.y[i]}));
            }));
        case Kernel::matern32: {
            const double a = sqrt(3.0 * 2.0 * gamma * squared_distance(p));
            return (1.0 + a) * exp(-a);
        }
        case Kernel::matern52: {
            const double a = sqrt(5.0 * 2.0 * gamma * squared_distance(p));
            return (1.0 + a + a * a / 3.0) * exp(-a);
        }
        case Kernel::arccos0:
            return angle_of(p).supplement / std::numbers::pi;
        case Kernel::arccos1: {
            const GpuAngle a = angle_of(p);
            const double j = sin(a.supplement) - a.supplement * cos(a.supplement);
            return a.norms * j / std::numbers::pi;
        }
        case Kernel::arccos2: {
            const GpuAngle a = angle_of(p);
            const double c = cos(a.supplement);
            const double j = a.supplement * (1.0 + 2.0 * c * c) - 3.0 * sin(a.supplement) * c;
            return a.norms * a.norms * j / std::numbers::pi;
        }
        case Kernel::softmax:
            return exp(dot(p.x, p.y, p.d) / sqrt(static_cast<double>(p.d)));
    }
    return 0.0;
}

struct Gram {
    const float* x;
    const float* y;
    std::size_t rows;
    std::size_t cols;
    unsigned d;
    Kernel kernel;
    double gamma;
    double* out;
};

__global__ void __launch_bounds__(kThreads) gram_values(const __grid_constant__ Gram w) {
    const std::size_t count = w.rows * w.cols;
    const std::size_t step = std::size_t{gridDim.x} * kThreads;
    for (std::size_t i = std::size_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step)
        w.out[i] = value_of(w.kernel, w.gamma, {w.x + i / w.cols * w.d, w.y + i % w.cols * w.d, w.d});
}

cuda::Buffer<float> on_gpu(MatrixView<const float> rows, int gpu) {
    cuda::Buffer<float> buffer(gpu, rows.rows() * rows.cols(), cuda::MemorySource::pooled);
    buffer.upload_rows(rows);
    return buffer;
}

}  // namespace

void exact_gram_on_gpu(Kernel kernel, double gamma, MatrixView<const float> x, MatrixView<const float> y,
                       int gpu, MatrixView<double> out) {
    const auto left = on_gpu(x, gpu);
    const auto right = on_gpu(y, gpu);
    if (x.rows() == 0 || y.rows() == 0) return;
    const std::size_t most = std::clamp<std::size_t>(kValues / y.rows(), 1, x.rows());
    const cuda::Buffer<double> values(gpu, most * y.rows(), cuda::MemorySource::pooled);
    for (std::size_t first = 0; first < x.rows(); first += most) {
        const std::size_t rows = std::min(most, x.rows() - first);
        const std::size_t blocks = (rows * y.rows() + kThreads - 1) / kThreads;
        gram_values<<<static_cast<unsigned>(std::min<std::size_t>(blocks, 1U << 20U)), kThreads>>>(
            {left.data() + first * x.cols(), right.data(), rows, y.rows(), static_cast<unsigned>(x.cols()),
             kernel, gamma, values.data()});
        cuda::check(cudaGetLastError(), "starting the kernel for Gram matrices");
        values.download_rows(out.slice_rows(first, rows));
    }
}

}  // namespace imka
