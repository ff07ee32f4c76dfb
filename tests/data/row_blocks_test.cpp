// Files read in blocks, and what is computed in one pass over them.
#include "imka/data/row_blocks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "imka/data/table.hpp"
#include "support/error.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

// Row r: r, a constant, -r / 4; the label is r % 3.
RowSource numbered_rows(const TempDir& dir, std::size_t rows) {
    std::string text;
    for (std::size_t r = 0; r < rows; ++r)
        text += std::to_string(r) + ",5," + std::to_string(-static_cast<double>(r) / 4.0) + "," +
                std::to_string(r % 3) + "\n";
    std::ofstream(dir / "x.csv") << text;
    return {.path = dir / "x.csv", .options = {.header = false}, .scaling = {}};
}

TEST(RowBlocks, CoverTheFileInOrder) {
    const TempDir dir;
    constexpr std::size_t kRows = 9000;
    std::uint64_t next = 0;
    std::size_t blocks = 0;
    for_each_block(numbered_rows(dir, kRows), {}, [&](RowBlock& block) {
        EXPECT_EQ(block.first_row, next);
        ASSERT_EQ(block.labels.size(), block.x.rows());
        for (std::size_t r = 0; r < block.x.rows(); ++r, ++next) {
            ASSERT_EQ(block.x(r, 0), static_cast<float>(next));
            ASSERT_EQ(block.labels[r], std::to_string(next % 3));
        }
        ++blocks;
    });
    EXPECT_EQ(next, kRows);
    EXPECT_GT(blocks, 1U) << "the file is not held whole";
}

TEST(RowBlocks, FeaturesOfLibsvmFilesAreCounted) {
    const TempDir dir;
    std::ofstream(dir / "x.libsvm") << "1 2:0.5 7:1\n-1 3:2\n";
    RowSource source{.path = dir / "x.libsvm", .options = {}, .scaling = {}};
    EXPECT_THAT(error_of([&] { for_each_block(source, {}, [](RowBlock&) {}); }),
                HasSubstr("unknown number of features"));
    EXPECT_EQ(count_features(source.path, source.options, {}), 7U);
    source.options.features = 7;
    for_each_block(source, {}, [](RowBlock& block) {
        ASSERT_EQ(block.x.rows(), 2U);
        EXPECT_THAT(block.x.row(0), testing::ElementsAre(0, 0.5F, 0, 0, 0, 0, 1));
        EXPECT_THAT(block.x.row(1), testing::ElementsAre(0, 0, 2, 0, 0, 0, 0));
    });
    std::ofstream(dir / "empty.libsvm") << "1\n-1\n";
    EXPECT_THAT(error_of([&] { count_features(dir / "empty.libsvm", {}, {}); }), HasSubstr("bad_data: "));
}

TEST(RowBlocks, StatisticsOfOnePassAreThoseInMemory) {
    const TempDir dir;
    auto source = numbered_rows(dir, 5000);
    const auto streamed = compute_standardization(source, {});
    const auto x = read_table(source.path, source.options).x;
    const auto whole = compute_standardization(x.view(), {});
    for (std::size_t c = 0; c < 3; ++c) {
        EXPECT_NEAR(streamed.mean[c], whole.mean[c], 1e-9 * (1.0 + std::abs(whole.mean[c])));
        EXPECT_NEAR(streamed.std[c], whole.std[c], 1e-9 * whole.std[c]);
    }
    EXPECT_EQ(streamed.std[1], 1.0) << "constant";
    // As scaling they apply to every row.
    source.scaling = streamed;
    const auto scaled = compute_standardization(source, {});
    EXPECT_NEAR(scaled.mean[0], 0.0, 1e-6);
    EXPECT_NEAR(scaled.std[0], 1.0, 1e-6);
}

TEST(RowBlocks, ASampleTakesEveryRowEquallyOften) {
    const TempDir dir;
    const auto source = numbered_rows(dir, 8);
    EXPECT_EQ(sample_rows(source, 10, 1, {}).rows(), 8U) << "all there are";
    constexpr int kDraws = 2000;
    std::vector<int> taken(8);
    for (int seed = 0; seed < kDraws; ++seed) {
        const auto rows = sample_rows(source, 2, static_cast<std::uint64_t>(seed), {});
        ASSERT_EQ(rows.rows(), 2U);
        ASSERT_NE(rows(0, 0), rows(1, 0));
        for (std::size_t r = 0; r < 2; ++r) ++taken[static_cast<std::size_t>(rows(r, 0))];
    }
    // 5 sigma of 2000 draws with probability 1/4: 5 sqrt(2000 * 3 / 16) = 97
    for (const int count : taken) EXPECT_NEAR(count, kDraws / 4, 97);
}

}  // namespace
}  // namespace imka
