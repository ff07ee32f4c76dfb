#include "imka/train/recipe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "imka/base/error.hpp"
#include "imka/io/settings.hpp"

namespace imka {
namespace embedded {
extern const std::string_view lra_tiny, lra_cifar10, lra_cifar10_relu, lra_cifar10_exact, lra_cifar10_table,
    lra_listops, lra_listops_table, lra_imdb, lra_imdb_table, lra_pathfinder32, lra_pathfinder32_table,
    lra_retrieval, lra_retrieval_table;
}

namespace {

struct KnownRecipe {
    std::string_view name;
    std::string_view text;
};
const auto& table() {
    static const std::array known{
        KnownRecipe{"tiny", embedded::lra_tiny},
        KnownRecipe{"cifar10", embedded::lra_cifar10},
        KnownRecipe{"cifar10_relu", embedded::lra_cifar10_relu},
        KnownRecipe{"cifar10_exact", embedded::lra_cifar10_exact},
        KnownRecipe{"cifar10_table", embedded::lra_cifar10_table},
        KnownRecipe{"listops", embedded::lra_listops},
        KnownRecipe{"listops_table", embedded::lra_listops_table},
        KnownRecipe{"imdb", embedded::lra_imdb},
        KnownRecipe{"imdb_table", embedded::lra_imdb_table},
        KnownRecipe{"pathfinder32", embedded::lra_pathfinder32},
        KnownRecipe{"pathfinder32_table", embedded::lra_pathfinder32_table},
        KnownRecipe{"retrieval", embedded::lra_retrieval},
        KnownRecipe{"retrieval_table", embedded::lra_retrieval_table},
    };
    return known;
}

// The settings of a model that its task decides.
void fit_to_task(TrainRecipe& recipe) {
    const auto& task = lra_task(recipe.task);
    recipe.model.embedding = task.pixels ? Embedding::affine : Embedding::table;
    recipe.model.vocabulary = task.symbols + 1;
    recipe.model.length = task.length;
    recipe.model.documents = task.documents;
    recipe.model.classes = task.classes;
}

void expect(std::string_view key, std::int64_t value, std::int64_t expected, const TrainRecipe& recipe) {
    if (value != expected)
        fail(ErrorCode::bad_config,
             fmt::format("{}: the task {} needs {}, not {}", key, to_string(recipe.task), expected, value));
}

}  // namespace

Fields fields(TrainConfig& c) {
    return {
        field("steps", c.steps, range::between(1, 1e8, "Updates of the weights")),
        field("batch", c.batch, range::between(1, 65536, "Examples per step")),
        field("lr", c.lr, range::positive("Learning rate after the warm-up")),
        field("schedule", c.schedule,
              {.help = "Of the learning rate after the warm-up; linear and cosine end at 0"}),
        field("warmup", c.warmup, range::not_negative("Steps in which the learning rate grows")),
        field("beta1", c.beta1, range::share("Decay of Adam's mean gradient")),
        field("beta2", c.beta2, range::share("Decay of Adam's mean square")),
        field("adam_epsilon", c.adam_epsilon, range::positive("Added to Adam's denominator")),
        field("weight_decay", c.weight_decay, range::not_negative("Decoupled weight decay")),
        field("clip_norm", c.clip_norm, range::not_negative("Largest norm of the gradient; 0 = no limit")),
        field("dropout", c.dropout,
              range::between(0.0, 0.9, "Share of values dropped after each part of a layer")),
        field("attention_dropout", c.attention_dropout,
              range::between(0.0, 0.9, "Share of attention outputs dropped")),
        field("cut_gradient", c.cut_gradient, {.help = "No gradient through the projection, as published"}),
        field("redraw", c.redraw,
              range::not_negative("Steps between two draws of the directions; 0 = never")),
        field("validate_every", c.validate_every, range::between(1, 1e8, "Steps between two validations")),
        field("validation_examples", c.validation_examples,
              range::not_negative("Examples of a validation; 0 = all")),
        field("patience", c.patience,
              range::not_negative("Validations without improvement that end the training; 0 = never")),
        field("precision", c.precision, {.help = "Of matrix products; tf32 has an effect on GPUs only"}),
        field("seed", c.seed, {.help = "Of initial weights, order, dropout, noise and directions"}),
    };
}

Fields fields(HardwareConfig& c) {
    return {
        field("weight_noise", c.weight_noise,
              {.help = "Hardware-aware training: noise of the weights, drawn per example or per batch"}),
        field("weight_noise_size", c.weight_noise_size,
              range::not_negative("Its standard deviation, relative to the largest weight")),
        field("output_noise", c.output_noise,
              range::not_negative("Noise of outputs, relative to input range x largest weight")),
        field("weight_clip", c.weight_clip,
              range::not_negative("Weights are clipped at this many standard deviations; 0 = off")),
        field("input_levels", c.input_levels,
              range::between(0, 32767, "Levels of inputs per sign; 0 = not quantised")),
        field("range_steps", c.range_steps,
              range::not_negative("Steps in which input ranges follow the data")),
        field("range_decay", c.range_decay, range::not_negative("Decay of input ranges")),
        field("range_inside", c.range_inside,
              range::share("... while more than this share of inputs is inside")),
        field("omega_on_chip", c.omega_on_chip, {.help = "The projection of attention is noisy too"}),
    };
}

bool enabled(const HardwareConfig& config) {
    return config.weight_noise != WeightNoise::off;
}

Fields fields(TrainRecipe& recipe) {
    Fields all{field("task", recipe.task, {.help = "Task of Long Range Arena"})};
    for (auto part : {fields(recipe.model), fields(recipe.train), fields(recipe.hardware)})
        all.insert(all.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
    return all;
}

void validate(const TrainRecipe& recipe) {
    auto copy = recipe;
    check_ranges(fields(copy));
    validate(recipe.model);
    const auto& task = lra_task(recipe.task);
    expect("classes", recipe.model.classes, task.classes, recipe);
    expect("documents", recipe.model.documents, task.documents, recipe);
    if (task.pixels != (recipe.model.embedding == Embedding::affine))
        fail(ErrorCode::bad_config, fmt::format("embedding: the task {} needs {}", to_string(recipe.task),
                                                task.pixels ? "affine" : "table"));
    if (!task.pixels) expect("vocabulary", recipe.model.vocabulary, task.symbols + 1, recipe);
}

std::vector<std::string> known_recipes() {
    std::vector<std::string> names;
    for (const auto& known : table()) names.emplace_back(known.name);
    return names;
}

TrainRecipe load_recipe(const std::string& name_or_file) {
    TrainRecipe recipe;
    const auto known = std::ranges::find(table(), name_or_file, &KnownRecipe::name);
    const auto load = [&] {
        if (known != table().end())
            load_yaml_text(known->text, fmt::format("recipe {}", name_or_file), fields(recipe));
        else
            load_yaml(name_or_file, fields(recipe));
    };
    if (known == table().end() && !std::filesystem::exists(name_or_file))
        fail(ErrorCode::bad_usage, fmt::format("unknown recipe '{}': expected a YAML file or one of {}",
                                               name_or_file, fmt::join(known_recipes(), ", ")));
    load();  // the task
    fit_to_task(recipe);
    load();  // over what the task decided
    validate(recipe);
    return recipe;
}

double learning_rate(const TrainConfig& c, std::int64_t step) {
    const auto t = static_cast<double>(step + 1);
    const auto warmup = static_cast<double>(c.warmup);
    if (t < warmup) return c.lr * t / warmup;
    const double left = std::clamp(
        (static_cast<double>(c.steps) - t) / std::max(1.0, static_cast<double>(c.steps) - warmup), 0.0, 1.0);
    switch (c.schedule) {
        case RateSchedule::inverse_sqrt:
            return c.lr * std::sqrt(std::max(warmup, 1.0) / t);
        case RateSchedule::linear:
            return c.lr * left;
        case RateSchedule::cosine:
            return c.lr * 0.5 * (1.0 - std::cos(std::numbers::pi * left));
        case RateSchedule::constant:
            break;
    }
    return c.lr;
}

}  // namespace imka
