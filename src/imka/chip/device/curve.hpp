// A device constant as a piecewise function of the relative conductance u = g / g_max. All published
// device formulas (programming error, drift exponent, read noise) are such curves, so a device model is
// data, not code.
#pragma once

#include <limits>
#include <string_view>
#include <vector>

#include "imka/base/names.hpp"

namespace imka {

enum class CurveForm {
    polynomial,  // c0 + c1 a + c2 a² + ...
    logarithm,   // c0 ln a + c1
    power,       // c0 a^c1
};
template <>
struct EnumNames<CurveForm> {
    static constexpr std::string_view what = "curve form";
    static constexpr std::string_view values[] = {"polynomial", "logarithm", "power"};
};

// One piece, in terms of the argument a of its curve. The value is clamped to [min, max].
struct CurvePiece {
    CurveForm form = CurveForm::polynomial;
    double below = std::numeric_limits<double>::infinity();  // valid for a < below
    std::vector<double> coefficients;
    double min = -std::numeric_limits<double>::infinity();
    double max = std::numeric_limits<double>::infinity();
};

// f(u) = value_scale * piece(argument_at_g_max * u). The two scales allow constants published in other
// units.
struct Curve {
    double argument_at_g_max = 1.0;  // argument at u = 1; > 0
    double value_scale = 1.0;        // > 0
    std::vector<CurvePiece> pieces;  // by increasing `below`, the last without bound; none: 0 everywhere
};

// Value at u >= 0, in double. For u > 1 the last piece is extended.
double evaluate(const Curve& curve, double u);

// Error{bad_config} that starts with `name`: pieces out of order, wrong number of coefficients, values
// that are not finite (coefficients, or the curve between 0 and 1), values outside [min, max], a logarithm or
// decreasing power that is unclamped at u = 0.
void validate(const Curve& curve, std::string_view name,
              double min = -std::numeric_limits<double>::infinity(),
              double max = std::numeric_limits<double>::infinity());

}  // namespace imka
