#include "imka/chip/device/curve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "imka/base/error.hpp"

namespace imka {
namespace {

double unclamped(const CurvePiece& piece, double a) {
    const auto& c = piece.coefficients;
    switch (piece.form) {
        case CurveForm::logarithm:
            return c[0] * std::log(a) + c[1];
        case CurveForm::power:
            return c[0] * std::pow(a, c[1]);
        case CurveForm::polynomial:
            break;
    }
    return std::accumulate(c.rbegin(), c.rend(), 0.0,
                           [a](double sum, double next) { return sum * a + next; });
}

bool all_finite(const std::vector<double>& values) {
    return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

// At a = 0 the formula is infinite (or 0 times infinity), so only the clamps give a value there.
bool infinite_at_zero(const CurvePiece& piece) {
    return piece.form == CurveForm::logarithm ||
           (piece.form == CurveForm::power && piece.coefficients[1] < 0.0);
}

void validate_piece(const CurvePiece& piece, bool first, const std::string& where) {
    const auto wrong = [&](std::string_view what) {
        fail(ErrorCode::bad_config, fmt::format("{}: {}", where, what));
    };
    const auto count = piece.coefficients.size();
    if (piece.form == CurveForm::polynomial ? count < 1 || count > 16 : count != 2)
        wrong(fmt::format("{} coefficients; a {} has {}", count, to_string(piece.form),
                          piece.form == CurveForm::polynomial ? "1 to 16" : "2"));
    if (!all_finite(piece.coefficients)) wrong("a coefficient is not finite");
    if (std::isnan(piece.min) || std::isnan(piece.max) || piece.min > piece.max)
        wrong("'min' must not exceed 'max'");
    if (!first || !infinite_at_zero(piece)) return;
    if (piece.coefficients[0] == 0.0) wrong("the first coefficient must not be 0; use a polynomial");
    if (!std::isfinite(piece.min) || !std::isfinite(piece.max))
        wrong(fmt::format("a {} that starts at 0 needs 'min' and 'max'", to_string(piece.form)));
}

}  // namespace

double evaluate(const Curve& curve, double u) {
    if (curve.pieces.empty()) return 0.0;
    const double a = curve.argument_at_g_max * u;
    const auto it = std::find_if(curve.pieces.begin(), curve.pieces.end() - 1,
                                 [a](const CurvePiece& piece) { return a < piece.below; });
    return curve.value_scale * std::clamp(unclamped(*it, a), it->min, it->max);
}

void validate(const Curve& curve, std::string_view name, double min, double max) {
    for (const double scale : {curve.argument_at_g_max, curve.value_scale}) {
        if (!std::isfinite(scale) || scale <= 0.0)
            fail(ErrorCode::bad_config, fmt::format("{}: a scale of {}; it must be > 0", name, scale));
    }
    double last = 0.0;
    for (std::size_t i = 0; i < curve.pieces.size(); ++i) {
        const auto& piece = curve.pieces[i];
        const auto where = fmt::format("{}: piece {}", name, i + 1);
        validate_piece(piece, i == 0, where);
        if (!(piece.below > last))
            fail(ErrorCode::bad_config,
                 fmt::format("{}: 'below' is {}; it must be > {}", where, piece.below, last));
        if (i + 1 == curve.pieces.size() && std::isfinite(piece.below))
            fail(ErrorCode::bad_config, fmt::format("{}: the last piece must have no 'below'", where));
        last = piece.below;
    }
    // Finite coefficients may still overflow; devices evaluate the curve between 0 and 1.
    for (int i = 0; i <= 64; ++i) {
        const double value = evaluate(curve, i / 64.0);
        if (!std::isfinite(value))
            fail(ErrorCode::bad_config, fmt::format("{}: not finite at u = {}", name, i / 64.0));
        if (value < min || value > max)
            fail(ErrorCode::bad_config,
                 fmt::format("{}: {:.4g} at u = {} is out of range; it must be from {} to {}", name, value,
                             i / 64.0, min, max));
    }
}

}  // namespace imka
