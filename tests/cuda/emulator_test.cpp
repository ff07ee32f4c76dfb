// The emulator on a GPU compared with the one on the processor.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "cuda/devices.hpp"
#include "imka/base/random.hpp"
#include "imka/chip/build.hpp"
#include "imka/chip/simulate/cuda_emulator.hpp"
#include "imka/chip/simulate/emulator.hpp"
#include "imka/cuda/gpu.hpp"
#include "imka/cuda/memory.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

Matrix<float> normals(std::size_t rows, std::size_t cols, std::uint64_t first) {
    Matrix<float> m(rows, cols);
    fill_normal(21, Stream::test, first, m.values());
    return m;
}

// A chip and the shape of the matrix on it.
struct ChipCase {
    std::string name;
    void (*change)(ChipSpec&) = [](ChipSpec&) {};
    std::string preset = "hermes";
    std::size_t inputs = 256;
    std::size_t outputs = 256;
    std::size_t rows = 300;
    PlacementConfig placement = {};
};

void one_phase(ChipSpec& s) {
    s.core.read_mode = ReadMode::one_phase;
}

void linear(ChipSpec& s) {
    s.core.adc.rounding = AdcRounding::none;
    s.core.adc.max_count = 0;
}

void small_cores(ChipSpec& s) {
    s.core.rows = 70;
    s.core.cols = 37;
}

ProgrammedChip chip_of(const ChipCase& c) {
    auto spec = chip_preset(c.preset);
    c.change(spec);
    const auto sample = normals(200, c.inputs, 500'000);
    return build_chip(BuildJob{.chip = spec,
                               .weights = normals(c.inputs, c.outputs, 0),
                               .sample = sample.view(),
                               .steps = {.placement = c.placement,
                                         .time = {.seconds = 1e4},
                                         .compensation = AgeCompensation::column},
                               .seed = 2},
                      kCpu);
}

const std::vector<ChipCase>& cases() {
    static const std::vector<ChipCase> list = {
        {.name = "four_phases"},
        {.name = "one_phase", .change = one_phase},
        {.name = "linear", .change = linear},
        {.name = "linear_one_phase",
         .change =
             [](ChipSpec& s) {
                 one_phase(s);
                 linear(s);
             }},
        // Offsets and noise near zero: some rows take the linear fold, others the exact one.
        {.name = "mixed_folds",
         .change =
             [](ChipSpec& s) {
                 linear(s);
                 s.core.adc.offset_sd_counts = 2.0;
                 s.core.adc.noise_counts = 12.0;
             },
         .inputs = 40},
        {.name = "published", .preset = "hermes-published"},
        {.name = "ideal", .preset = "ideal"},
        {.name = "pcm_like", .preset = "pcm-like"},
        {.name = "polarity",
         .change =
             [](ChipSpec& s) {
                 one_phase(s);
                 s.core.polarity_asymmetry = 0.1;
                 s.core.adc.polarity_error_counts = 0.7;
                 s.core.adc.negative_gain_sd = 0.05;
                 s.core.adc.offset_sd_counts = 1.0;
             }},
        {.name = "bits_without_read_noise",
         .change =
             [](ChipSpec& s) {
                 s.core.dac.encoding = InputEncoding::bit_serial;
                 s.device.read_noise_fresh_scale = 0.0;
             }},
        {.name = "bits_one_phase",
         .change =
             [](ChipSpec& s) {
                 one_phase(s);
                 s.core.dac.encoding = InputEncoding::bit_serial;
                 s.device.read_noise_fresh_scale = 0.0;
             }},
        {.name = "rounded_results_soft_limit",
         .change =
             [](ChipSpec& s) {
                 s.core.adc.rounding = AdcRounding::round;
                 s.core.affine.rounding = OutputRounding::nearest;
                 s.core.affine.limit.shape = LimitShape::soft;
                 s.core.dac.rounding = InputRounding::nearest;
                 s.core.adc.output_floor = true;
             }},
        {.name = "many_tiles", .change = small_cores, .inputs = 150, .outputs = 100},
        {.name = "copies_share",
         .change = small_cores,
         .inputs = 90,
         .outputs = 50,
         .placement = {.replicas = 3}},
        {.name = "copies_average",
         .change = small_cores,
         .inputs = 90,
         .outputs = 50,
         .placement = {.replicas = 3, .replication = Replication::average}},
        {.name = "long_regions",
         .change = [](ChipSpec& s) { s.core.rows = 512; },
         .inputs = 500,
         .outputs = 40},
        {.name = "one_row", .rows = 1},
        {.name = "one_input", .inputs = 1, .outputs = 3, .rows = 70},
    };
    return list;
}

class CudaEmulator : public testing::TestWithParam<ChipCase> {};

// Largest value of one output step, over the regions.
double largest_step(const ProgrammedChip& chip) {
    double step = 0.0;
    for (const auto& region : chip.regions) {
        for (const double c : region.compensation) step = std::max(step, c * region.affine.output_step);
    }
    return step;
}

// Without rounding, results are continuous and differ by the errors of float arithmetic.
bool rounds(const ChipSpec& spec) {
    return spec.core.affine.output_bits > 0;
}

TEST_P(CudaEmulator, AgreesWithTheProcessor) {
    if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    const auto chip = chip_of(GetParam());
    const auto x = normals(GetParam().rows, GetParam().inputs, 900'000);
    const ProductIds ids{.seed = 77, .first = 5};
    const auto gpu = execute(*make_emulator(chip, Simulator::fast, kGpu), 0, x.view(), ids, kGpu);
    const auto cpu = execute(*make_emulator(chip, Simulator::fast, kCpu), 0, x.view(), ids, kCpu);
    std::size_t different = 0;
    double largest = 0.0;
    double scale = 0.0;
    for (std::size_t i = 0; i < cpu.y.values().size(); ++i) {
        const double difference = std::abs(double{cpu.y.values()[i]} - gpu.y.values()[i]);
        scale = std::max(scale, std::abs(double{cpu.y.values()[i]}));
        largest = std::max(largest, difference);
        if (difference > 1e-5 * scale) ++different;
    }
    EXPECT_GT(scale, 0.0);
    const double share = static_cast<double>(different) / static_cast<double>(cpu.y.values().size());
    RecordProperty("different", std::to_string(share));
    fmt::print("{}: {:.2e} of the results differ, the largest by {:.3g} steps\n", GetParam().name, share,
               largest / largest_step(chip));
    EXPECT_LE(share, 2e-3);
    if (rounds(chip.plan.spec)) {
        EXPECT_LE(largest, 1.01 * largest_step(chip));
    } else {
        EXPECT_LE(largest, 1e-2 * scale);
    }
    auto trace = gpu.trace;
    const auto near = [&](std::uint64_t a, std::uint64_t b) {
        return std::abs(static_cast<double>(a) - static_cast<double>(b)) <=
               5.0 + 1e-3 * static_cast<double>(a);
    };
    EXPECT_TRUE(near(cpu.trace.saturated, trace.saturated)) << cpu.trace.saturated << " " << trace.saturated;
    EXPECT_TRUE(near(cpu.trace.limited, trace.limited)) << cpu.trace.limited << " " << trace.limited;
    trace.saturated = cpu.trace.saturated;
    trace.limited = cpu.trace.limited;
    EXPECT_EQ(trace, cpu.trace);
}

TEST_P(CudaEmulator, HasTheSameBitsInAnyBatch) {
    if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    const auto chip = chip_of(GetParam());
    const auto x = normals(GetParam().rows, GetParam().inputs, 900'000);
    const auto driver = make_emulator(chip, Simulator::fast, kGpu);
    const auto whole = execute(*driver, 0, x.view(), {.seed = 7, .first = 1}, kGpu).y;
    const auto again = execute(*driver, 0, x.view(), {.seed = 7, .first = 1}, kGpu).y;
    EXPECT_TRUE(std::ranges::equal(whole.values(), again.values()));
    const std::size_t cut = GetParam().rows / 3;
    const auto rest = x.view().slice_rows(cut, GetParam().rows - cut);
    const auto part = execute(*driver, 0, rest, {.seed = 7, .first = 1 + cut}, kGpu).y;
    for (std::size_t r = 0; r < part.rows(); ++r)
        ASSERT_TRUE(std::ranges::equal(part.row(r), whole.row(cut + r))) << r;
}

INSTANTIATE_TEST_SUITE_P(Chips, CudaEmulator, testing::ValuesIn(cases()),
                         [](const auto& tested) { return tested.param.name; });

TEST(CudaEmulatorRegions, ShareACoreAtAnyOrigin) {
    if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    // Columns 5 and 43 of core 2: their converter numbers are not multiples of 4.
    auto spec = chip_preset("hermes");
    Plan plan{.spec = spec};
    const std::uint32_t cols[] = {5, 43};
    for (std::uint32_t m = 0; m < 2; ++m) {
        plan.matrices.push_back({.weights = normals(60, 33, std::uint64_t{1000} * m)});
        plan.regions.push_back(
            {.matrix = m, .core = 2, .row = 30 * m, .col = cols[m], .tile = {.rows = 60, .cols = 33}});
        plan.scales.push_back({.column_us = std::vector<double>(33, spec.device.g_max_us)});
    }
    const auto sample = normals(60, 60, 700'000);
    for (std::uint32_t m = 0; m < 2; ++m)
        plan = calibrated(std::move(plan), {.matrix = m, .sample = sample.view(), .seed = 5}, kCpu);
    const auto chip =
        with_calibrated_outputs(program(std::move(plan), 5, {}, kCpu), OutputFit::applied, kCpu);
    const auto gpu = make_emulator(chip, Simulator::fast, kGpu);
    const auto cpu = make_emulator(chip, Simulator::fast, kCpu);
    const auto x = normals(50, 60, 900'000);
    for (std::uint32_t m = 0; m < 2; ++m) {
        const auto a = execute(*gpu, m, x.view(), {.seed = 3}, kGpu).y;
        const auto b = execute(*cpu, m, x.view(), {.seed = 3}, kCpu).y;
        std::size_t different = 0;
        for (std::size_t i = 0; i < a.values().size(); ++i)
            different += a.values()[i] != b.values()[i] ? 1 : 0;
        EXPECT_LE(different, a.values().size() / 200);
    }
}

TEST(CudaEmulatorErrors, AreThoseOfTheProcessor) {
    if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    const auto chip = chip_of({.name = "", .inputs = 20, .outputs = 10});
    const auto driver = make_cuda_emulator(chip, kGpu);
    auto x = normals(4, 20, 0);
    EXPECT_THAT(error_of([&] { execute(*driver, 1, x.view(), {}, kGpu); }), testing::StartsWith("bad_usage"));
    EXPECT_THAT(error_of([&] { execute(*driver, 0, x.view(), {.first = (1ULL << 32U) - 2}, kGpu); }),
                testing::HasSubstr("numbers must be below 2^32"));
    EXPECT_EQ(execute(*driver, 0, x.view().slice_rows(0, 0), {}, kGpu).y.rows(), 0U);
    x(2, 3) = std::numeric_limits<float>::quiet_NaN();
    const cuda::Buffer<float> in(0, x.values());
    const cuda::Buffer<float> out(0, 40);
    EXPECT_THAT(
        error_of([&] { driver->multiply_on_gpu(0, {.x = in.data(), .y = out.data(), .rows = 4}, {}); }),
        testing::StartsWith("bad_data: 1 inputs are not finite"));
}

}  // namespace
}  // namespace imka
