// Emulated chips: the literal simulator compared with the fast one, several matrices on one core, and
// traces.
#include "imka/chip/simulate/emulator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "imka/base/random.hpp"
#include "imka/chip/build.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

const Exec kExec{.threads = 1};

Matrix<float> normals(std::size_t rows, std::size_t cols, std::uint64_t first) {
    Matrix<float> m(rows, cols);
    fill_normal(21, Stream::test, first, m.values());
    return m;
}

// 50 x 30 on cores of 20 x 16: 3 x 2 tiles. Nothing is fresh, so both simulators agree on every product.
ProgrammedChip frozen_chip(const PlacementConfig& placement) {
    auto spec = chip_preset("hermes-published");
    spec.core.rows = 20;
    spec.core.cols = 16;
    spec.core.adc.noise_counts = 0.0;
    spec.device.read_noise_fresh_scale = 0.0;
    const auto sample = normals(200, 50, 500'000);
    return build_chip(BuildJob{.chip = spec,
                               .weights = normals(50, 30, 0),
                               .sample = sample.view(),
                               .steps = {.placement = placement,
                                         .time = {.seconds = 1e5},
                                         .compensation = AgeCompensation::column},
                               .seed = 2},
                      kExec);
}

TEST(LiteralEmulator, AgreesWithTheFastOneWithoutFreshNoise) {
    const auto x = normals(25, 50, 900'000);
    for (const auto replication : {Replication::throughput, Replication::average}) {
        const auto chip = frozen_chip({.replicas = 3, .replication = replication});
        const auto fast =
            execute(*make_emulator(chip, Simulator::fast), 0, x.view(), {.seed = 1, .first = 4}, kExec);
        const auto literal = execute(*make_emulator(chip, Simulator::literal), 0, x.view(),
                                     {.seed = 1, .first = 4}, {.threads = 2});
        std::size_t different = 0;
        for (std::size_t i = 0; i < fast.y.values().size(); ++i) {
            // A count that float arithmetic rounds to a different integer changes an output by one step.
            if (std::abs(fast.y.values()[i] - literal.y.values()[i]) > 1e-3F) ++different;
        }
        EXPECT_LE(different, fast.y.values().size() / 50) << to_string(replication);
        EXPECT_GT(literal.trace.conversions, 0U);
        auto counted = literal.trace;
        counted.saturated = fast.trace.saturated;  // again a count rounded to a different integer
        EXPECT_EQ(counted, fast.trace);
    }
}

TEST(LiteralEmulator, SameBitsForAnyThreadsAndBatch) {
    LiteralEmulator emulator(frozen_chip({.replicas = 2}));
    const auto x = normals(9, 50, 900'000);
    const auto whole = execute(emulator, 0, x.view(), {.seed = 1}, {.threads = 1}).y;
    const auto part =
        execute(emulator, 0, x.view().slice_rows(5, 4), {.seed = 1, .first = 5}, {.threads = 3}).y;
    for (std::size_t r = 0; r < 4; ++r) {
        for (std::size_t c = 0; c < 30; ++c) EXPECT_EQ(part(r, c), whole(5 + r, c));
    }
}

TEST(Emulator, RejectsInputsOfAnotherLengthAndMissingMatrices) {
    const auto chip = frozen_chip({});
    for (const auto simulator : {Simulator::fast, Simulator::literal}) {
        const auto driver = make_emulator(chip, simulator);
        EXPECT_THAT(error_of([&] { execute(*driver, 0, normals(2, 5, 0).view(), {}, {}); }),
                    testing::AllOf(testing::StartsWith("bad_data: "), HasSubstr("inputs of length 5")));
        EXPECT_THAT(error_of([&] { execute(*driver, 1, normals(2, 50, 0).view(), {}, {}); }),
                    HasSubstr("bad_usage: no matrix 1; the chip holds 1"));
    }
}

// A plan with every matrix in one region of core 2, at the given origins.
struct Place {
    Matrix<float> weights;
    std::uint32_t row;
    std::uint32_t col;
};
ProgrammedChip on_one_core(const ChipSpec& spec, const std::vector<Place>& places) {
    Plan plan{.spec = spec};
    for (const auto& p : places) {
        const auto number = static_cast<std::uint32_t>(plan.matrices.size());
        const Tile tile{0, p.weights.rows(), 0, p.weights.cols()};
        plan.matrices.push_back({.weights = p.weights});
        plan.regions.push_back({.matrix = number, .core = 2, .row = p.row, .col = p.col, .tile = tile});
        plan.scales.push_back({.column_us = std::vector<double>(tile.cols, spec.device.g_max_us)});
    }
    for (std::uint32_t m = 0; m < places.size(); ++m) {
        const auto sample = normals(60, places[m].weights.rows(), 700'000);
        plan = calibrated(std::move(plan), {.matrix = m, .sample = sample.view(), .seed = 5}, kExec);
    }
    auto chip = with_calibrated_outputs(program(std::move(plan), 5, {}, kExec), OutputFit::applied, kExec);
    return compensated(aged(std::move(chip), {.seconds = 1e4}), DriftCompensation::column);
}

ChipSpec noisy_core(ReadMode mode, const std::function<void(CoreSpec&)>& change) {
    auto spec = chip_preset("hermes-published");
    spec.core.rows = 40;
    spec.core.cols = 31;  // odd: origins are not at a multiple of the vector length
    spec.core.read_mode = mode;
    spec.core.adc.gain_sd = 0.02;
    spec.core.adc.offset_sd_counts = 1.0;
    spec.core.adc.noise_counts = 0.5;
    change(spec.core);
    return spec;
}

struct CoreChange {
    const char* name;
    std::function<void(CoreSpec&)> change;
};

// Two matrices on one core give the same bits as each of them alone at its position: side by side, stacked in
// rows and diagonal, with both simulators.
TEST(Emulator, TwoMatricesOnOneCoreEachEqualTheMatrixAlone) {
    const std::vector<CoreChange> changes = {
        {"plain", [](CoreSpec&) {}},
        {"IR drop", [](CoreSpec& c) { c.ir_drop = {.scale = 1.0, .wire_ohm = 5.0}; }},
        {"jitter", [](CoreSpec& c) { c.dac.jitter_steps = 3.0; }},
        {"bit serial", [](CoreSpec& c) { c.dac.encoding = InputEncoding::bit_serial; }},
        {"asymmetry", [](CoreSpec& c) {
             c.polarity_asymmetry = 0.1;
             c.adc.polarity_error_counts = 2.0;
         }}};
    const auto a = normals(17, 12, 0);
    const auto b = normals(20, 11, 5'000);
    const std::vector<std::pair<std::uint32_t, std::uint32_t>> origins = {{3, 12}, {17, 0}, {19, 15}};
    for (const auto mode : {ReadMode::four_phase, ReadMode::one_phase}) {
        for (const auto& [name, change] : changes) {
            const auto spec = noisy_core(mode, change);
            for (const auto& [row, col] : origins) {
                SCOPED_TRACE(std::string(name) + " " + std::string(to_string(mode)));
                const auto both = on_one_core(spec, {{a, 0, 0}, {b, row, col}});
                for (const auto simulator : {Simulator::fast, Simulator::literal}) {
                    const auto driver = make_emulator(both, simulator);
                    const auto alone_a = make_emulator(on_one_core(spec, {{a, 0, 0}}), simulator);
                    const auto alone_b = make_emulator(on_one_core(spec, {{b, row, col}}), simulator);
                    const auto xa = normals(5, 17, 300'000);
                    const auto xb = normals(5, 20, 400'000);
                    const ProductIds ids{.seed = 7, .first = 3};
                    const ProductIds other{.seed = 8, .first = 3};
                    EXPECT_EQ(execute(*driver, 0, xa.view(), ids, kExec).y,
                              execute(*alone_a, 0, xa.view(), ids, kExec).y);
                    EXPECT_EQ(execute(*driver, 1, xb.view(), other, kExec).y,
                              execute(*alone_b, 0, xb.view(), other, kExec).y);
                }
            }
        }
    }
}

// A different position has different devices, converters and wires.
TEST(Emulator, AnotherOriginIsAnotherPartOfTheCore) {
    const auto spec = noisy_core(ReadMode::one_phase, [](CoreSpec&) {});
    const auto w = normals(17, 12, 0);
    const auto x = normals(5, 17, 300'000);
    for (const auto simulator : {Simulator::fast, Simulator::literal}) {
        const auto y = [&](std::uint32_t row, std::uint32_t col) {
            return execute(*make_emulator(on_one_core(spec, {{w, row, col}}), simulator), 0, x.view(),
                           {.seed = 1}, kExec)
                .y;
        };
        EXPECT_NE(y(0, 0), y(1, 0));
        EXPECT_NE(y(0, 0), y(0, 1));
        EXPECT_EQ(y(3, 4), y(3, 4));
    }
}

// Without fresh noise both simulators agree at any origin: wires use the row and column of the core.
TEST(Emulator, SimulatorsAgreeAboutWiresAtAnyOrigin) {
    auto spec =
        noisy_core(ReadMode::four_phase, [](CoreSpec& c) { c.ir_drop = {.scale = 1.0, .wire_ohm = 20.0}; });
    spec.core.adc.noise_counts = 0.0;
    spec.core.adc.rounding = AdcRounding::none;
    spec.core.affine.output_bits = 0;
    spec.device.read_noise_scale = 0.0;
    const auto x = normals(6, 17, 300'000);
    const auto chip = on_one_core(spec, {{normals(17, 12, 0), 20, 13}});
    const auto fast = execute(*make_emulator(chip, Simulator::fast), 0, x.view(), {}, kExec).y;
    const auto literal = execute(*make_emulator(chip, Simulator::literal), 0, x.view(), {}, kExec).y;
    for (std::size_t i = 0; i < fast.values().size(); ++i)
        ASSERT_NEAR(fast.values()[i], literal.values()[i], 2e-3 * (1.0 + std::abs(literal.values()[i])));
}

// 50 x 30 on 3 x 2 tiles of at most 17 x 15 cells; hermes has 8-bit inputs and results.
TEST(Trace, CountsTheWorkOfAnExecution) {
    auto chip = frozen_chip({.replicas = 2});
    chip.plan.spec.core.affine.output_bits = 8;
    for (auto& region : chip.regions) region.input_range = 1.5;
    FastEmulator emulator(chip);
    const auto x = normals(11, 50, 900'000);
    std::uint64_t beyond = 0;
    for (const float v : x.values()) beyond += std::abs(v) > 1.5F ? 1U : 0U;
    Trace total;
    const Exec exec{.threads = 2, .trace = &total};
    const auto trace = execute(emulator, 0, x.view(), {.seed = 1, .first = 1}, exec).trace;
    EXPECT_EQ(total, Trace{}) << "left to the caller";
    // Product 1 is the first of copy 1, which gets 6 of the 11; copy 0 gets 5.
    EXPECT_EQ(trace.core_products, (std::vector<std::uint64_t>{5, 5, 5, 5, 5, 5, 6, 6, 6, 6, 6, 6}));
    EXPECT_EQ(trace.conversions, 4U * 3 * 30 * 11) << "phases, row tiles, outputs, rows";
    EXPECT_EQ(trace.inputs, 2U * 50 * 11) << "both column tiles take every input";
    EXPECT_EQ(trace.clipped_inputs, 2U * beyond);
    EXPECT_EQ(trace.bytes_in, trace.inputs);
    EXPECT_EQ(trace.bytes_out, 3U * 30 * 11);
    EXPECT_EQ(trace.digital_operations, 2U * 30 * 11) << "three partial sums are two additions";
    record(exec, trace);
    record(exec, trace);
    EXPECT_EQ(total.inputs, 2 * trace.inputs);
    EXPECT_EQ(total.core_products.at(11), 12U);
}

TEST(Trace, AveragedCopiesAllProcessEveryInput) {
    FastEmulator emulator(frozen_chip({.replicas = 2, .replication = Replication::average}));
    const auto x = normals(11, 50, 900'000);
    const auto trace = execute(emulator, 0, x.view(), {}, kExec).trace;
    EXPECT_EQ(trace.core_products, std::vector<std::uint64_t>(12, 11));
    EXPECT_EQ(trace.digital_operations, 6U * 30 * 11) << "five additions and a multiplication";
}

}  // namespace
}  // namespace imka
