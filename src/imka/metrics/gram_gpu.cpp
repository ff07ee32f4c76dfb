#include "imka/metrics/gram_gpu.hpp"

#include <cmath>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/cuda/gpu.hpp"
#include "imka/cuda/linear_algebra.hpp"

namespace imka {
namespace {

constexpr auto kPooled = cuda::MemorySource::pooled;

}  // namespace

double relative_error(const GramErrorSums& sums) {
    if (!(sums.size > 0.0))
        fail(ErrorCode::numeric, "the exact Gram matrix is zero, so the relative error is undefined");
    return std::sqrt(sums.difference / sums.size);
}

bool gram_errors_on_gpu(const Exec& exec) {
    return exec.device.kind == DeviceKind::cuda && cuda::linear_algebra_obstacle().empty();
}

GpuGramError::GpuGramError(MatrixView<const double> exact, int gpu)
    : gpu_(gpu), n_(exact.rows()), exact_(gpu, exact.rows() * exact.cols(), kPooled) {
    exact_.upload_rows(exact);
}

double GpuGramError::error(const float* z, const float* other, std::size_t features) const {
    cuda::select_gpu(gpu_);
    const cuda::Buffer<double> left(gpu_, n_ * features, kPooled);
    gpu::widen(z, n_, features, left.data());
    cuda::Buffer<double> right;
    if (other != z) {
        right = cuda::Buffer<double>(gpu_, n_ * features, kPooled);
        gpu::widen(other, n_, features, right.data());
    }
    const cuda::Buffer<double> products(gpu_, n_ * n_, kPooled);
    cuda::LinearAlgebra::of_this_thread(gpu_).multiply(
        cuda::Product<double>{.rows = n_,
                              .cols = n_,
                              .inner = features,
                              .a = left.data(),
                              .a_stride = n_,
                              .b = right.size() > 0 ? right.data() : left.data(),
                              .b_stride = n_,
                              .c = products.data(),
                              .c_stride = n_});
    const std::size_t blocks = (n_ + gpu::kGramErrorBlock - 1) / gpu::kGramErrorBlock;
    const cuda::Buffer<double> sums(gpu_, 2 * blocks, kPooled);
    gpu::sum_errors(exact_.data(), products.data(), n_, sums.data());
    std::vector<double> parts(2 * blocks);
    sums.download(parts);
    std::vector<double> difference(blocks);
    std::vector<double> size(blocks);
    for (std::size_t b = 0; b < blocks; ++b) {
        difference[b] = parts[2 * b];
        size[b] = parts[2 * b + 1];
    }
    return relative_error({tree_sum(difference), tree_sum(size)});
}

#if !IMKA_HAVE_CUDA
namespace gpu {
void widen(const float*, std::size_t, std::size_t, double*) {}
void sum_errors(const double*, const double*, std::size_t, double*) {}
}  // namespace gpu
#endif

}  // namespace imka
