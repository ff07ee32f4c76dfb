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

TEST(Recipe, NeedsATask) {
    const TempDir dir;
    write_text(dir / "r.yaml", "steps: 10\n");
    EXPECT_THAT(error_of([&] { load_recipe((dir / "r.yaml").string()); }), HasSubstr("missing key 'task'"));
    EXPECT_THAT(error_of([&] { load_recipe("/dev/null"); }), HasSubstr("/dev/null: expected a regular file"));
    EXPECT_THAT(error_of([&] { load_recipe(dir.path().string()); }), HasSubstr("expected a regular file"));
}

TEST(Recipe, ExtendsAnother) {
    const auto base = load_recipe("cifar10");
    auto hardware = load_recipe("cifar10_hwa");
    EXPECT_EQ(hardware.hardware.weight_noise, WeightNoise::sample);
    EXPECT_EQ(hardware.train.lr, 5e-4);
    hardware.hardware = base.hardware;
    hardware.train.lr = base.train.lr;
    hardware.train.warmup = base.train.warmup;
    hardware.train.steps = base.train.steps;
    auto copy = base;
    EXPECT_EQ(to_json(fields(hardware)), to_json(fields(copy))) << "all else is that of the base";
    const auto relu = load_recipe("cifar10_relu_hwa");
    EXPECT_EQ(relu.model.attention, ModelAttention::relu);
    EXPECT_EQ(relu.train.steps, 10'000) << "over two recipes";
    EXPECT_EQ(relu.model.pixel_std, 0.24);
    // Files in the same folder; the task comes from the base.
    const TempDir dir;
    write_text(dir / "a.yaml", "extends: listops\nlr: 0.25\n");
    write_text(dir / "b.yaml", "extends: a.yaml\nbatch: 8\n");
    const auto own = load_recipe((dir / "b.yaml").string());
    EXPECT_EQ(own.train.lr, 0.25);
    EXPECT_EQ(own.train.batch, 8);
    EXPECT_EQ(own.model.vocabulary, 16);
    write_text(dir / "c.yaml", "extends: c.yaml\n");
    EXPECT_THAT(error_of([&] { load_recipe((dir / "c.yaml").string()); }),
                HasSubstr("extends: more than 8 recipes"));
    write_text(dir / "c.yaml", "extends: none\n");
    EXPECT_THAT(error_of([&] { load_recipe((dir / "c.yaml").string()); }), HasSubstr("unknown recipe"));
}

TEST(Recipe, VariantsDifferAsTheirNamesSay) {
    EXPECT_EQ(load_recipe("cifar10_exact").model.attention, ModelAttention::exact);
    EXPECT_EQ(load_recipe("cifar10_relu").model.n_directions, 256);
    EXPECT_TRUE(load_recipe("cifar10_shared").model.shared_omega);
    EXPECT_EQ(load_recipe("cifar10_fixed").train.redraw, 0);
    EXPECT_EQ(load_recipe("cifar10_redraw1500").train.redraw, 1500);
    EXPECT_TRUE(load_recipe("cifar10_redraw1").train.test_new_omega);
    EXPECT_EQ(load_recipe("pathfinder32_unit").model.embedding_std, 1.0);
    for (const auto* name : {"cifar10_width32", "cifar10_width96", "cifar10_width96_hwa"})
        EXPECT_EQ(head_size(load_recipe(name).model), 32) << name;
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

TEST(Recipe, HasTheNoiseOfAChip) {
    const auto recipe = load_recipe("cifar10_hwa_fitted");
    EXPECT_EQ(noise_chip(recipe.hardware)->name, "hermes");
    auto gaussian = recipe;
    gaussian.hardware.chip_noise = "gaussian";
    auto hwa = load_recipe("cifar10_hwa");
    EXPECT_EQ(to_json(fields(gaussian)), to_json(fields(hwa))) << "nothing else differs";
    EXPECT_FALSE(noise_chip(gaussian.hardware));
    // A user-defined chip.
    const TempDir dir;
    write_text(dir / "quiet.yaml",
               "extends: hermes\nname: quiet\ndescription: little noise\nsources: {own: measured}\n"
               "core:\n  adc_noise: {value: 0.25, unit: counts, source: own}\n");
    gaussian.hardware.chip_noise = (dir / "quiet.yaml").string();
    EXPECT_EQ(noise_chip(gaussian.hardware)->core.adc.noise_counts, 0.25);
}

TEST(Recipe, RefusesNoiseThatItCannotHave) {
    const auto error = [](const std::string& settings) {
        const TempDir dir;
        write_text(dir / "r.yaml", "extends: cifar10_hwa\n" + settings);
        return error_of([&] { load_recipe((dir / "r.yaml").string()); });
    };
    EXPECT_THAT(error("chip_noise: hermse\n"),
                HasSubstr("chip_noise: 'hermse'; expected gaussian, ideal, hermes,"));
    EXPECT_THAT(error("chip_noise: none.yaml\n"), HasSubstr("none.yaml"));
    EXPECT_THAT(error("chip_noise: neurram\n"),
                HasSubstr("the chip neurram has one-phase reads (core.read_mode), which training does not"));
    EXPECT_THAT(error("chip_noise: hermes\nweight_noise: off\n"),
                HasSubstr("no effect with weight_noise: off"));
    EXPECT_THAT(error("chip_noise: hermes\nweight_noise_size: 0.2\n"),
                HasSubstr("weight_noise_size: has no effect with chip_noise: hermes"));
    EXPECT_THAT(error("chip_noise: hermes\noutput_noise: 0\n"), HasSubstr("output_noise: has no effect"));
    EXPECT_THAT(error("chip_noise: hermes\ninput_levels: 7\n"), HasSubstr("input_levels: has no effect"));
    EXPECT_THAT(error("chip_noise: hermes\nbatch: 1\n"), HasSubstr("needs at least 2"));
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
    write_text(dir / "log.jsonl", text + R"({"kind": "tr)");
    const auto kept = log_until(dir / "log.jsonl", 100);
    EXPECT_THAT(kept, HasSubstr("\"step\":100"));
    EXPECT_THAT(kept, testing::Not(HasSubstr("150")));
    EXPECT_EQ(log_until(dir / "none.jsonl", 100), "");
    const auto events = read_training_log(dir / "log.jsonl");
    ASSERT_EQ(events.size(), 3U) << "without the torn line";
    EXPECT_EQ(events[1].step, 100);
    EXPECT_EQ(events[1].loss, 1.5);
    write_text(dir / "log.jsonl", text + "{}\n");
    EXPECT_THAT(error_of([&] { read_training_log(dir / "log.jsonl"); }), HasSubstr("line 4"));
}

}  // namespace
}  // namespace imka
