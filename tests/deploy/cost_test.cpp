// Costs of mappings against arithmetic by hand, and the paper's numbers as printed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "imka/chip/analyse/cost.hpp"
#include "imka/deploy/map.hpp"
#include "imka/deploy/mapping_cost.hpp"
#include "imka/deploy/paper_cost.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

ChipSpec one_phase() {
    auto spec = chip_preset("hermes");
    spec.core.read_mode = ReadMode::one_phase;
    return spec;
}

MappingCost cost_of(const char* shapes, const MapOptions& options, const DigitalWork& work = {}) {
    const auto spec = one_phase();
    return mapping_cost(map_matrices(parse_shapes(shapes), grid_of(spec), options).mapping, spec, work,
                        cost_data());
}

// All 16 numbers of the supplementary table, the peaks, the ratios: as printed, except for the two energy
// ratios that the paper computes with a rounded power.
TEST(PaperCost, AgreesWithThePrintedNumbers) {
    int table = 0;
    int agree = 0;
    std::vector<std::string> others;
    for (const auto& row : paper_rows(cost_data())) {
        table += row.published.where == "supplementary table" && row.agrees.value() ? 1 : 0;
        agree += row.agrees.value_or(false) ? 1 : 0;
        if (row.agrees == false) others.push_back(row.published.name + " " + row.printed);
    }
    EXPECT_EQ(table, 16);
    EXPECT_EQ(agree, 27);
    EXPECT_THAT(others, testing::ElementsAre("gpu.energy_ratio_int8 6.3", "gpu.energy_ratio_fp16 12.5"));
}

TEST(PaperCost, ComputesWhatThePaperDoesNotState) {
    for (const auto& row : paper_rows(cost_data())) {
        if (row.published.name == "gpu.energy_ratio_four_phase") {
            EXPECT_NEAR(row.computed, 1.59, 0.005);
        }
        if (row.published.name == "gpu.energy_ratio_idle") {
            EXPECT_NEAR(row.computed, 6.257 * 330 / 400, 0.005);
        }
        if (row.published.name == "flops.kernel_digital") {
            EXPECT_EQ(row.computed, 133120.0);
        }
        if (row.published.name == "endurance.reprogrammed") {
            EXPECT_NEAR(row.computed, 37.81, 0.01);
        }
    }
}

TEST(Neurram, ModelIsCloseToTheMeasuredPoints) {
    const auto check = neurram_check(cost_data().neurram);
    EXPECT_EQ(check.rows.size(), 14U);
    EXPECT_LT(check.median_tops_error, 0.02);
    EXPECT_LT(check.median_tops_per_watt_error, 0.05);
    for (const auto& row : check.rows) {
        EXPECT_NEAR(row.tops / row.measured.tops, 1.0, 0.02);
        EXPECT_NEAR(row.tops_per_watt / row.measured.tops_per_watt, 1.0, 0.1);
    }
}

// The chip file is one of the measured points.
TEST(PaperCost, NeurramHasAChipFile) {
    const auto preset = neurram_check(cost_data().neurram).preset;
    EXPECT_EQ(preset.measured.input_bits, 4);
    EXPECT_NEAR(preset.tops / preset.measured.tops, 1.0, 0.03);
    EXPECT_NEAR(preset.tops_per_watt / preset.measured.tops_per_watt, 1.0, 0.03);
    const auto spec = chip_preset("neurram");
    EXPECT_EQ(grid_of(spec), (CoreGrid{.rows = 256, .cols = 128, .cores = 48, .chips = 1}));
    const auto mapping = map_matrices(parse_shapes("256x256@10"), grid_of(spec)).mapping;
    const auto cost = mapping_cost(mapping, spec, {}, cost_data());
    EXPECT_EQ(cores_used(mapping), 2U);
    EXPECT_NEAR(cost.core_joules.value() / (20 * 4.2001e-9), 1.0, 1e-4);
    EXPECT_FALSE(cost.area_mm2) << "no public number";
}

// The supplementary table from a mapping instead of from the matrix.
TEST(MappingCost, OfTheTableIsThePublishedCost) {
    const auto filled = cost_of("512x1024@1024", {.chips = 1, .replicas = 0});
    EXPECT_NEAR(1e3 * filled.latency_seconds, 0.01702, 5e-6);
    EXPECT_NEAR(1e3 * filled.interval_seconds, 0.01702, 5e-6);
    EXPECT_NEAR(1e3 * filled.core_joules.value(), 0.11001, 5e-6);
    EXPECT_EQ(filled.operations, 2.0 * 1024 * 512 * 1024);
    EXPECT_EQ(filled.area_mm2, 144.0);
    const auto one = cost_of("512x1024@1024", {});
    EXPECT_NEAR(1e3 * one.latency_seconds, 0.1361, 5e-5);
    EXPECT_DOUBLE_EQ(one.core_joules.value(), filled.core_joules.value());
    // Two tiles along the inputs: one addition per output and vector.
    EXPECT_EQ(one.partial_sums, 1024.0 * 1024);
    EXPECT_EQ(one.core_products, 8.0 * 1024);
}

TEST(MappingCost, DependsOnWhereTilesAre) {
    const auto spec = one_phase();
    auto mapping = map_matrices(parse_shapes("100x100@10 100x100@10"), grid_of(spec)).mapping;
    ASSERT_EQ(cores_used(mapping), 1U);
    const auto together = mapping_cost(mapping, spec, {}, cost_data());
    mapping.regions[1].core = 5;
    const auto apart = mapping_cost(mapping, spec, {}, cost_data());
    EXPECT_DOUBLE_EQ(together.interval_seconds, 2 * apart.interval_seconds);
    mapping.grid.chips = 2;
    mapping.regions[1].core = 64;
    const auto far = mapping_cost(mapping, spec, {}, cost_data());
    EXPECT_EQ(apart.host_bytes, 2000.0);
    EXPECT_EQ(far.host_bytes, 3000.0);
    EXPECT_EQ(far.area_mm2, 288.0);
}

TEST(MappingCost, OfTilesOfOneMatrixOnOneCoreWaits) {
    const auto cost = cost_of("300x50@10", {});
    const auto seconds = product_seconds(one_phase().core);
    EXPECT_NEAR(cost.latency_seconds, 20 * seconds, 1e-15);  // 256 + 44 rows side by side on one core
}

TEST(MappingCost, AddsDigitalWorkWithItsInterval) {
    const auto none = cost_of("10x10", {});
    EXPECT_EQ(none.digital_joules.value, 0.0);
    const auto some = cost_of("10x10", {}, {.exponentials = 1000, .divisions = 10});
    EXPECT_NEAR(some.digital_joules.value, 1010 * 15e-12, 1e-18);
    EXPECT_NEAR(some.digital_joules.low, 1010 * 2e-12, 1e-18);
    EXPECT_NEAR(some.digital_joules.high, 1010 * 60e-12, 1e-18);
    EXPECT_NEAR(some.digital_seconds.value, 1010e-12, 1e-18);
    EXPECT_LT(some.digital_seconds.low, some.digital_seconds.value);
}

TEST(MachineCost, IsTheSlowerOfComputeAndMemory) {
    const auto data = cost_data();
    const auto& gpu = machine(data, "A100 INT8");
    const auto many = machine_cost(gpu, parse_shapes("1024x1024@100000"));
    EXPECT_FALSE(many.memory_bound);
    EXPECT_NEAR(many.seconds, 2.0 * 1024 * 1024 * 1e5 / 624e12, 1e-12);
    EXPECT_NEAR(many.joules, 400 * many.seconds, 1e-9);
    EXPECT_NEAR(many.joules_without_static, 330 * many.seconds, 1e-9);
    EXPECT_TRUE(machine_cost(gpu, parse_shapes("1024x1024")).memory_bound);
}

TEST(CostData, NeedsASourceAndAnInterval) {
    const auto error = [](const char* text) { return error_of([&] { parse_cost_data(text, "c.yaml"); }); };
    EXPECT_THAT(error("sources: {a: text}\nparameters:\n  - {name: x, value: 5, low: 6, high: 7, unit: s, "
                      "source: a}\n"),
                HasSubstr("c.yaml: line 3: parameters[1].value: expected 0 <= low <= value <= high"));
    EXPECT_THAT(error("sources: {a: text}\nparameters:\n  - {name: x, value: 5, low: 1, high: 7, unit: s, "
                      "source: b}\n"),
                HasSubstr("unknown source 'b'"));
    EXPECT_THAT(
        error("sources: {a: text}\nparameters:\n  - {name: x, value: 5, low: 1, unit: s, source: a}\n"),
        HasSubstr("parameters[1]: 'high' is missing"));
}

}  // namespace
}  // namespace imka
