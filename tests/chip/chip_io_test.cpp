// Chip files: parsed values, and errors that name the line.
#include "imka/chip/spec/chip.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
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

// Recorded runs depend on these hashes: they change only if a constant is changed on purpose.
TEST(ChipFile, HashesOfPresetsAreUnchanged) {
    const std::map<std::string, std::string> hashes = {
        {"ideal", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"hermes", "6f67311f6c5a4beb5db8de43fcb0d533e28f91e28e78e4a6990160666ee4a250"},
        {"hermes-published", "76d5fc50fdd82e57a72905d7dea9649f8a8eb25734a7e8b1375957f91697b85e"},
        {"hermes-od", "ffdc24a3f288009649f1212492929ac78db502eae0c8983493d5c1fdb9747e0d"},
        {"hermes-afm", "10b66e0f60e4e7ac89792a3426892b5ea1bca7cc7ceb8a4abccb40233148b896"},
        {"pcm-like", "15f5d54770eb8682ff8e23d97a053f6302876aff94fb7afc26c9c2373ce4085f"},
        {"rram-wan", "12d9c6956b19d49153dd622428ea21f74a566c41386216faeafb3e62348c7bb8"},
        {"neurram", "80abbfea5aac4992326ea15ba412594489be02652ad093f45f0abd94eb33bab4"}};
    EXPECT_EQ(chip_names().size(), hashes.size());
    for (const auto& [name, hash] : hashes) EXPECT_EQ(chip_hash(chip_preset(name)), hash) << name;
}

TEST(Posterior, IsReadDrawnAndWritten) {
    const std::string draws =
        "posterior:\n  core.adc_noise: [1.5, 2.5, 0.5]\n  core.output_headroom: [1, 2, 3]\n";
    const auto chip = parse_chip("extends: hermes-published\n" + kHead + draws, "c.yaml");
    EXPECT_EQ(posterior_draws(chip), 3U);
    EXPECT_EQ(parse_chip(chip_text(chip), "d.yaml").posterior, chip.posterior);
    const auto drawn = posterior_draw(chip, 1);
    EXPECT_EQ(drawn.core.adc.noise_counts, 2.5);
    EXPECT_EQ(drawn.core.affine.headroom, 2.0);
    EXPECT_EQ(drawn.device.g_max_us, chip.device.g_max_us);
    EXPECT_EQ(chip_hash(chip), chip_hash(chip_preset("hermes-published"))) << "draws are not constants";
    EXPECT_THAT(error_of([&] { posterior_draw(chip, 3); }), HasSubstr("it has 3 draws"));
    EXPECT_THAT(error_of([&] { posterior_draw(chip_preset("ideal"), 0); }), HasSubstr("has no posterior"));
}

TEST(Posterior, DropsConstantsThatAFileGivesItself) {
    const TempDir dir;
    std::ofstream(dir / "a.yaml") << "extends: hermes-published\n" + kHead +
                                         "posterior:\n  core.adc_noise: [1, 2]\n  core.gain_sd: [0, 1]\n";
    std::ofstream(dir / "b.yaml") << "extends: a.yaml\n" + kHead +
                                         "core:\n  adc_noise: {value: 5, unit: counts}\n";
    const auto chip = load_chip(dir / "b.yaml");
    EXPECT_EQ(posterior_draw(chip, 1).core.adc.noise_counts, 5.0);
    EXPECT_EQ(posterior_draw(chip, 1).core.adc.gain_sd, 1.0);
}

TEST(Posterior, BadDrawsAreErrors) {
    const auto error = [](const std::string& lines) {
        return error_of(
            [&] { parse_chip("extends: hermes-published\n" + kHead + "posterior:\n" + lines, "c.yaml"); });
    };
    EXPECT_THAT(error("  core.adc_noise: [1, 2]\n  core.gain_sd: [1]\n"), HasSubstr("same number"));
    EXPECT_THAT(error("  core.adc_nois: [1, 2]\n"), HasSubstr("core.adc_nois"));
    EXPECT_THAT(error("  core.adc_noise: [1, -2]\n"), HasSubstr("core.adc_noise"));
    EXPECT_THAT(error("  core.adc_noise: []\n"), HasSubstr("core.adc_noise"));
    EXPECT_THAT(error("  core.adc_noise: [1, x]\n"), HasSubstr("x"));
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
