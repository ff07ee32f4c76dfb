// Time and energy compared with the figures published for the chip and its products.
#include "imka/chip/analyse/cost.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "support/error.hpp"

namespace imka {
namespace {

ChipSpec hermes(ReadMode mode) {
    auto chip = chip_preset("hermes");
    chip.core.read_mode = mode;
    return chip;
}

// As printed in a table.
std::string printed(double value, int decimals) {
    return fmt::format("{:.{}f}", value, decimals);
}

// Nature Electronics 6, 680 (2023): 63.1 TOPS at 9.76 TOPS/W and 16.1 at 2.48, for 64 cores.
TEST(ProductCost, OfAFullChipIsThePublishedPeak) {
    struct Case {
        ReadMode mode;
        const char* tops;
        const char* tops_per_watt;
        const char* nanoseconds;
        const char* nanojoules;
        const char* milliwatts;
    };
    for (const auto& c : {Case{ReadMode::one_phase, "63.1", "9.76", "132.9", "13.43", "101.0"},
                          Case{ReadMode::four_phase, "16.1", "2.48", "521.0", "52.85", "101.4"}}) {
        const auto chip = hermes(c.mode);
        const auto cost = product_cost(chip, {.inputs = 2048, .outputs = 2048, .products = 10});
        EXPECT_EQ(cost.cores, 64U);
        EXPECT_EQ(printed(cost.tera_operations_per_second, 1), c.tops);
        EXPECT_EQ(printed(cost.tera_operations_per_joule.value(), 2), c.tops_per_watt);
        EXPECT_EQ(printed(product_seconds(chip.core) * 1e9, 1), c.nanoseconds);
        EXPECT_EQ(printed(product_joules(chip.core).value() * 1e9, 2), c.nanojoules);
        EXPECT_EQ(printed(product_joules(chip.core).value() / product_seconds(chip.core) * 1e3, 1),
                  c.milliwatts);
    }
}

// Milliseconds and millijoules from the table of the paper's supplement; throughput without copies from its
// text.
TEST(ProductCost, OfAMappingMatchesThePublishedTable) {
    struct Case {
        std::size_t d;
        std::size_t m;
        std::size_t cores;
        std::size_t replicas;
        const char* ms;
        const char* mj;
        const char* tops_of_one;
    };
    for (const auto& c : {Case{512, 1024, 8, 8, "0.01702", "0.11001", "7.89"},
                          Case{1024, 2048, 32, 2, "0.06807", "0.44006", "31.55"}}) {
        Workload work{.inputs = c.d, .outputs = c.m, .products = 1024, .placement = {.replicas = 0}};
        const auto chip = hermes(ReadMode::one_phase);
        const auto filled = product_cost(chip, work);
        EXPECT_EQ(filled.tiles, c.cores);
        EXPECT_EQ(filled.replicas, c.replicas);
        EXPECT_EQ(filled.cores, 64U);
        EXPECT_EQ(printed(filled.seconds * 1e3, 5), c.ms);
        EXPECT_EQ(printed(filled.joules.value() * 1e3, 5), c.mj);
        work.placement.replicas = 1;
        const auto one = product_cost(chip, work);
        EXPECT_EQ(printed(one.seconds * 1e3, 4), "0.1361");
        EXPECT_EQ(one.joules, filled.joules);
        EXPECT_EQ(printed(one.tera_operations_per_second, 2), c.tops_of_one);
    }
}

TEST(ProductCost, OfFourPhasesIsFourTimesTheCostOfOne) {
    const auto cost =
        product_cost(hermes(ReadMode::four_phase),
                     {.inputs = 512, .outputs = 1024, .products = 1024, .placement = {.replicas = 8}});
    EXPECT_EQ(printed(cost.seconds * 1e3, 4), "0.0667");
    EXPECT_EQ(printed(cost.joules.value() * 1e3, 3), "0.433");
}

TEST(ProductCost, OfAveragedCopiesCountsEveryCopy) {
    Workload work{.inputs = 256, .outputs = 256, .products = 10, .placement = {.replicas = 4}};
    const auto chip = hermes(ReadMode::one_phase);
    const auto shared = product_cost(chip, work);
    EXPECT_DOUBLE_EQ(shared.seconds, 3 * product_seconds(chip.core));
    EXPECT_EQ(shared.core_products, 10U);
    work.placement.replication = Replication::average;
    const auto averaged = product_cost(chip, work);
    EXPECT_DOUBLE_EQ(averaged.seconds, 10 * product_seconds(chip.core));
    EXPECT_EQ(averaged.core_products, 40U);
    EXPECT_DOUBLE_EQ(averaged.joules.value(), 4 * shared.joules.value());
    EXPECT_EQ(averaged.operations, 2.0 * 256 * 256 * 10);
}

TEST(ProductCost, OfBitSerialInputsIsOnePulsePerBit) {
    auto chip = hermes(ReadMode::one_phase);
    chip.core.dac.encoding = InputEncoding::bit_serial;
    // Seven bits of 127 levels.
    EXPECT_NEAR(product_seconds(chip.core), (7 * (127 + 2.363) + 3.578) * 1e-9, 1e-15);
}

TEST(ProductCost, HasNoEnergyWithoutPower) {
    const auto cost = product_cost(chip_preset("ideal"), {.inputs = 3, .outputs = 5, .products = 7});
    EXPECT_FALSE(cost.joules.has_value());
    EXPECT_FALSE(cost.tera_operations_per_joule.has_value());
    EXPECT_GT(cost.seconds, 0.0);
}

TEST(ProductCost, OfNoProductsIsZero) {
    const auto cost = product_cost(hermes(ReadMode::one_phase), {.inputs = 3, .outputs = 5, .products = 0});
    EXPECT_EQ(cost.seconds, 0.0);
    EXPECT_EQ(cost.tera_operations_per_second, 0.0);
}

TEST(ProductCost, ErrorStatesTheNumberOfCores) {
    const auto chip = hermes(ReadMode::one_phase);
    const auto cost = [&](std::size_t d, std::size_t m, int replicas) {
        product_cost(chip, {.inputs = d, .outputs = m, .placement = {.replicas = replicas}});
    };
    EXPECT_THAT(error_of([&] { cost(512, 1024, 9); }),
                testing::HasSubstr("bad_config: 9 copies of 8 tiles need 72 cores; chip 'hermes' has 64"));
    EXPECT_THAT(error_of([&] { cost(4096, 2048, 0); }), testing::HasSubstr("need 128 cores"));
    EXPECT_THAT(error_of([&] { cost(4, 4, -1); }), testing::HasSubstr("replicas: -1 is out of range"));
    EXPECT_THAT(error_of([&] { cost(0, 4, 1); }), testing::HasSubstr("0 inputs"));
}

TEST(ProductCost, OfAPlacedMatrixIsTheCostOfItsCores) {
    const auto plan = place(hermes(ReadMode::one_phase), Matrix<float>(300, 500), {.replicas = 3});
    EXPECT_THAT(error_of([&] { product_cost(plan, 1, 9); }), testing::HasSubstr("bad_usage: no matrix 1"));
    const auto cost = product_cost(plan, 0, 10);
    EXPECT_EQ(cost.cores, 12U);
    EXPECT_DOUBLE_EQ(cost.seconds, 4 * product_seconds(plan.spec.core));
    EXPECT_EQ(cost.operations, 2.0 * 300 * 500 * 10);
}

TEST(CostConfig, RefusesNegativeNumbers) {
    auto chip = chip_preset("hermes");
    chip.core.cost.phase_overhead_seconds = -1e-9;
    EXPECT_THAT(error_of([&] { validate(chip.core); }), testing::HasSubstr("phase_overhead"));
    chip.core.cost = {.product_overhead_seconds = -1.0};
    EXPECT_THAT(error_of([&] { validate(chip.core); }), testing::HasSubstr("product_overhead"));
    chip.core.cost = {.one_phase_watts = -1.0};
    EXPECT_THAT(error_of([&] { validate(chip.core); }), testing::HasSubstr("one_phase_power"));
    chip.core.cost = {.four_phase_watts = -1.0};
    EXPECT_THAT(error_of([&] { validate(chip.core); }), testing::HasSubstr("four_phase_power"));
}

}  // namespace
}  // namespace imka
