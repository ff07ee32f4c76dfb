// Arguments of the kernels in cuda_products.cu, as plain values.
#pragma once

#include <cstdint>

#include "imka/chip/simulate/cuda_pack.hpp"

namespace imka {

inline constexpr std::uint32_t kGpuBlockRows = 128;  // rows per block of threads

// Counts of one call.
struct GpuTally {
    unsigned long long saturated = 0;
    unsigned long long limited = 0;
    unsigned long long clipped = 0;
    unsigned long long not_finite = 0;
};

// Pointers are to memory of the GPU.
struct GpuWork {
    const GpuPanel* panels = nullptr;
    const GpuStage* stages = nullptr;
    const GpuTerm* terms = nullptr;
    const GpuPlane* planes = nullptr;
    const std::uint32_t* weights = nullptr;
    const float* columns = nullptr;
    const double* spreads = nullptr;
    std::uint32_t* steps = nullptr;       // per plane, row tile, block and thread: 4 words
    std::uint8_t* linear_rows = nullptr;  // per plane and row: 1 if the row uses the linear fold
    GpuTally* tally = nullptr;
    const float* x = nullptr;
    float* y = nullptr;
    std::uint32_t inputs = 0;
    std::uint32_t outputs = 0;
    std::uint32_t rows = 0;
    std::uint32_t copies = 0;     // that share the rows
    std::uint32_t row_tiles = 0;  // of 16 rows, for every copy; whole blocks
    std::uint32_t panel_count = 0;
    std::uint32_t plane_count = 0;
    GpuKind kind = GpuKind::general;
    std::uint64_t first_product = 0;
    std::uint64_t seed = 0;
};

// Starts both kernels on the current GPU; does not wait.
void launch_products(const GpuWork& work);

}  // namespace imka
