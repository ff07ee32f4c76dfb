// Matrices on many cores: placed, calibrated, programmed, aged, compensated and read.
#include "imka/chip/programmed_chip.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "imka/base/random.hpp"
#include "imka/chip/build.hpp"
#include "imka/chip/simulate/emulator.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

Matrix<float> placed_normals(std::size_t rows, std::size_t cols, std::uint64_t first) {
    Matrix<float> m(rows, cols);
    fill_normal(5, Stream::test, first, m.values());
    return m;
}

ProgrammedChip programmed(const ChipSpec& spec, std::size_t inputs, std::size_t outputs,
                          const PlacementConfig& placement = {}, const Exec& exec = {}) {
    const auto sample = placed_normals(300, inputs, 1U << 20U);
    return build_chip(BuildJob{.chip = spec,
                               .weights = placed_normals(inputs, outputs, 0),
                               .sample = sample.view(),
                               .steps = {.placement = placement},
                               .seed = 3},
                      exec);
}

Matrix<float> products(const ProgrammedChip& chip, const Matrix<float>& x, const ProductIds& ids = {},
                       const Exec& exec = {}) {
    FastEmulator emulator(chip);
    return execute(emulator, 0, x.view(), ids, exec).y;
}

double relative_error(const ProgrammedChip& chip, const Matrix<float>& x, const ProductIds& ids = {}) {
    const auto exact = exact_products(x.view(), chip.plan.matrices[0].weights.view());
    return std::pow(10.0, -signal_to_noise_db(products(chip, x, ids).view(), exact.view()) / 20.0);
}

TEST(Tiling, CoversTheMatrixOnceInTilesOfNearlyOneSize) {
    const CoreSpec spec;
    for (const auto& [inputs, outputs, tiles] :
         {std::tuple{1U, 1U, 1U}, {256U, 256U, 1U}, {257U, 256U, 2U}, {600U, 513U, 9U}}) {
        const auto list = tile_matrix(inputs, outputs, spec);
        ASSERT_EQ(list.size(), tiles);
        Matrix<int> covered(inputs, outputs);
        for (const auto& t : list) {
            EXPECT_LE(t.rows, 256U);
            EXPECT_LE(t.cols, 256U);
            for (std::size_t r = 0; r < t.rows; ++r)
                for (std::size_t c = 0; c < t.cols; ++c) ++covered(t.first_row + r, t.first_col + c);
        }
        for (const int n : covered.values()) ASSERT_EQ(n, 1);
    }
    EXPECT_EQ(tile_matrix(600, 1, spec).back().rows, 200U);
    EXPECT_THAT(error_of([&] { tile_matrix(0, 4, spec); }), HasSubstr("0 inputs and 4 outputs"));
}

TEST(Plan, ErrorStatesTheNumberOfMissingCores) {
    auto spec = chip_preset("ideal");
    const Matrix<float> large(2048, 2560);
    EXPECT_THAT(error_of([&] { place(spec, large); }),
                HasSubstr("needs 80 cores of 256 x 256; 64 available (64 on each of 1 chip), 16 missing; 2 "
                          "chips would be enough"));
    spec.chips = 2;
    EXPECT_EQ(core_count(place(spec, large)), 80U);
    spec.chips = 1;
    const Matrix<float> small(256, 512);
    EXPECT_EQ(place(spec, small, {.replicas = 0}).matrices[0].replicas, 32U) << "the maximum that fits";
    EXPECT_THAT(error_of([&] { place(spec, small, {.replicas = 33}); }), HasSubstr("2 missing"));
    EXPECT_THAT(error_of([&] { place(spec, small, {.replicas = -1}); }),
                HasSubstr("replicas: -1 is out of range"));
    EXPECT_THAT(error_of([&] { place(spec, std::vector<Matrix<float>>{}); }), HasSubstr("no matrix"));
}

TEST(Plan, HasATileOnEachCoreAndMatricesOneAfterAnother) {
    std::vector<Matrix<float>> matrices = {Matrix<float>(300, 20), Matrix<float>(10, 600)};
    const auto plan = place(chip_preset("ideal"), matrices, {.replicas = 2});
    ASSERT_EQ(plan.regions.size(), 2U * 2 + 2U * 3);
    for (std::uint32_t r = 0; r < plan.regions.size(); ++r) {
        EXPECT_EQ(plan.regions[r].core, r);
        EXPECT_EQ(plan.regions[r].matrix, r < 4 ? 0U : 1U);
        EXPECT_EQ(plan.regions[r].row, 0U);
    }
    EXPECT_EQ(plan.regions[3].replica, 1U);
    EXPECT_EQ(plan.regions[3].tile, (Tile{150, 150, 0, 20}));
    EXPECT_EQ(plan.regions[9].tile, (Tile{0, 10, 400, 200}));
    validate(plan);
    auto spec = chip_preset("ideal");
    spec.cores = 4;
    EXPECT_THAT(error_of([&] { place(spec, matrices); }),
                HasSubstr("a group of 2 matrices needs 5 cores of 256 x 256; 4 available"));
}

TEST(Plan, RejectsRegionsThatDoNotFit) {
    const auto error = [](const std::function<void(Plan&)>& change) {
        auto plan = place(chip_preset("ideal"), placed_normals(300, 20, 0), {.replicas = 2});
        change(plan);
        return error_of([&] { validate(plan); });
    };
    EXPECT_EQ(error([](Plan&) {}), "no error");
    EXPECT_EQ(error([](Plan& p) {
                  p.regions[1].core = 0;  // next to the first one
                  p.regions[1].row = 100;
                  p.regions[1].col = 20;
              }),
              "no error");
    EXPECT_THAT(error([](Plan& p) {
                    p.regions[1].core = 0;
                    p.regions[1].row = 100;
                    p.regions[1].col = 19;
                }),
                HasSubstr("core 0: two regions overlap"));
    EXPECT_THAT(error([](Plan& p) { p.regions[1].row = 107; }),
                HasSubstr("region 1: 150 x 20 cells at row 107, column 0 of a core of 256 x 256"));
    EXPECT_THAT(error([](Plan& p) { p.regions[1].core = 64; }), HasSubstr("core 64; the chip has 64 cores"));
    EXPECT_THAT(error([](Plan& p) { p.regions[1].matrix = 1; }), HasSubstr("no matrix 1; the plan has 1"));
    EXPECT_THAT(error([](Plan& p) { p.regions[1].replica = 2; }),
                HasSubstr("no replica 2; the matrix has 2"));
    EXPECT_THAT(error([](Plan& p) { p.regions[1].tile.first_row = 151; }), HasSubstr("rows 151 + 150"));
    EXPECT_THAT(error([](Plan& p) { p.regions[1].tile = p.regions[0].tile; }),
                HasSubstr("replica 0 of matrix 0: its tiles do not cover each weight once"));
    EXPECT_THAT(error([](Plan& p) {
                    p.regions.pop_back();
                    p.scales.pop_back();
                }),
                HasSubstr("replica 1 of matrix 0"));
    EXPECT_THAT(error([](Plan& p) { p.scales.pop_back(); }),
                HasSubstr("3 scales for 4 regions; expected one per region"));
    EXPECT_THAT(error([](Plan& p) { p.scales[0].column_us.pop_back(); }),
                HasSubstr("19 column conductances for 20 columns"));
    EXPECT_THAT(error([](Plan& p) { p.matrices[0].weights(1, 2) = INFINITY; }), HasSubstr("is inf"));
    EXPECT_THAT(error([](Plan& p) { p.matrices[0].inputs = Matrix<float>(2, 3); }),
                HasSubstr("calibration inputs of length 3"));
}

TEST(ProgrammedChip, StatesFollowFromValues) {
    const auto x = placed_normals(20, 8, 7);
    const auto plan = place(chip_preset("hermes-published"), placed_normals(8, 5, 0));
    EXPECT_EQ(state_of(plan), ChipState::mapped);
    const auto ready = calibrated(plan, {.sample = x.view()}, {});
    EXPECT_EQ(state_of(ready), ChipState::calibrated);
    const auto chip = program(ready, 1, {}, {});
    EXPECT_EQ(state_of(chip), ChipState::programmed);
    const auto hour = aged(chip, {.seconds = 3600.0});
    EXPECT_EQ(state_of(hour), ChipState::aged);
    EXPECT_EQ(state_of(chip), ChipState::programmed) << "a separate value";
    const auto corrected = compensated(hour, DriftCompensation::column);
    EXPECT_EQ(state_of(corrected), ChipState::compensated);
    EXPECT_EQ(state_of(compensated(corrected, DriftCompensation::none)), ChipState::aged);
    EXPECT_THAT(error_of([&] { aged(corrected, {.seconds = 60.0}); }),
                HasSubstr("before the chip's current time"));
    EXPECT_THAT(error_of([&] { aged(corrected, {.seconds = -1.0}); }), HasSubstr("-1"));
    const auto later = aged(corrected, {.seconds = 7200.0});
    EXPECT_EQ(state_of(later), ChipState::aged) << "aged after the compensation";
    EXPECT_EQ(state_of(with_calibrated_outputs(later, OutputFit::applied, {})), ChipState::compensated);
    EXPECT_THAT(error_of([&] { with_calibrated_outputs(program(plan, 1, {}, {}), OutputFit::applied, {}); }),
                HasSubstr("without calibration inputs"));
    EXPECT_THAT(error_of([&] { calibrated(plan, {.matrix = 1, .sample = x.view()}, {}); }),
                HasSubstr("no matrix 1; the plan has 1"));
}

TEST(ProgrammedChip, RejectsWeightsAndInputsThatAreNotFinite) {
    auto weights = placed_normals(3, 2, 0);
    weights(1, 1) = std::numeric_limits<float>::quiet_NaN();
    EXPECT_THAT(error_of([&] { place(chip_preset("ideal"), weights); }),
                HasSubstr("weight 1 of output 1 is nan"));
    const auto chip = programmed(chip_preset("hermes-published"), 3, 2);
    auto x = placed_normals(2, 3, 0);
    x(1, 2) = std::numeric_limits<float>::infinity();
    EXPECT_THAT(error_of([&] { products(chip, x); }), HasSubstr("input 2 of row 1 is inf"));
    EXPECT_THAT(error_of([&] { products(chip, placed_normals(2, 4, 0)); }),
                HasSubstr("inputs of length 4; the chip holds a matrix of 3 inputs"));
    const auto plan = place(chip_preset("ideal"), placed_normals(3, 2, 0));
    const Matrix<float> zeros(4, 3);
    EXPECT_THAT(error_of([&] { calibrated(plan, {.sample = zeros.view()}, {}); }),
                HasSubstr("all calibration inputs are 0"));
    EXPECT_THAT(error_of([&] { calibrated(plan, {.sample = zeros.view().slice_rows(0, 0)}, {}); }),
                HasSubstr("no calibration inputs"));
}

// Without errors a chip computes the digital product of its quantised inputs for any tiling.
TEST(ProgrammedChip, IdealChipIsTheDigitalProductToTheLastInputStep) {
    // Nominal outputs, since least squares would fit the input steps.
    const auto chip = program(programmed(chip_preset("ideal"), 300, 280).plan, 3, {}, {});
    const auto x = placed_normals(50, 300, 99);
    const auto y = products(chip, x);
    Matrix<float> quantised(x.rows(), x.cols());
    for (std::size_t t = 0; t < chip.plan.regions.size(); ++t) {
        const auto& tile = chip.plan.regions[t].tile;
        const double range = chip.plan.scales[t].input_range;
        for (std::size_t v = 0; v < x.rows(); ++v) {
            for (std::size_t i = tile.first_row; i < tile.first_row + tile.rows; ++i) {
                const double steps = std::nearbyint(std::clamp(x(v, i) / range, -1.0, 1.0) * 127.0);
                quantised(v, i) = static_cast<float>(steps * range / 127.0);
            }
        }
    }
    const auto exact = exact_products(quantised.view(), chip.plan.matrices[0].weights.view());
    for (std::size_t k = 0; k < exact.values().size(); ++k)
        ASSERT_NEAR(y.values()[k], exact.values()[k], 2e-4) << k;
    const auto digital = digital_products(chip.plan.matrices[0].weights, x.view(), {});
    const auto unquantised = exact_products(x.view(), chip.plan.matrices[0].weights.view());
    for (std::size_t k = 0; k < exact.values().size(); ++k)
        ASSERT_NEAR(digital.values()[k], unquantised.values()[k], 2e-4) << k;
}

TEST(ProgrammedChip, BitsDependOnNeitherThreadsNorBatchesNorTheOrderOfCores) {
    for (const auto replication : {Replication::throughput, Replication::average}) {
        const PlacementConfig placement{.replicas = 3, .replication = replication};
        const auto spec = chip_preset("hermes-published");
        const auto one = programmed(spec, 270, 260, placement, {.threads = 1});
        const auto four = programmed(spec, 270, 260, placement, {.threads = 4});
        const auto x = placed_normals(40, 270, 1234);
        const ProductIds ids{.seed = 8, .first = 5};
        const auto all = products(one, x, ids, {.threads = 1});
        EXPECT_EQ(products(four, x, ids, {.threads = 3}), all);
        FastEmulator emulator(one);
        for (std::size_t first = 0; first < 40; first += 11) {
            const auto rows = std::min<std::size_t>(11, 40 - first);
            const auto part =
                execute(emulator, 0, x.view().slice_rows(first, rows), {.seed = 8, .first = 5 + first}, {}).y;
            for (std::size_t k = 0; k < part.values().size(); ++k)
                ASSERT_EQ(part.values()[k], all.values()[first * 260 + k]);
        }
        // A region programmed alone equals the same region of the whole chip.
        const auto weights = region_weights(one.plan, one.plan.regions[1]);
        const auto alone = program_region(spec, weights.view(), one.plan.scales[1], {.seed = 3, .core = 1});
        EXPECT_EQ(alone.plus.g_us, one.regions[1].plus.g_us);
    }
}

// n independent copies have 1/n of the variance of one; systematic errors of inputs remain.
TEST(ProgrammedChip, AveragingCopiesLowersTheErrorByTheRootOfTheirNumber) {
    const auto x = placed_normals(400, 64, 777);
    const auto error = [&](int replicas, Replication replication) {
        const auto chip = programmed(chip_preset("hermes-published"), 64, 64,
                                     {.replicas = replicas, .replication = replication});
        return relative_error(chip, x, {.seed = 1});
    };
    const double one = error(1, Replication::average);
    const double sixteen = error(16, Replication::average);
    EXPECT_NEAR(sixteen / one, 0.25, 0.05);
    EXPECT_NEAR(error(16, Replication::throughput) / one, 1.0, 0.1);
}

// Mean error in output steps, and slope of outputs against exact products.
struct Centring {
    double mean_steps = 0.0;
    double slope = 0.0;
};
Centring centring(ProgrammedChip& chip, OutputFit fit) {
    chip = with_calibrated_outputs(std::move(chip), fit, {});
    const auto& weights = chip.plan.matrices[0].weights;
    const auto x = placed_normals(2000, weights.rows(), 4321);
    const auto y = products(chip, x, {.seed = 2});
    const auto exact = exact_products(x.view(), weights.view());
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
    return {.mean_steps = sum / n / chip.plan.scales[0].output_step, .slope = products / squares};
}

TEST(OutputFit, CentredCorrectsTheHalfStepLostByRoundingDown) {
    auto chip = programmed(chip_preset("hermes"), 32, 64);
    EXPECT_NEAR(centring(chip, OutputFit::applied).mean_steps, -0.5, 0.1);
    EXPECT_NEAR(centring(chip, OutputFit::centred).mean_steps, 0.0, 0.1);
    EXPECT_NEAR(centring(chip, OutputFit::centred).mean_steps, 0.0, 0.1) << "not added twice";
}

TEST(OutputFit, CentredCorrectsTruncatedInputs) {
    auto spec = chip_preset("ideal");
    spec.core.dac.levels = 31;
    spec.core.dac.rounding = InputRounding::truncate;
    auto chip = programmed(spec, 32, 64);
    // A step is about 4 standard deviations / 31; half of it is lost from inputs of 0.8 standard
    // deviations on average.
    EXPECT_LT(centring(chip, OutputFit::applied).slope, 0.95);
    EXPECT_NEAR(centring(chip, OutputFit::centred).slope, 1.0, 0.01);
}

TEST(OutputFit, CentredEqualsLeastSquaresIfRoundingIsToNearest) {
    auto spec = chip_preset("hermes");
    spec.core.dac.rounding = InputRounding::nearest;
    spec.core.affine.rounding = OutputRounding::nearest;
    const auto chip = programmed(spec, 32, 16);
    const auto centred = with_calibrated_outputs(chip, OutputFit::centred, {});
    for (std::size_t c = 0; c < 16; ++c) {
        EXPECT_EQ(centred.regions[0].affine.columns[c].scale, chip.regions[0].affine.columns[c].scale);
        EXPECT_EQ(centred.regions[0].affine.columns[c].offset, chip.regions[0].affine.columns[c].offset);
    }
    spec.core.affine.rounding = OutputRounding::floor;
    spec.core.affine.output_bits = 0;
    const auto unrounded = programmed(spec, 32, 16);
    const auto again = with_calibrated_outputs(unrounded, OutputFit::centred, {});
    EXPECT_EQ(again.regions[0].affine.columns[3].offset, unrounded.regions[0].affine.columns[3].offset)
        << "without steps nothing is rounded down";
}

TEST(ProgrammedChip, CalibratedOutputsUndoDrift) {
    auto chip = programmed(chip_preset("hermes-published"), 128, 128);
    const auto x = placed_normals(300, 128, 4321);
    const double fresh = relative_error(chip, x);
    chip = aged(std::move(chip), {.seconds = 86400.0});
    const double aged = relative_error(chip, x);
    EXPECT_GT(aged, 1.5 * fresh);
    chip = with_calibrated_outputs(std::move(chip), OutputFit::applied, {});
    const double again = relative_error(chip, x);
    EXPECT_LT(again, aged);
    EXPECT_LT(again, 1.6 * fresh);
}

}  // namespace
}  // namespace imka
