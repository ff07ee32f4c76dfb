// Folded regions in the layout of a GPU's matrix units (m16n8k32 for integers, m16n8k16 for halves). Plain
// values: packing needs no GPU.
//
// Weights become fixed-point numbers of 24 bits, one power of two per column, in three signed digits of 8
// bits. Inputs are steps of at most 127, so a charge is three exact integer products: its only error is the
// rounding of the weights, at most 2^-23 of the column's largest per step, and the final one to float.
// Variances and squared steps become halves (relative error at most 2^-11 each) and are added in float.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "imka/chip/simulate/fast.hpp"
#include "imka/chip/simulate/layout.hpp"

namespace imka {

inline constexpr std::uint32_t kGpuChunkCols = 16;    // outputs of a warp at a time
inline constexpr std::uint32_t kGpuPanelCols = 32;    // outputs of a block
inline constexpr std::uint32_t kGpuStepBlock = 32;    // inputs of an integer instruction
inline constexpr std::uint32_t kGpuBlockWords = 640;  // 32-bit words of 32 inputs x 16 outputs: 20 per thread
inline constexpr std::uint32_t kGpuMostPasses = 4;

enum class StepPart : std::uint32_t { whole, positive, negative };

// Products of one part of the steps; the charge is converted after the last pass that belongs to it.
struct GpuPass {
    StepPart part = StepPart::whole;
    std::uint32_t weights = 0;  // matrix of the fold
    std::uint32_t converts = 0;
    float sign = 1.0F;
};

// Columns are arrays of kGpuPanelCols floats: scale of the fixed-point charge, scale of the variance, offset,
// gain of negative charges.
struct GpuFold {
    GpuPass passes[kGpuMostPasses];
    std::uint32_t pass_count = 0;  // 0: the fold does not exist
    std::uint32_t charges = 0;
    std::uint32_t bits = 0;  // 0: whole steps; else one slice per bit
    std::uint32_t either_sign = 0;
    std::uint32_t noisy = 0;
    std::uint32_t rounding = 0;  // ops::CountRounding
    float most = 0.0F;
    float noise_variance = 0.0F;
    float polarity_error = 0.0F;
    std::uint32_t columns = 0;  // index into GpuImage::columns
    std::uint64_t weights = 0;  // index into GpuImage::weights
    std::uint64_t words_per_matrix = 0;
};

// Part of a panel's sum: the columns of one region. Columns are arrays of kGpuPanelCols floats: scale,
// offset, factor, limit.
struct GpuTerm {
    GpuFold linear;
    GpuFold exact;
    std::uint32_t plane = 0;
    std::uint32_t blocks = 0;     // of 32 inputs
    std::uint32_t converter = 0;  // number of the first column's converter
    float factor = 1.0F;          // of the result in the sum
    float levels = 0.0F;
    std::uint32_t output_floor = 0;
    std::uint32_t half = 0;
    std::uint32_t limits = 0;  // 0: none, 1: clip, 2: soft
    std::uint32_t rounds_down = 0;
    float most = 0.0F;
    std::uint32_t columns = 0;
};

// At most kGpuPanelCols neighbouring outputs of one copy; terms are added in order.
struct GpuPanel {
    std::uint32_t copy = 0;
    std::uint32_t first_col = 0;
    std::uint32_t cols = 0;
    std::uint32_t first_term = 0;
    std::uint32_t terms = 0;
};

// Inputs of a region as steps. Regions with the same inputs and range share one.
struct GpuPlane {
    std::uint32_t copy = 0;
    std::uint32_t first_row = 0;  // first input of the matrix
    std::uint32_t rows = 0;
    std::uint32_t blocks = 0;
    std::uint32_t blocks_before = 0;  // of the planes before
    std::uint32_t regions = 1;        // that use it
    std::int32_t levels = 0;
    std::uint32_t nearest = 0;
    double range = 1.0;
    float largest = 0.0F;  // inputs beyond are clipped
    // Margin of the linear fold: needed, and spreads in GpuImage::spreads; no spreads: always taken.
    std::uint32_t first_spread = 0;
    std::uint32_t spreads = 0;
    double need = 0.0;
};

// The kernel is compiled three times. The common ones, for charges of either sign or of one, leave out what
// few chips have: two folds, single bits, a comparator that errs, a soft limit, converters whose numbers are
// not multiples of 4.
enum class GpuKind : std::uint32_t { general, signed_charges, unsigned_charges };

struct GpuMatrix {
    std::vector<GpuPanel> panels;
    std::vector<GpuTerm> terms;
    std::vector<GpuPlane> planes;
    std::uint32_t copies = 1;  // that share rows; 1 for an average
    GpuKind kind = GpuKind::general;
};

struct GpuImage {
    std::vector<GpuMatrix> matrices;
    std::vector<std::uint32_t> weights;
    std::vector<float> columns;
    std::vector<double> spreads;  // mean, deviation, mean, ...
};

// What keeps a region from running on a GPU, or empty: "input jitter".
std::string gpu_obstacle(const FastRegion& region);

// Regions in the order of the plan, none with an obstacle.
GpuImage pack(const ChipLayout& layout, const std::vector<FastRegion>& regions);

// Fixed-point form of a column whose largest magnitude is > 0: value = integer * 2^-shift.
int fixed_point_shift(float largest);
// Where a value is in the words of its block of 32 inputs x 16 outputs.
struct BlockPlace {
    std::uint32_t word = 0;
    std::uint32_t shift = 0;  // bits
};
BlockPlace digit_place(std::uint32_t input, std::uint32_t col, std::uint32_t digit);
BlockPlace variance_place(std::uint32_t input, std::uint32_t col);

}  // namespace imka
