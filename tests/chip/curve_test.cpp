#include "imka/chip/device/device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/error.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

Curve two_pieces() {
    return {.pieces = {{.form = CurveForm::logarithm,
                        .below = 0.25,
                        .coefficients = {-0.5, 0.1},
                        .min = 0.2,
                        .max = 3.0},
                       {.coefficients = {1.0, -2.0, 4.0}}}};
}

TEST(Curve, WithoutPiecesIsZero) {
    EXPECT_EQ(evaluate({}, 0.0), 0.0);
    EXPECT_EQ(evaluate({}, 0.7), 0.0);
    EXPECT_NO_THROW(validate(Curve{}, "c"));
}

TEST(Curve, PolynomialIsExactIfTheArithmeticIs) {
    const Curve c{.pieces = {{.coefficients = {1.0, -2.0, 4.0, 8.0}}}};
    EXPECT_EQ(evaluate(c, 0.0), 1.0);
    EXPECT_EQ(evaluate(c, 0.5), 1.0 - 1.0 + 1.0 + 1.0);
    EXPECT_EQ(evaluate(c, 2.0), 1.0 - 4.0 + 16.0 + 64.0);
}

TEST(Curve, UsesThePieceThatContainsTheArgument) {
    const auto c = two_pieces();
    EXPECT_EQ(evaluate(c, 0.25), 1.0 - 0.5 + 0.25) << "the limit belongs to the next piece";
    EXPECT_NEAR(evaluate(c, 0.2499999), -0.5 * std::log(0.2499999) + 0.1, 1e-15);
    EXPECT_EQ(evaluate(c, 3.0), 1.0 - 6.0 + 36.0) << "the last piece is extended beyond u = 1";
}

TEST(Curve, ClampsAndIsFiniteAtZero) {
    const auto c = two_pieces();
    EXPECT_EQ(evaluate(c, 0.0), 3.0);
    EXPECT_EQ(evaluate(c, 1e-9), 3.0);
    const Curve power{
        .pieces = {{.form = CurveForm::power, .coefficients = {0.0088, -0.65}, .min = 0.0, .max = 0.2}}};
    EXPECT_EQ(evaluate(power, 0.0), 0.2);
    EXPECT_EQ(evaluate(power, 1.0), 0.0088);
    EXPECT_NEAR(evaluate(power, 0.1), 0.0088 / std::pow(0.1, 0.65), 1e-15);
}

TEST(Curve, ScalesConvertTheUnitsOfItsConstants) {
    // 0.1 uS per count, 100 counts at g_max: f(0.5) = 0.1 (2 + 0.5 * 50).
    const Curve c{.argument_at_g_max = 100.0, .value_scale = 0.1, .pieces = {{.coefficients = {2.0, 0.5}}}};
    EXPECT_DOUBLE_EQ(evaluate(c, 0.5), 2.7);
}

TEST(Curve, RejectsCurvesThatAreUndefinedSomewhere) {
    const auto error = [](const Curve& c) { return error_of([&] { validate(c, "drift_mean"); }); };
    EXPECT_EQ(error(two_pieces()), "no error");

    auto c = two_pieces();
    c.pieces[0].max = std::numeric_limits<double>::infinity();
    EXPECT_THAT(error(c), HasSubstr("bad_config: drift_mean: piece 1: a logarithm that starts at 0 needs"));
    c = two_pieces();
    c.pieces[0].below = -1.0;
    EXPECT_THAT(error(c), HasSubstr("'below' is -1; it must be > 0"));
    c = two_pieces();
    c.pieces[1].below = 0.5;
    EXPECT_THAT(error(c), HasSubstr("piece 2: the last piece must have no 'below'"));
    c = two_pieces();
    c.pieces[0].coefficients.pop_back();
    EXPECT_THAT(error(c), HasSubstr("1 coefficients; a logarithm has 2"));
    c = two_pieces();
    c.pieces[1].coefficients.clear();
    EXPECT_THAT(error(c), HasSubstr("a polynomial has 1 to 16"));
    c = two_pieces();
    c.pieces[1].coefficients[1] = std::nan("");
    EXPECT_THAT(error(c), HasSubstr("not finite"));
    c = two_pieces();
    c.pieces[0].min = 4.0;
    EXPECT_THAT(error(c), HasSubstr("'min' must not exceed 'max'"));
    c = two_pieces();
    c.pieces[0].coefficients[0] = 0.0;
    EXPECT_THAT(error(c), HasSubstr("must not be 0"));
    c = two_pieces();
    c.pieces[1].coefficients = {1e308, 1e308};
    EXPECT_THAT(error(c), HasSubstr("not finite at u = "));
    c = two_pieces();
    c.value_scale = 0.0;
    EXPECT_THAT(error(c), HasSubstr("a scale of 0"));
}

}  // namespace
}  // namespace imka
