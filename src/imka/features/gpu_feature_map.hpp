// A feature map on a GPU: Ω is copied there once; rows are in GPU memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "imka/base/exec.hpp"
#include "imka/chip/region.hpp"
#include "imka/cuda/memory.hpp"
#include "imka/features/feature_map.hpp"
#include "imka/ops/feature_row/gpu_features.hpp"

namespace imka {

// The projection of a map and the functions after it. Thread-safe; each thread uses its own stream.
class GpuProjector {
public:
    virtual ~GpuProjector() = default;
    // ids as in Projector::project. May return before the work is done.
    virtual void features(const ops::GpuFeatureJob& job, const ProductIds& ids, const Exec& exec) const = 0;
};
// Error{missing_part} without the GPU or its memory, Error{bad_config} if the projector has no GPU variant.
std::unique_ptr<const GpuProjector> require_gpu_projector(const Projector& projector, int gpu);

struct GpuFeatureOptions {
    ops::GpuPrecision precision = ops::GpuPrecision::float32;
    bool round_to_tf32 = false;
};

// Rows of x are contiguous, rows of z are `stride` values apart.
struct GpuFeatureRows {
    const float* x = nullptr;
    float* z = nullptr;
    std::size_t rows = 0;
    std::size_t stride = 0;
};

// Records the first non-finite input value over several calls.
class FiniteCheck {
public:
    explicit FiniteCheck(int gpu);
    std::uint64_t* place() const { return place_.data(); }
    // Waits. Error{bad_data} naming the row and the feature; rows are counted from first_row.
    void require(std::size_t inputs, std::uint64_t first_row) const;

private:
    cuda::Buffer<std::uint64_t> place_;
};

class GpuFeatureMap {
public:
    // Errors as in require_gpu_projector.
    GpuFeatureMap(const Projector& projector, const FeatureFunctions& functions, int gpu);

    int gpu() const { return gpu_; }
    std::size_t inputs() const { return inputs_; }
    std::size_t features() const { return features_; }

    // Does not wait. Non-finite values are recorded in the check; the first row of `rows` counts as
    // first_row.
    void start(const GpuFeatureRows& rows, const ProductIds& ids, const GpuFeatureOptions& options,
               const Exec& exec, const FiniteCheck& check, std::uint64_t first_row = 0) const;
    // Waits for the features. Error{bad_data} naming the row if x has a value that is not finite.
    void transform(const GpuFeatureRows& rows, const ProductIds& ids, const GpuFeatureOptions& options,
                   const Exec& exec) const;
    // The same for rows in host memory, in blocks.
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
