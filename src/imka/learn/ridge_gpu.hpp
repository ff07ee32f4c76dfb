// Ridge regression on a GPU: features are computed block by block and are never all in memory.
//
// Features are rounded to 11 bits (TF32, to nearest) before they are multiplied, so that every product on the
// matrix units is exact: ZᵀZ and Zᵀy are those of features with a relative error of at most 2^-11. Sums are
// floats within blocks of kRows rows and doubles over blocks, in a fixed order: the same bits in every run.
// Systems are solved in double. Predictions use features that are not rounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/cuda/memory.hpp"
#include "imka/features/gpu_feature_map.hpp"
#include "imka/learn/ridge.hpp"

namespace imka {

class GpuRidgeSums {
public:
    static constexpr std::size_t kRows = 8192;

    // Error{missing_part} without the GPU, enough of its memory, or cuBLAS.
    GpuRidgeSums(std::size_t features, std::size_t outputs, int gpu);

    // Rows of x are in GPU memory, their targets on the host. Each call begins a new block, so every call
    // except the last should have a multiple of kRows rows. Row r is number ids.first + r.
    void add(const GpuFeatureMap& map, const float* x, MatrixView<const float> targets, const ProductIds& ids,
             const Exec& exec);

    // Errors as in RidgeAccumulator.
    RidgeWeights solve(const RidgeConfig& config, const Exec& exec) const;

private:
    cuda::Buffer<float> upload_targets(MatrixView<const float> targets);

    int gpu_;
    std::size_t features_;
    std::size_t outputs_;
    std::size_t stride_;  // of rows of features
    double rows_ = 0.0;
    std::vector<double> target_sums_;
    cuda::Buffer<float> z_;             // a block of features
    cuda::Buffer<float> block_;         // its products
    cuda::Buffer<float> columns_;       // Zᵀ [1, y] of the block
    cuda::Buffer<double> sums_;         // ZᵀZ, lower triangle, column-major
    cuda::Buffer<double> columns_sum_;  // Zᵀ [1, y], column-major
};

// out = z(x) w + intercept for rows on the host. The bits of a row do not depend on its batch.
void predict_on_gpu(const RidgeWeights& weights, const GpuFeatureMap& map, MatrixView<const float> x,
                    const ProductIds& ids, const Exec& exec, MatrixView<double> out);

}  // namespace imka
