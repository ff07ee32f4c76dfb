#include "imka/experiment/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "imka/base/error.hpp"
#include "imka/base/sha256.hpp"
#include "imka/base/version.hpp"
#include "imka/chip/spec/chip_fields.hpp"
#include "imka/experiment/kinds.hpp"
#include "imka/metrics/metrics.hpp"

namespace imka {

namespace {

SettingsText texts_of(const Fields& list) {
    SettingsText texts;
    for (const auto& f : list) texts[f.name] = plain_text(f);
    return texts;
}

}  // namespace

RunConfig attention_defaults() {
    RunConfig config;
    config.dataset = "normal";
    config.attention.emplace();
    return config;
}

RunConfig performer_defaults() {
    RunConfig config;
    config.dataset = "cifar10";
    config.backend.name = "hermes";
    config.performer.emplace();
    return config;
}

AttentionSource attention_source(const RunConfig& config) {
    auto source = config.attention->source;
    source.dataset = config.dataset;
    source.seed = config.split_seed;
    return source;
}

PerformerSource performer_source(const RunConfig& config) {
    auto source = config.performer->source;
    source.task = config.dataset;
    return source;
}

Fields fields(RunConfig& c) {
    const auto& family = run_family(c);
    auto list = family.fields(c);
    std::ranges::move(family.chip_fields(c), std::back_inserter(list));
    return list;
}

Fields used_fields(RunConfig& c) {
    const auto& family = run_family(c);
    auto list = c.uses_chip() ? fields(c) : family.fields(c);
    std::erase_if(list, [&](const Field& f) { return f.name == family.place; });
    return list;
}

void pin_chip(RunConfig& config) {
    if (config.uses_chip()) config.chip.chip_hash = chip_hash(resolve_chip(config.backend, config.chip));
}

void validate(const RunConfig& config) {
    RunConfig copy = config;
    check_ranges(fields(copy));
    run_family(config).validate(config);
    if (!config.uses_chip()) return;
    validate(config.chip.projection);
    (void)resolve_chip(config.backend, config.chip);
}

SettingsText settings_text(const RunConfig& config) {
    RunConfig copy = config;
    if (!copy.chip.chip_hash) pin_chip(copy);
    return texts_of(used_fields(copy));
}

const SettingsText& default_settings_text(std::string_view kind) {
    static const auto all = [] {
        std::map<std::string_view, SettingsText> texts;
        for (const auto& known : run_kinds()) {
            auto config = known.family.defaults();
            texts[known.name] = texts_of(fields(config));
        }
        return texts;
    }();
    return all.at(recorded_kind(kind).name);
}

SettingsText changed_settings(const SettingsText& settings, const SettingsText& defaults) {
    SettingsText changed;
    for (const auto& [name, text] : settings) {
        const auto place = defaults.find(name);
        if (place == defaults.end() || place->second != text) changed.emplace(name, text);
    }
    return changed;
}

std::string config_hash(const RunConfig& config) {
    RunConfig copy = config;
    pin_chip(copy);
    auto usual = run_family(copy).defaults();
    const nlohmann::json changed = changed_settings(texts_of(used_fields(copy)), texts_of(fields(usual)));
    return sha256_hex(changed.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

LoadOptions load_options(const RunConfig& config, const std::filesystem::path& data_dir) {
    auto read = config.read;
    read.advise = true;
    return {.protocol = config.protocol,
            .task = config.task,
            .data_dir = data_dir,
            .split_seed = config.split_seed,
            .read = std::move(read)};
}

FeatureUse feature_use(const RunConfig& config) {
    return {.convention = config.protocol == Protocol::measured ? Convention::measured : Convention::standard,
            .on_chip = config.backend.is_chip()};
}

FeatureSizes run_sizes(const RunConfig& config, std::int64_t d) {
    return feature_sizes(config.features, feature_use(config), d);
}

FeatureRecipe feature_recipe(const RunConfig& config, const Dataset& data, std::uint64_t seed) {
    return resolve(config.features, feature_use(config),
                   input_statistics(config.features, data.train.x.view()), seed);
}

MatrixView<const float> gram_rows(const RunConfig& config, const Dataset& data) {
    const auto rows = std::min(data.test.x.rows(), static_cast<std::size_t>(config.gram_rows));
    return data.test.x.view().slice_rows(0, rows);
}

namespace {

// The chip with the run's Ω on it.
ChipMap map_on_chip(const RunConfig& config, const Dataset& data, const FeatureRecipe& recipe,
                    std::uint64_t chip_seed, const Exec& exec) {
    const auto chip = resolve_chip(config.backend, config.chip);
    const auto omega = sample(recipe.omega, exec);
    return chip_feature_map(recipe,
                            {.chip = chip,
                             .omega = omega,
                             .inputs = data.train.x.view(),
                             .config = config.chip.projection,
                             .seed = chip_seed},
                            exec);
}

Matrix<float> target_column(const Part& part) {
    Matrix<float> y(part.target.size(), 1);
    std::ranges::transform(part.target, y.values().begin(), [](double v) { return static_cast<float>(v); });
    return y;
}

// Maps on other chips, for `fit_on: chips`.
std::vector<FeatureMap> other_maps(const RunConfig& config, const Dataset& data, std::uint64_t seed,
                                   const Exec& exec) {
    std::vector<FeatureMap> maps;
    if (!config.backend.is_chip() || config.chip.fit_on != FitOn::chips) return maps;
    const auto recipe = feature_recipe(config, data, seed);
    for (std::int64_t k = 0; k < config.chip.fit_draws; ++k)
        maps.push_back(map_on_chip(config, data, recipe, draw_seeds(config.chip, seed, k).chip, exec).map);
    return maps;
}

}  // namespace

RunMap run_map(const RunConfig& config, const Dataset& data, std::uint64_t seed, const Exec& exec) {
    const auto recipe = feature_recipe(config, data, seed);
    if (!config.backend.is_chip()) return {.map = FeatureMap(recipe, exec), .chip = {}};
    const auto seeds = test_seeds(config.chip, seed);
    auto map = map_on_chip(config, data, recipe, seeds.chip, exec);
    const auto info = chip_info(resolve_chip(config.backend, config.chip), config.chip, map);
    return {.map = std::move(map.map), .chip = info, .seed = seeds.products};
}

std::optional<RunMap> copy_map(const RunConfig& config, const Dataset& data, std::uint64_t seed,
                               const Exec& exec) {
    if (!config.backend.is_chip() || config.chip.gram_copies == 1) return std::nullopt;
    const auto seeds = copy_seeds(config.chip, seed);
    auto map = map_on_chip(config, data, feature_recipe(config, data, seed), seeds.chip, exec);
    return RunMap{.map = std::move(map.map), .chip = {}, .seed = seeds.products};
}

RidgeModel fit_run(const RunConfig& config, const Dataset& data, std::uint64_t seed,
                   const FeatureMap* on_chip, const Exec& exec) {
    const RidgeFit fit{
        .recipe = feature_recipe(config, data, seed),
        .ridge = config.ridge,
        .targets = config.protocol == Protocol::measured ? Targets::zero_one : Targets::plus_minus};
    const auto others = other_maps(config, data, seed, exec);
    std::vector<SeededMap> maps;  // empty: the fit uses the exact features of the recipe
    if (on_chip != nullptr && config.chip.fit_on == FitOn::chip)
        maps.push_back({on_chip, train_seeds(config.chip, seed).products});
    for (std::size_t k = 0; k < others.size(); ++k)
        maps.push_back({&others[k], draw_seeds(config.chip, seed, static_cast<std::int64_t>(k)).products});
    auto model = config.task == Task::regression
                     ? fit_regressor(fit, maps, data.train.x.view(), target_column(data.train).view(), exec)
                     : fit_classifier(fit, maps, data.train.x.view(), data.train.y, data.classes, exec);
    if (data.standardization) model.standardization = *data.standardization;
    return model;
}

Matrix<double> reference_gram(const RunConfig& config, const Dataset& data, const Exec& exec) {
    const auto x = gram_rows(config, data);
    Matrix<double> exact(x.rows(), x.rows());
    const double gamma =
        resolve_gamma(config.features, input_statistics(config.features, data.train.x.view()));
    exact_gram(config.features.kernel, gamma, x, x, exec, exact.view());
    return exact;
}

double measure_gram_error(const RunConfig& config, const Dataset& data, const Matrix<double>& exact,
                          std::span<const SeededMap> maps, const Exec& exec) {
    const auto features = [&](const SeededMap& m) {
        return m.map->transform(gram_rows(config, data), {.seed = m.seed}, exec);
    };
    const auto z = features(maps.front());
    if (maps.size() == 1) return gram_error(exact.view(), z.view(), exec);
    return gram_error(exact.view(), z.view(), features(maps.back()).view(), exec);
}

namespace {

void describe_features(const RunConfig& config, const RunResult& result, nlohmann::ordered_json& j) {
    j["kernel"] = to_string(config.features.kernel);
    j["gamma"] = result.gamma ? nlohmann::ordered_json(*result.gamma) : nlohmann::ordered_json(nullptr);
    j["sampler"] = to_string(config.features.sampler);
}

void describe_attention(const RunConfig& config, nlohmann::ordered_json& j) {
    const auto& run = *config.attention;
    const auto facts = attention_facts(attention_source(config));
    j["length"] = facts.train_rows;
    j["head_dim"] = facts.features;
    j["heads"] = run.source.heads;
    j["sequences"] = facts.test_rows;
    j["causal"] = run.source.causal;
    j["form"] = to_string(run.features.form);
    j["sampler"] = to_string(run.features.sampler);
    j["norms"] = to_string(resolve_norms(run.features.sampler, run.features.norms));
    j["kernel_epsilon"] = run.features.kernel_epsilon;
}

nlohmann::ordered_json offload_json(const Offload& offload) {
    std::uint64_t products = 0;
    for (const auto n : offload.trace.core_products) products += n;
    return {{"share", offload.share()},
            {"chip_operations", offload.chip},
            {"digital_operations", offload.digital},
            {"core_products", products},
            {"conversions", offload.trace.conversions}};
}

}  // namespace

std::string to_json(const RunConfig& config, const RunResult& result) {
    nlohmann::ordered_json j;
    j["dataset"] = config.dataset;
    config.attention ? describe_attention(config, j) : describe_features(config, result, j);
    j["d"] = result.sizes.d;
    j["m"] = result.sizes.m;
    j["D"] = result.sizes.features;
    j["log_ratio"] = result.sizes.log_ratio;
    j["backend"] = config.backend.name;
    if (result.chip) j["chip"] = nlohmann::ordered_json::parse(to_json(*result.chip));
    j["protocol"] = to_string(config.protocol);
    if (result.model) {
        j["task"] = to_string(config.task);
        j["solver"] = to_string(result.model->solver);
    }
    j["seeds"] = config.seeds;
    for (const auto& [name, value] : result.values) j[name] = nlohmann::ordered_json::parse(to_json(value));
    if (result.offload) j["offload"] = offload_json(*result.offload);
    if (result.unknowns) {
        auto& unknowns = j["chip_unknowns"] = {{"draws", result.unknowns->draws}};
        for (const auto& [name, value] : result.unknowns->deviations) unknowns[name] = value;
    }
    j["imka_version"] = build_info().version;
    j["config_hash"] = config_hash(config);
    return j.dump();
}

}  // namespace imka
