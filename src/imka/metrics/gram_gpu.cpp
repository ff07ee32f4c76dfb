#include "imka/metrics/gram_gpu.hpp"

#include <vector>

#include "imka/base/parallel.hpp"
#include "imka/cuda/gpu.hpp"
#include "imka/cuda/linear_algebra.hpp"
#include "imka/cuda/memory.hpp"

namespace imka {
namespace {

constexpr auto kPooled = cuda::MemorySource::pooled;

cuda::Buffer<double> widened(MatrixView<const float> z, int gpu) {
    cuda::Buffer<float> plain(gpu, z.rows() * z.cols(), kPooled);
    plain.upload_rows(z);
    cuda::Buffer<double> wide(gpu, z.rows() * z.cols(), kPooled);
    gpu::widen(plain.data(), z.rows(), z.cols(), wide.data());
    return wide;
}

}  // namespace

GramErrorSums gram_error_on_gpu(MatrixView<const double> exact, MatrixView<const float> z,
                                MatrixView<const float> other, int gpu) {
    cuda::select_gpu(gpu);
    const std::size_t n = z.rows();
    const auto left = widened(z, gpu);
    cuda::Buffer<double> right;
    if (other.data() != z.data()) right = widened(other, gpu);
    const cuda::Buffer<double> products(gpu, n * n, kPooled);
    cuda::LinearAlgebra::of_this_thread(gpu).multiply(
        cuda::Product<double>{.rows = n,
                              .cols = n,
                              .inner = z.cols(),
                              .a = left.data(),
                              .a_stride = n,
                              .b = right.size() > 0 ? right.data() : left.data(),
                              .b_stride = n,
                              .c = products.data(),
                              .c_stride = n});
    cuda::Buffer<double> known(gpu, n * n, kPooled);
    known.upload_rows(exact);
    const std::size_t blocks = (n + kGramErrorBlock - 1) / kGramErrorBlock;
    const cuda::Buffer<double> sums(gpu, 2 * blocks, kPooled);
    gpu::sum_errors(known.data(), products.data(), n, sums.data());
    std::vector<double> parts(2 * blocks);
    sums.download(parts);
    std::vector<double> difference(blocks);
    std::vector<double> size(blocks);
    for (std::size_t b = 0; b < blocks; ++b) {
        difference[b] = parts[2 * b];
        size[b] = parts[2 * b + 1];
    }
    return {tree_sum(difference), tree_sum(size)};
}

#if !IMKA_HAVE_CUDA
namespace gpu {
void widen(const float*, std::size_t, std::size_t, double*) {}
void sum_errors(const double*, const double*, std::size_t, double*) {}
}  // namespace gpu
#endif

}  // namespace imka
