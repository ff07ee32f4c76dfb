// imka data show --task: examples of the tasks of Long Range Arena.
#include <gtest/gtest.h>

#include <string>

#include "imka/base/file.hpp"
#include "support/command.hpp"
#include "support/temp_dir.hpp"

namespace {

TEST(ShowTask, ExamplesAsTextAndJson) {
    const auto tree = run_imka("data show --task listops --index 2");
    EXPECT_EQ(tree.exit_code, 0) << tree.err;
    EXPECT_NE(tree.out.find("listops, part train, example 2: label "), std::string::npos);
    const auto j = json_of("data show --task listops --index 2 --count 2");
    ASSERT_EQ(j["examples"].size(), 2U);
    EXPECT_EQ(j["origin"], "generated with seed 0");
    EXPECT_EQ(j["examples"][1]["index"], 3);
    const auto root = j["examples"][0]["documents"][0]["expression"].get<std::string>();
    const auto label = j["examples"][0]["label"].get<int>();
    EXPECT_NE(tree.out.find(root.substr(0, root.find(' ')) + " = " + std::to_string(label) + "\n"),
              std::string::npos);
}

TEST(ShowTask, PictureAndFile) {
    const TempDir dir;
    const auto file = (dir / "x.pgm").string();
    const auto r = run_imka("data show --task pathfinder32 --part valid --output '" + file + "'");
    EXPECT_EQ(r.exit_code, 0) << r.err;
    EXPECT_NE(r.out.find("@@"), std::string::npos);
    EXPECT_EQ(imka::read_file(file, 10'000).size(), 13U + 1024U);
    const auto j = json_of("data show --task pathfinder32 --part valid");
    EXPECT_EQ(j["examples"][0]["documents"][0]["pixels"].size(), 1024U);
}

TEST(ShowTask, Statistics) {
    const auto j = json_of("data show --task tiny --part test --statistics");
    EXPECT_EQ(j["statistics"]["examples"], 500);
    EXPECT_EQ(j["statistics"]["class_counts"].size(), 4U);
    const auto r = run_imka("data show --task pathfinder32 --statistics --count 20");
    EXPECT_NE(r.out.find("mean gray"), std::string::npos) << r.err;
}

TEST(ShowTask, BadArguments) {
    expect_fails("data show", 2, "expected a data set, a file or --task TASK");
    expect_fails("data show magic --task tiny", 2, "expected a data set or --task, not both");
    expect_fails("data show --task tinny", 2, "tinny");
    expect_fails("data show ringnorm --count 2", 2, "--count has no effect: it needs --task");
    expect_fails("data show ringnorm --part valid", 2, "only tasks have the part valid");
    expect_fails("data show --task tiny --rows 2", 2, "--rows has no effect");
    expect_fails("data show --task tiny --statistics --index 2", 2, "--index has no effect");
    expect_fails("data show --task tiny --output x.pgm", 2, "--output writes images");
    expect_fails("data show --task pathfinder32 --count 2 --output x.pgm", 2, "one image");
    const TempDir empty;
    expect_fails("data show --task imdb --data-dir '" + empty.path().string() + "'", 4, "imdb_train.tsv");
}

}  // namespace
