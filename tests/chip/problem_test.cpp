// Weights and inputs for testing chips.
#include "imka/chip/analyse/trials.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "imka/base/random.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

Matrix<float> normals(std::size_t rows, std::size_t cols) {
    Matrix<float> m(rows, cols);
    fill_normal(4, Stream::test, 0, m.values());
    return m;
}

double share_of_zeros(const Matrix<float>& x) {
    return static_cast<double>(std::ranges::count(x.values(), 0.0F)) / static_cast<double>(x.values().size());
}

TEST(Problem, GivenMatricesDecideTheSizes) {
    const auto x = normals(11, 6);
    const auto source = make_problem_source({.rows = 99, .cols = 98}, normals(6, 3), x);
    EXPECT_EQ(source.config.rows, 6U);
    EXPECT_EQ(source.config.cols, 3U);
    const auto problem = draw_problem(source, 7);
    // The first half calibrates, the second half tests; the same for every seed.
    ASSERT_EQ(problem.calibration.rows(), 5U);
    ASSERT_EQ(problem.inputs.rows(), 5U);
    EXPECT_TRUE(std::ranges::equal(problem.calibration.row(0), x.row(0)));
    EXPECT_TRUE(std::ranges::equal(problem.inputs.row(4), x.row(9)));
    EXPECT_EQ(problem.inputs, draw_problem(source, 8).inputs);
    EXPECT_EQ(make_problem_source({.count = 2, .calibration_count = 3}, normals(6, 3), x).config.count, 2U);
}

TEST(Problem, GivenMatricesMustFitEachOther) {
    EXPECT_EQ(error_of([] { make_problem_source({}, normals(6, 3), normals(10, 5)); }),
              "bad_data: inputs of length 5; the matrix has 6 inputs");
    EXPECT_THAT(error_of([] { make_problem_source({}, normals(6, 3), normals(3, 6)); }),
                HasSubstr("expected at least 4"));
}

TEST(Problem, DrawnNumbersFollowTheirLaws) {
    const ProblemConfig config{
        .weight_sigmas = 1.5, .inputs = InputLaw::sparse, .sparsity = 0.75, .rows = 100, .cols = 50};
    const auto problem = draw_problem(make_problem_source(config), 1);
    EXPECT_EQ(problem.inputs.rows(), 1000U) << "depends on the size";
    EXPECT_EQ(problem.calibration.rows(), 2000U);
    EXPECT_LE(std::ranges::max(problem.weights.values()), 1.5F);
    EXPECT_GT(std::ranges::max(problem.weights.values()), 1.4F);
    // 5 sigma of 100 000 inputs: 5 sqrt(0.75 * 0.25 / 1e5) = 0.0068
    EXPECT_NEAR(share_of_zeros(problem.inputs), 0.75, 0.0068);
    const auto other = draw_problem(
        make_problem_source({.weights = WeightLaw::uniform, .inputs = InputLaw::uniform, .rows = 50}), 1);
    EXPECT_LE(std::ranges::max(other.weights.values()), 1.0F);
    EXPECT_GT(std::ranges::max(other.inputs.values()), 0.99F);
    EXPECT_LT(std::ranges::min(other.inputs.values()), -0.99F);
}

TEST(Problem, SeedsIdentifyTheNumbersAndTestInputsAreNew) {
    const auto source = make_problem_source({.rows = 8, .cols = 4, .count = 10, .calibration_count = 10});
    const auto a = draw_problem(source, 1);
    EXPECT_EQ(a.weights, draw_problem(source, 1).weights);
    EXPECT_NE(a.weights, draw_problem(source, 2).weights);
    EXPECT_FALSE(std::ranges::equal(a.inputs.values(), a.calibration.values()));
    // Test inputs continue after the calibration inputs.
    const auto more =
        draw_problem(make_problem_source({.rows = 8, .cols = 4, .count = 10, .calibration_count = 20}), 1);
    EXPECT_TRUE(std::ranges::equal(more.calibration.row(10), a.inputs.row(0)));
}

TEST(Problem, ExactProductsAreThoseOfTheTestInputs) {
    const auto source = make_problem_source({.rows = 3, .cols = 2, .count = 4, .calibration_count = 2});
    const auto problem = with_exact_products(draw_problem(source, 5));
    ASSERT_EQ(problem.exact.rows(), 4U);
    double sum = 0.0;
    for (std::size_t i = 0; i < 3; ++i) sum += double{problem.inputs(3, i)} * problem.weights(i, 1);
    EXPECT_NEAR(problem.exact(3, 1), sum, 1e-12);
}

}  // namespace
}  // namespace imka
