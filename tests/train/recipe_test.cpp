// Recipes of trainings: files, learning rates, logs.
#include "imka/train/recipe.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "imka/train/progress.hpp"
#include "support/command.hpp"
#include "support/error.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

TEST(Recipe, EveryKnownOneFitsItsTask) {
    for (const auto& name : known_recipes()) {
        const auto recipe = load_recipe(name);
        EXPECT_EQ(recipe.model.classes, lra_task(recipe.task).classes) << name;
        EXPECT_LE(parameter_count(recipe.model), 200'000U) << name;
    }
    EXPECT_EQ(load_recipe("listops").model.vocabulary, 16);
    EXPECT_TRUE(load_recipe("listops").model.tied);
    EXPECT_EQ(load_recipe("retrieval").model.documents, 2);
}

TEST(Recipe, IsReadAsItWasWritten) {
    const TempDir dir;
    auto recipe = load_recipe("pathfinder32");
    recipe.train.lr = 3.25e-5;
    write_text(dir / "r.yaml", recipe_yaml(recipe));
    auto read = load_recipe((dir / "r.yaml").string());
    EXPECT_EQ(to_json(fields(read)), to_json(fields(recipe)));
}

TEST(Recipe, RefusesWhatDoesNotFitTheTask) {
    const TempDir dir;
    write_text(dir / "r.yaml", "task: cifar10\nclasses: 3\n");
    EXPECT_THAT(error_of([&] { load_recipe((dir / "r.yaml").string()); }),
                HasSubstr("cifar10 needs 10, not 3"));
    EXPECT_THAT(error_of([] { load_recipe("cifar11"); }), HasSubstr("unknown recipe 'cifar11'"));
    write_text(dir / "r.yaml", "task: cifar10\nlearning: 3\n");
    EXPECT_THAT(error_of([&] { load_recipe((dir / "r.yaml").string()); }), HasSubstr("learning"));
}

TEST(LearningRate, FollowsItsSchedule) {
    TrainConfig c{.steps = 1000, .lr = 1.0, .schedule = RateSchedule::inverse_sqrt, .warmup = 100};
    EXPECT_DOUBLE_EQ(learning_rate(c, 49), 0.5);
    EXPECT_DOUBLE_EQ(learning_rate(c, 99), 1.0);
    EXPECT_DOUBLE_EQ(learning_rate(c, 399), 0.5);
    c.schedule = RateSchedule::linear;
    EXPECT_DOUBLE_EQ(learning_rate(c, 549), 0.5);
    EXPECT_DOUBLE_EQ(learning_rate(c, 999), 0.0);
    c.schedule = RateSchedule::cosine;
    EXPECT_NEAR(learning_rate(c, 549), 0.5, 1e-12);
    c.schedule = RateSchedule::constant;
    EXPECT_DOUBLE_EQ(learning_rate(c, 999), 1.0);
    c.warmup = 0;
    c.schedule = RateSchedule::inverse_sqrt;
    EXPECT_DOUBLE_EQ(learning_rate(c, 0), 1.0);
}

TEST(TrainingLog, KeepsLinesUpToAStep) {
    const TempDir dir;
    std::string text;
    for (const std::int64_t step : {50, 100, 150})
        text += event_json({.kind = "train", .step = step, .loss = 1.5}) + "\n";
    write_text(dir / "log.jsonl", text + "{\"kind\": \"tr");
    const auto kept = log_until(dir / "log.jsonl", 100);
    EXPECT_THAT(kept, HasSubstr("\"step\":100"));
    EXPECT_THAT(kept, testing::Not(HasSubstr("150")));
    EXPECT_EQ(log_until(dir / "none.jsonl", 100), "");
}

}  // namespace
}  // namespace imka
