// The digital unit behind the converters: a scale and an offset for each column, in half precision and
// rounded to few bits where the chip has that.
#pragma once

#include <string_view>
#include <vector>

#include "imka/base/names.hpp"

namespace imka {

enum class OutputRounding {
    nearest,  // halves to even
    floor,    // down: the converter of the result drops what is left of a step
};
template <>
struct EnumNames<OutputRounding> {
    static constexpr std::string_view what = "output rounding";
    static constexpr std::string_view values[] = {"nearest", "floor"};
};

// What the steps of the result are counted in.
enum class OutputScale {
    core,    // one step for all columns: the largest product of the core is the last
    column,  // a step for each column, after its own largest product
};
template <>
struct EnumNames<OutputScale> {
    static constexpr std::string_view what = "output scale";
    static constexpr std::string_view values[] = {"core", "column"};
};

// The defaults are exact arithmetic.
struct AffineConfig {
    bool fp16 =
        false;  // scale, offset, count and result are IEEE half precision; one rounding a multiply-add
    int output_bits =
        0;  // of the result, sign included: clip to ±(2^(bits-1) - 1) and round; 0: not rounded; else 2 to 16
    OutputRounding rounding = OutputRounding::nearest;
    OutputScale output_scale = OutputScale::core;
    // The last step of the result is this multiple of the largest product that calibration saw; > 0.
    double headroom = 1.0;
};

// Results are in output steps, so that half precision and few bits have a range to work in.
struct AffineColumn {
    double scale = 1.0;   // output steps a count
    double offset = 0.0;  // output steps
    double step = 1.0;    // what a step of this column is worth, in those of the core; > 0
};
struct AffineCorrection {
    double output_step = 1.0;  // what one output step is worth; > 0
    std::vector<AffineColumn> columns;
};

// scale * counts + offset in output steps, rounded as configured. A result is worth step * output_step times
// that.
double apply_affine(const AffineConfig& config, const AffineColumn& column, double counts);

// The IEEE half-precision number nearest to x, halves to even; infinite beyond 65520 as IEEE says.
double round_to_half(double x);

}  // namespace imka
