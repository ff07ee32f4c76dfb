// Ω on a chip: results of a perfect chip; bits depend only on seeds and rows.
#include "imka/features/project_chip.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <memory>
#include <set>

#include "imka/base/file.hpp"
#include "imka/base/random.hpp"
#include "imka/chip/simulate/emulator.hpp"
#include "imka/deploy/recording.hpp"
#include "support/error.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Matrix<float> chip_inputs(std::size_t rows, std::size_t d) {
    Matrix<float> x(rows, d);
    for (std::size_t i = 0; i < x.values().size(); ++i) x.values()[i] = normal(11, Stream::test, i);
    return x;
}

FeatureRecipe recipe_of(Kernel kernel, std::int64_t d, std::int64_t m) {
    return {.omega = {.kernel = kernel, .gamma = 0.1, .sampler = Sampler::rff, .d = d, .m = m, .seed = 5}};
}

struct Case {
    FeatureRecipe recipe;
    Matrix<float> omega;
    Matrix<float> x;
    ChipSpec chip;
    BuildConfig config;
    std::uint64_t chip_seed = 3;
    std::uint64_t product_seed = 4;

    ProjectionJob job() const {
        return {.chip = chip, .omega = omega, .inputs = x.view(), .config = config, .seed = chip_seed};
    }
    Matrix<float> features(const Exec& exec = {}) const {
        return chip_feature_map(recipe, job(), exec).map.transform(x.view(), {.seed = product_seed}, exec);
    }
};

Case make_case(const std::string& chip, Kernel kernel = Kernel::rbf, std::size_t rows = 700) {
    Case c{.recipe = recipe_of(kernel, 12, 40), .chip = chip_preset(chip)};
    c.omega = sample(c.recipe.omega);
    c.x = chip_inputs(rows, 12);
    return c;
}

TEST(ChipProjector, PerfectChipMatchesDigitalWithInt8Inputs) {
    auto c = make_case("ideal", Kernel::rbf, 256);
    // Fitted scales would compensate for the average rounding error of the inputs.
    c.config.output_calibration = OutputCalibration::nominal;
    const auto projector = make_chip_projector(c.job(), Exec{});
    ASSERT_EQ(projector->inputs(), 12U);
    ASSERT_EQ(projector->outputs(), 40U);
    Matrix<float> u(256, 40);
    projector->project(c.x.view(), {}, {}, u.view());
    double range = 0.0;
    for (const float v : c.x.values()) range = std::max<double>(range, std::abs(v));
    for (std::size_t r = 0; r < 256; ++r) {
        for (std::size_t j = 0; j < 40; ++j) {
            double quantized = 0.0;
            double size = 0.0;
            for (std::size_t i = 0; i < 12; ++i) {
                const double step = std::nearbyint(static_cast<double>(c.x(r, i)) / range * 127.0);
                quantized += step / 127.0 * range * c.omega(j, i);
                size += std::abs(c.omega(j, i)) * range;
            }
            ASSERT_NEAR(u(r, j), quantized, 1e-5 * size) << "row " << r << ", output " << j;
        }
    }
}

TEST(ChipFeatureMap, PerfectChipIsWithinAnInputStepOfDigital) {
    for (const auto kernel : {Kernel::rbf, Kernel::softmax}) {
        const auto c = make_case("ideal", kernel);
        const auto z = c.features();
        const auto exact = FeatureMap(c.recipe).transform(c.x.view(), Exec{});
        double error = 0.0;
        double norm = 0.0;
        for (std::size_t i = 0; i < z.values().size(); ++i) {
            error += std::pow(z.values()[i] - exact.values()[i], 2);
            norm += std::pow(exact.values()[i], 2);
        }
        // The range is about 3.9 standard deviations, a step 1/127 of it; rounding adds an error of 1 /
        // sqrt(12) steps, 0.009 standard deviations, to every input.
        EXPECT_LT(std::sqrt(error / norm), 0.03) << to_string(kernel);
        EXPECT_GT(error, 0.0) << to_string(kernel);
    }
}

TEST(ChipFeatureMap, BitsDoNotDependOnThreadsOrBatches) {
    const auto c = make_case("hermes");
    const auto all = c.features(Exec{.threads = 1});
    EXPECT_EQ(all, c.features(Exec{.threads = 7}));
    const auto map = chip_feature_map(c.recipe, c.job(), Exec{}).map;
    for (const std::size_t batch : {1U, 100U, 256U, 333U}) {
        Matrix<float> z(c.x.rows(), map.features());
        for (std::size_t first = 0; first < c.x.rows(); first += batch) {
            const auto count = std::min(batch, c.x.rows() - first);
            map.transform(c.x.view().slice_rows(first, count), {c.product_seed, first}, Exec{},
                          z.view().slice_rows(first, count));
        }
        EXPECT_EQ(z, all) << batch;
    }
}

TEST(ChipFeatureMap, ChipAndProductsHaveSeparateSeeds) {
    auto c = make_case("hermes-published");
    const auto first = c.features();
    EXPECT_EQ(first, c.features());
    c.product_seed = 5;
    const auto read_again = c.features();
    EXPECT_NE(read_again, first);
    c.chip_seed = 4;
    c.product_seed = 4;
    const auto other_chip = c.features();
    EXPECT_NE(other_chip, first);
    // New read noise changes less than another chip.
    const auto distance = [&](const Matrix<float>& z) {
        double sum = 0.0;
        for (std::size_t i = 0; i < z.values().size(); ++i)
            sum += std::pow(z.values()[i] - first.values()[i], 2);
        return sum;
    };
    EXPECT_LT(distance(read_again), 0.7 * distance(other_chip));
}

TEST(ChipFeatureMap, ReachesTheRequestedState) {
    auto c = make_case("hermes");
    const auto state = [&] { return chip_feature_map(c.recipe, c.job(), Exec{}).state; };
    EXPECT_EQ(state(), ChipState::programmed);
    c.config.read_seconds = 3600.0;
    EXPECT_EQ(state(), ChipState::aged);
    for (const auto kind : {AgeCompensation::global, AgeCompensation::column, AgeCompensation::outputs}) {
        c.config.compensation = kind;
        EXPECT_EQ(state(), ChipState::compensated);
    }
    c.config.placement.replicas = 3;
    EXPECT_EQ(chip_feature_map(c.recipe, c.job(), Exec{}).cores, 3U);
}

TEST(ChipFeatureMap, EverySettingMatters) {
    // Each of these changes the features; the chip has everything they act on.
    std::set<std::vector<float>> seen;
    const auto add = [&](const std::string& name, const std::string& text) {
        auto c =
            make_case("hermes", Kernel::rbf, 3000);  // enough for the quantile to differ from the maximum
        c.config.read_seconds = 1000.0;
        if (!name.empty()) set_field(fields(c.config), name, text);
        const auto z = c.features();
        EXPECT_TRUE(seen.emplace(z.values().begin(), z.values().end()).second) << name << " " << text;
    };
    add("", "");
    add("input_range", "quantile");
    add("input_range", "search");
    add("input_alpha", "2");
    add("calibration_inputs", "50");
    add("programming", "max_set_fill");
    add("output_calibration", "nominal");
    add("output_calibration", "centred");
    add("read_seconds", "1e5");
    add("read_spacing", "1");
    add("compensation", "global");
    add("compensation", "column");
    add("compensation", "outputs");
    add("replicas", "2");
}

TEST(BuildConfig, RefusesInvalidValues) {
    const auto error = [](const std::string& name, const std::string& text) {
        BuildConfig config;
        return error_of([&] {
            set_field(fields(config), name, text);
            validate(config);
        });
    };
    EXPECT_THAT(error("read_seconds", "-1"), HasSubstr("read_seconds: -1 is out of range; it must be >= 0"));
    EXPECT_THAT(error("read_spacing", "-1"), HasSubstr("read_spacing: -1"));
    EXPECT_THAT(error("input_alpha", "0"), HasSubstr("input_alpha: 0; it must be > 0, or -1"));
    EXPECT_THAT(error("input_alpha", "-0.5"), HasSubstr("input_alpha: -0.5"));
    EXPECT_EQ(error("input_alpha", "-1"), "no error");
    EXPECT_THAT(error("calibration_inputs", "0"), HasSubstr("calibration_inputs: 0"));
    EXPECT_THAT(error("compensation", "some"), HasSubstr("none, global, column, outputs"));
    BuildConfig both;
    both.input_alpha = 2.0;
    both.input_range = InputRangeRule::quantile;
    EXPECT_THAT(error_of([&] { validate(both); }), HasSubstr("input_range deviation, not quantile"));
}

TEST(ChipFeatureMap, ReportsWhatDoesNotFit) {
    auto c = make_case("hermes");
    c.chip.cores = 2;
    c.config.placement.replicas = 5;
    EXPECT_THAT(error_of([&] { (void)c.features(); }), HasSubstr("3 missing"));
    auto bad = make_case("hermes");
    const auto map = chip_feature_map(bad.recipe, bad.job(), Exec{}).map;
    bad.x(3, 1) = std::numeric_limits<float>::quiet_NaN();
    EXPECT_THAT(error_of([&] { (void)map.transform(bad.x.view(), Exec{}); }),
                HasSubstr("input row 3: feature 1 is not a finite number"));
}

TEST(DerivedSeed, NoTwoAreEqual) {
    std::set<std::uint64_t> seeds;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        for (std::uint32_t purpose = 0; purpose < 20; ++purpose) seeds.insert(derived_seed(seed, purpose));
    }
    EXPECT_EQ(seeds.size(), 2000U);
}

// Results share one range: rows with a smaller norm use only a part of it, unless they are scaled.
TEST(ChipFeatureMap, RangeScalingRoundsResultsFiner) {
    auto c = make_case("hermes");
    for (std::size_t k = 0; k < c.omega.cols(); ++k) c.omega(0, k) *= 0.05F;
    const auto error = [&](bool scaled) {
        c.config.range_scaling = scaled;
        const auto projector = make_chip_projector(c.job(), {});
        const auto& x = c.x;
        Matrix<float> u(x.rows(), c.omega.rows());
        projector->project(x.view(), {}, {}, u.view());
        double sum = 0.0;
        for (std::size_t r = 0; r < x.rows(); ++r) {
            double exact = 0.0;
            for (std::size_t k = 0; k < x.cols(); ++k) exact += double{x(r, k)} * c.omega(0, k);
            sum += std::pow(u(r, 0) - exact, 2);
        }
        return std::sqrt(sum);
    };
    EXPECT_LT(error(true), 0.3 * error(false));
}

TEST(ChipFeatureMap, LostRowsAreZero) {
    auto c = make_case("hermes");
    const auto whole = c.features();
    c.config.lost_rows = 5;
    const auto z = c.features();
    for (std::size_t r = 0; r < z.rows(); ++r) {
        const bool lost = r % 5 == 4;
        EXPECT_EQ(std::ranges::equal(z.row(r), whole.row(r)), !lost) << r;
    }
    EXPECT_NE(z, whole);
}

TEST(ChipFeatureMap, RecordsTheTrace) {
    const auto c = make_case("hermes");
    const auto map = chip_feature_map(c.recipe, c.job(), Exec{}).map;
    const auto trace = [&](int threads) {
        Trace sum;
        (void)map.transform(c.x.view(), Exec{.threads = threads, .trace = &sum});
        return sum;
    };
    const auto one = trace(1);
    EXPECT_EQ(one.core_products, std::vector<std::uint64_t>{700});
    EXPECT_EQ(one.inputs, 700U * 12);
    EXPECT_GT(one.conversions, 0U);
    EXPECT_EQ(trace(7), one);
}

FeatureMap map_on(const Case& c, std::unique_ptr<ChipDriver> driver) {
    return {c.recipe, std::make_unique<ChipProjector>(std::move(driver), 0)};
}

TEST(Recording, ReplaysAFeatureMapWithoutAnEmulator) {
    const TempDir folder;
    const auto c = make_case("hermes");
    const ProductIds ids{.seed = std::uint64_t{1} << 63U, .first = 5};
    Matrix<float> z;
    Trace trace;
    {
        auto recorder =
            std::make_unique<RecordingDriver>(std::make_unique<FastEmulator>(build_chip(c.job(), {}).chip));
        const auto& recording = recorder->recording();
        const auto map = map_on(c, std::move(recorder));
        z = map.transform(c.x.view(), ids, Exec{.threads = 3, .trace = &trace});
        save_recording(folder / "run", recording);
    }
    const auto map = map_on(c, std::make_unique<ReplayingDriver>(load_recording(folder / "run")));
    Trace replayed;
    EXPECT_EQ(map.transform(c.x.view(), ids, Exec{.threads = 2, .trace = &replayed}), z);
    EXPECT_EQ(replayed, trace);

    const auto error = [&](const Matrix<float>& x, const ProductIds& other) {
        return error_of([&] { (void)map.transform(x.view(), other, Exec{.threads = 1}); });
    };
    EXPECT_THAT(error(c.x, {.seed = ids.seed, .first = 6}), HasSubstr("bad_usage: products 6 to 262"));
    EXPECT_THAT(error(c.x, {.seed = 1, .first = 5}), HasSubstr("not in the recording"));
    auto x = c.x;
    x(3, 2) = std::nextafter(x(3, 2), 9.0F);
    EXPECT_THAT(error(x, ids), HasSubstr("recorded with different inputs"));
}

TEST(Recording, TruncatedOrChangedIsAnError) {
    const TempDir folder;
    const auto c = make_case("hermes", Kernel::rbf, 30);
    RecordingDriver recorder(std::make_unique<FastEmulator>(build_chip(c.job(), {}).chip));
    for (const std::size_t first : {0U, 10U})
        (void)execute(recorder, 0, c.x.view().slice_rows(first, 10), {.seed = 1, .first = first}, {});
    save_recording(folder / "run", recorder.recording());
    const auto good = read_file(folder / "run", std::size_t{1} << 24U);
    const auto error = [&](const std::string& bytes) {
        std::ofstream(folder / "bad", std::ios::binary) << bytes;
        return error_of([&] { load_recording(folder / "bad"); });
    };
    EXPECT_EQ(error(good), "no error");
    for (std::size_t part = 0; part < 20; ++part)
        EXPECT_THAT(error(good.substr(0, good.size() * part / 20)), StartsWith("bad_data: ")) << part;
    for (std::size_t at = 0; at < good.size(); at += 53) {
        auto bad = good;
        bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
        EXPECT_THAT(error(bad), StartsWith("bad_data: ")) << at;
    }
    EXPECT_THAT(error_of([&] { save_recording(folder / "no" / "run", recorder.recording()); }),
                StartsWith("io: "));
}

}  // namespace
}  // namespace imka
