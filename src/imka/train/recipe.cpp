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
extern const std::string_view lra_tiny, lra_tiny_hwa, lra_tiny_hwa_fitted, lra_cifar10_hwa_fitted,
    lra_listops_hwa_fitted, lra_imdb_hwa_fitted, lra_cifar10, lra_cifar10_relu, lra_cifar10_exact,
    lra_cifar10_table, lra_cifar10_hwa, lra_cifar10_relu_hwa, lra_cifar10_shared, lra_cifar10_width32,
    lra_cifar10_width32_hwa, lra_cifar10_width96, lra_cifar10_width96_hwa, lra_cifar10_fixed,
    lra_cifar10_redraw1, lra_cifar10_redraw1500, lra_listops, lra_listops_table, lra_listops_hwa, lra_imdb,
    lra_imdb_table, lra_imdb_hwa, lra_pathfinder32, lra_pathfinder32_table, lra_pathfinder32_hwa,
    lra_pathfinder32_unit, lra_retrieval, lra_retrieval_table, lra_retrieval_hwa;
}

namespace {

struct KnownRecipe {
    std::string_view name;
    std::string_view text;
};
const auto& table() {
    static const std::array known{
        KnownRecipe{"tiny", embedded::lra_tiny},
        KnownRecipe{"tiny_hwa", embedded::lra_tiny_hwa},
        KnownRecipe{"tiny_hwa_fitted", embedded::lra_tiny_hwa_fitted},
        KnownRecipe{"cifar10", embedded::lra_cifar10},
        KnownRecipe{"cifar10_relu", embedded::lra_cifar10_relu},
        KnownRecipe{"cifar10_exact", embedded::lra_cifar10_exact},
        KnownRecipe{"cifar10_table", embedded::lra_cifar10_table},
        KnownRecipe{"cifar10_hwa", embedded::lra_cifar10_hwa},
        KnownRecipe{"cifar10_hwa_fitted", embedded::lra_cifar10_hwa_fitted},
        KnownRecipe{"cifar10_relu_hwa", embedded::lra_cifar10_relu_hwa},
        KnownRecipe{"cifar10_shared", embedded::lra_cifar10_shared},
        KnownRecipe{"cifar10_width32", embedded::lra_cifar10_width32},
        KnownRecipe{"cifar10_width32_hwa", embedded::lra_cifar10_width32_hwa},
        KnownRecipe{"cifar10_width96", embedded::lra_cifar10_width96},
        KnownRecipe{"cifar10_width96_hwa", embedded::lra_cifar10_width96_hwa},
        KnownRecipe{"cifar10_fixed", embedded::lra_cifar10_fixed},
        KnownRecipe{"cifar10_redraw1", embedded::lra_cifar10_redraw1},
        KnownRecipe{"cifar10_redraw1500", embedded::lra_cifar10_redraw1500},
        KnownRecipe{"listops", embedded::lra_listops},
        KnownRecipe{"listops_table", embedded::lra_listops_table},
        KnownRecipe{"listops_hwa", embedded::lra_listops_hwa},
        KnownRecipe{"listops_hwa_fitted", embedded::lra_listops_hwa_fitted},
        KnownRecipe{"imdb", embedded::lra_imdb},
        KnownRecipe{"imdb_table", embedded::lra_imdb_table},
        KnownRecipe{"imdb_hwa", embedded::lra_imdb_hwa},
        KnownRecipe{"imdb_hwa_fitted", embedded::lra_imdb_hwa_fitted},
        KnownRecipe{"pathfinder32", embedded::lra_pathfinder32},
        KnownRecipe{"pathfinder32_table", embedded::lra_pathfinder32_table},
        KnownRecipe{"pathfinder32_hwa", embedded::lra_pathfinder32_hwa},
        KnownRecipe{"pathfinder32_unit", embedded::lra_pathfinder32_unit},
        KnownRecipe{"retrieval", embedded::lra_retrieval},
        KnownRecipe{"retrieval_table", embedded::lra_retrieval_table},
        KnownRecipe{"retrieval_hwa", embedded::lra_retrieval_hwa},
    };
    return known;
}

// Sets what the task of a model determines.
void fit_to_task(TrainRecipe& recipe) {
    const auto& task = lra_task(recipe.task);
    recipe.model.embedding = task.pixels ? Embedding::affine : Embedding::table;
    recipe.model.vocabulary = task.symbols + 1;
    recipe.model.length = task.length;
    recipe.model.documents = task.documents;
    recipe.model.classes = task.classes;
}

constexpr std::size_t kLongestChain = 8;  // of recipes that extend each other

// The keys of a file: those of a recipe, and `extends`.
void load_file(const std::string& name_or_file, TrainRecipe& recipe, std::string& base) {
    auto list = fields(recipe);
    list.push_back(field("extends", base, {.help = "Recipe that supplies the settings not given here"}));
    const auto known = std::ranges::find(table(), name_or_file, &KnownRecipe::name);
    if (known != table().end())
        return load_yaml_text(known->text, fmt::format("recipe {}", name_or_file), list);
    if (!std::filesystem::exists(name_or_file))
        fail(ErrorCode::bad_usage, fmt::format("unknown recipe '{}': expected a YAML file or one of {}",
                                               name_or_file, fmt::join(known_recipes(), ", ")));
    // The file is read more than once, so a pipe would not work.
    if (!std::filesystem::is_regular_file(name_or_file))
        fail(ErrorCode::bad_usage, fmt::format("{}: expected a regular file", name_or_file));
    load_yaml(name_or_file, list);
}

// Applies the settings of a recipe, after those of the recipe that it extends: a built-in recipe, or a file
// given relative to its folder.
void apply(const std::string& name_or_file, std::vector<std::string> chain, TrainRecipe& recipe) {
    chain.push_back(name_or_file);
    if (chain.size() > kLongestChain)
        fail(ErrorCode::bad_config,
             fmt::format("extends: more than {} recipes: {}", kLongestChain, fmt::join(chain, " -> ")));
    auto scratch = recipe;
    std::string base;
    load_file(name_or_file, scratch, base);
    if (!base.empty()) {
        const bool known = std::ranges::find(table(), base, &KnownRecipe::name) != table().end();
        const auto folder = std::filesystem::path(name_or_file).parent_path();
        apply(known ? base : (folder / base).string(), std::move(chain), recipe);
    }
    load_file(name_or_file, recipe, base);
}

void expect(std::string_view key, std::int64_t value, std::int64_t expected, const TrainRecipe& recipe) {
    if (value != expected)
        fail(ErrorCode::bad_config,
             fmt::format("{}: the task {} needs {}, not {}", key, to_string(recipe.task), expected, value));
}

// Error{bad_config} if training does not emulate an error of the chip (torch/chip_product.cpp).
void check_emulated(const ChipSpec& chip) {
    const auto& core = chip.core;
    const auto refuse = [&](bool has, std::string_view what) {
        if (has)
            fail(ErrorCode::bad_config,
                 fmt::format("chip_noise: the chip {} has {}, which training does not emulate", chip.name,
                             what));
    };
    refuse(core.read_mode != ReadMode::four_phase, "one-phase reads (core.read_mode)");
    refuse(core.dac.encoding != InputEncoding::pulse_width, "inputs bit by bit (core.input_encoding)");
    refuse(core.dac.jitter_steps > 0.0, "jitter of inputs (core.input_jitter)");
    refuse(core.ir_drop.scale > 0.0 && core.ir_drop.wire_ohm > 0.0, "losses on wires (core.ir_drop)");
    refuse(chip.device.stuck_at_reset_probability > 0.0 || chip.device.stuck_at_max_probability > 0.0,
           "stuck devices (device.stuck_at_reset_probability, device.stuck_at_max_probability)");
}

// Refuses settings that have no effect because a chip replaces them.
void check_chip_noise(const TrainRecipe& recipe) {
    const auto& hardware = recipe.hardware;
    if (!noise_chip(hardware)) return;
    if (!enabled(hardware))
        fail(ErrorCode::bad_config,
             fmt::format("chip_noise: {} has no effect with weight_noise: off; expected sample or batch",
                         hardware.chip_noise));
    const HardwareConfig defaults;
    const auto refuse = [&](bool differs, std::string_view key) {
        if (differs)
            fail(ErrorCode::bad_config, fmt::format("{}: has no effect with chip_noise: {}; leave it out",
                                                    key, hardware.chip_noise));
    };
    refuse(hardware.weight_noise_size != defaults.weight_noise_size, "weight_noise_size");
    refuse(hardware.output_noise != defaults.output_noise, "output_noise");
    refuse(hardware.input_levels != defaults.input_levels, "input_levels");
    if (recipe.train.batch < 2)
        fail(ErrorCode::bad_config,
             "batch: 1; chip_noise calibrates outputs with the examples of a batch and needs at least 2");
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
        field("average", c.average,
              range::between(0.0, 0.999999,
                             "Decay per step of the running mean of the weights; validated and kept in place "
                             "of the weights; 0 = no mean")),
        field("validate_every", c.validate_every, range::between(1, 1e8, "Steps between two validations")),
        field("validation_examples", c.validation_examples,
              range::not_negative("Examples per validation; 0 = all")),
        field(
            "test_new_omega", c.test_new_omega,
            {.help = "Every validation also logs the test accuracy with new directions, and with directions "
                     "of the Poisson law"}),
        field("patience", c.patience,
              range::not_negative("Validations without improvement after which training stops; 0 = never")),
        field("precision", c.precision, {.help = "Of matrix products on GPUs; processors always use fp32"}),
        field("seed", c.seed, {.help = "Of initial weights, order, dropout, noise and directions"}),
    };
}

Fields fields(HardwareConfig& c) {
    return {
        field("weight_noise", c.weight_noise,
              {.help = "Hardware-aware training: noise of the weights, drawn per example or per batch"}),
        field("weight_noise_size", c.weight_noise_size,
              range::not_negative("Standard deviation of the weight noise, relative to the largest weight")),
        field("output_noise", c.output_noise,
              range::not_negative("Noise of outputs, relative to input range x largest weight")),
        field("chip_noise", c.chip_noise,
              {.help = "gaussian, or a chip (name or FILE.yaml) whose errors replace both noises and "
                       "input_levels"}),
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

std::optional<ChipSpec> noise_chip(const HardwareConfig& config) {
    const auto& name = config.chip_noise;
    if (name == kGaussianNoise) return std::nullopt;
    const bool file = name.ends_with(".yaml") || name.ends_with(".yml");
    const auto known = chip_names();
    if (!file && std::ranges::find(known, name) == known.end())
        fail(ErrorCode::bad_config,
             fmt::format("chip_noise: '{}'; expected {}, {} or a chip file (NAME.yaml)", name, kGaussianNoise,
                         fmt::join(known, ", ")));
    auto chip = file ? load_chip(name) : chip_preset(name);
    check_emulated(chip);
    return chip;
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
    check_chip_noise(recipe);
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
    TrainRecipe recipe{.task = LraTask::tiny};
    TrainRecipe other{.task = LraTask::imdb};
    apply(name_or_file, {}, recipe);
    apply(name_or_file, {}, other);
    if (recipe.task != other.task)
        fail(ErrorCode::bad_config, fmt::format("{}: missing key 'task'", name_or_file));
    fit_to_task(recipe);
    apply(name_or_file, {}, recipe);  // overrides the values from the task
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
