#include "imka/experiment/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/base/sha256.hpp"
#include "imka/base/version.hpp"
#include "imka/chip/spec/chip_fields.hpp"
#include "imka/metrics/kernel_error.hpp"

namespace imka {

GammaSetting Codec<GammaSetting>::parse(std::string_view text, std::string_view name) {
    if (text == "scale") return {.value = std::nullopt};
    return {.value = detail::parse_number(text, name)};
}

std::string Codec<GammaSetting>::json(const GammaSetting& g) {
    return g.value ? detail::number_json(*g.value) : "\"scale\"";
}

void Codec<GammaSetting>::check(const GammaSetting& g, const FieldInfo& info, std::string_view name) {
    if (g.value) detail::check_range(*g.value, info, name);
}

Fields fields(RunConfig& c) {
    Fields list = {
        field("dataset", c.dataset,
              {.help = "Data set, generator, file with labels, or two files TRAIN:TEST"}),
        field("format", c.format, {.help = "Format of a file; auto: by its name"}),
        field("label_column", c.label_column,
              {.help = "Label in a file: a name, a number from 0, first, last or none"}),
        field("protocol", c.protocol,
              {.help = "How data are split and scaled: default, or as in the measured runs"}),
        field("kernel", c.kernel, {.help = "Kernel"}),
        field("gamma", c.gamma,
              {.help = "Kernel width: k = exp(-gamma |x-y|^2) and its like; unused by arccos and softmax",
               .min = 0.0,
               .above_min = true}),
        field("sampler", c.sampler, {.help = "How directions are drawn"}),
        field("norms", c.norms,
              {.help = "Lengths of orthogonal directions; auto: chi for orf, sqrt for sorf"}),
        field("form", c.form, {.help = "Form of the features; auto is the kernel's own"}),
        field("truncation", c.truncation,
              {.help = "Cut entries of the Gaussian law; 0 = off; auto: 3 in the measured protocol and on "
                       "chips, else off",
               .unit = "standard deviations",
               .min = 0.0}),
        field("n_components", c.n_components, {.help = "Number of features D", .min = 1.0}),
        field("log_ratio", c.log_ratio,
              {.help = "r = log2(m/d), m directions in d dimensions; 4 when D is not given either",
               .min = -20.0,
               .max = 30.0}),
    };
    for (auto& f : fields(c.ridge)) list.push_back(std::move(f));
    list.push_back(
        field("backend", c.backend, {.help = "What computes the projection: this processor or a chip"}));
    list.push_back(
        field("split_seed", c.split_seed, {.help = "Seed of random splits and of generated data"}));
    list.push_back(
        field("gram_rows", c.gram_rows,
              {.help = "Rows of the test part in the Gram error; 0 = none", .min = 0.0, .max = 20000.0}));
    list.push_back(field("seeds", c.seeds, {.help = "Seeds of the random features, one result each"}));
    for (auto& f : fields(c.chip)) list.push_back(std::move(f));
    return list;
}

Fields used_fields(RunConfig& c) {
    auto list = fields(c);
    // Those of the chip are the last.
    if (!c.backend.is_chip()) list.resize(list.size() - fields(c.chip).size());
    return list;
}

void pin_chip(RunConfig& config) {
    if (config.backend.is_chip())
        config.chip.chip_hash = chip_hash(resolve_chip(config.backend, config.chip));
}

void validate(const RunConfig& config) {
    RunConfig copy = config;
    check_ranges(fields(copy));
    if (config.n_components && config.log_ratio) {
        fail(ErrorCode::bad_config,
             "n_components and log_ratio both say how many features; give one of them");
    }
    functions_per_direction(config.kernel, config.form);
    // Everything about Ω but its size, which needs the data.
    validate(OmegaRecipe{.kernel = config.kernel,
                         .gamma = config.gamma.value.value_or(1.0),
                         .sampler = config.sampler,
                         .norms = config.norms,
                         .truncation = config.truncation.value_or(0.0),
                         .d = 1,
                         .m = 1});
    if (!config.backend.is_chip()) return;
    validate(config.chip.projection);
    (void)resolve_chip(config.backend, config.chip);
}

std::string config_hash(const RunConfig& config) {
    RunConfig copy = config;
    pin_chip(copy);
    return sha256_hex(to_json(used_fields(copy)));
}

RunSizes run_sizes(const RunConfig& config, std::int64_t d) {
    const auto functions = static_cast<std::int64_t>(functions_per_direction(config.kernel, config.form));
    RunSizes sizes{.d = d};
    if (config.n_components) {
        if (*config.n_components % functions != 0) {
            fail(ErrorCode::bad_config,
                 fmt::format("n_components: {} is not a multiple of {}, the features that each "
                             "direction of the {} kernel gives",
                             *config.n_components, functions, to_string(config.kernel)));
        }
        sizes.m = *config.n_components / functions;
        sizes.log_ratio = std::log2(static_cast<double>(sizes.m) / static_cast<double>(d));
    } else {
        sizes.log_ratio = config.log_ratio.value_or(4.0);
        double m = std::exp2(sizes.log_ratio) * static_cast<double>(d);
        if (config.protocol == Protocol::measured) m -= sizes.log_ratio;
        // What forms Ω checks its memory; a row of projections must fit in any case.
        check_fits_memory(1.0, m, sizeof(float), "a row of projections");
        sizes.m = std::llround(m);
    }
    sizes.features = sizes.m * functions;
    if (sizes.m < 1)
        fail(ErrorCode::bad_config,
             "the settings ask for no feature at all; raise log_ratio or n_components");
    return sizes;
}

LoadOptions load_options(const RunConfig& config, const std::filesystem::path& data_dir) {
    return {.protocol = config.protocol,
            .data_dir = data_dir,
            .split_seed = config.split_seed,
            .read = {.format = config.format, .label_column = config.label_column}};
}

double resolve_gamma(const RunConfig& config, const Dataset& data) {
    if (config.gamma.value) return *config.gamma.value;
    const auto values = data.train.x.values();
    const auto n = static_cast<double>(values.size());
    double mean = 0.0;
    for (const float v : values) mean += v / n;
    double variance = 0.0;
    for (const float v : values) variance += (v - mean) * (v - mean) / n;
    if (!(variance > 0.0))
        fail(ErrorCode::bad_data, "gamma 'scale' needs inputs that vary; the training inputs are constant");
    return 1.0 / (static_cast<double>(data.train.x.cols()) * variance);
}

double resolve_truncation(const RunConfig& config) {
    if (config.truncation) return *config.truncation;
    if (config.protocol == Protocol::measured) return 3.0;
    // The tails of other laws are the kernel.
    const bool gaussian = kernel_row(config.kernel).feature_law(1.0, 1).law == Law::gaussian;
    return config.backend.is_chip() && gaussian ? 3.0 : 0.0;
}

FeatureRecipe feature_recipe(const RunConfig& config, const Dataset& data, std::uint64_t seed) {
    const bool measured = config.protocol == Protocol::measured;
    const auto sizes = run_sizes(config, static_cast<std::int64_t>(data.train.x.cols()));
    return {.omega = {.kernel = config.kernel,
                      .gamma = resolve_gamma(config, data),
                      .sampler = config.sampler,
                      .norms = config.norms,
                      .truncation = resolve_truncation(config),
                      .convention = measured ? Convention::measured : Convention::standard,
                      .d = sizes.d,
                      .m = sizes.m,
                      .seed = seed},
            .form = config.form};
}

RidgeFit ridge_fit(const RunConfig& config, const Dataset& data, std::uint64_t seed) {
    return {.recipe = feature_recipe(config, data, seed),
            .ridge = config.ridge,
            .targets = config.protocol == Protocol::measured ? Targets::zero_one : Targets::plus_minus};
}

namespace {

MatrixView<const float> gram_rows(const RunConfig& config, const Dataset& data) {
    const auto rows = std::min(data.test.x.rows(), static_cast<std::size_t>(config.gram_rows));
    return data.test.x.view().slice_rows(0, rows);
}

nlohmann::ordered_json summary_json(const std::optional<Summary>& s) {
    if (!s) return nullptr;
    return {{"mean", s->mean}, {"std", s->std}, {"ci95", s->half_width}, {"values", s->values}};
}

RunResult start_result(const RunConfig& config, const Dataset& data) {
    validate(config);
    RunResult result{.sizes = run_sizes(config, static_cast<std::int64_t>(data.train.x.cols()))};
    if (kernel_row(config.kernel).uses_gamma) result.gamma = resolve_gamma(config, data);
    validate(feature_recipe(config, data, config.seeds.front()));
    return result;
}

// The chip with the run's Ω on it, named by the seeds.
ChipMap map_on_chip(const RunConfig& config, const Dataset& data, const FeatureRecipe& recipe,
                    const ChipSeeds& seeds, const Exec& exec) {
    const auto chip = resolve_chip(config.backend, config.chip);
    const auto omega = sample(recipe.omega, exec);
    return chip_feature_map(recipe,
                            {.chip = chip,
                             .omega = omega,
                             .inputs = data.train.x.view(),
                             .config = config.chip.projection,
                             .seeds = seeds},
                            exec);
}

// Those that training rows pass; none: the exact one of the recipe.
std::vector<FeatureMap> fit_maps(const RunConfig& config, const Dataset& data, std::uint64_t seed,
                                 const Exec& exec) {
    std::vector<FeatureMap> maps;
    if (!config.backend.is_chip() || config.chip.fit_on == FitOn::fp32) return maps;
    const auto recipe = feature_recipe(config, data, seed);
    const auto add = [&](const ChipSeeds& seeds) {
        maps.push_back(map_on_chip(config, data, recipe, seeds, exec).map);
    };
    if (config.chip.fit_on == FitOn::chip) {
        add(train_seeds(config.chip, seed));
        return maps;
    }
    for (std::int64_t k = 0; k < config.chip.fit_draws; ++k) add(draw_seeds(config.chip, seed, k));
    return maps;
}

}  // namespace

RunMap run_map(const RunConfig& config, const Dataset& data, std::uint64_t seed, const Exec& exec) {
    const auto recipe = feature_recipe(config, data, seed);
    if (!config.backend.is_chip()) return {.map = FeatureMap(recipe, exec), .chip = {}};
    auto map = map_on_chip(config, data, recipe, test_seeds(config.chip, seed), exec);
    const auto info = chip_info(resolve_chip(config.backend, config.chip), config.chip, map);
    return {.map = std::move(map.map), .chip = info};
}

RidgeModel fit_run(const RunConfig& config, const Dataset& data, std::uint64_t seed, const Exec& exec) {
    const auto maps = fit_maps(config, data, seed, exec);
    auto model = fit_classifier(ridge_fit(config, data, seed), maps, data.train.x.view(), data.train.y,
                                data.classes, exec);
    if (data.standardization) model.standardization = *data.standardization;
    return model;
}

Matrix<double> reference_gram(const RunConfig& config, const Dataset& data, const Exec& exec) {
    const auto x = gram_rows(config, data);
    Matrix<double> exact(x.rows(), x.rows());
    exact_gram(config.kernel, resolve_gamma(config, data), x, x, exec, exact.view());
    return exact;
}

double measure_gram_error(const RunConfig& config, const Dataset& data, const Matrix<double>& exact,
                          std::uint64_t seed, const Exec& exec) {
    return measure_gram_error(config, data, exact, run_map(config, data, seed, exec).map, exec);
}

double measure_gram_error(const RunConfig& config, const Dataset& data, const Matrix<double>& exact,
                          const FeatureMap& map, const Exec& exec) {
    const auto z = map.transform(gram_rows(config, data), exec);
    return gram_error(exact.view(), z.view(), exec);
}

double measure_accuracy(const RidgeModel& model, const Dataset& data, const Exec& exec) {
    return measure_accuracy(RidgePredictor(model), data, exec);
}

double measure_accuracy(const RidgePredictor& predictor, const Dataset& data, const Exec& exec) {
    return accuracy(predictor, data.test, exec);
}

RunResult run_ridge(const RunConfig& config, const Dataset& data, const Exec& exec) {
    RunResult result = start_result(config, data);
    std::vector<double> accuracies;
    std::vector<double> errors;
    Matrix<double> exact;
    if (config.gram_rows > 0) exact = reference_gram(config, data, exec);
    for (const auto seed : config.seeds) {
        // The chip comes first: where a matrix does not fit it, no fit is lost.
        auto place = run_map(config, data, seed, exec);
        if (!result.chip) result.chip = place.chip;
        auto model = fit_run(config, data, seed, exec);
        const RidgePredictor predictor(model, std::move(place.map));
        accuracies.push_back(measure_accuracy(predictor, data, exec));
        if (config.gram_rows > 0)
            errors.push_back(measure_gram_error(config, data, exact, predictor.feature_map(), exec));
        if (accuracies.size() == 1) result.model = std::move(model);
    }
    result.accuracy = summarize(std::move(accuracies));
    if (config.gram_rows > 0) result.gram_error = summarize(std::move(errors));
    return result;
}

RunResult run_gram(const RunConfig& config, const Dataset& data, const Exec& exec) {
    RunResult result = start_result(config, data);
    const auto exact = reference_gram(config, data, exec);
    std::vector<double> errors;
    for (const auto seed : config.seeds) {
        const auto place = run_map(config, data, seed, exec);
        if (!result.chip) result.chip = place.chip;
        errors.push_back(measure_gram_error(config, data, exact, place.map, exec));
    }
    result.gram_error = summarize(std::move(errors));
    return result;
}

std::string to_json(const RunConfig& config, const RunResult& result) {
    nlohmann::ordered_json j;
    j["dataset"] = config.dataset;
    j["kernel"] = to_string(config.kernel);
    j["gamma"] = result.gamma ? nlohmann::ordered_json(*result.gamma) : nlohmann::ordered_json(nullptr);
    j["sampler"] = to_string(config.sampler);
    j["d"] = result.sizes.d;
    j["m"] = result.sizes.m;
    j["D"] = result.sizes.features;
    j["log_ratio"] = result.sizes.log_ratio;
    j["backend"] = config.backend.name;
    if (result.chip) j["chip"] = nlohmann::ordered_json::parse(to_json(*result.chip));
    j["protocol"] = to_string(config.protocol);
    j["seeds"] = config.seeds;
    if (result.accuracy) j["accuracy"] = summary_json(result.accuracy);
    if (result.gram_error) j["gram_error"] = summary_json(result.gram_error);
    j["imka_version"] = build_info().version;
    j["config_hash"] = config_hash(config);
    return j.dump();
}

}  // namespace imka
