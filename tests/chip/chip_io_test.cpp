// The file of a chip: what it gives, and that mistakes are named with their line.
#include "imka/chip/spec/chip_io.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "imka/base/file.hpp"
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

TEST(ChipFile, UnknownPresetListsTheKnownOnes) {
    EXPECT_THAT(error_of([] { chip_preset("herms"); }), HasSubstr("hermes-od"));
}

TEST(ChipFile, LeavesDefaultsWhereNothingIsSaid) {
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
    EXPECT_EQ(chip.device.programming_reference_g_max_us, 9.5) << "the error is that of these devices";
    ASSERT_EQ(chip.provenance.size(), 2U);
    EXPECT_EQ(chip.provenance[0].key, "device.g_max");
    EXPECT_EQ(chip.provenance[0].source, "a book");
    EXPECT_EQ(chip.provenance[1].source, "");
}

TEST(ChipFile, NamesLineAndKeyOfMistakes) {
    const auto device = [](const std::string& line) { return error_in(kHead + "device:\n  " + line + "\n"); };
    EXPECT_THAT(device("g_mx: {value: 1}"),
                HasSubstr("bad_config: c.yaml: line 6: 'device.g_mx' is not a known"));
    EXPECT_THAT(device("g_max: 3"), HasSubstr("line 6: device.g_max: 'key: value' pairs belong here"));
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
    EXPECT_THAT(device("drift_scale: {value: 1, unit: uS}"), HasSubstr("'uS' where none belongs"));
    EXPECT_THAT(device("devices_per_polarity: {value: 1.5}"), HasSubstr("not a whole number"));
    EXPECT_THAT(device("devices_per_polarity: {value: 17}"),
                HasSubstr("line 6: device.devices_per_polarity: 17"));
    EXPECT_THAT(device("t_0: {value: 1, unit: s}\n  t_0: {value: 1, unit: s}"),
                HasSubstr("line 7: 't_0' stands twice"));
    EXPECT_THAT(error_in("name: a\n"), HasSubstr("'description' is missing"));
    EXPECT_THAT(error_in(kHead + "devise: {}\n"), HasSubstr("line 5: 'devise' is not a known key"));
    EXPECT_THAT(error_in(kHead + "device: [1]\n"), HasSubstr("line 5: device: 'key: value' pairs"));
    EXPECT_THAT(error_in(""), HasSubstr("'key: value' pairs belong here"));
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

TEST(ChipFile, NamesLineAndKeyOfMistakesInCurves) {
    const auto curve = [](const std::string& pieces) {
        return error_in(kHead + "device:\n  drift_mean:\n    source: s\n    pieces:" + pieces + "\n");
    };
    EXPECT_EQ(curve("\n      - {form: polynomial, coefficients: [1, 2]}"), "no error");
    EXPECT_THAT(curve(" 3"), HasSubstr("line 8: device.drift_mean.pieces: a list of 1 to 64 pieces"));
    EXPECT_THAT(curve("\n      - {form: cubic, coefficients: [1]}"),
                HasSubstr("line 9: device.drift_mean.pieces[1].form: "));
    EXPECT_THAT(curve("\n      - {form: polynomial, coefficients: 1}"), HasSubstr("a list of numbers"));
    EXPECT_THAT(curve("\n      - {form: polynomial, coefficients: [1, [2]]}"),
                HasSubstr("a list of numbers"));
    EXPECT_THAT(curve("\n      - {form: polynomial, coefficients: [1, b]}"),
                HasSubstr("'b' is not a number"));
    EXPECT_THAT(curve("\n      - {form: power, coefficients: [1]}"),
                HasSubstr("line 6: device.drift_mean: piece 1: 1 coefficients; a power has 2"));
    EXPECT_THAT(curve("\n      - {form: polynomial, coefficients: [1], until: 2}"),
                HasSubstr("is not a known key"));
}

TEST(ChipFile, RefusesWhatCouldCostMoreThanItsLength) {
    EXPECT_THAT(error_in("name: &x a\ndescription: *x\n"), HasSubstr("line 1: the anchor '&x'"));
    EXPECT_THAT(error_in("name: a\ndescription: b\n---\nname: c\n"), HasSubstr("a second document"));
    EXPECT_THAT(error_in("name: " + std::string(9, '[') + std::string(9, ']')),
                HasSubstr("nested more than 8"));
    EXPECT_THAT(error_in("name: " + std::string(100'000, '[')), HasSubstr("nested more than 8"));
    EXPECT_THAT(error_in(kHead + "# " + std::string(1U << 20U, 'x')), HasSubstr("over 1048576 bytes"));
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
