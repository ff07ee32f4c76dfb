// The literal simulator over many cores against the fast one.
#include "imka/chip/simulate/execute_literal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "imka/base/random.hpp"
#include "imka/chip/simulate/execute.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

Matrix<float> normals(std::size_t rows, std::size_t cols, std::uint64_t first) {
    Matrix<float> m(rows, cols);
    fill_normal(21, Stream::test, first, m.values());
    return m;
}

// 50 x 30 on cores of 20 x 16: 3 x 2 tiles. Nothing is fresh, so both simulators agree product by product.
ChipMatrix frozen_chip(const PlacementConfig& placement) {
    auto spec = chip_preset("hermes-published");
    spec.core.rows = 20;
    spec.core.cols = 16;
    spec.core.adc.noise_counts = 0.0;
    spec.device.read_noise_fresh_scale = 0.0;
    auto chip = ideal_matrix(spec, normals(50, 30, 0), 2);
    place(chip, placement);
    calibrate(chip, normals(200, 50, 500'000).view(), {}, {.threads = 1});
    program(chip, {}, {.threads = 1});
    calibrate_outputs(chip, {.threads = 1});
    age(chip, {.seconds = 1e5});
    compensate(chip, DriftCompensation::column);
    return chip;
}

TEST(ExecuteLiteral, AgreesWithTheFastSimulatorWhereNothingIsFresh) {
    const auto x = normals(25, 50, 900'000);
    for (const auto replication : {Replication::throughput, Replication::average}) {
        const auto chip = frozen_chip({.replicas = 3, .replication = replication});
        const auto fast = chip_products(ready(chip), x.view(), {.seed = 1, .first = 4}, {.threads = 1});
        const auto literal = literal_chip_products(chip, x.view(), {.seed = 1, .first = 4}, {.threads = 2});
        std::size_t different = 0;
        for (std::size_t i = 0; i < fast.values().size(); ++i) {
            // A count that float arithmetic puts on the other side of a whole number moves an output step.
            if (std::abs(fast.values()[i] - literal.y.values()[i]) > 1e-3F) ++different;
        }
        EXPECT_LE(different, fast.values().size() / 50) << to_string(replication);
        EXPECT_GT(literal.conversions, 0U);
    }
}

TEST(ExecuteLiteral, SameBitsForAnyThreadsAndBatch) {
    const auto chip = frozen_chip({.replicas = 2});
    const auto x = normals(9, 50, 900'000);
    const auto whole = literal_chip_products(chip, x.view(), {.seed = 1}, {.threads = 1}).y;
    const auto part =
        literal_chip_products(chip, x.view().slice_rows(5, 4), {.seed = 1, .first = 5}, {.threads = 3}).y;
    for (std::size_t r = 0; r < 4; ++r) {
        for (std::size_t c = 0; c < 30; ++c) EXPECT_EQ(part(r, c), whole(5 + r, c));
    }
}

TEST(ExecuteLiteral, NeedsAProgrammedChipAndInputsOfItsLength) {
    const auto chip = ideal_matrix(chip_preset("hermes-published"), normals(5, 5, 0), 2);
    EXPECT_THAT(error_of([&] { literal_chip_products(chip, normals(2, 5, 0).view(), {}, {}); }),
                testing::AllOf(testing::StartsWith("bad_usage: "), testing::HasSubstr("the chip is ideal")));
    const auto programmed = frozen_chip({});
    EXPECT_THAT(error_of([&] { literal_chip_products(programmed, normals(2, 5, 0).view(), {}, {}); }),
                testing::AllOf(testing::StartsWith("bad_data: "), testing::HasSubstr("inputs of length 5")));
}

}  // namespace
}  // namespace imka
