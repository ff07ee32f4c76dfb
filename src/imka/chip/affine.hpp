// The digital unit behind the converters: a scale and an offset for each column, in half precision and
// rounded to few bits where the chip has that.
#pragma once

#include <vector>

namespace imka {

// The defaults are exact arithmetic.
struct AffineConfig {
    bool fp16 =
        false;  // scale, offset, count and result are IEEE half precision; one rounding a multiply-add
    int output_bits =
        0;  // of the result, sign included: clip to ±(2^(bits-1) - 1) and round; 0: not rounded; else 2 to 16
};
void validate(const AffineConfig& config);

// Results are in output steps, so that half precision and few bits have a range to work in.
struct AffineColumn {
    double scale = 1.0;   // output steps a count
    double offset = 0.0;  // output steps
};
struct AffineCorrection {
    double output_step = 1.0;  // what one output step is worth; > 0
    std::vector<AffineColumn> columns;
};

// scale * counts + offset in output steps, rounded as configured.
double apply_affine(const AffineConfig& config, const AffineColumn& column, double counts);

// The IEEE half-precision number nearest to x, halves to even; infinite beyond 65520 as IEEE says.
double round_to_half(double x);

}  // namespace imka
