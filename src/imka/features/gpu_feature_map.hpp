// A feature map on a GPU: Ω is copied there once; rows are in memory of the GPU.
#pragma once

#include <cstddef>
#include <memory>

#include "imka/base/exec.hpp"
#include "imka/chip/region.hpp"
#include "imka/cuda/memory.hpp"
#include "imka/features/feature_map.hpp"
#include "imka/ops/feature_row/gpu_features.hpp"

namespace imka {

// The projection of a map and the functions after it. Thread-safe; every thread has a stream of its own.
class GpuProjector {
public:
    virtual ~GpuProjector() = default;
    // ids as in Projector::project. May return before the work is done.
    virtual void features(const ops::GpuFeatureJob& job, const ProductIds& ids, const Exec& exec) const = 0;
};

struct GpuFeatureOptions {
    ops::GpuPrecision precision = ops::GpuPrecision::float32;
    bool round_to_tf32 = false;
};

// Rows of x without gaps, rows of z `stride` values apart.
struct GpuFeatureRows {
    const float* x = nullptr;
    float* z = nullptr;
    std::size_t rows = 0;
    std::size_t stride = 0;
};

class GpuFeatureMap {
public:
    // Error{missing_part} without the GPU or its memory, Error{bad_config} if the projector has no GPU
    // variant.
    GpuFeatureMap(const Projector& projector, const FeatureFunctions& functions, int gpu);

    int gpu() const { return gpu_; }
    std::size_t inputs() const { return inputs_; }
    std::size_t features() const { return features_; }

    // Waits for the features. Error{bad_data} naming the row if x has a value that is not finite.
    void transform(const GpuFeatureRows& rows, const ProductIds& ids, const GpuFeatureOptions& options,
                   const Exec& exec) const;
    // From and to memory of the host, in blocks.
    void transform(MatrixView<const float> x, const ProductIds& ids, const Exec& exec,
                   MatrixView<float> z) const;

private:
    int gpu_;
    std::size_t inputs_;
    std::size_t features_;
    FeatureFunctions functions_;
    cuda::Buffer<float> offsets_;
    std::unique_ptr<const GpuProjector> projector_;
};

}  // namespace imka
