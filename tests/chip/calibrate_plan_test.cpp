// Calibrating several matrices at once gives the same plan as one after the other.
#include "imka/chip/program/calibrate_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "imka/base/random.hpp"
#include "imka/chip/spec/chip.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

Matrix<float> normals(std::size_t rows, std::size_t cols, std::uint64_t seed) {
    Matrix<float> m(rows, cols);
    fill_normal(seed, Stream::test, 0, m.values());
    return m;
}

struct Problem {
    std::vector<Matrix<float>> samples;
    std::vector<Calibration> calibrations;
    Plan plan;
};

// Three matrices, the second of several tiles, in two copies.
Problem problem() {
    Problem p;
    std::vector<Matrix<float>> weights;
    for (const std::size_t inputs : {20U, 300U, 31U}) {
        weights.push_back(normals(inputs, 2 * inputs, inputs));
        p.samples.push_back(normals(50, inputs, inputs + 1));
    }
    p.plan = place(chip_preset("hermes"), std::move(weights), {.replicas = 2});
    for (std::uint32_t k = 0; k < p.samples.size(); ++k)
        p.calibrations.push_back(
            {.matrix = k, .sample = p.samples[k].view(), .config = {.inputs = 40 - k}, .seed = 3});
    return p;
}

TEST(CalibratePlan, IsThePlanOfOneMatrixAfterTheOther) {
    const auto p = problem();
    auto expected = p.plan;
    for (const auto& c : p.calibrations) expected = calibrated(std::move(expected), c, {.threads = 1});
    for (const int threads : {1, 3}) {
        const auto got = calibrated(p.plan, p.calibrations, {.threads = threads});
        for (std::size_t k = 0; k < got.matrices.size(); ++k)
            EXPECT_EQ(got.matrices[k].inputs, expected.matrices[k].inputs);
        ASSERT_EQ(got.scales.size(), expected.scales.size());
        for (std::size_t r = 0; r < got.scales.size(); ++r) {
            EXPECT_EQ(got.scales[r].input_range, expected.scales[r].input_range) << r;
            EXPECT_EQ(got.scales[r].output_step, expected.scales[r].output_step) << r;
            EXPECT_EQ(got.scales[r].column_us, expected.scales[r].column_us) << r;
            EXPECT_EQ(got.scales[r].output_limits, expected.scales[r].output_limits) << r;
            EXPECT_NE(got.scales[r].input_range, p.plan.scales[r].input_range) << r;
        }
    }
}

TEST(CalibratePlan, NamesAMatrixThatIsNotThere) {
    auto p = problem();
    p.calibrations[1].matrix = 7;
    EXPECT_THAT(error_of([&] { (void)calibrated(p.plan, p.calibrations, {}); }),
                testing::HasSubstr("no matrix 7; the plan has 3"));
}

}  // namespace
}  // namespace imka
