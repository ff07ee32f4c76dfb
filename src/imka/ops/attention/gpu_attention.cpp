// Attention on a GPU in a build without CUDA: there is no GPU.
#include "imka/ops/attention/gpu_attention.hpp"

#include "imka/cuda/gpu.hpp"

namespace imka::ops {

#if !IMKA_HAVE_CUDA
std::size_t kernel_attention_scratch_bytes(const GpuKernelAttention&) {
    return 0;
}
void start_kernel_attention(const GpuKernelAttention&) {
    cuda::require_gpu(0);
}
std::size_t kernel_rows_scratch_bytes(const GpuKernelAttention&, const GpuAttentionRows&) {
    return 0;
}
void start_kernel_rows(const GpuKernelAttention&, const GpuAttentionRows&) {
    cuda::require_gpu(0);
}
void start_exact_attention(const GpuExactAttention&) {
    cuda::require_gpu(0);
}
void start_exact_rows(const GpuExactAttention&, const GpuAttentionRows&) {
    cuda::require_gpu(0);
}
void start_difference(const GpuDifference&) {
    cuda::require_gpu(0);
}
#endif

}  // namespace imka::ops
