// A matrix on a chip, saved and loaded: the same bits in every state, and no damage that is not noticed.
#include "imka/deploy/chip_matrix_io.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <string>

#include "imka/base/file.hpp"
#include "imka/base/random.hpp"
#include "imka/chip/simulate/execute.hpp"
#include "imka/chip/spec/chip_fields.hpp"
#include "imka/chip/spec/chip_io.hpp"
#include "imka/chip/spec/chip_text.hpp"
#include "support/error.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

const Exec kExec{.threads = 1};

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

// A matrix of 11 inputs and 9 outputs on 2 x 2 cores, twice, brought to a state.
ChipMatrix at_state(ChipState state, const std::string& name = "hermes") {
    auto chip = ideal_matrix(small_chip(name), normals(11, 9, 1), std::uint64_t{1} << 63U);
    if (state >= ChipState::mapped) place(chip, {.replicas = 2, .replication = Replication::average});
    if (state >= ChipState::calibrated) calibrate(chip, normals(30, 11, 2).view(), {.inputs = 20}, kExec);
    if (state >= ChipState::programmed) {
        program(chip, {}, kExec);
        calibrate_outputs(chip, kExec);
    }
    if (state >= ChipState::aged) age(chip, {.seconds = 1234.5, .spacing_seconds = 2e-3});
    if (state >= ChipState::compensated) compensate(chip, DriftCompensation::column);
    return chip;
}

Matrix<float> products(const ChipMatrix& chip) {
    return chip_products(ready(chip), normals(40, 11, 3).view(), {.seed = 5, .first = 9}, kExec);
}

ChipMatrix reloaded(const ChipMatrix& chip) {
    const TempDir folder;
    save_chip_matrix(folder / "chip", chip);
    return load_chip_matrix(folder / "chip");
}

TEST(ChipMatrixFile, MultipliesWithTheSameBitsNowAndLater) {
    for (const auto* name : {"ideal", "hermes", "hermes-od", "hermes-afm", "pcm-like", "rram-wan"}) {
        for (const auto state : {ChipState::programmed, ChipState::aged, ChipState::compensated}) {
            auto chip = at_state(state, name);
            auto again = reloaded(chip);
            EXPECT_EQ(products(again), products(chip)) << name;
            for (auto* c : {&chip, &again}) age(*c, {.seconds = 1e6, .spacing_seconds = 1e-6});
            EXPECT_EQ(products(again), products(chip)) << name;
            for (auto* c : {&chip, &again}) calibrate_outputs(*c, kExec);
            EXPECT_EQ(products(again), products(chip)) << name;
        }
    }
}

TEST(ChipMatrixFile, GoesOnFromEveryState) {
    for (const auto state : {ChipState::ideal, ChipState::mapped, ChipState::calibrated}) {
        auto chip = at_state(state);
        auto again = reloaded(chip);
        EXPECT_EQ(again.state, state);
        for (auto* c : {&chip, &again}) {
            if (state == ChipState::ideal) place(*c);
            program(*c, {}, kExec);
        }
        EXPECT_EQ(products(again), products(chip));
    }
}

TEST(ChipMatrixFile, HoldsDevicesThatWerePulsed) {
    auto chip = at_state(ChipState::calibrated);
    program(chip, {.method = ProgrammingMethod::max_set_fill}, kExec);
    auto again = reloaded(chip);
    for (auto* c : {&chip, &again}) age(*c, {.seconds = 1e4});
    EXPECT_EQ(products(again), products(chip));
}

TEST(ChipMatrixFile, HoldsEverything) {
    for (std::size_t s = 0; s < std::size(EnumNames<ChipState>::values); ++s) {
        const auto chip = at_state(static_cast<ChipState>(s));
        const auto again = reloaded(chip);
        EXPECT_EQ(chip_hash(again.spec), chip_hash(chip.spec));
        EXPECT_EQ(again.seed, chip.seed);
        EXPECT_EQ(again.state, chip.state);
        EXPECT_EQ(again.weights, chip.weights);
        EXPECT_EQ(again.inputs, chip.inputs);
        EXPECT_EQ(again.tiling.tiles, chip.tiling.tiles);
        EXPECT_EQ(again.replicas, chip.replicas);
        EXPECT_EQ(again.replication, chip.replication);
        EXPECT_EQ(again.time.seconds, chip.time.seconds);
        EXPECT_EQ(again.time.spacing_seconds, chip.time.spacing_seconds);
        // A file of what was loaded is the file that was loaded.
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

std::string bytes_of(const ChipMatrix& chip, const TempDir& folder) {
    save_chip_matrix(folder / "good", chip);
    return read_file(folder / "good", std::size_t{1} << 24U);
}

std::string load_error(const std::string& bytes, const TempDir& folder) {
    std::ofstream(folder / "bad", std::ios::binary) << bytes;
    return error_of([&] { load_chip_matrix(folder / "bad"); });
}

TEST(ChipMatrixFile, CutShortIsAnError) {
    const TempDir folder;
    const auto good = bytes_of(at_state(ChipState::compensated), folder);
    for (std::size_t part = 0; part < 50; ++part)
        EXPECT_THAT(load_error(good.substr(0, good.size() * part / 50), folder), StartsWith("bad_data: "))
            << part;
    EXPECT_THAT(load_error(good.substr(0, good.size() - 1), folder), StartsWith("bad_data: "));
    EXPECT_THAT(load_error(good + "x", folder), StartsWith("bad_data: "));
}

TEST(ChipMatrixFile, WithAFlippedByteIsAnError) {
    const TempDir folder;
    const auto good = bytes_of(at_state(ChipState::compensated), folder);
    for (std::size_t at = 0; at < good.size(); at += 97) {
        auto bad = good;
        bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
        EXPECT_THAT(load_error(bad, folder), StartsWith("bad_data: ")) << at;
    }
}

// What a change that carries a right checksum gives.
std::string error_after(ChipState state, const std::function<void(TensorFile&)>& change) {
    auto file = to_tensors(at_state(state));
    change(file);
    file.metadata["sha256"] = checksum(file);
    return error_of([&] { from_tensors(std::move(file)); });
}

TEST(ChipMatrixFile, RefusesTensorsThatDoNotFit) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    const auto error = [](const std::function<void(TensorFile&)>& change) {
        return error_after(ChipState::aged, change);
    };
    EXPECT_EQ(error([](TensorFile&) {}), "no error");
    EXPECT_THAT(error([](TensorFile& f) { f.f32.erase("core.3.minus.nu"); }),
                AllOf(StartsWith("bad_data: "), HasSubstr("'core.3.minus.nu' is missing")));
    EXPECT_THAT(error([](TensorFile& f) { f.f32["core.8.plus.nu"] = Matrix<float>(1, 1); }),
                HasSubstr("'core.8.plus.nu' does not belong"));
    EXPECT_THAT(error([](TensorFile& f) { f.f32["core.0.plus.g_us"] = Matrix<float>(4, 5); }),
                HasSubstr("is 4 x 5; it must be"));
    EXPECT_THAT(error([](TensorFile& f) { f.f32["core.0.plus.g_us"](0, 1) = -1.0F; }),
                HasSubstr("'core.0.plus.g_us': value 1 is -1; it must be >= 0"));
    EXPECT_THAT(error([](TensorFile& f) { f.f32["core.0.plus.nu"](0, 0) = kNan; }),
                HasSubstr("must be finite"));
    EXPECT_THAT(error([](TensorFile& f) { f.f64["core.0.gain"](0, 0) = 0.0; }), HasSubstr("must be > 0"));
    EXPECT_THAT(error([](TensorFile& f) { f.f64["core.1.compensation"](0, 0) = -1.0; }),
                HasSubstr("must be > 0"));
    EXPECT_THAT(error([](TensorFile& f) { f.f64["core.1.output_step"](0, 0) = 0.0; }),
                HasSubstr("must be > 0"));
    EXPECT_THAT(error([](TensorFile& f) { f.f64["core.1.input_range"](0, 0) = 0.0; }),
                HasSubstr("must be > 0"));
    EXPECT_THAT(error([](TensorFile& f) { f.f64["tile.0.input_range"](0, 0) = 0.0; }),
                HasSubstr("must be > 0"));
    EXPECT_THAT(error([](TensorFile& f) { f.f64["tile.0.column_us"](0, 0) = 99.0; }),
                HasSubstr("and <= 20.7"));
    EXPECT_THAT(error([](TensorFile& f) { f.f64["time"](0, 0) = -1.0; }), HasSubstr("'time'"));
    EXPECT_THAT(error([](TensorFile& f) { f.f64["time"](0, 0) = 0.0; }),
                HasSubstr("do not fit the state 'aged'"));
    EXPECT_THAT(error([](TensorFile& f) { f.f32["weights"](0, 0) = kNan; }), HasSubstr("'weights'"));
    EXPECT_THAT(error([](TensorFile& f) { f.f32["weights"] = Matrix<float>(0, 0); }), HasSubstr("0 inputs"));
    EXPECT_THAT(error([](TensorFile& f) { f.f32["inputs"] = Matrix<float>(3, 5); }),
                HasSubstr("of 11 values"));
    EXPECT_THAT(
        error_after(ChipState::calibrated, [](TensorFile& f) { f.f32["inputs"] = Matrix<float>(0, 0); }),
        HasSubstr("'inputs' is 0 x 0"));
}

TEST(ChipMatrixFile, RefusesSettingsThatDoNotFit) {
    const auto error = [](const std::string& key, const std::string& text) {
        return error_after(ChipState::aged, [&](TensorFile& f) { f.metadata[key] = text; });
    };
    EXPECT_THAT(error("format", "imka-ridge-model"), HasSubstr("bad_data: not an imka-chip-matrix file"));
    EXPECT_THAT(error("schema", "2"), HasSubstr("of schema 1"));
    EXPECT_THAT(error("more", "x"), HasSubstr("'more' does not belong"));
    EXPECT_THAT(error("chip", "name: x"), HasSubstr("bad_data: metadata 'chip'"));
    EXPECT_THAT(error("matrix", "{"), HasSubstr("bad_data: metadata 'matrix'"));
    EXPECT_THAT(error("matrix", "7"), HasSubstr("bad_data: metadata 'matrix'"));
    const auto matrix = [&](const std::string& seed, const std::string& state, const std::string& replicas) {
        return error("matrix", R"({"seed": )" + seed + R"(, "state": ")" + state + R"(", "replicas": )" +
                                   replicas + R"(, "replication": "average"})");
    };
    EXPECT_THAT(matrix("-1", "aged", "2"), HasSubstr("seed must be a whole number"));
    EXPECT_THAT(matrix("1", "old", "2"), HasSubstr("bad_data: 'old' is not a known chip state"));
    EXPECT_THAT(matrix("1", "aged", "0"), HasSubstr("0 copies"));
    EXPECT_THAT(matrix("1", "aged", "17"), HasSubstr("17 copies of 4 tiles do not fit the 64 cores"));
    EXPECT_THAT(matrix("1", "aged", "18446744073709551615"), HasSubstr("copies of 4 tiles"));
    EXPECT_THAT(matrix("1", "aged", "3"), HasSubstr("'core.8."));
    EXPECT_THAT(matrix("1", "programmed", "2"), HasSubstr("do not fit the state 'programmed'"));
    EXPECT_THAT(matrix("1", "mapped", "2"), HasSubstr("does not belong"));
}

TEST(ChipMatrixFile, WithoutTheRightChecksumIsAnError) {
    auto file = to_tensors(at_state(ChipState::mapped));
    file.f32["weights"](0, 0) += 1.0F;
    EXPECT_THAT(error_of([&] { from_tensors(file); }), HasSubstr("bad_data: the checksum does not fit"));
}

TEST(ChipMatrixFile, ThatCannotBeWrittenLeavesTheOldOne) {
    const TempDir folder;
    EXPECT_THAT(error_of([&] { save_chip_matrix(folder / "no" / "chip", at_state(ChipState::ideal)); }),
                StartsWith("io: "));
    EXPECT_THAT(error_of([&] { load_chip_matrix(folder / "none"); }), StartsWith("io: "));
}

}  // namespace
}  // namespace imka
