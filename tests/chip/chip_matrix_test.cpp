// A matrix on many cores: cut, placed, taken through its states in order, and read.
#include "imka/chip/chip_matrix.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "imka/base/random.hpp"
#include "imka/chip/simulate/execute.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

Matrix<float> normals(std::size_t rows, std::size_t cols, std::uint64_t first) {
    Matrix<float> m(rows, cols);
    fill_normal(5, Stream::test, first, m.values());
    return m;
}

ChipMatrix programmed(const ChipSpec& spec, std::size_t inputs, std::size_t outputs,
                      const PlacementConfig& placement = {}, const Exec& exec = {}) {
    auto chip = ideal_matrix(spec, normals(inputs, outputs, 0), 3);
    place(chip, placement);
    calibrate(chip, normals(300, inputs, 1U << 20U).view(), {}, exec);
    program(chip, {}, exec);
    calibrate_outputs(chip, exec);
    return chip;
}

TEST(Tiling, CoversTheMatrixOnceInTilesOfNearlyOneSize) {
    const CoreSpec spec;
    for (const auto& [inputs, outputs, tiles] :
         {std::tuple{1U, 1U, 1U}, {256U, 256U, 1U}, {257U, 256U, 2U}, {600U, 513U, 9U}}) {
        const auto tiling = tile_matrix(inputs, outputs, spec);
        ASSERT_EQ(tiling.tiles.size(), tiles);
        Matrix<int> covered(inputs, outputs);
        for (const auto& t : tiling.tiles) {
            EXPECT_LE(t.rows, 256U);
            EXPECT_LE(t.cols, 256U);
            for (std::size_t r = 0; r < t.rows; ++r)
                for (std::size_t c = 0; c < t.cols; ++c) ++covered(t.first_row + r, t.first_col + c);
        }
        for (const int n : covered.values()) ASSERT_EQ(n, 1);
    }
    EXPECT_EQ(tile_matrix(600, 1, spec).tiles.back().rows, 200U);
    EXPECT_THAT(error_of([&] { tile_matrix(0, 4, spec); }), HasSubstr("0 inputs and 4 outputs"));
}

TEST(ChipMatrix, SaysHowManyCoresAreMissing) {
    auto spec = chip_preset("ideal");
    auto chip = ideal_matrix(spec, Matrix<float>(2048, 2560), 0);
    EXPECT_THAT(
        error_of([&] { place(chip); }),
        HasSubstr("needs 80 cores of 256 x 256; there are 64 (64 on each of 1 chip), 16 are missing; 2 "
                  "chips would do"));
    EXPECT_EQ(chip.state, ChipState::ideal) << "nothing changed";
    chip.spec.chips = 2;
    place(chip);
    EXPECT_EQ(chip.core_count(), 80U);
    auto small = ideal_matrix(spec, Matrix<float>(256, 512), 0);
    place(small, {.replicas = 0});
    EXPECT_EQ(small.replicas, 32U) << "as many as fit";
    auto many = ideal_matrix(spec, Matrix<float>(256, 512), 0);
    EXPECT_THAT(error_of([&] { place(many, {.replicas = 33}); }), HasSubstr("2 are missing"));
    EXPECT_THAT(error_of([&] { place(many, {.replicas = -1}); }), HasSubstr("must be >= 0"));
}

TEST(ChipMatrix, StatesFollowEachOther) {
    const auto x = normals(20, 8, 7);
    auto chip = ideal_matrix(chip_preset("hermes-published"), normals(8, 5, 0), 1);
    EXPECT_THAT(error_of([&] { calibrate(chip, x.view(), {}, {}); }),
                HasSubstr("calibrating: the chip is ideal; it must be mapped to calibrated"));
    EXPECT_THAT(error_of([&] { program(chip, {}, {}); }), HasSubstr("the chip is ideal"));
    place(chip);
    EXPECT_THAT(error_of([&] { place(chip); }), HasSubstr("the chip is mapped; it must be ideal"));
    EXPECT_THAT(error_of([&] { age(chip, {.seconds = 1.0}); }), HasSubstr("the chip is mapped"));
    EXPECT_THAT(error_of([&] { ready(chip); }), HasSubstr("products: the chip is mapped"));
    calibrate(chip, x.view(), {}, {});
    EXPECT_EQ(chip.state, ChipState::calibrated);
    EXPECT_THAT(error_of([&] { compensate(chip, DriftCompensation::global); }),
                HasSubstr("the chip is calibrated"));
    program(chip, {}, {});
    EXPECT_EQ(chip.state, ChipState::programmed);
    age(chip, {.seconds = 3600.0});
    EXPECT_EQ(chip.state, ChipState::aged);
    compensate(chip, DriftCompensation::column);
    EXPECT_EQ(chip.state, ChipState::compensated);
    EXPECT_THAT(error_of([&] { age(chip, {.seconds = 60.0}); }), HasSubstr("only goes forward"));
    EXPECT_THAT(error_of([&] { age(chip, {.seconds = -1.0}); }), HasSubstr("-1"));
    age(chip, {.seconds = 7200.0});
    EXPECT_EQ(chip.state, ChipState::aged) << "what was compensated has aged since";
    calibrate_outputs(chip, {});
    EXPECT_EQ(chip.state, ChipState::compensated);
    program(chip, {}, {});
    EXPECT_EQ(chip.time.seconds, 0.0);
}

TEST(ChipMatrix, RefusesWeightsAndInputsThatAreNotFinite) {
    auto weights = normals(3, 2, 0);
    weights(1, 1) = std::numeric_limits<float>::quiet_NaN();
    EXPECT_THAT(error_of([&] { ideal_matrix(chip_preset("ideal"), weights, 0); }),
                HasSubstr("weight 1 of output 1 is nan"));
    const auto chip = programmed(chip_preset("hermes-published"), 3, 2);
    auto x = normals(2, 3, 0);
    x(1, 2) = std::numeric_limits<float>::infinity();
    EXPECT_THAT(error_of([&] { chip_products(ready(chip), x.view(), {}, {}); }),
                HasSubstr("input 2 of row 1 is inf"));
    EXPECT_THAT(error_of([&] { chip_products(ready(chip), normals(2, 4, 0).view(), {}, {}); }),
                HasSubstr("inputs of length 4; the chip holds a matrix of 3 inputs"));
    auto other = ideal_matrix(chip_preset("ideal"), normals(3, 2, 0), 0);
    place(other);
    EXPECT_THAT(error_of([&] { calibrate(other, Matrix<float>(4, 3).view(), {}, {}); }),
                HasSubstr("all calibration inputs are 0"));
    EXPECT_THAT(error_of([&] { calibrate(other, Matrix<float>(0, 3).view(), {}, {}); }),
                HasSubstr("no calibration inputs"));
}

// Without errors a chip computes the digital product of its quantised inputs, however the matrix is cut.
TEST(ChipMatrix, IdealChipIsTheDigitalProductToTheLastInputStep) {
    auto chip = programmed(chip_preset("ideal"), 300, 280);
    program(chip, {}, {});  // again: back to nominal outputs, since least squares sees the input steps
    const auto x = normals(50, 300, 99);
    const auto y = chip_products(ready(chip), x.view(), {}, {});
    Matrix<float> quantised(x.rows(), x.cols());
    for (const auto& tile : chip.tiling.tiles) {
        const double range =
            chip.mappings[static_cast<std::size_t>(&tile - chip.tiling.tiles.data())].input_range;
        for (std::size_t v = 0; v < x.rows(); ++v) {
            for (std::size_t i = tile.first_row; i < tile.first_row + tile.rows; ++i) {
                const double steps = std::nearbyint(std::clamp(x(v, i) / range, -1.0, 1.0) * 127.0);
                quantised(v, i) = static_cast<float>(steps * range / 127.0);
            }
        }
    }
    const auto exact = exact_products(quantised.view(), chip.weights.view());
    for (std::size_t k = 0; k < exact.values().size(); ++k)
        ASSERT_NEAR(y.values()[k], exact.values()[k], 2e-4) << k;
    const auto digital =
        chip_products(ready(ideal_matrix(chip.spec, normals(300, 280, 0), 0)), x.view(), {}, {});
    const auto unquantised = exact_products(x.view(), chip.weights.view());
    for (std::size_t k = 0; k < exact.values().size(); ++k)
        ASSERT_NEAR(digital.values()[k], unquantised.values()[k], 2e-4) << k;
}

TEST(ChipMatrix, BitsDependOnNeitherThreadsNorBatchesNorTheOrderOfCores) {
    for (const auto replication : {Replication::throughput, Replication::average}) {
        const PlacementConfig placement{.replicas = 3, .replication = replication};
        const auto spec = chip_preset("hermes-published");
        const auto one = programmed(spec, 270, 260, placement, {.threads = 1});
        const auto four = programmed(spec, 270, 260, placement, {.threads = 4});
        const auto x = normals(40, 270, 1234);
        const ProductIds ids{.seed = 8, .first = 5};
        const auto all = chip_products(ready(one), x.view(), ids, {.threads = 1});
        EXPECT_EQ(chip_products(ready(four), x.view(), ids, {.threads = 3}), all);
        for (std::size_t first = 0; first < 40; first += 11) {
            const auto rows = std::min<std::size_t>(11, 40 - first);
            const auto part = chip_products(ready(one), x.view().slice_rows(first, rows),
                                            {.seed = 8, .first = 5 + first}, {});
            for (std::size_t k = 0; k < part.values().size(); ++k)
                ASSERT_EQ(part.values()[k], all.values()[first * 260 + k]);
        }
        // A core alone is the core among others.
        const auto& tile = one.tiling.tiles[1];
        Matrix<float> weights(tile.rows, tile.cols);
        for (std::size_t r = 0; r < tile.rows; ++r)
            for (std::size_t c = 0; c < tile.cols; ++c)
                weights(r, c) = one.weights(tile.first_row + r, tile.first_col + c);
        const auto alone =
            program_core(spec.core, spec.device, weights.view(), one.mappings[1], {.seed = 3, .core = 1});
        EXPECT_EQ(alone.plus.g_us, one.cores[1].plus.g_us);
    }
}

// n independent copies have an n-th of the variance of one; systematic errors of inputs stay.
TEST(ChipMatrix, AveragingCopiesLowersTheErrorByTheRootOfTheirNumber) {
    const auto x = normals(400, 64, 777);
    const auto error = [&](int replicas, Replication replication) {
        const auto chip = programmed(chip_preset("hermes-published"), 64, 64,
                                     {.replicas = replicas, .replication = replication});
        return product_errors(chip, x.view(), {.seed = 1}, {}).relative;
    };
    const double one = error(1, Replication::average);
    const double sixteen = error(16, Replication::average);
    EXPECT_NEAR(sixteen / one, 0.25, 0.05);
    EXPECT_NEAR(error(16, Replication::throughput) / one, 1.0, 0.1);
}

// Mean error in output steps, and the slope of outputs against exact products.
struct Centring {
    double mean_steps = 0.0;
    double slope = 0.0;
};
Centring centring(ChipMatrix& chip, OutputFit fit) {
    calibrate_outputs(chip, {}, fit);
    const auto x = normals(2000, chip.weights.rows(), 4321);
    const auto y = chip_products(ready(chip), x.view(), {.seed = 2}, {});
    const auto exact = exact_products(x.view(), chip.weights.view());
    double sum = 0.0;
    double products = 0.0;
    double squares = 0.0;
    for (std::size_t k = 0; k < exact.values().size(); ++k) {
        const double e = exact.values()[k];
        sum += y.values()[k] - e;
        products += y.values()[k] * e;
        squares += e * e;
    }
    const auto n = static_cast<double>(exact.values().size());
    return {.mean_steps = sum / n / chip.mappings[0].output_step, .slope = products / squares};
}

TEST(OutputFit, CentredTakesTheHalfStepThatRoundingDownCosts) {
    auto chip = programmed(chip_preset("hermes"), 32, 64);
    EXPECT_NEAR(centring(chip, OutputFit::applied).mean_steps, -0.5, 0.1);
    EXPECT_NEAR(centring(chip, OutputFit::centred).mean_steps, 0.0, 0.1);
    EXPECT_NEAR(centring(chip, OutputFit::centred).mean_steps, 0.0, 0.1) << "not added twice";
}

TEST(OutputFit, CentredMakesUpForTruncatedInputs) {
    auto spec = chip_preset("ideal");
    spec.core.dac.levels = 31;
    spec.core.dac.rounding = InputRounding::truncate;
    auto chip = programmed(spec, 32, 64);
    // A step is about 4 deviations / 31, and half of it is lost of inputs of 0.8 deviations on average.
    EXPECT_LT(centring(chip, OutputFit::applied).slope, 0.95);
    EXPECT_NEAR(centring(chip, OutputFit::centred).slope, 1.0, 0.01);
}

TEST(OutputFit, CentredIsTheOrdinaryOneWhereRoundingIsToTheNearest) {
    auto spec = chip_preset("hermes");
    spec.core.dac.rounding = InputRounding::nearest;
    spec.core.affine.rounding = OutputRounding::nearest;
    auto chip = programmed(spec, 32, 16);
    auto centred = chip;
    calibrate_outputs(centred, {}, OutputFit::centred);
    for (std::size_t c = 0; c < 16; ++c) {
        EXPECT_EQ(centred.cores[0].affine.columns[c].scale, chip.cores[0].affine.columns[c].scale);
        EXPECT_EQ(centred.cores[0].affine.columns[c].offset, chip.cores[0].affine.columns[c].offset);
    }
    spec.core.affine.rounding = OutputRounding::floor;
    spec.core.affine.output_bits = 0;
    auto unrounded = programmed(spec, 32, 16);
    auto again = unrounded;
    calibrate_outputs(again, {}, OutputFit::centred);
    EXPECT_EQ(again.cores[0].affine.columns[3].offset, unrounded.cores[0].affine.columns[3].offset)
        << "without steps there is nothing to round down";
}

TEST(ChipMatrix, CalibratedOutputsUndoDrift) {
    auto chip = programmed(chip_preset("hermes-published"), 128, 128);
    const auto x = normals(300, 128, 4321);
    const double fresh = product_errors(chip, x.view(), {}, {}).relative;
    age(chip, {.seconds = 86400.0});
    const double aged = product_errors(chip, x.view(), {}, {}).relative;
    EXPECT_GT(aged, 1.5 * fresh);
    calibrate_outputs(chip, {});
    const double again = product_errors(chip, x.view(), {}, {}).relative;
    EXPECT_LT(again, aged);
    EXPECT_LT(again, 1.6 * fresh);
}

}  // namespace
}  // namespace imka
