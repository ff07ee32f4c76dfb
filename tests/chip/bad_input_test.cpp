// Every entry point rejects invalid input with an error that names it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "imka/base/random.hpp"
#include "imka/chip/build.hpp"
#include "imka/chip/program/calibrate.hpp"
#include "imka/chip/simulate/emulator.hpp"
#include "imka/chip/simulate/fast.hpp"
#include "imka/chip/simulate/literal.hpp"
#include "imka/chip/spec/chip_fields.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

const Exec kExec{.threads = 1};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

Matrix<float> normals(std::size_t rows, std::size_t cols) {
    Matrix<float> m(rows, cols);
    fill_normal(1, Stream::test, 0, m.values());
    return m;
}

ProgrammedRegion core_of(const Matrix<float>& w, const RegionScale& mapping) {
    const auto chip = chip_preset("hermes");
    return program_region(chip, w.view(), mapping, {});
}

ProgrammedChip programmed() {
    const auto sample = normals(20, 4);
    const auto plan = place(chip_preset("hermes"), normals(4, 3));
    return program(calibrated(plan, {.sample = sample.view(), .seed = 1}, kExec), 1, {}, kExec);
}

TEST(BadInput, EveryReaderRejectsInvalidTimes) {
    const auto core = core_of(normals(4, 3), {.column_us = {5.0, 5.0, 5.0}});
    const auto x = normals(2, 4);
    for (const double bad : {-1.0, kNan, kInfinite, -kInfinite}) {
        for (const auto& time : {ReadTime{.seconds = bad}, ReadTime{.spacing_seconds = bad}}) {
            const auto refused = AllOf(StartsWith("bad_config: time "), HasSubstr("it must be >= 0"));
            EXPECT_THAT(error_of([&] { validate(time); }), refused);
            EXPECT_THAT(error_of([&] { prepare(core, time); }), refused);
            EXPECT_THAT(error_of([&] { literal_products(core, x.view(), time, {}); }), refused);
            EXPECT_THAT(error_of([&] { conductances_at(core.device, core.plus, time); }), refused);
            auto copy = core;
            EXPECT_THAT(error_of([&] { compensate_drift(DriftCompensation::global, time, copy); }), refused);
            EXPECT_THAT(error_of([&] { aged(programmed(), time); }), refused);
        }
    }
}

TEST(BadInput, EveryUserOfWeightsRejectsInvalidOnes) {
    for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
        auto w = normals(4, 3);
        w(2, 1) = bad;
        EXPECT_THAT(error_of([&] {
                        core_of(w, {.column_us = {5.0, 5.0, 5.0}});
                    }),
                    HasSubstr("bad_data: weight of input 2, output 1"));
        EXPECT_THAT(error_of([&] { place(chip_preset("ideal"), w); }), StartsWith("bad_data: weight 2"));
        EXPECT_THAT(
            error_of([&] { calibrate_scale(chip_preset("hermes"), w.view(), normals(9, 4).view(), {}); }),
            HasSubstr("bad_data: weight of input 2, output 1"));
    }
}

TEST(BadInput, EveryUserOfInputsRejectsInvalidOnes) {
    const auto chip = programmed();
    FastEmulator emulator(chip);
    for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
        auto x = normals(3, 4);
        x(2, 3) = bad;
        EXPECT_THAT(error_of([&] { literal_products(chip.regions[0], x.view(), {}, {}); }),
                    HasSubstr("bad_data: input 3"));
        EXPECT_THAT(error_of([&] { fast_products(prepare(chip.regions[0], {}), x.view(), {}, kExec); }),
                    HasSubstr("bad_data: input 3"));
        EXPECT_THAT(error_of([&] { execute(emulator, 0, x.view(), {}, kExec); }), StartsWith("bad_data: "));
        const auto plan = place(chip_preset("hermes"), normals(4, 3));
        EXPECT_THAT(error_of([&] { calibrated(plan, {.sample = x.view()}, kExec); }),
                    HasSubstr("not finite"));
    }
}

TEST(BadInput, RangesMustBePositive) {
    const auto w = normals(4, 3);
    for (const double bad : {0.0, -1.0, kNan, kInfinite}) {
        const std::vector<double> us = {5.0, 5.0, 5.0};
        EXPECT_THAT(error_of([&] { core_of(w, {.column_us = us, .input_range = bad}); }),
                    HasSubstr("bad_config: input range"));
        EXPECT_THAT(error_of([&] { core_of(w, {.column_us = us, .output_step = bad}); }),
                    HasSubstr("bad_config: output step"));
        EXPECT_THAT(error_of([&] {
                        core_of(w, {.column_us = {5.0, bad, 5.0}});
                    }),
                    HasSubstr("bad_config: conductance of column 1"));
    }
    EXPECT_THAT(error_of([&] {
                    core_of(w, {.column_us = {5.0, 30.0, 5.0}});
                }),
                HasSubstr("must be from 0 to 20.7 uS"));
}

TEST(BadInput, ConstantsOutOfRangeLeaveTheChipAsItWas) {
    auto chip = chip_preset("hermes");
    const auto before = chip_hash(chip);
    for (const auto* setting :
         {"core.adc_noise=-1", "core.input_jitter=-1", "core.polarity_error=-0.5", "core.offset_mean=inf",
          "core.input_rounding=up", "core.output_floor=2", "core.phase_overhead=-1e-9",
          "core.one_phase_power=nan", "device.g_max=0", "core.adc_nose=1", "chip.cores=0", "core.adc_noise",
          "core.rows=1,core.cols=0"}) {
        EXPECT_THAT(error_of([&] { set_constants(chip, setting); }), StartsWith("bad_config: ")) << setting;
        EXPECT_EQ(chip_hash(chip), before) << setting;
    }
    set_constants(chip, "core.input_jitter=0.5,core.input_rounding=truncate,core.output_floor=true");
    EXPECT_EQ(chip.core.dac.jitter_steps, 0.5);
    EXPECT_EQ(chip.core.dac.rounding, InputRounding::truncate);
    EXPECT_TRUE(chip.core.adc.output_floor);
}

}  // namespace
}  // namespace imka
