// Energy and area of chips that do not exist, against arithmetic by hand.
#include "imka/deploy/technology.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "imka/deploy/map.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

Redesign hermes() {
    return {.from = chip_preset("hermes"), .chip = chip_preset("hermes"), .technology = {}};
}

TEST(Technology, OfTheKnownChipIsKnown) {
    const auto data = cost_data();
    const auto factor = core_energy_factor(hermes(), data);
    EXPECT_NEAR(factor.value, 1.0, 1e-15);
    EXPECT_NEAR(factor.low, 1.0, 1e-15);
    EXPECT_NEAR(factor.high, 1.0, 1e-15);
    const auto area = chip_area(hermes(), data).value();
    EXPECT_NEAR(area.low, 144.0, 1e-12);
    EXPECT_NEAR(area.high, 144.0, 1e-12);
    auto same = hermes();
    same.technology.node_nm = 14;
    EXPECT_NEAR(core_energy_factor(same, data).high, 1.0, 1e-15);
}

// Converters 0.55, drivers 0.15, cells 0.3 of the energy; intervals from the ends of the shares.
TEST(Technology, EnergyOfACoreFollowsItsParts) {
    const auto data = cost_data();
    auto half = hermes();
    half.chip.core.cols = 128;
    const auto factor = core_energy_factor(half, data);
    EXPECT_NEAR(factor.value, 0.55 / 2 + 0.15 + 0.3 / 2, 1e-12);
    EXPECT_NEAR(factor.low, 0.05 + 0.95 / 2, 1e-12) << "few drivers";
    EXPECT_NEAR(factor.high, 0.25 + 0.75 / 2, 1e-12) << "many drivers";
    half.chip.core.rows = 128;
    EXPECT_NEAR(core_energy_factor(half, data).value, 0.7 / 2 + 0.3 / 4, 1e-12);
}

TEST(Technology, SmallerNodesSaveEnergyAndArea) {
    const auto data = cost_data();
    auto small = hermes();
    small.technology.node_nm = 7;
    const auto factor = core_energy_factor(small, data);
    EXPECT_NEAR(factor.value, 0.7 * std::sqrt(0.5) + 0.3, 1e-12);
    EXPECT_NEAR(factor.low, 0.5 * 1.0 + 0.0 * 1.0, 1e-12) << "converters and drivers alone, in proportion";
    EXPECT_NEAR(factor.high, 1.0, 1e-12) << "nothing scales";
    const auto area = chip_area(small, data).value();
    EXPECT_NEAR(area.value, 144 * (0.28 / 2 + 0.72 / 4), 1e-9);
    EXPECT_LT(area.low, area.value);
    EXPECT_GT(area.high, area.value);
    const auto scaled = in_node(data, small);
    EXPECT_NEAR(parameter(scaled.parameters, "addition").value, 0.4 / 2, 1e-12);
    EXPECT_NEAR(parameter(scaled.parameters, "addition").low, 0.08 / 4, 1e-12);
    EXPECT_NEAR(parameter(scaled.parameters, "addition").high, 0.9 * std::sqrt(0.5), 1e-12);
    EXPECT_EQ(parameter(scaled.parameters, "host_link_byte").value, 80.0) << "not on the chip";
}

TEST(Technology, AreaFollowsCoresAndTiers) {
    const auto data = cost_data();
    auto r = hermes();
    r.chip.cores = 32;
    EXPECT_NEAR(chip_area(r, data)->value, 72.0, 1e-12);
    r.chip.cores = 64;
    r.technology.tiers = 3;
    const auto area = chip_area(r, data).value();
    EXPECT_NEAR(area.value, 144 * (1 + 0.28 * 2 * 0.05), 1e-12);
    EXPECT_NEAR(area.low, 144.0, 1e-12);
    const Redesign unknown{.from = chip_preset("neurram"), .chip = chip_preset("neurram"), .technology = {}};
    EXPECT_FALSE(chip_area(unknown, data)) << "no public area";
}

// The tiers of a stack form one core of a schedule; neighbouring crossbars are in different stacks.
TEST(Technology, FoldsTiers) {
    Mapping mapping{.grid = {.cores = 8, .chips = 2}, .matrices = {}, .regions = {}};
    for (const std::uint32_t core : {0U, 1U, 3U, 4U, 8U, 13U})
        mapping.regions.push_back({.core = core, .tile = {}});
    std::vector<std::uint32_t> cores;
    const auto stacks = folded(mapping, 2);
    for (const auto& r : stacks.regions) cores.push_back(r.core);
    EXPECT_THAT(cores, testing::ElementsAre(0, 1, 3, 0, 4, 5));
    EXPECT_EQ(stacks.grid.cores, 4U);
    EXPECT_EQ(folded(mapping, 1), mapping);
}

TEST(Technology, RefusesValuesOutOfRange) {
    Technology t;
    EXPECT_TRUE(set_technology("node", "7", t));
    EXPECT_TRUE(set_technology("tiers", "4", t));
    EXPECT_EQ(t.node_nm, 7.0);
    EXPECT_EQ(t.tiers, 4);
    EXPECT_FALSE(set_technology("core.rows", "4", t));
    EXPECT_THAT(error_of([&] { set_technology("node", "-1", t); }), HasSubstr("node"));
    EXPECT_THAT(error_of([&] { set_technology("tiers", "0", t); }), HasSubstr("tiers"));
    EXPECT_THAT(error_of([&] { set_technology("tiers", "two", t); }), HasSubstr("tiers"));
}

}  // namespace
}  // namespace imka
