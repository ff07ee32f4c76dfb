// Progress of a training as JSON, its log as JSON Lines, its settings as YAML.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <fstream>
#include <set>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/train/progress.hpp"

namespace imka {
namespace {

nlohmann::json training_of(const Performer& model) {
    auto json = nlohmann::json::parse(model.training, nullptr, false);
    if (!json.is_object() || !json.contains("recipe") || !json["recipe"].is_object())
        fail(ErrorCode::bad_data, "metadata 'training' does not describe a training run");
    return json;
}

}  // namespace

std::string training_json(const TrainingProgress& p, const TrainRecipe& recipe, const std::string& device) {
    auto copy = recipe;
    nlohmann::ordered_json json{{"step", p.step},           {"best_accuracy", p.best_accuracy},
                                {"best_step", p.best_step}, {"since_best", p.since_best},
                                {"seconds", p.seconds},     {"finished", p.finished},
                                {"device", device}};
    json["recipe"] = nlohmann::ordered_json::parse(to_json(fields(copy)));
    return json.dump();
}

TrainingProgress progress_of(const Performer& model) {
    const auto json = training_of(model);
    try {
        return {.step = json.at("step"),
                .best_accuracy = json.at("best_accuracy"),
                .best_step = json.at("best_step"),
                .since_best = json.at("since_best"),
                .seconds = json.at("seconds"),
                .finished = json.at("finished")};
    } catch (const nlohmann::json::exception&) {
        fail(ErrorCode::bad_data, "metadata 'training' lacks the training progress");
    }
}

void check_same_recipe(const Performer& model, const TrainRecipe& recipe) {
    const std::set<std::string> free{"steps", "validate_every", "validation_examples", "test_new_omega",
                                     "patience"};
    const auto stored = training_of(model)["recipe"];
    auto copy = recipe;
    for (const auto& f : fields(copy)) {
        const auto now = nlohmann::json::parse(f.json());
        if (free.contains(f.name) || !stored.contains(f.name) || stored[f.name] == now) continue;
        fail(ErrorCode::bad_config,
             fmt::format(
                 "{}: the training in this folder has {}, not {}; use another folder or the same settings",
                 f.name, stored[f.name].dump(), now.dump()));
    }
}

std::string recipe_yaml(const TrainRecipe& recipe) {
    auto copy = recipe;
    std::string text;
    for (const auto& f : fields(copy)) text += fmt::format("{}: {}\n", f.name, plain_text(f));
    return text;
}

std::string event_json(const TrainingEvent& e) {
    nlohmann::ordered_json json{
        {"kind", e.kind}, {"step", e.step}, {"loss", e.loss}, {"accuracy", e.accuracy}};
    if (e.kind == "train") {
        json["lr"] = e.lr;
        json["tokens_per_second"] = e.tokens_per_second;
    }
    json["seconds"] = e.seconds;
    return json.dump();
}

std::vector<TrainingEvent> read_training_log(const std::filesystem::path& path) {
    constexpr std::size_t kLargest = std::size_t{1} << 28U;
    const auto text = read_file(path, kLargest);
    std::vector<TrainingEvent> events;
    std::size_t line = 1;
    for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; ++line) {
        const auto json =
            nlohmann::json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                  text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
        begin = end + 1;
        try {
            events.push_back({.kind = json.at("kind"),
                              .step = json.at("step"),
                              .loss = json.at("loss"),
                              .accuracy = json.at("accuracy"),
                              .lr = json.value("lr", 0.0),
                              .tokens_per_second = json.value("tokens_per_second", 0.0),
                              .seconds = json.value("seconds", 0.0)});
        } catch (const nlohmann::json::exception&) {
            fail(ErrorCode::bad_data, fmt::format("{}: line {}: not a training event", path.string(), line));
        }
    }
    return events;
}

std::string log_until(const std::filesystem::path& path, std::int64_t step) {
    std::ifstream file(path);
    std::string text;
    for (std::string line; std::getline(file, line);) {
        const auto json = nlohmann::json::parse(line, nullptr, false);
        if (json.is_object() && json.value("step", step + 1) <= step) text += line + "\n";
    }
    return text;
}

}  // namespace imka
