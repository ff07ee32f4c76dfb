// Folded regions in the layout of a GPU's matrix units. Plain values: packing needs no GPU.
//
// Weights become fixed-point numbers of 24 bits, one power of two per column, in three signed digits of 8
// bits. Inputs are steps of at most 127, so a charge is three exact integer products: its only error is the
// rounding of the weights, at most 2^-23 of the column's largest per step, and the final rounding to float.
// Variances and squared steps become halves (relative error at most 2^-11 each) and are added in float.
//
// A block consists of pieces of 8 columns x 16 bytes, in the order of cuda::pieces_at: 12 x 2 pieces of
// digits, then 4 x 2 pieces of variances for the first 16 inputs and as many for the other 16.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "imka/chip/simulate/fast.hpp"
#include "imka/chip/simulate/layout.hpp"

namespace imka {

inline constexpr std::uint32_t kGpuPanelCols = 32;     // outputs of a block of threads
inline constexpr std::uint32_t kGpuStepBlock = 32;     // inputs of an integer instruction
inline constexpr std::uint32_t kGpuBlockWords = 1280;  // 32-bit words of 32 inputs x 32 outputs
inline constexpr std::uint32_t kGpuStageBlocks = 8;    // blocks of weights per stage, at most

enum class StepPart : std::uint32_t { whole, positive, negative };

// How charges become counts. Columns are arrays of kGpuPanelCols floats: scale of the fixed-point charge,
// scale of the variance, offset, gain of negative charges.
struct GpuFold {
    std::uint32_t exists = 0;
    std::uint32_t either_sign = 0;
    std::uint32_t gains = 0;  // 1 if gains of negative charges differ from 1
    std::uint32_t noisy = 0;
    std::uint32_t rounding = 0;  // ops::CountRounding
    float most = 0.0F;
    float noise_variance = 0.0F;
    float polarity_error = 0.0F;
    std::uint32_t columns = 0;  // index into GpuImage::columns
};

// Part of a panel's sum: the columns of one region. Columns are arrays of kGpuPanelCols floats: scale,
// offset, factor, limit.
struct GpuTerm {
    GpuFold linear;
    GpuFold exact;
    std::uint32_t plane = 0;
    std::uint32_t converter = 0;  // number of the first column's converter
    float factor = 1.0F;          // of the result in the sum
    std::uint32_t output_floor = 0;
    std::uint32_t half = 0;
    std::uint32_t limits = 0;  // 0: none, 1: clip, 2: soft
    std::uint32_t rounds_down = 0;
    float most = 0.0F;
    std::uint32_t columns = 0;
};

// Products of one part of the steps with at most kGpuStageBlocks blocks of weights.
struct GpuStage {
    std::uint64_t weights = 0;  // index into GpuImage::weights
    std::uint32_t term = 0;
    std::uint32_t first_block = 0;  // of the region
    std::uint32_t blocks = 0;       // of the stage
    std::uint32_t region_blocks = 0;
    std::uint32_t blocks_before = 0;  // as in GpuPlane
    std::uint32_t exact = 0;          // 0: GpuTerm::linear, 1: GpuTerm::exact
    StepPart part = StepPart::whole;
    std::int32_t bit = -1;         // of the steps; -1: all
    std::uint32_t converts = 0;    // 1: the charge is complete; 0: the next stage adds to it
    std::uint32_t conversion = 0;  // number of the conversion
    float weight = 1.0F;           // of the counts
};

// At most kGpuPanelCols neighbouring outputs of one copy. Stages of a term are consecutive; terms are added
// in order.
struct GpuPanel {
    std::uint32_t copy = 0;
    std::uint32_t first_col = 0;
    std::uint32_t cols = 0;
    std::uint32_t first_stage = 0;
    std::uint32_t stages = 0;
};

// Inputs of a region as steps. Regions with the same inputs and range share one.
struct GpuPlane {
    std::uint32_t copy = 0;
    std::uint32_t first_row = 0;  // first input of the matrix
    std::uint32_t rows = 0;
    std::uint32_t blocks = 0;
    std::uint32_t blocks_before = 0;  // of the preceding planes
    std::uint32_t regions = 1;        // that use the plane
    std::int32_t levels = 0;
    std::uint32_t nearest = 0;
    double range = 1.0;
    float largest = 0.0F;  // inputs beyond are clipped
    // Margin of the linear fold: `need` and GpuImage::spreads; without spreads the fold is always used.
    std::uint32_t first_spread = 0;
    std::uint32_t spreads = 0;
    double need = 0.0;
};

// The kernel is compiled three times. The two usual variants, for charges of either sign and of one sign,
// have fixed rules: one fold, whole steps, one gain, noise, counts rounded down, correction in half
// precision, at most a hard limit, results rounded down to a number of bits, converter numbers that are
// multiples of 4. The general variant handles everything else.
enum class GpuKind : std::uint32_t { general, usual_signed, usual_unsigned };

struct GpuMatrix {
    std::vector<GpuPanel> panels;
    std::vector<GpuStage> stages;
    std::vector<GpuTerm> terms;
    std::vector<GpuPlane> planes;
    std::uint32_t copies = 1;  // of the matrix that share the rows; 1 for an average
    GpuKind kind = GpuKind::general;
};

struct GpuImage {
    std::vector<GpuMatrix> matrices;
    std::vector<std::uint32_t> weights;
    std::vector<float> columns;
    std::vector<double> spreads;  // mean, deviation, mean, ...
};

// Feature that keeps a region from running on a GPU, such as "input jitter"; empty: none.
std::string gpu_obstacle(const FastRegion& region);

// Regions in the order of the plan, none with an obstacle.
GpuImage pack(const ChipLayout& layout, const std::vector<FastRegion>& regions);

// Fixed-point form of a column whose largest magnitude is > 0: value = integer * 2^-shift.
int fixed_point_shift(float largest);
// Position of a value in the words of its block of 32 inputs x 32 outputs.
struct BlockPlace {
    std::uint32_t word = 0;
    std::uint32_t shift = 0;  // bits
};
BlockPlace digit_place(std::uint32_t input, std::uint32_t col, std::uint32_t digit);
BlockPlace variance_place(std::uint32_t input, std::uint32_t col);

}  // namespace imka
