// Digital unit after the converters: scale and offset per column, in half precision and with rounding to
// few bits if the chip has them.
#pragma once

#include <string_view>
#include <vector>

#include "imka/base/names.hpp"

namespace imka {

enum class OutputRounding {
    nearest,  // ties to even
    floor,    // down: the fraction of a step is dropped
};
template <>
struct EnumNames<OutputRounding> {
    static constexpr std::string_view what = "output rounding";
    static constexpr std::string_view values[] = {"nearest", "floor"};
};

// Unit of the steps of a result.
enum class OutputScale {
    core,    // one step size for all columns: the core's largest product is the last step
    column,  // one step size per column, from the column's largest product
};
template <>
struct EnumNames<OutputScale> {
    static constexpr std::string_view what = "output scale";
    static constexpr std::string_view values[] = {"core", "column"};
};

// Defaults: exact arithmetic.
struct AffineConfig {
    // Scale, offset, count and result in IEEE half precision; one rounding per multiply-add.
    bool fp16 = false;
    // Bits of the result, sign included: clip to ±(2^(bits-1) - 1) and round. 0: no rounding; else 2 to 16.
    int output_bits = 0;
    OutputRounding rounding = OutputRounding::nearest;
    OutputScale output_scale = OutputScale::core;
    // The last step of the result is this multiple of the largest calibration product; > 0.
    double headroom = 1.0;
};

// Results are in output steps, which gives half precision and few bits a suitable range.
struct AffineColumn {
    double scale = 1.0;   // output steps per count
    double offset = 0.0;  // output steps
    double step = 1.0;    // step size of this column relative to the core's; > 0
};
struct AffineCorrection {
    double output_step = 1.0;  // value of one output step; > 0
    std::vector<AffineColumn> columns;
};

// Returns scale * counts + offset in output steps, rounded as configured. Multiply by step * output_step
// for the value.
double apply_affine(const AffineConfig& config, const AffineColumn& column, double counts);

// Nearest IEEE half-precision number to x (ties to even); infinite beyond 65520 as in IEEE 754.
double round_to_half(double x);

}  // namespace imka
