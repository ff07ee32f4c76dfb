// A feature map on a GPU: Ω is copied there once; rows are in memory of the GPU.
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

// The projection of a map and the functions after it. Thread-safe; every thread has a stream of its own.
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

// Rows of x without gaps, rows of z `stride` values apart.
struct GpuFeatureRows {
    const float* x = nullptr;
    float* z = nullptr;
    std::size_t rows = 0;
    std::size_t stride = 0;
};

// The first value of the inputs of several calls that is not finite.
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
    // Errors as require_gpu_projector.
    GpuFeatureMap(const Projector& projector, const FeatureFunctions& functions, int gpu);

    int gpu() const { return gpu_; }
    std::size_t inputs() const { return inputs_; }
    std::size_t features() const { return features_; }

    // Does not wait. Values that are not finite are left to the check, as values of row first_row and later
    // ones.
    void start(const GpuFeatureRows& rows, const ProductIds& ids, const GpuFeatureOptions& options,
               const Exec& exec, const FiniteCheck& check, std::uint64_t first_row = 0) const;
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
