// Chip files: parsed values, and errors that name the line.
#include "imka/chip/spec/chip.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "imka/base/file.hpp"
#include "imka/chip/spec/chip_fields.hpp"
#include "support/error.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

const std::string kHead = "name: a\ndescription: b\nsources:\n  s: a book\n";

std::string error_in(const std::string& text) {
    return error_of([&] { parse_chip(text, "c.yaml"); });
}

TEST(ChipFile, EveryPresetIsValidAndEveryConstantHasASource) {
    EXPECT_GE(chip_names().size(), 6U);
    for (const auto& name : chip_names()) {
        const auto chip = chip_preset(name);
        EXPECT_EQ(chip.name, name);
        EXPECT_GT(chip.description.size(), 20U) << name;
        EXPECT_NO_THROW(validate(chip)) << name;
        EXPECT_FALSE(chip.provenance.empty()) << name;
        for (const auto& constant : chip.provenance)
            EXPECT_GT(constant.source.size(), 10U) << name << ": " << constant.key;
    }
}

// Hashes from when each preset file gave every constant itself.
TEST(ChipFile, HashesOfPresetsAreUnchanged) {
    const std::map<std::string, std::string> hashes = {
        {"ideal", "aa1eac77284b10e5de6109f2c572a13f8e7e2bfac9ec07967f29bc996931a47c"},
        {"hermes", "18595bc11aff886adb289ad4b3e05d168dad44b9edb6c92419bb2c12e26f8d6f"},
        {"hermes-published", "9fe854bf22ce30ca4f05739680e76905675bb02359478264b9f75dee992b36f7"},
        {"hermes-od", "e323b37be8fce156c008b59516e1cb4f1fface3bcd9f0f3d12115041582679a4"},
        {"hermes-afm", "b6bffbc7b96b0126048d2320df382f5ee97a2e0dce64324926bfe4a033e98ee8"},
        {"pcm-like", "1f3e5244faa0fd50993754d31d5ebd975670154d662275731c9fade1fc72dbba"},
        {"rram-wan", "121f8bcbe78eb0dd91aef64da8e05d6e814872a714dd91d5fc2f9ac50253e228"}};
    EXPECT_EQ(chip_names().size(), hashes.size());
    for (const auto& [name, hash] : hashes) EXPECT_EQ(chip_hash(chip_preset(name)), hash) << name;
}

std::string source_of(const ChipSpec& chip, const std::string& key) {
    const auto it = std::ranges::find(chip.provenance, key, &Provenance::key);
    return it == chip.provenance.end() ? "none" : it->source;
}

TEST(ExtendsAChip, OverridesOnlyWhatTheFileGives) {
    const auto base = chip_preset("hermes-published");
    const auto chip =
        parse_chip("extends: hermes-published\n" + kHead +
                       "device:\n  g_max: {value: 18, unit: uS, source: s}\n"
                       "  drift_sd: {source: guess, pieces: [{form: polynomial, coefficients: [0.5]}]}\n"
                       "core:\n  adc_noise: {value: 2, unit: counts}\n",
                   "c.yaml");
    EXPECT_EQ(chip.name, "a");
    EXPECT_EQ(chip.device.g_max_us, 18.0);
    EXPECT_EQ(chip.device.programming_reference_g_max_us, 20.7) << "given by the base";
    EXPECT_EQ(chip.core.adc.noise_counts, 2.0);
    EXPECT_EQ(chip.core.adc.max_count, base.core.adc.max_count);
    ASSERT_EQ(chip.device.drift_sd.pieces.size(), 1U) << "a curve is replaced as a whole";
    ASSERT_TRUE(chip.pulses.has_value());
    EXPECT_EQ(chip.provenance.size(), base.provenance.size());
    EXPECT_EQ(source_of(chip, "device.g_max"), "a book");
    EXPECT_EQ(source_of(chip, "core.adc_noise"), "") << "the new value does not inherit the old source";
    EXPECT_EQ(source_of(chip, "core.rows"), source_of(base, "core.rows"));
    EXPECT_EQ(source_of(chip, "device.drift_sd"), source_of(base, "core.gain_sd")) << "a source of the base";
}

TEST(ExtendsAChip, ASourceOfTheSameNameAppliesOnlyToItsFile) {
    const auto chip = parse_chip(
        "extends: hermes-published\nname: a\ndescription: b\nsources: {guess: measured here}\n"
        "core:\n  adc_noise: {value: 2, unit: counts, source: guess}\n",
        "c.yaml");
    EXPECT_EQ(source_of(chip, "core.adc_noise"), "measured here");
    EXPECT_THAT(source_of(chip, "core.gain_sd"), HasSubstr("no public number"));
}

TEST(ExtendsAChip, MayBeAFileInTheSameFolder) {
    const TempDir dir;
    write_file_atomic(dir / "base.yaml",
                      "extends: ideal\n" + kHead + "chip:\n  cores: {value: 3, source: s}\n");
    write_file_atomic(dir / "c.yaml", "extends: base.yaml\n" + kHead + "chip:\n  chips: {value: 2}\n");
    const auto chip = load_chip(dir / "c.yaml");
    EXPECT_EQ(chip.cores, 3);
    EXPECT_EQ(chip.chips, 2);
    EXPECT_EQ(chip_hash(parse_chip(chip_text(chip), "t.yaml")), chip_hash(chip))
        << "the written file needs no base";
    EXPECT_THAT(error_in("extends: base.yaml\n" + kHead),
                HasSubstr("c.yaml: line 1: extends: 'base.yaml'; expected a preset"));
    write_file_atomic(dir / "up.yaml", "extends: ../base.yaml\n" + kHead);
    EXPECT_THAT(error_of([&] { load_chip(dir / "up.yaml"); }), HasSubstr("or a file in the same folder"));
    write_file_atomic(dir / "none.yaml", "extends: missing.yaml\n" + kHead);
    EXPECT_THAT(error_of([&] { load_chip(dir / "none.yaml"); }), HasSubstr("none.yaml: line 1: "));
}

TEST(ExtendsAChip, ReportsErrors) {
    EXPECT_THAT(error_in("extends: herms\n" + kHead),
                HasSubstr("bad_config: c.yaml: line 1: 'herms' is not a known chip; known: ideal, hermes"));
    EXPECT_THAT(error_in("extends: [hermes]\n" + kHead), HasSubstr("line 1: extends: expected a scalar"));
    EXPECT_THAT(error_in("extends: hermes\n" + kHead +
                         "device:\n  g_floor: {value: 40, unit: uS}\n  g_ceiling: {value: 30, unit: uS}\n"),
                HasSubstr("c.yaml: line 8: device.g_ceiling: 30 is out of range; it must be above g_floor"));
    EXPECT_THAT(error_in("extends: hermes\nname: a\n"), HasSubstr("'description' is missing"));
}

TEST(ExtendsAChip, RejectsCyclesAndLongChains) {
    const TempDir dir;
    write_file_atomic(dir / "a.yaml", "extends: b.yaml\n" + kHead);
    write_file_atomic(dir / "b.yaml", "extends: a.yaml\n" + kHead);
    write_file_atomic(dir / "self.yaml", "extends: self.yaml\n" + kHead);
    EXPECT_THAT(error_of([&] { load_chip(dir / "a.yaml"); }), HasSubstr("extends: a cycle: "));
    EXPECT_THAT(error_of([&] { load_chip(dir / "self.yaml"); }), HasSubstr("extends: a cycle: "));
    for (int i = 1; i <= 8; ++i)
        write_file_atomic(
            dir / (std::to_string(i) + ".yaml"),
            (i > 1 ? "extends: " + std::to_string(i - 1) + ".yaml\n" : "extends: ideal\n") + kHead);
    EXPECT_EQ(error_of([&] { load_chip(dir / "7.yaml"); }), "no error");
    EXPECT_THAT(error_of([&] { load_chip(dir / "8.yaml"); }), HasSubstr("a chain of more than 8 chips"));
}

TEST(ChipFile, UnknownPresetListsTheKnownOnes) {
    EXPECT_THAT(error_of([] { chip_preset("herms"); }), HasSubstr("hermes-od"));
}

TEST(ChipFile, KeepsDefaultsOfMissingConstants) {
    const auto chip = parse_chip("name: a\ndescription: b\n", "c.yaml");
    EXPECT_EQ(chip.device.g_max_us, DeviceModel{}.g_max_us);
    EXPECT_TRUE(chip.device.drift_mean.pieces.empty());
    EXPECT_TRUE(chip.provenance.empty());
}

TEST(ChipFile, ReadsConstantsWithUnitAndSource) {
    const auto chip = parse_chip(
        kHead + "device:\n  g_max: {value: 9.5, unit: uS, source: s}\n  t_0: {value: 2, unit: s}\n",
        "c.yaml");
    EXPECT_EQ(chip.device.g_max_us, 9.5);
    EXPECT_EQ(chip.device.programming_reference_g_max_us, 9.5) << "the default is g_max of these devices";
    ASSERT_EQ(chip.provenance.size(), 2U);
    EXPECT_EQ(chip.provenance[0].key, "device.g_max");
    EXPECT_EQ(chip.provenance[0].source, "a book");
    EXPECT_EQ(chip.provenance[1].source, "");
}

TEST(ChipFile, ErrorsNameLineAndKey) {
    const auto device = [](const std::string& line) { return error_in(kHead + "device:\n  " + line + "\n"); };
    EXPECT_THAT(device("g_mx: {value: 1}"),
                HasSubstr("bad_config: c.yaml: line 6: 'device.g_mx' is not a known key; nearest: g_max"));
    EXPECT_THAT(device("g_max: 3"), HasSubstr("line 6: device.g_max: expected 'key: value' pairs"));
    EXPECT_THAT(device("g_max: {value: 3}"), HasSubstr("'unit' is missing; it must be uS"));
    EXPECT_THAT(device("g_max: {value: 3, unit: S}"), HasSubstr("'S'; it must be uS"));
    EXPECT_THAT(device("g_max: {value: x, unit: uS}"),
                HasSubstr("line 6: device.g_max: 'x' is not a number"));
    EXPECT_THAT(device("g_max: {value: .inf, unit: uS}"), HasSubstr("'.inf' is not a number"));
    EXPECT_THAT(device("g_max: {value: -3, unit: uS}"),
                HasSubstr("line 6: device.g_max: -3 is out of range"));
    EXPECT_THAT(device("g_max: {value: 3, unit: uS, source: t}"),
                HasSubstr("'t' is not among the 'sources'"));
    EXPECT_THAT(device("g_max: {value: 3, unit: uS, sigma: 1}"),
                HasSubstr("'device.g_max.sigma' is not a known"));
    EXPECT_THAT(device("g_max: {unit: uS}"), HasSubstr("'value' is missing"));
    EXPECT_THAT(device("drift_scale: {value: 1, unit: uS}"), HasSubstr("'uS'; this constant has no unit"));
    EXPECT_THAT(device("devices_per_polarity: {value: 1.5}"), HasSubstr("not an integer"));
    EXPECT_THAT(device("devices_per_polarity: {value: 17}"),
                HasSubstr("line 6: device.devices_per_polarity: 17"));
    EXPECT_THAT(device("t_0: {value: 1, unit: s}\n  t_0: {value: 1, unit: s}"),
                HasSubstr("line 7: duplicate key 't_0'"));
    EXPECT_THAT(error_in("name: a\n"), HasSubstr("'description' is missing"));
    EXPECT_THAT(error_in(kHead + "devise: {}\n"), HasSubstr("line 5: 'devise' is not a known key"));
    EXPECT_THAT(error_in(kHead + "device: [1]\n"), HasSubstr("line 5: device: expected 'key: value' pairs"));
    EXPECT_THAT(error_in(""), HasSubstr("c.yaml: 'name' is missing"));
    EXPECT_THAT(error_in("name: [a\n"), HasSubstr("not valid YAML"));
}

TEST(ChipFile, ReadsCores) {
    const auto hermes = chip_preset("hermes-published").core;
    EXPECT_EQ(hermes.rows, 256);
    EXPECT_EQ(hermes.read_mode, ReadMode::four_phase);
    EXPECT_EQ(hermes.adc.max_count, 423);
    EXPECT_EQ(hermes.adc.rounding, AdcRounding::floor);
    EXPECT_NEAR(hermes.adc.counts_per_us * 0.115, 1.0, 1e-15);
    EXPECT_TRUE(hermes.affine.fp16);
    EXPECT_EQ(hermes.affine.output_bits, 8);

    const auto core = [](const std::string& line) { return error_in(kHead + "core:\n  " + line + "\n"); };
    EXPECT_THAT(core("rows: {value: 0}"), HasSubstr("line 6: core.rows: 0 is out of range"));
    EXPECT_THAT(core("rows: {value: -1}"), HasSubstr("line 6: core.rows: -1 is out of range"));
    EXPECT_THAT(core("read_mode: {value: two_phase}"), HasSubstr("four_phase, one_phase"));
    EXPECT_THAT(core("fp16: {value: yes}"), HasSubstr("'yes' is neither true nor false"));
    EXPECT_THAT(core("input_step: {value: 1, unit: ns}"), HasSubstr("'ns'; it must be s"));
    EXPECT_THAT(core("input_levels: {value: 0}"), HasSubstr("line 6: core.input_levels: 0"));
    EXPECT_THAT(core("adc_noise: {value: -1, unit: counts}"), HasSubstr("line 6: core.adc_noise: -1"));
    EXPECT_THAT(core("offset_sd: {value: -1, unit: counts}"), HasSubstr("line 6: core.offset_sd: -1"));
    EXPECT_THAT(core("output_bits: {value: 1}"), HasSubstr("line 6: core.output_bits: 1"));
    EXPECT_THAT(core("wire_resistance: {value: -1, unit: ohm}"),
                HasSubstr("line 6: core.wire_resistance: -1"));
    EXPECT_THAT(core("polarity_asymmetry: {value: -1}"), HasSubstr("line 6: core.polarity_asymmetry: -1"));
}

TEST(ChipFile, ErrorsInCurvesNameLineAndKey) {
    const auto curve = [](const std::string& pieces) {
        return error_in(kHead + "device:\n  drift_mean:\n    source: s\n    pieces:" + pieces + "\n");
    };
    EXPECT_EQ(curve("\n      - {form: polynomial, coefficients: [1, 2]}"), "no error");
    EXPECT_THAT(curve(" 3"), HasSubstr("line 8: device.drift_mean.pieces: expected a list of maps"));
    EXPECT_THAT(curve("\n      - {form: cubic, coefficients: [1]}"),
                HasSubstr("line 9: device.drift_mean.pieces[1].form: "));
    EXPECT_THAT(curve("\n      - {form: polynomial, coefficients: 1}"),
                HasSubstr("expected a list of scalars"));
    EXPECT_THAT(curve("\n      - {form: polynomial, coefficients: [1, [2]]}"),
                HasSubstr("expected a list of scalars"));
    EXPECT_THAT(curve("\n      - {form: polynomial, coefficients: [1, b]}"),
                HasSubstr("'b' is not a number"));
    EXPECT_THAT(curve("\n      - {form: power, coefficients: [1]}"),
                HasSubstr("line 6: device.drift_mean: piece 1: 1 coefficients; a power has 2"));
    EXPECT_THAT(curve("\n      - {form: polynomial, coefficients: [1], until: 2}"),
                HasSubstr("is not a known key"));
    std::string many;
    for (int i = 1; i <= 65; ++i)
        many += "\n      - {form: polynomial, coefficients: [1], below: " + std::to_string(i) + "}";
    EXPECT_THAT(curve(many), HasSubstr("line 8: device.drift_mean.pieces: 65 pieces; expected at most 64"));
}

TEST(ChipFile, RejectsInputThatExpandsBeyondItsLength) {
    EXPECT_THAT(error_in("name: &x a\ndescription: *x\n"), HasSubstr("line 1: anchor '&x'"));
    EXPECT_THAT(error_in("name: a\ndescription: b\n---\nname: c\n"), HasSubstr("a second document"));
    EXPECT_THAT(error_in("name: " + std::string(9, '[') + std::string(9, ']')),
                HasSubstr("more than 8 levels"));
    EXPECT_THAT(error_in("name: " + std::string(100'000, '[')), HasSubstr("bad_config: c.yaml: line 1: "));
    EXPECT_THAT(error_in(kHead + "# " + std::string(1U << 20U, 'x')),
                HasSubstr("at most 1048576 are allowed"));
}

TEST(ChipFile, LoadsFromDisk) {
    const TempDir dir;
    write_file_atomic(dir / "c.yaml", kHead + "device:\n  g_max: {value: 0, unit: uS}\n");
    EXPECT_THAT(error_of([&] { load_chip(dir / "c.yaml"); }),
                HasSubstr("c.yaml: line 6: device.g_max: 0 is"));
    EXPECT_THAT(error_of([&] { load_chip(dir / "none.yaml"); }), HasSubstr("io: "));
}

}  // namespace
}  // namespace imka
