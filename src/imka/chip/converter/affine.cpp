#include "imka/chip/converter/affine.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace imka {

double round_to_half(double x) {
    if (x == 0.0 || !std::isfinite(x)) return x;
    // 11 significant bits; below 2^-14 the spacing stays 2^-24.
    int exponent = 0;
    std::frexp(x, &exponent);
    const double place = std::ldexp(1.0, std::max(exponent - 11, -24));
    const double value = std::nearbyint(x / place) * place;
    return std::abs(value) > 65504.0 ? std::copysign(std::numeric_limits<double>::infinity(), x) : value;
}

double apply_affine(const AffineConfig& config, const AffineColumn& column, double counts) {
    double value = column.scale * counts + column.offset;
    if (config.fp16) {
        // Products and sums of half-precision numbers are exact in double, so there is only one rounding.
        value =
            round_to_half(round_to_half(column.scale) * round_to_half(counts) + round_to_half(column.offset));
    }
    if (config.output_bits == 0) return value;
    const double most = (1 << (config.output_bits - 1)) - 1;
    const double clipped = std::clamp(value, -most, most);
    return config.rounding == OutputRounding::floor ? std::floor(clipped) : std::nearbyint(clipped);
}

}  // namespace imka
