// What is needed to repeat a training run: task, model, optimiser, emulated hardware. One flat YAML file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "imka/base/config.hpp"
#include "imka/base/names.hpp"
#include "imka/chip/spec/chip.hpp"
#include "imka/data/lra/task.hpp"
#include "imka/train/performer.hpp"

namespace imka {

enum class RateSchedule {
    inverse_sqrt,
    linear,
    cosine,
    constant
};                                               // of the learning rate, after the warm-up
enum class TrainPrecision { fp32, tf32, bf16 };  // of matrix products on GPUs; sums are in fp32
enum class WeightNoise { off, sample, batch };   // off; one draw per example; one per batch
}  // namespace imka

template <>
struct imka::EnumNames<imka::RateSchedule> {
    static constexpr std::string_view what = "schedule";
    static constexpr std::string_view values[] = {"inverse_sqrt", "linear", "cosine", "constant"};
};
template <>
struct imka::EnumNames<imka::TrainPrecision> {
    static constexpr std::string_view what = "precision";
    static constexpr std::string_view values[] = {"fp32", "tf32", "bf16"};
};
template <>
struct imka::EnumNames<imka::WeightNoise> {
    static constexpr std::string_view what = "weight noise";
    static constexpr std::string_view values[] = {"off", "sample", "batch"};
};

namespace imka {

struct TrainConfig {
    std::int64_t steps = 10'000;
    std::int64_t batch = 128;
    double lr = 6e-4;
    RateSchedule schedule = RateSchedule::inverse_sqrt;
    std::int64_t warmup = 4000;  // steps in which the rate grows linearly
    double beta1 = 0.9;
    double beta2 = 0.98;
    double adam_epsilon = 1e-9;
    double weight_decay = 0.1;  // decoupled (AdamW)
    double clip_norm = 1.0;     // largest norm of the gradient; 0 = no limit
    double dropout = 0.1;
    double attention_dropout = 0.0;  // of the outputs of attention
    bool cut_gradient = false;       // no gradient through Ωx, as in the published models
    std::int64_t redraw = 1500;      // steps between two draws of Ω; 0 = never
    double average = 0.0;            // decay of the weight average that is validated and kept; 0 = none
    std::int64_t validate_every = 500;
    std::int64_t validation_examples = 0;  // 0: all
    bool test_new_omega = false;           // also log tests with new directions at every validation
    std::int64_t patience = 0;             // stop after this many validations without improvement; 0: never
    TrainPrecision precision = TrainPrecision::tf32;
    std::uint64_t seed = 0;
};
Fields fields(TrainConfig& config);

inline constexpr std::string_view kGaussianNoise = "gaussian";

// Hardware-aware training: products of static weights are computed as on a chip.
struct HardwareConfig {
    WeightNoise weight_noise = WeightNoise::off;
    double weight_noise_size = 0.12;  // standard deviation, of the largest weight of the matrix
    double output_noise = 0.1;        // of (input range x largest weight)
    // gaussian: noise of the two sizes above. Otherwise a chip (name or file): its own errors replace these
    // sizes and input_levels.
    std::string chip_noise = std::string(kGaussianNoise);
    double weight_clip = 2.0;         // in standard deviations, after every step; 0 = off
    std::int64_t input_levels = 127;  // of each sign; 0: inputs are not quantised
    std::int64_t range_steps = 100;   // first steps, in which input ranges are set to 3 standard deviations
    double range_decay = 0.5;         // of input ranges, while ...
    double range_inside = 0.95;       // ... more than this share of the inputs is inside
    bool omega_on_chip = false;       // the projection of attention is noisy too
};
Fields fields(HardwareConfig& config);
bool enabled(const HardwareConfig& config);
// The chip of chip_noise; none if it is gaussian. Error{bad_config} if the chip is unknown or has errors that
// training does not emulate.
std::optional<ChipSpec> noise_chip(const HardwareConfig& config);

struct TrainRecipe {
    LraTask task = LraTask::tiny;
    PerformerConfig model;
    TrainConfig train;
    HardwareConfig hardware;
};
// The keys of a recipe file: all of the above. Names are unique.
Fields fields(TrainRecipe& recipe);
// Also checks that the model fits the task.
void validate(const TrainRecipe& recipe);

// The built-in recipes, one per task ("cifar10") and variants ("cifar10_relu").
std::vector<std::string> known_recipes();
// A built-in name or a YAML file. The key `extends` of a file names another recipe, whose settings apply
// where the file has none. Error{bad_usage} with the known names.
TrainRecipe load_recipe(const std::string& name_or_file);

// Of step 0, 1, ...
double learning_rate(const TrainConfig& config, std::int64_t step);

}  // namespace imka
