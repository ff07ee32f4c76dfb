// Features z(x) on a GPU: the product with Ω, the functions and the scale in one pass; features are written
// once.
//
// Dense Ω: the matrix units multiply halves. A row of x or Ω is scaled by a power of two and becomes a sum of
// two halves (22 bits); a product is three products of halves, added in float. With u' the result and n =
// ceil(d / 16):
//   |u' - ωᵀx| <= (n + 4) 2^-20 |ω| |x|          (GpuPrecision::float32)
//   |u' - ωᵀx| <= (2^-10 + (n + 4) 2^-20) |ω| |x|  (GpuPrecision::tf32: one product of halves of 11 bits, as
//   in TF32)
// cos and sin of it are within 1.5e-7. Transforms (ops/fwht): the bits of the processor. Other functions: as
// in ops/epilogue. Beyond |u| = 12,800 cos and sin are within 2 ULP. The bits of a row depend on that row
// only, and are the same in every run.
//
// Work is in the order of the calling thread's default stream; nothing here waits for it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "imka/base/matrix.hpp"
#include "imka/cuda/memory.hpp"
#include "imka/ops/feature_row/feature_row.hpp"
#include "imka/ops/fwht/fwht.hpp"

namespace imka::ops {

enum class GpuPrecision { float32, tf32 };

// Pointers are to memory of the GPU.
struct GpuFeatureJob {
    const float* x = nullptr;  // rows x d, without gaps
    float* z = nullptr;
    std::size_t rows = 0;
    std::size_t stride = 0;  // of z, in values
    FeatureRow row;
    float input_scale = 1.0F;
    const float* offsets = nullptr;  // of offset_cos
    GpuPrecision precision = GpuPrecision::float32;
    bool round_to_tf32 = false;  // rounds features to 11 bits, for exact products on the matrix units
    // Becomes first_value + r d + c for the first value of x that is not finite; must be kAllFinite before.
    std::uint64_t* not_finite = nullptr;
    std::uint64_t first_value = 0;
};
inline constexpr std::uint64_t kAllFinite = ~std::uint64_t{0};

// Ω as halves in the order of the matrix units.
class DenseOnGpu {
public:
    DenseOnGpu(int gpu, MatrixView<const float> omega);
    void features(const GpuFeatureJob& job) const;

private:
    void long_features(const GpuFeatureJob& job) const;

    int gpu_;
    std::size_t d_;
    std::size_t m_;
    std::size_t inner_ = 0;  // d, padded with zeros
    cuda::Memory halves_;
    cuda::Memory factors_;
};

// The diagonals of a product of transforms.
class TransformsOnGpu {
public:
    static constexpr std::size_t kLargestBlock =
        1024;  // n: the most values that fit in the registers of a warp
    TransformsOnGpu(int gpu, const SignHadamard& matrix);
    void features(const GpuFeatureJob& job) const;

private:
    // Unused without CUDA.
    [[maybe_unused]] std::size_t d_;
    [[maybe_unused]] std::size_t n_;
    [[maybe_unused]] std::size_t m_;
    std::size_t padded_;
    cuda::Memory diagonals_;
};

// Features from given projections u, rows x m: u' = u factors[c], 0 in every lost-th product. `extra` has the
// values that scale_rows wrote.
struct GpuProjections {
    const float* u = nullptr;
    std::size_t m = 0;
    const float* factors = nullptr;  // none
    std::uint64_t lost = 0;          // none
    std::uint64_t first = 0;         // product of row 0
    const float* extra = nullptr;
};
void features_of(const GpuProjections& projections, const GpuFeatureJob& job);

// Inputs of a projection on other hardware: scaled = input_scale x, and `extra`, the value of each row that
// depends on |x|.
struct GpuScaledRows {
    std::size_t d = 0;
    float* scaled = nullptr;
    float* extra = nullptr;
};
void scale_rows(const GpuFeatureJob& job, const GpuScaledRows& out);

}  // namespace imka::ops
