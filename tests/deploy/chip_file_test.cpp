// Chips saved and loaded: same bits in every state, and all damage is detected.
#include "imka/deploy/chip_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <string>

#include "imka/base/file.hpp"
#include "imka/base/random.hpp"
#include "imka/chip/simulate/emulator.hpp"
#include "imka/chip/spec/chip.hpp"
#include "imka/chip/spec/chip_fields.hpp"
#include "support/error.hpp"
#include "support/paths.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

const Exec kOneThread{.threads = 1};

Matrix<float> normals(std::size_t rows, std::size_t cols, std::uint64_t seed) {
    Matrix<float> m(rows, cols);
    fill_normal(seed, Stream::test, 0, m.values());
    return m;
}

// Cores of 8 x 6, so that a small matrix needs several.
ChipSpec small_chip(const std::string& name) {
    auto chip = chip_preset(name);
    chip.core.rows = 8;
    chip.core.cols = 6;
    return chip;
}

constexpr std::uint64_t kSeed = std::uint64_t{1} << 63U;

// A matrix of 11 inputs and 9 outputs on 2 x 2 cores, twice.
Plan small_plan(ChipState state, const std::string& name = "hermes") {
    const auto sample = normals(30, 11, 2);
    auto plan =
        place(small_chip(name), normals(11, 9, 1), {.replicas = 2, .replication = Replication::average});
    if (state == ChipState::mapped) return plan;
    return calibrated(std::move(plan), {.sample = sample.view(), .config = {.inputs = 20}, .seed = kSeed},
                      kOneThread);
}

ProgrammedChip at_state(ChipState state, const std::string& name = "hermes") {
    auto chip =
        with_calibrated_outputs(program(small_plan(ChipState::calibrated, name), kSeed, {}, kOneThread),
                                OutputFit::applied, kOneThread);
    if (state >= ChipState::aged) chip = aged(std::move(chip), {.seconds = 1234.5, .spacing_seconds = 2e-3});
    if (state >= ChipState::compensated) chip = compensated(std::move(chip), DriftCompensation::column);
    return chip;
}

// Two matrices, the second in two regions of core 0 next to and below the first.
Plan shared_core_plan() {
    auto plan = place(small_chip("hermes"), std::vector<Matrix<float>>{normals(3, 2, 4), normals(6, 4, 5)});
    plan.regions[1].core = 0;
    plan.regions[1].row = 3;
    plan.regions[1].tile = {0, 5, 0, 4};
    plan.regions.push_back({.matrix = 1, .core = 0, .row = 2, .col = 2, .tile = {5, 1, 0, 4}});
    plan.scales.push_back(plan.scales[1]);
    return plan;
}

Matrix<float> products(const ProgrammedChip& chip, std::uint32_t matrix = 0) {
    FastEmulator emulator(chip, kOneThread);
    return execute(emulator, matrix, normals(40, emulator.shape(matrix).inputs, 3).view(),
                   {.seed = 5, .first = 9}, kOneThread)
        .y;
}

ProgrammedChip reloaded(const ProgrammedChip& chip) {
    const TempDir folder;
    save_chip_file(folder / "chip", chip);
    return load_chip_file(folder / "chip");
}

Plan reloaded(const Plan& plan) {
    const TempDir folder;
    save_plan_file(folder / "plan", plan);
    return load_plan_file(folder / "plan");
}

TEST(ChipFile, MultipliesWithTheSameBitsNowAndLater) {
    for (const auto* name :
         {"ideal", "hermes", "hermes-od", "hermes-afm", "pcm-like", "rram-wan", "neurram"}) {
        for (const auto state : {ChipState::programmed, ChipState::aged, ChipState::compensated}) {
            auto chip = at_state(state, name);
            auto again = reloaded(chip);
            EXPECT_EQ(products(again), products(chip)) << name;
            for (auto* c : {&chip, &again})
                *c = aged(std::move(*c), {.seconds = 1e6, .spacing_seconds = 1e-6});
            EXPECT_EQ(products(again), products(chip)) << name;
            for (auto* c : {&chip, &again})
                *c = with_calibrated_outputs(std::move(*c), OutputFit::applied, kOneThread);
            EXPECT_EQ(products(again), products(chip)) << name;
        }
    }
}

TEST(ChipFile, HoldsSeveralMatricesAndRegionsOfOneCore) {
    const auto plan = shared_core_plan();
    const auto chip = program(plan, 2, {}, kOneThread);
    const auto again = reloaded(chip);
    EXPECT_EQ(again.plan.regions, plan.regions);
    for (const std::uint32_t m : {0U, 1U}) EXPECT_EQ(products(again, m), products(chip, m));
    EXPECT_EQ(products(program(reloaded(plan), 2, {}, kOneThread), 1), products(chip, 1));
}

TEST(ChipFile, OfAPlanCanBeProgrammed) {
    for (const auto state : {ChipState::mapped, ChipState::calibrated}) {
        const auto plan = small_plan(state);
        const auto again = reloaded(plan);
        EXPECT_EQ(state_of(again), state);
        EXPECT_EQ(products(program(again, 7, {}, kOneThread)), products(program(plan, 7, {}, kOneThread)));
        const TempDir folder;
        save_plan_file(folder / "plan", plan);
        EXPECT_THAT(error_of([&] { load_chip_file(folder / "plan"); }),
                    HasSubstr("plan: holds a plan that is not programmed"));
    }
    const TempDir folder;
    save_chip_file(folder / "chip", at_state(ChipState::aged));
    EXPECT_EQ(load_plan_file(folder / "chip").regions, small_plan(ChipState::calibrated).regions);
}

TEST(ChipFile, HoldsDevicesThatWerePulsed) {
    auto chip = program(small_plan(ChipState::calibrated), kSeed, {.method = ProgrammingMethod::max_set_fill},
                        kOneThread);
    auto again = reloaded(chip);
    for (auto* c : {&chip, &again}) *c = aged(std::move(*c), {.seconds = 1e4});
    EXPECT_EQ(products(again), products(chip));
}

TEST(ChipFile, HoldsEverything) {
    for (const auto state : {ChipState::programmed, ChipState::aged, ChipState::compensated}) {
        const auto chip = at_state(state);
        const auto again = reloaded(chip);
        EXPECT_EQ(chip_hash(again.plan.spec), chip_hash(chip.plan.spec));
        EXPECT_EQ(again.seed, chip.seed);
        EXPECT_EQ(state_of(again), state);
        EXPECT_EQ(again.plan.matrices[0].weights, chip.plan.matrices[0].weights);
        EXPECT_EQ(again.plan.matrices[0].inputs, chip.plan.matrices[0].inputs);
        EXPECT_EQ(again.plan.matrices[0].replicas, 2U);
        EXPECT_EQ(again.plan.matrices[0].replication, Replication::average);
        EXPECT_EQ(again.plan.regions, chip.plan.regions);
        EXPECT_EQ(again.plan.scales, chip.plan.scales);
        EXPECT_EQ(again.time.seconds, chip.time.seconds);
        EXPECT_EQ(again.time.spacing_seconds, chip.time.spacing_seconds);
        EXPECT_EQ(again.corrected_seconds, chip.corrected_seconds);
        // Saving a loaded chip gives the same file.
        EXPECT_EQ(to_tensors(again).metadata, to_tensors(chip).metadata);
    }
}

TEST(ChipText, ReadsBackAsTheSameChip) {
    for (const auto& name : chip_names()) {
        const auto chip = chip_preset(name);
        const auto again = parse_chip(chip_text(chip), "text");
        EXPECT_EQ(chip_hash(again), chip_hash(chip)) << name;
        EXPECT_EQ(again.name, chip.name);
        EXPECT_EQ(again.description, chip.description);
        ASSERT_EQ(again.pulses.has_value(), chip.pulses.has_value());
        for (const auto& p : chip.provenance) {
            const auto same = [&](const Provenance& q) { return q.key == p.key && q.source == p.source; };
            EXPECT_TRUE(std::ranges::any_of(again.provenance, same)) << name << " " << p.key;
        }
    }
}

TEST(ChipText, KeepsTheLastBit) {
    auto chip = chip_preset("hermes");
    chip.core.adc.counts_per_us = std::nextafter(8.7, 9.0);
    chip.device.read_noise.pieces[0].coefficients[0] = std::nextafter(-0.0117, 0.0);
    chip.description = "quotes \" and ' and: colons #1\n\ttabs, µS";
    const auto again = parse_chip(chip_text(chip), "text");
    EXPECT_EQ(again.core.adc.counts_per_us, chip.core.adc.counts_per_us);
    EXPECT_EQ(again.device.read_noise.pieces[0].coefficients[0],
              chip.device.read_noise.pieces[0].coefficients[0]);
    EXPECT_EQ(again.description, chip.description);
}

std::string bytes_of(const ProgrammedChip& chip, const TempDir& folder) {
    save_chip_file(folder / "good", chip);
    return read_file(folder / "good", std::size_t{1} << 24U);
}

std::string load_error(const std::string& bytes, const TempDir& folder) {
    std::ofstream(folder / "bad", std::ios::binary) << bytes;
    return error_of([&] { load_chip_file(folder / "bad"); });
}

TEST(ChipFile, TruncatedIsAnError) {
    const TempDir folder;
    const auto good = bytes_of(at_state(ChipState::compensated), folder);
    for (std::size_t part = 0; part < 50; ++part)
        EXPECT_THAT(load_error(good.substr(0, good.size() * part / 50), folder), StartsWith("bad_data: "))
            << part;
    EXPECT_THAT(load_error(good.substr(0, good.size() - 1), folder), StartsWith("bad_data: "));
    EXPECT_THAT(load_error(good + "x", folder), StartsWith("bad_data: "));
}

TEST(ChipFile, WithAFlippedByteIsAnError) {
    const TempDir folder;
    const auto good = bytes_of(at_state(ChipState::compensated), folder);
    for (std::size_t at = 0; at < good.size(); at += 97) {
        auto bad = good;
        bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
        EXPECT_THAT(load_error(bad, folder), StartsWith("bad_data: ")) << at;
    }
}

// The error after a change and an update of the checksum.
std::string error_after(const std::function<void(TensorFile&)>& change) {
    auto file = to_tensors(at_state(ChipState::aged));
    change(file);
    file.metadata["sha256"] = checksum(file);
    return error_of([&] { chip_from_tensors(std::move(file)); });
}

TEST(ChipFile, RejectsTensorsThatDoNotFit) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    const auto& error = error_after;
    EXPECT_EQ(error([](TensorFile&) {}), "no error");
    EXPECT_THAT(error([](TensorFile& f) { f.f32.erase("region.3.minus.nu"); }),
                AllOf(StartsWith("bad_data: "), HasSubstr("'region.3.minus.nu' is missing")));
    EXPECT_THAT(error([](TensorFile& f) { f.f32["region.8.plus.nu"] = Matrix<float>(1, 1); }),
                HasSubstr("unexpected entry 'region.8.plus.nu'"));
    EXPECT_THAT(error([](TensorFile& f) { f.f32["region.0.plus.g_us"] = Matrix<float>(4, 5); }),
                HasSubstr("is 4 x 5; it must be"));
    EXPECT_THAT(error([](TensorFile& f) { f.f32["region.0.plus.g_us"](0, 1) = -1.0F; }),
                HasSubstr("'region.0.plus.g_us': value 1 is -1; it must be >= 0"));
    EXPECT_THAT(error([](TensorFile& f) { f.f32["region.0.plus.nu"](0, 0) = kNan; }),
                HasSubstr("must be finite"));
    EXPECT_THAT(error([](TensorFile& f) { f.f64["region.0.gain"](0, 0) = 0.0; }), HasSubstr("must be > 0"));
    EXPECT_THAT(error([](TensorFile& f) { f.f64["region.1.compensation"](0, 0) = -1.0; }),
                HasSubstr("must be > 0"));
    EXPECT_THAT(error([](TensorFile& f) { f.f64["region.1.output_step"](0, 0) = 0.0; }),
                HasSubstr("must be > 0"));
    EXPECT_THAT(error([](TensorFile& f) { f.f64["region.1.input_range"](0, 0) = 0.0; }),
                HasSubstr("must be > 0"));
    EXPECT_THAT(error([](TensorFile& f) { f.f64["region.0.column_us"](0, 0) = 99.0; }),
                HasSubstr("and <= 20.7"));
    EXPECT_THAT(error([](TensorFile& f) { f.f64["time"](0, 0) = -1.0; }), HasSubstr("'time'"));
    EXPECT_THAT(error([](TensorFile& f) { f.f64["corrected"](0, 0) = 2000.0; }),
                HasSubstr("must not be later than the time of the chip"));
    EXPECT_THAT(error([](TensorFile& f) { f.f32["matrix.0.weights"](0, 0) = kNan; }), HasSubstr("weights'"));
    EXPECT_THAT(error([](TensorFile& f) { f.f32["matrix.0.weights"] = Matrix<float>(0, 0); }),
                HasSubstr("weights of 0 inputs"));
    EXPECT_THAT(error([](TensorFile& f) { f.f32["matrix.0.inputs"] = Matrix<float>(3, 5); }),
                HasSubstr("calibration inputs of length 5"));
}

TEST(ChipFile, RejectsSettingsThatDoNotFit) {
    const auto error = [](const std::string& key, const std::string& text) {
        return error_after([&](TensorFile& f) { f.metadata[key] = text; });
    };
    EXPECT_THAT(error("format", "imka-ridge-model"), HasSubstr("bad_data: not an imka-chip file"));
    EXPECT_THAT(error("format", "imka-chip-matrix"),
                HasSubstr("bad_data: written by an earlier version; program the chip again"));
    EXPECT_THAT(error("schema", "1"), HasSubstr("of schema 3"));
    EXPECT_THAT(error("more", "x"), HasSubstr("unexpected entry 'more'"));
    EXPECT_THAT(error("chip", "name: x"), HasSubstr("bad_data: metadata 'chip'"));
    EXPECT_THAT(error("plan", "{"), HasSubstr("bad_data: metadata 'plan'"));
    EXPECT_THAT(error("plan", "7"), HasSubstr("bad_data: metadata 'plan'"));
    // Replaces one value of the plan.
    const auto replaced = [](const std::string& from, const std::string& to) {
        return error_after([&](TensorFile& f) {
            auto& plan = f.metadata["plan"];
            const auto at = plan.find(from);
            ASSERT_NE(at, std::string::npos) << plan;
            plan.replace(at, from.size(), to);
        });
    };
    EXPECT_EQ(replaced("\"replicas\":2", "\"replicas\":2"), "no error");
    EXPECT_THAT(replaced("9223372036854775808", "-1"), HasSubstr("seed must be an integer"));
    EXPECT_THAT(replaced("\"replicas\":2", "\"replicas\":0"), HasSubstr("0 replicas"));
    EXPECT_THAT(replaced("\"replicas\":2", "\"replicas\":3"), HasSubstr("replica 2 of matrix 0"));
    EXPECT_THAT(replaced("\"replicas\":2", "\"replicas\":18446744073709551615"),
                HasSubstr("replicas must be an integer"));
    EXPECT_THAT(replaced("average", "mean"), HasSubstr("bad_data: 'mean' is not a known replication"));
    EXPECT_THAT(replaced("[0,0,0,0,0,", "[0,0,1,0,0,"), HasSubstr("core 1: two regions overlap"));
    EXPECT_THAT(replaced("[0,0,0,0,0,", "[0,0,0,0,"), HasSubstr("must have 9 numbers"));
    EXPECT_THAT(replaced("[0,0,0,0,0,", "[0,0,0,0,-1,"), HasSubstr("must be an integer"));
}

TEST(ChipFile, WithAWrongChecksumIsAnError) {
    auto file = to_tensors(small_plan(ChipState::mapped));
    file.f32["matrix.0.weights"](0, 0) += 1.0F;
    EXPECT_THAT(error_of([&] { plan_from_tensors(file); }), HasSubstr("bad_data: checksum mismatch"));
}

TEST(ChipFile, ThatCannotBeWrittenLeavesTheOldOne) {
    const TempDir folder;
    EXPECT_THAT(error_of([&] { save_plan_file(folder / "no" / "chip", small_plan(ChipState::mapped)); }),
                StartsWith("io: "));
    EXPECT_THAT(error_of([&] { load_chip_file(folder / "none"); }), StartsWith("io: "));
}

// Writes the seeds of the fuzzer of chip files: test_deploy --gtest_also_run_disabled_tests
// --gtest_filter=*WritesFuzzSeeds.
TEST(ChipFile, DISABLED_WritesFuzzSeeds) {
    const auto folder = std::filesystem::path(source_dir()) / "fuzz/corpus/chip_file";
    auto spec = chip_preset("ideal");
    spec.core.rows = 3;
    spec.core.cols = 2;
    const auto sample = normals(4, 4, 2);
    const auto mapped = place(spec, normals(4, 3, 1));
    const auto ready = calibrated(mapped, {.sample = sample.view()}, kOneThread);
    const auto chip = program(ready, 1, {}, kOneThread);
    const auto old = aged(chip, {.seconds = 9.0});
    save_plan_file(folder / "mapped", mapped);
    save_plan_file(folder / "calibrated", ready);
    save_chip_file(folder / "programmed", chip);
    save_chip_file(folder / "aged", old);
    save_chip_file(folder / "compensated", compensated(old, DriftCompensation::column));
    save_chip_file(folder / "two_matrices", program(shared_core_plan(), 2, {}, kOneThread));
    const auto bytes = read_file(folder / "aged", std::size_t{1} << 20U);
    std::ofstream(folder / "cut", std::ios::binary) << bytes.substr(0, bytes.size() - 20);
}

}  // namespace
}  // namespace imka
