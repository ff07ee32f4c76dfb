// Products on a GPU in a build without CUDA: there is no GPU.
#include "imka/ops/product/gpu_product.hpp"

#include "imka/cuda/gpu.hpp"

namespace imka::ops {

#if !IMKA_HAVE_CUDA
void start_products(const GpuProduct&) {
    cuda::require_gpu(0);
}
#endif

}  // namespace imka::ops
