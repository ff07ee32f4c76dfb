// Features on a GPU in a build without CUDA: there is no GPU.
#include "imka/ops/feature_row/gpu_features.hpp"

#include "imka/cuda/gpu.hpp"

namespace imka::ops {

#if !IMKA_HAVE_CUDA
DenseOnGpu::DenseOnGpu(int gpu, MatrixView<const float> omega)
    : gpu_(gpu), d_(omega.cols()), m_(omega.rows()) {
    cuda::require_gpu(gpu);
}
void DenseOnGpu::features(const GpuFeatureJob&) const {
    cuda::require_gpu(gpu_);
}
TransformsOnGpu::TransformsOnGpu(int gpu, const SignHadamard& matrix)
    : d_(matrix.d), n_(matrix.n), m_(matrix.m), padded_(matrix.first.size()) {
    cuda::require_gpu(gpu);
}
void TransformsOnGpu::features(const GpuFeatureJob&) const {
    cuda::require_gpu(0);
}
void features_of(const GpuProjections&, const GpuFeatureJob&) {
    cuda::require_gpu(0);
}
void scale_rows(const GpuFeatureJob&, const GpuScaledRows&) {
    cuda::require_gpu(0);
}
#endif

}  // namespace imka::ops
