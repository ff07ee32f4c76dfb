// Whole trainings of the tiny task.
#include "imka/train/trainer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "support/error.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TrainRecipe tiny(std::int64_t steps) {
    auto recipe = load_recipe("tiny");
    recipe.train.steps = steps;
    return recipe;
}

Performer trained(const TrainRecipe& recipe, const TempDir& dir) {
    train(recipe, {.output = dir.path()}, {});
    return load_performer(dir / "last.safetensors");
}

// The log without times.
std::string losses(const TempDir& dir) {
    return std::regex_replace(read_file(dir / "log.jsonl", 1U << 20U),
                              std::regex(",\"(tokens_per_second|seconds)\":[^,}]*"), "");
}

TEST(Training, SolvesTheTinyTask) {
    const TempDir dir;
    const auto result = train(load_recipe("tiny"), {.output = dir.path()}, {});
    EXPECT_TRUE(result.progress.finished);
    EXPECT_GT(result.progress.best_accuracy, 0.95);
    const auto best = load_performer(dir / "best.safetensors");
    EXPECT_EQ(best.task, "tiny");
    EXPECT_TRUE(best.state.empty());
    EXPECT_EQ(progress_of(best).best_step, result.progress.best_step);
}

TEST(Training, ResumesToTheSameWeights) {
    auto recipe = tiny(120);
    recipe.train.dropout = 0.1;
    recipe.train.redraw = 35;
    recipe.train.validate_every = 70;
    const TempDir whole;
    const auto expected = trained(recipe, whole);
    const TempDir parts;
    // Ends without warning, 30 steps after a checkpoint.
    const TrainOptions options{.output = parts.path(), .on_event = [](const TrainingEvent& e) {
                                   if (e.kind == "train" && e.step == 100) throw std::runtime_error("crash");
                               }};
    EXPECT_THROW(train(recipe, options, {}), std::runtime_error);
    EXPECT_EQ(progress_of(load_performer(parts / "last.safetensors")).step, 70);
    const auto resumed = trained(recipe, parts);
    EXPECT_EQ(resumed.weights, expected.weights);
    EXPECT_EQ(resumed.omega, expected.omega);
    EXPECT_EQ(losses(parts), losses(whole));
}

TEST(Training, TestsWithNewDirectionsWithoutChangingAnything) {
    auto recipe = tiny(100);
    recipe.train.redraw = 0;
    recipe.train.validate_every = 50;
    const TempDir plain;
    const auto expected = trained(recipe, plain);
    recipe.train.test_new_omega = true;
    const TempDir tested;
    EXPECT_EQ(trained(recipe, tested).weights, expected.weights);
    std::vector<TrainingEvent> tests;
    for (const auto& e : read_training_log(tested / "log.jsonl")) {
        if (e.kind.starts_with("test")) tests.push_back(e);
    }
    ASSERT_EQ(tests.size(), 4U);
    EXPECT_EQ(tests[0].kind, "test");
    EXPECT_EQ(tests[1].kind, "test_poisson");
    EXPECT_EQ(tests[1].step, 50);
    EXPECT_NE(tests[0].loss, tests[1].loss);
    // Lines of the other kinds are the same.
    std::string rest;
    std::string line;
    for (std::istringstream lines(losses(tested)); std::getline(lines, line);) {
        if (line.find("\"kind\":\"test") == std::string::npos) rest += line + "\n";
    }
    EXPECT_EQ(rest, losses(plain));
}

TEST(Training, StopsAfterSomeMinutesAndGoesOn) {
    auto recipe = tiny(6);
    recipe.train.validate_every = 4;
    recipe.train.dropout = 0.1;
    const TempDir whole;
    const auto expected = trained(recipe, whole);
    const TempDir parts;
    // Every step takes longer than that.
    const TrainOptions options{.output = parts.path(), .minutes = 1e-9};
    for (std::int64_t step = 1; step <= 6; ++step) {
        const auto result = train(recipe, options, {});
        EXPECT_EQ(result.progress.step, step);
        EXPECT_EQ(result.progress.finished, step == 6);
        EXPECT_EQ(progress_of(load_performer(parts / "last.safetensors")).step, step);
    }
    EXPECT_EQ(load_performer(parts / "last.safetensors").weights, expected.weights);
    EXPECT_EQ(load_performer(parts / "best.safetensors").weights,
              load_performer(whole / "best.safetensors").weights);
}

TEST(Training, KeepsTheMeanOfTheWeights) {
    auto recipe = tiny(40);
    recipe.train.validate_every = 20;
    const TempDir plain_dir;
    trained(recipe, plain_dir);
    recipe.train.average = 0.9;
    const TempDir dir;
    const auto last = trained(recipe, dir);
    // Training itself does not change, only the validated weights do.
    EXPECT_EQ(last.weights, load_performer(plain_dir / "last.safetensors").weights);
    EXPECT_NE(losses(dir), losses(plain_dir));
    const auto best = load_performer(dir / "best.safetensors");
    EXPECT_NE(best.weights, load_performer(plain_dir / "best.safetensors").weights);
}

TEST(Training, ResumesTheMeanOfTheWeights) {
    auto recipe = tiny(90);
    recipe.train.average = 0.95;
    recipe.train.validate_every = 45;
    const TempDir whole;
    trained(recipe, whole);
    const TempDir parts;
    const TrainOptions options{.output = parts.path(), .on_event = [](const TrainingEvent& e) {
                                   if (e.kind == "train" && e.step == 50) throw std::runtime_error("crash");
                               }};
    EXPECT_THROW(train(recipe, options, {}), std::runtime_error);
    trained(recipe, parts);
    EXPECT_EQ(losses(parts), losses(whole));
    EXPECT_EQ(load_performer(parts / "best.safetensors").weights,
              load_performer(whole / "best.safetensors").weights);
}

TEST(Training, ResumesToTheSameWeightsOnAGpu) {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
    auto recipe = load_recipe("tiny");
    recipe.train.dropout = 0.1;
    recipe.train.precision = TrainPrecision::bf16;
    recipe.train.validate_every = 70;
    const Exec exec{.device = {DeviceKind::cuda, 0}};
    const TempDir whole;
    const auto result = train(recipe, {.output = whole.path()}, exec);
    EXPECT_GT(result.progress.best_accuracy, 0.9);
    const TempDir parts;
    const TrainOptions options{.output = parts.path(), .on_event = [](const TrainingEvent& e) {
                                   if (e.kind == "train" && e.step == 100) throw std::runtime_error("crash");
                               }};
    EXPECT_THROW(train(recipe, options, exec), std::runtime_error);
    train(recipe, {.output = parts.path()}, exec);
    EXPECT_EQ(load_performer(parts / "last.safetensors").weights,
              load_performer(whole / "last.safetensors").weights);
    EXPECT_EQ(losses(parts), losses(whole));
}

TEST(Training, OnAProcessorIsInFp32) {
    auto recipe = tiny(10);
    const TempDir single;
    const auto expected = trained(recipe, single);
    recipe.train.precision = TrainPrecision::bf16;
    const TempDir half;
    EXPECT_EQ(trained(recipe, half).weights, expected.weights);
}

// Trains until step 50.
void interrupt_at_50(const TrainRecipe& recipe, const TempDir& dir) {
    std::atomic<bool> stop{false};
    const TrainOptions options{.output = dir.path(),
                               .on_event = [&](const TrainingEvent& e) { stop = e.step >= 50; }};
    EXPECT_THAT(error_of([&] { train(recipe, options, {.cancel = &stop}); }), HasSubstr("interrupted"));
    EXPECT_EQ(progress_of(load_performer(dir / "last.safetensors")).step, 50);
}

TEST(Training, ResumesHardwareAwareTrainingToTheSameWeights) {
    auto recipe = tiny(130);
    recipe.hardware.weight_noise = WeightNoise::sample;
    recipe.hardware.range_steps = 90;
    const TempDir whole;
    const auto expected = trained(recipe, whole);
    EXPECT_EQ(expected.input_ranges.size(), static_weights(recipe.model).size());
    const TempDir parts;
    interrupt_at_50(recipe, parts);
    const auto resumed = trained(recipe, parts);
    EXPECT_EQ(resumed.weights, expected.weights);
    EXPECT_EQ(resumed.input_ranges, expected.input_ranges);
}

// The tiny task with the errors of the chip hermes.
TrainRecipe tiny_on_chip(std::int64_t steps) {
    auto recipe = tiny(steps);
    recipe.hardware.weight_noise = WeightNoise::sample;
    recipe.hardware.chip_noise = "hermes";
    return recipe;
}

TEST(Training, SolvesTheTinyTaskWithTheErrorsOfAChip) {
    for (const auto written : {WeightNoise::sample, WeightNoise::batch}) {
        auto recipe = tiny_on_chip(150);
        recipe.hardware.weight_noise = written;
        recipe.hardware.range_steps = 20;
        const TempDir dir;
        EXPECT_GT(train(recipe, {.output = dir.path()}, {}).progress.best_accuracy, 0.9);
    }
}

// Steps are recorded on a GPU, so nothing in them may wait for it.
TEST(Training, SolvesTheTinyTaskWithTheErrorsOfAChipOnAGpu) {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
    auto recipe = tiny_on_chip(150);
    recipe.hardware.omega_on_chip = true;
    const TempDir dir;
    const auto result = train(recipe, {.output = dir.path()}, {.device = {DeviceKind::cuda, 0}});
    EXPECT_GT(result.progress.best_accuracy, 0.9);
}

TEST(Training, ResumesToTheSameWeightsWithTheErrorsOfAChip) {
    auto recipe = tiny_on_chip(70);
    recipe.hardware.omega_on_chip = true;
    recipe.hardware.range_steps = 55;
    const TempDir whole;
    const auto expected = trained(recipe, whole);
    const TempDir parts;
    interrupt_at_50(recipe, parts);
    const auto resumed = trained(recipe, parts);
    EXPECT_EQ(resumed.weights, expected.weights);
    EXPECT_EQ(resumed.input_ranges, expected.input_ranges);
    recipe.hardware.chip_noise = "hermes-published";
    EXPECT_THAT(error_of([&] { train(recipe, {.output = parts.path()}, {}); }),
                HasSubstr("chip_noise: the training in this folder has \"hermes\""));
    recipe.hardware.chip_noise = "gaussian";
    const TempDir gaussian;
    EXPECT_NE(trained(recipe, gaussian).weights, expected.weights);
}

TEST(Training, ClipsWeightsAndLearnsRanges) {
    auto recipe = tiny(60);
    recipe.hardware = {.weight_noise = WeightNoise::batch, .weight_clip = 1.5, .range_steps = 10};
    const TempDir dir;
    const auto model = trained(recipe, dir);
    for (const auto& name : static_weights(recipe.model)) {
        const auto& w = model.weights.at(name + ".weight");
        double squares = 0.0;
        double most = 0.0;
        for (const float x : w.values()) {
            squares += static_cast<double>(x) * x;
            most = std::max(most, static_cast<double>(std::abs(x)));
        }
        // Clipping reduces the deviation a little, so the largest weight may be a little above 1.5
        // deviations.
        EXPECT_LT(most, 1.9 * std::sqrt(squares / static_cast<double>(w.values().size()))) << name;
        EXPECT_GT(model.input_ranges.at(name), 0.1F) << name;
    }
}

TEST(Training, StopsAtALossThatIsNotFinite) {
    auto recipe = tiny(400);
    recipe.train.lr = 1e30;
    recipe.train.warmup = 0;
    recipe.train.clip_norm = 0.0;
    recipe.train.schedule = RateSchedule::constant;
    const TempDir dir;
    EXPECT_THAT(
        error_of([&] { train(recipe, {.output = dir.path()}, {}); }),
        AllOf(HasSubstr("numeric"), HasSubstr("the loss of step"), HasSubstr("checkpoint is from step 0")));
    EXPECT_FALSE(std::filesystem::exists(dir / "last.safetensors"));
}

TEST(Training, KeepsTheLastGoodCheckpoint) {
    const auto recipe = tiny(60);
    const TempDir dir;
    auto model = trained(tiny(20), dir);
    model.training =
        std::regex_replace(model.training, std::regex("\"finished\":true"), "\"finished\":false");
    const auto count = static_cast<std::size_t>(parameter_count(recipe.model));
    for (const auto* name : {"mean", "square"}) model.state[name] = Matrix<float>(1, count);
    auto& output = model.weights.at("classifier.output.weight");
    for (std::size_t c = 0; c < output.rows(); ++c)
        std::ranges::fill(output.row(c), c % 2 == 0 ? 3e38F : -3e38F);
    save_performer(dir / "last.safetensors", model);
    const auto before = read_file(dir / "last.safetensors", 1U << 24U);
    EXPECT_THAT(error_of([&] { train(recipe, {.output = dir.path()}, {}); }),
                AllOf(HasSubstr("numeric"), HasSubstr("the loss of step 2"),
                      HasSubstr("the latest checkpoint is from step 20")));
    EXPECT_EQ(read_file(dir / "last.safetensors", 1U << 24U), before);
}

// The step before a checkpoint has a finite loss, but its update makes weights infinite or NaN.
TEST(Training, SavesNoWeightsThatAreNotFinite) {
    auto recipe = tiny(20);
    recipe.train.lr = 1e38;
    recipe.train.warmup = 0;
    recipe.train.weight_decay = 1e3;
    recipe.train.schedule = RateSchedule::constant;
    for (const std::int64_t validate_every : {1, 20}) {
        recipe.train.validate_every = validate_every;
        const TempDir dir;
        EXPECT_THAT(
            error_of([&] { train(recipe, {.output = dir.path()}, {}); }),
            AllOf(HasSubstr("numeric"), HasSubstr("of step"), HasSubstr("checkpoint is from step 0")));
        EXPECT_FALSE(std::filesystem::exists(dir / "last.safetensors"));
        EXPECT_FALSE(std::filesystem::exists(dir / "best.safetensors"));
    }
}

TEST(Training, EndsEarlyWithoutImprovement) {
    auto recipe = tiny(5000);
    recipe.train.lr = 1e-12;
    recipe.train.validate_every = 10;
    recipe.train.patience = 2;
    const TempDir dir;
    const auto result = train(recipe, {.output = dir.path()}, {});
    EXPECT_TRUE(result.progress.finished);
    EXPECT_LE(result.progress.step, 100);
    // Finished: nothing is left to do.
    EXPECT_EQ(train(recipe, {.output = dir.path()}, {}).progress.step, result.progress.step);
}

TEST(Training, RefusesOtherSettingsAndOtherModels) {
    const TempDir dir;
    train(tiny(20), {.output = dir.path()}, {});
    auto other = tiny(40);
    other.train.lr = 1e-4;
    EXPECT_THAT(error_of([&] { train(other, {.output = dir.path()}, {}); }),
                HasSubstr("lr: the training in this folder"));
    const TempDir second;
    auto model = load_performer(dir / "best.safetensors");
    model.task = "imdb";
    save_performer(second / "imdb.safetensors", model);
    EXPECT_THAT(error_of([&] {
                    train(tiny(20), {.output = second / "out", .from = second / "imdb.safetensors"}, {});
                }),
                HasSubstr("a model for the task imdb, not tiny"));
    auto wide = tiny(20);
    wide.model.hidden = 40;
    EXPECT_THAT(
        error_of([&] { train(wide, {.output = second / "out", .from = dir / "best.safetensors"}, {}); }),
        HasSubstr("does not fit the settings"));
}

TEST(Training, SaysThatThereIsNoGpu) {
    const TempDir dir;
    EXPECT_THAT(error_of([&] {
                    train(tiny(1), {.output = dir.path()}, {.device = {DeviceKind::cuda, 999}});
                }),
                HasSubstr("missing_part"));
}

}  // namespace
}  // namespace imka
