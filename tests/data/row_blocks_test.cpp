// Files read in blocks, and statistics computed in one pass over them.
#include "imka/data/row_blocks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <thread>

#include "imka/base/file.hpp"
#include "imka/data/table.hpp"
#include "support/compress.hpp"
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
    return {.file = dir / "x.csv", .options = {.label_column = "last", .header = Header::no}};
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
    RowSource source{.file = dir / "x.libsvm"};
    EXPECT_THAT(error_of([&] { for_each_block(source, {}, [](RowBlock&) {}); }),
                HasSubstr("unknown number of features"));
    source = resolved(source, {});
    EXPECT_EQ(source.options.features, 7U);
    for_each_block(source, {}, [](RowBlock& block) {
        ASSERT_EQ(block.x.rows(), 2U);
        EXPECT_THAT(block.x.row(0), testing::ElementsAre(0, 0.5F, 0, 0, 0, 0, 1));
        EXPECT_THAT(block.x.row(1), testing::ElementsAre(0, 0, 2, 0, 0, 0, 0));
    });
    std::ofstream(dir / "empty.libsvm") << "1\n-1\n";
    EXPECT_THAT(error_of([&] { resolved({.file = dir / "empty.libsvm"}, {}); }), HasSubstr("bad_data: "));
}

TEST(RowBlocks, StatisticsOfOnePassAreThoseInMemory) {
    const TempDir dir;
    auto source = numbered_rows(dir, 5000);
    const auto streamed = compute_standardization(source, {});
    const auto x = read_table(source.file.path(), source.options).x;
    const auto whole = compute_standardization(x.view(), {});
    for (std::size_t c = 0; c < 3; ++c) {
        EXPECT_NEAR(streamed.mean[c], whole.mean[c], 1e-9 * (1.0 + std::abs(whole.mean[c])));
        EXPECT_NEAR(streamed.std[c], whole.std[c], 1e-9 * whole.std[c]);
    }
    EXPECT_EQ(streamed.std[1], 1.0) << "constant";
    // Used as scaling, they apply to every row.
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
    for (const int count : taken) EXPECT_NEAR(count, kDraws * 0.25, 97);
}

// A FIFO with this text, written by another thread.
class Fifo {
public:
    Fifo(const std::filesystem::path& path, std::string text)
        : path_(path), writer_([path, text = std::move(text)] { std::ofstream(path) << text; }) {}
    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
    std::jthread writer_;
};

std::filesystem::path make_fifo(const std::filesystem::path& path) {
    EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
    return path;
}

TEST(RowBlocks, APipeGivesAllItsRowsInEveryPass) {
    const TempDir dir;
    const auto file = numbered_rows(dir, 20'000);
    const auto text = read_file(dir / "x.csv", 1U << 24U);
    for (const auto& bytes : {text, gzip_bytes(text)}) {
        const auto name = make_fifo(dir / (bytes == text ? "plain.csv" : "packed.csv"));
        const Fifo fifo(name, bytes);
        auto options = file.options;
        options.spool_folder = dir.path();
        const auto source = resolved({.file = fifo.path(), .options = options}, {});
        EXPECT_EQ(source.options.features, 3U);
        EXPECT_EQ(compute_standardization(source, {}), compute_standardization(file, {}));
        EXPECT_EQ(sample_rows(source, 100, 7, {}), sample_rows(file, 100, 7, {}));
        std::uint64_t rows = 0;
        for_each_block(source, {}, [&](RowBlock& block) {
            for (std::size_t r = 0; r < block.x.rows(); ++r, ++rows)
                ASSERT_EQ(block.x(r, 0), static_cast<float>(rows));
        });
        EXPECT_EQ(rows, 20'000U);
    }
    // The copy is an unnamed file.
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 3);
}

TEST(RowBlocks, APipeThatCannotBeCopiedIsAnError) {
    const TempDir dir;
    const auto fifo = make_fifo(dir / "x.csv");
    EXPECT_THAT(
        error_of([&] { resolved({.file = fifo, .options = {.spool_folder = dir / "none"}}, {}); }),
        HasSubstr(
            "x.csv: is a pipe that is read more than once, but it cannot be copied to a temporary file"));
}

TEST(RowBlocks, WaitingForAPipeCanBeCancelled) {
    const TempDir dir;
    const auto path = make_fifo(dir / "x.csv");
    std::atomic<bool> cancel{false};
    const std::jthread other([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        cancel = true;
    });
    EXPECT_THAT(error_of([&] { read_table(path, {}, {.cancel = &cancel}); }), HasSubstr("interrupted: "));
}

TEST(RowBlocks, MissingValuesGetTheMeanOfTheirColumn) {
    const TempDir dir;
    std::ofstream(dir / "x.csv") << "a,b\n1,10\n,20\n5,NA\n";
    RowSource source{.file = dir / "x.csv", .options = {.missing = Missing::mean}};
    const auto first = [&] {
        Matrix<float> x;
        for_each_block(source, {}, [&](RowBlock& block) { x = block.x; });
        return x;
    };
    EXPECT_THAT(error_of(first), HasSubstr("bad_usage: "));
    const auto statistics = compute_standardization(source, {});
    EXPECT_THAT(statistics.mean, testing::ElementsAre(3, 15));
    source.fill = statistics.mean;
    const auto filled = first();
    EXPECT_THAT(filled.values(), testing::ElementsAre(1, 10, 3, 20, 5, 15));
    source.scaling = statistics;
    EXPECT_EQ(first()(1, 0), 0.0F);
    EXPECT_EQ(first()(2, 1), 0.0F);
    std::ofstream(dir / "y.csv") << "a,b\n1,\n2,\n";
    EXPECT_THAT(error_of([&] {
                    compute_standardization({.file = dir / "y.csv", .options = {.missing = Missing::mean}},
                                            {});
                }),
                HasSubstr("all values of feature 2 are missing"));
}

}  // namespace
}  // namespace imka
