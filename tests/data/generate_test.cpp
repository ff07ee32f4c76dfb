// Files of generated rows.
#include "imka/data/generate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/data/table.hpp"
#include "imka/io/npy.hpp"
#include "support/error.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

// More than two batches of blocks, so that the file contains batch boundaries.
constexpr std::uint64_t kRows = 140001;

TEST(Generate, EveryFormatHoldsTheSameRows) {
    const TempDir dir;
    Matrix<float> x(kRows, 20);
    std::vector<std::int32_t> y(kRows);
    generate_rows(Generator::ringnorm, 9, 0, x.view(), y);
    for (const auto* name : {"a.libsvm", "a.csv", "a.npy"}) {
        generate_file({.generator = Generator::ringnorm, .seed = 9, .rows = kRows, .output = dir / name}, {});
        const auto table = read_table(dir / name, {.features = 20});
        EXPECT_TRUE(table.x == x) << name;
        if (table.labels.empty()) continue;
        ASSERT_EQ(table.labels.size(), kRows);
        for (std::size_t r = 0; r < kRows; ++r) ASSERT_EQ(table.labels[r], std::to_string(y[r] + 1));
    }
    const auto labels = read_npy(dir / "a.labels.npy");
    ASSERT_EQ(labels.rows(), kRows);
    for (std::size_t r = 0; r < kRows; ++r) ASSERT_EQ(labels(r, 0), static_cast<float>(y[r] + 1));
}

TEST(Generate, FileDoesNotDependOnThreads) {
    const TempDir dir;
    const auto text = [&](int threads) {
        generate_file({.generator = Generator::waveform, .rows = 5000, .output = dir / "a.csv"},
                      {.threads = threads});
        return read_file(dir / "a.csv", std::size_t{1} << 24U);
    };
    EXPECT_EQ(text(1), text(4));
}

TEST(Generate, RefusesWhatCannotBeWritten) {
    const TempDir dir;
    for (const auto* name : {"a.txt", "a.arff", "a.csv.xz", "a"})
        EXPECT_THROW(generate_file({.rows = 1, .output = dir / name}, {}), Error) << name;
    EXPECT_THAT(error_of([&] { generate_file({.rows = 0, .output = dir / "a.csv"}, {}); }),
                testing::HasSubstr("bad_config: rows: 0 is out of range"));
    EXPECT_THROW(generate_file({.rows = 1, .output = dir / "no/a.csv"}, {}), Error);
    EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

}  // namespace
}  // namespace imka
