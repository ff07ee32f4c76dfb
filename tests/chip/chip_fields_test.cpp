// The list of a chip's constants: changing, showing and hashing them.
#include "imka/chip/spec/chip_fields.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "imka/chip/spec/chip.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

std::string error_setting(const std::string& preset, const std::string& list) {
    auto chip = chip_preset(preset);
    return error_of([&] { set_constants(chip, list); });
}

TEST(ChipConstants, EachHasAUniqueNameAndHelp) {
    auto chip = chip_preset("hermes-published");
    std::set<std::string> names;
    for (const auto& row : describe(chip)) {
        EXPECT_TRUE(names.insert(row.name).second) << row.name;
        EXPECT_FALSE(row.help.empty()) << row.name;
        EXPECT_FALSE(row.value.empty()) << row.name;
    }
    EXPECT_EQ(names.size(), fields(chip).size() + curve_fields(chip).size());
    EXPECT_GE(names.size(), 60U);
}

TEST(ChipConstants, AFileCanSetEachOfThem) {
    // Writes the text of each constant to a file and reads the chip back.
    auto chip = chip_preset("hermes-published");
    set_constants(chip, "device.g_ceiling=30,chip.chips=3,core.read_mode=one_phase,core.adc_noise=0.1");
    std::string text = "name: a\ndescription: b\n";
    std::string section;
    for (const auto& f : fields(chip)) {
        const auto dot = f.name.find('.');
        if (f.name.substr(0, dot) != section) text += (section = f.name.substr(0, dot)) + ":\n";
        const auto unit = f.info.unit.empty() ? "" : ", unit: " + std::string(f.info.unit);
        text += "  " + f.name.substr(dot + 1) + ": {value: " + f.json() + unit + "}\n";
    }
    auto read = parse_chip(text, "c.yaml");
    auto written = fields(chip);
    auto again = fields(read);
    ASSERT_EQ(again.size(), written.size());
    for (std::size_t i = 0; i < again.size(); ++i) EXPECT_EQ(again[i].json(), written[i].json());
    EXPECT_EQ(read.chips, 3);
}

TEST(ChipConstants, AreSetByName) {
    auto chip = chip_preset("hermes-published");
    set_constant(chip, "core.adc_noise", "2");
    set_constants(chip, "device.programming_scale=0.5,chip.cores=16,core.rounding=round,core.fp16=false");
    EXPECT_EQ(chip.core.adc.noise_counts, 2.0);
    EXPECT_EQ(chip.device.programming_scale, 0.5);
    EXPECT_EQ(chip.cores, 16);
    EXPECT_EQ(chip.core.adc.rounding, AdcRounding::round);
    EXPECT_FALSE(chip.core.affine.fp16);
    const auto before = chip_hash(chip);
    set_constants(chip, "");
    EXPECT_EQ(chip_hash(chip), before);
}

TEST(ChipConstants, ErrorsNameTheConstantAndChangeNothing) {
    EXPECT_THAT(error_setting("hermes", "core.adc_nois=2"), HasSubstr("nearest: core.adc_noise"));
    EXPECT_THAT(error_setting("hermes", "adc_noise=2"), HasSubstr("nearest: core.adc_noise"));
    EXPECT_THAT(error_setting("hermes", "core.adc_noise=-1"),
                HasSubstr("bad_config: core.adc_noise: -1 is out of range; it must be >= 0"));
    EXPECT_THAT(error_setting("hermes", "core.adc_noise=much"), HasSubstr("core.adc_noise: 'much' is not a"));
    EXPECT_THAT(error_setting("hermes", "core.rounding=up"),
                HasSubstr("core.rounding: 'up' is not a known rounding; known: none, round, floor"));
    EXPECT_THAT(error_setting("hermes", "core.rows=99999999999"),
                HasSubstr("core.rows: '99999999999' is out"));
    EXPECT_THAT(error_setting("hermes", "core.output_bits=1"), HasSubstr("output_bits: 1"));
    EXPECT_THAT(error_setting("hermes", "core.adc_noise"), HasSubstr("'core.adc_noise': expected KEY=VALUE"));
    EXPECT_THAT(error_setting("ideal", "pulses.set_mean=1"), HasSubstr("ideal has no pulse model"));
    EXPECT_THAT(error_setting("hermes", "chip.cores=0"), HasSubstr("chip.cores: 0 is out of range"));

    auto chip = chip_preset("hermes-published");
    const auto before = chip_hash(chip);
    EXPECT_NE(error_of([&] { set_constants(chip, "core.adc_noise=2,core.rows=-3"); }), "no error");
    EXPECT_EQ(chip_hash(chip), before);
}

TEST(ChipConstants, DependentConstantsAreCheckedTogetherAtTheEnd) {
    auto chip = chip_preset("ideal");
    set_constants(chip, "device.g_ceiling=40");
    // g_floor=50 alone would be invalid.
    set_constants(chip, "device.g_floor=50,device.g_ceiling=60");
    EXPECT_EQ(chip.device.g_floor_us, 50.0);
    EXPECT_THAT(error_of([&] { set_constants(chip, "device.g_ceiling=45"); }), HasSubstr("above g_floor"));
}

// A value in the field's range that differs from its current one.
std::string other_value(const Field& f) {
    if (f.type == "number") return "0.75";
    if (f.type == "integer") return f.json() == "1" ? "2" : "1";
    const auto first = f.type.substr(0, f.type.find('|'));
    const auto last = f.type.substr(f.type.rfind('|') + 1);
    return f.json().find(first) == std::string::npos ? first : last;
}

TEST(ChipHash, ChangesOnlyWithConstantsAndCurves) {
    const auto reference = chip_preset("hermes-published");
    std::set<std::string> hashes = {chip_hash(reference)};
    EXPECT_EQ(hashes.begin()->size(), 64U);
    std::size_t changes = 0;
    for (std::size_t i = 0; i < describe(reference).size(); ++i) {
        auto chip = reference;
        const auto scalars = fields(chip);
        if (i < scalars.size()) {
            const auto& f = scalars[i];
            f.set(other_value(f));
        } else {
            curve_fields(chip)[i - scalars.size()].curve.pieces.back().coefficients.back() += 1e-9;
        }
        hashes.insert(chip_hash(chip));
        ++changes;
    }
    EXPECT_EQ(hashes.size(), changes + 1);

    auto renamed = reference;
    renamed.name = "other";
    renamed.description = "other";
    renamed.provenance.clear();
    EXPECT_EQ(chip_hash(renamed), chip_hash(reference));
}

TEST(ChipHash, DiffersBetweenPresets) {
    std::set<std::string> hashes;
    for (const auto& name : chip_names()) hashes.insert(chip_hash(chip_preset(name)));
    EXPECT_EQ(hashes.size(), chip_names().size());
}

TEST(ChipDescription, HasValueUnitAndSource) {
    const auto rows = describe(chip_preset("hermes-published"));
    const auto find = [&](const std::string& name) {
        return *std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.name == name; });
    };
    EXPECT_EQ(find("device.g_max").value, "20.7");
    EXPECT_EQ(find("device.g_max").unit, "uS");
    EXPECT_THAT(find("device.g_max").source, HasSubstr("aihwkit"));
    EXPECT_EQ(find("core.read_mode").value, "four_phase");
    EXPECT_EQ(find("device.g_ceiling").value, "none");
    EXPECT_EQ(find("device.g_ceiling").source, "");
    EXPECT_EQ(find("device.programming_error").value,
              "polynomial [0.16603222, 4.71806468, -8.48101252, 4.68961419]");
    EXPECT_EQ(find("chip.cores").value, "64");
}

}  // namespace
}  // namespace imka
