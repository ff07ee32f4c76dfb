// imka train: a Performer for a task of Long Range Arena.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "app.hpp"
#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/train/trainer.hpp"
#include "run_options.hpp"

namespace imka::app {
namespace {

struct TrainArgs {
    std::string task;
    std::vector<std::string> overrides;
    TrainOptions options;
    bool hardware = false;
    bool dry_run = false;
    bool list = false;
};

// The recipe NAME_hwa; if it does not exist, the recipe NAME with weight noise.
TrainRecipe hardware_recipe(const std::string& task) {
    const auto known = known_recipes();
    const auto own = task + "_hwa";
    auto recipe = load_recipe(std::ranges::find(known, own) == known.end() ? task : own);
    if (!enabled(recipe.hardware)) recipe.hardware.weight_noise = WeightNoise::sample;
    return recipe;
}

TrainRecipe recipe_of(const TrainArgs& args) {
    auto recipe = args.hardware ? hardware_recipe(args.task) : load_recipe(args.task);
    for (const auto& [key, value] : parse_assignments(args.overrides, "--set"))
        set_field(fields(recipe), key, value);
    validate(recipe);
    return recipe;
}

// This program has no LibTorch; runs imka-train instead, which has the same commands.
[[noreturn]] void run_with_libtorch(std::vector<std::string> words) {
    const auto program = training_program();
    if (!std::filesystem::exists(program))
        fail(ErrorCode::missing_part,
             "imka was built without LibTorch. Install it (apt-get install libtorch-dev), build again with "
             "-DIMKA_TORCH=ON, and run 'imka train' from the folder of imka-train");
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execv(program.c_str(), arguments.data());
    fail(ErrorCode::io, fmt::format("{}: {}", program.string(), errno_text()));
}

// A progress line with the latest loss, and one permanent line per validation.
class TrainingLine {
public:
    TrainingLine(const TrainRecipe& recipe, const Exec& exec) : steps_(recipe.train.steps), exec_(exec) {}
    void operator()(const TrainingEvent& e) {
        if (e.kind != "train") {
            line_.clear();
            note(exec_, fmt::format("step {}: {} accuracy {:.2f} %, loss {:.4f}; {}", e.step,
                                    e.kind == "valid"  ? "validation"
                                    : e.kind == "test" ? "test (new directions)"
                                                       : "test (Poisson directions)",
                                    100.0 * e.accuracy, e.loss, train_text_));
            return;
        }
        train_text_ = fmt::format("training {:.2f} %, loss {:.4f}, {:.3g} tokens/s", 100.0 * e.accuracy,
                                  e.loss, e.tokens_per_second);
        if (first_ < 0) first_ = e.step;
        if (!line_.due() || e.step == first_) return;
        const double left =
            line_.seconds() / static_cast<double>(e.step - first_) * static_cast<double>(steps_ - e.step);
        line_.show("training", static_cast<double>(e.step) / static_cast<double>(steps_),
                   fmt::format("step {} of {}, {}, {} left", e.step, steps_, train_text_, clock_text(left)));
    }

private:
    std::int64_t steps_;
    const Exec& exec_;
    ProgressLine line_;
    std::string train_text_;
    std::int64_t first_ = -1;
};

void print_result(const TrainRecipe& recipe, const TrainArgs& args, const TrainResult& result,
                  Context& context) {
    const auto& p = result.progress;
    const auto best = (args.options.output / "best.safetensors").string();
    if (context.json) {
        auto copy = recipe;
        print_json({{"task", to_string(recipe.task)},
                    {"data", result.origin},
                    {"step", p.step},
                    {"steps", recipe.train.steps},
                    {"finished", p.finished},
                    {"loss", result.loss},
                    {"best_accuracy", p.best_accuracy},
                    {"best_step", p.best_step},
                    {"seconds", p.seconds},
                    {"parameters", parameter_count(recipe.model)},
                    {"checkpoint", best},
                    {"recipe", Json::parse(to_json(fields(copy)))}});
        return;
    }
    print_out("{} ({}): {} of {} steps in {}\n", to_string(recipe.task), result.origin, p.step,
              recipe.train.steps, clock_text(p.seconds));
    if (p.best_accuracy >= 0.0)
        print_out("best validation accuracy {:.2f} % at step {}: {}\n", 100.0 * p.best_accuracy, p.best_step,
                  best);
    if (!p.finished) print_out("not finished: run the same command again to resume\n");
}

void print_recipes(const Context& context) {
    if (context.json) return print_json(Json(known_recipes()));
    for (const auto& name : known_recipes()) {
        const auto recipe = load_recipe(name);
        print_out("{:<20} {} parameters, {} steps of {} x {} tokens\n", name, parameter_count(recipe.model),
                  recipe.train.steps, recipe.train.batch * recipe.model.documents, recipe.model.length);
    }
}

void run(const CLI::App& verb, TrainArgs& args, Context& context) {
    if (args.list || args.dry_run)
        reject_without_effect(verb, {"--output", "--from", "--minutes", "--device"},
                              "--list and --dry-run train nothing");
    if (args.list) return print_recipes(context);
    if (args.task.empty())
        fail(ErrorCode::bad_usage, "expected --task NAME or FILE.yaml; --list shows the names");
    auto recipe = recipe_of(args);
    if (args.dry_run && context.json) return print_json(Json::parse(to_json(fields(recipe))));
    if (args.dry_run) return print_out("{}", recipe_yaml(recipe));
    if (args.options.output.empty()) fail(ErrorCode::bad_usage, "expected --output FOLDER");
    if (!context.train) run_with_libtorch(context.arguments);
    args.options.source.data_dir = context.data_dir;
    TrainingLine line(recipe, context.exec);
    if (context.exec.progress != nullptr) args.options.on_event = [&](const TrainingEvent& e) { line(e); };
    auto exec = context.exec;
    exec.progress = nullptr;
    print_result(recipe, args, context.train(recipe, args.options, exec), context);
}

}  // namespace

std::filesystem::path training_program() {
    return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "imka-train";
}

void add_train(CLI::App& root, Context& context) {
    auto args = std::make_shared<TrainArgs>();
    auto* verb = add_verb(
        root, "train", "Train a Performer on a task of Long Range Arena",
        {"imka train --task tiny --output runs/tiny",
         "imka train --task cifar10 --output runs/cifar10 --device cuda --minutes 9",
         "imka train --task cifar10 --hardware-aware --from runs/cifar10/best.safetensors "
         "--output runs/cifar10-hwa --device cuda",
         "imka train --task listops --dry-run > my.yaml; imka train --task my.yaml --output runs/mine"});
    add_common_options(*verb, context);
    verb->add_option("--task", args->task, "Name of a recipe (--list) or a YAML file of settings")
        ->type_name("NAME|FILE");
    verb->add_option("--output", args->options.output,
                     "Output folder for checkpoints and log; an unfinished training run in it is resumed")
        ->type_name("FOLDER");
    verb->add_option("--from", args->options.from, "Start from this model instead of random weights")
        ->type_name("FILE")
        ->check(CLI::ExistingFile);
    verb->add_flag("--hardware-aware", args->hardware,
                   "Train with the noise, clipping and input ranges of a chip: the recipe NAME_hwa, or "
                   "weight_noise=sample where there is none");
    bind_fields(*verb,
                {field("minutes", args->options.minutes,
                       range::not_negative(
                           "Stop at a checkpoint after this time; the same command resumes; 0 = no limit"))});
    verb->add_option("--set", args->overrides, "Override one setting, e.g. --set lr=1e-3")
        ->type_name("KEY=VALUE");
    add_device_option(*verb, "Where to train", context);
    verb->add_flag("--list", args->list, "List the recipes");
    verb->add_flag("--dry-run", args->dry_run, "Print all settings as YAML and stop");
    verb->callback([args, verb, &context] { run(*verb, *args, context); });
}

}  // namespace imka::app
