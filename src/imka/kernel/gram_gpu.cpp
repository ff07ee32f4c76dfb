// Exact Gram matrices in a build without CUDA: there is no GPU.
#include "imka/kernel/gram_gpu.hpp"

#include "imka/cuda/gpu.hpp"

namespace imka {

#if !IMKA_HAVE_CUDA
void exact_gram_on_gpu(Kernel, double, MatrixView<const float>, MatrixView<const float>, int gpu,
                       MatrixView<double>) {
    cuda::require_gpu(gpu);
}
#endif

}  // namespace imka
