// Facts about parts and files of data sets.
#include "imka/data/inspect.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "imka/data/table.hpp"
#include "imka/io/npy.hpp"
#include "support/error.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using testing::ElementsAre;

Dataset two_classes() {
    Dataset data{.name = "small", .classes = {"no", "yes"}};
    data.train = {.x = Matrix<float>(3, 2), .y = {1, 0, 1}};
    const float values[] = {1.0F, -2.0F, 4.0F, -2.0F, 1.0F, -2.0F};
    std::ranges::copy(values, data.train.x.values().begin());
    return data;
}

TEST(Inspect, RangesAndClassesOfAPart) {
    const auto data = two_classes();
    const auto ranges = column_ranges(data.train.x.view(), {});
    ASSERT_EQ(ranges.size(), 2U);
    EXPECT_EQ(ranges[0].min, 1.0F);
    EXPECT_EQ(ranges[0].max, 4.0F);
    EXPECT_DOUBLE_EQ(ranges[0].mean, 2.0);
    EXPECT_EQ(ranges[1].min, ranges[1].max);
    EXPECT_THAT(class_counts(data, data.train), ElementsAre(1, 2));
}

TEST(Inspect, AnExportedPartIsReadBack) {
    const TempDir dir;
    const auto data = two_classes();
    EXPECT_THAT(export_part(data, data.train, Format::csv, dir / "x.csv"), ElementsAre(dir / "x.csv"));
    const auto table = read_table(dir / "x.csv", {.label_column = "last"});
    EXPECT_THAT(table.labels, ElementsAre("yes", "no", "yes"));
    EXPECT_EQ(table.x(1, 0), 4.0F);
    EXPECT_THAT(export_part(data, data.train, Format::npy, dir / "x.npy"),
                ElementsAre(dir / "x.npy", dir / "x.labels.npy"));
    const auto labels = read_table(dir / "x.labels.npy", {});
    EXPECT_THAT(labels.x.values(), ElementsAre(1.0F, 0.0F, 1.0F));
    EXPECT_EQ(error_of([&] { export_part(data, data.train, Format::arff, dir / "x.arff"); }),
              "bad_usage: writing arff files is not supported");
}

TEST(Inspect, AbsentFilesAreNamed) {
    const TempDir dir;
    const auto& set = registered_sets().front();
    EXPECT_FALSE(is_present(set, dir.path()));
    const auto verdicts = verify_set(set, dir.path(), {});
    ASSERT_EQ(verdicts.size(), set.files.size());
    EXPECT_EQ(verdicts[0].state, FileState::absent);
    EXPECT_EQ(verdicts[0].path, set.files[0].names[0]);
    EXPECT_FALSE(verdicts[0].check.right);
}

}  // namespace
}  // namespace imka
