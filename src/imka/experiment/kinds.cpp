#include "imka/experiment/kinds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/base/machine.hpp"
#include "imka/base/names.hpp"
#include "imka/chip/spec/chip_fields.hpp"
#include "imka/cuda/gpu.hpp"
#include "imka/experiment/attention_run.hpp"
#include "imka/experiment/performer_run.hpp"
#include "imka/experiment/run_fields.hpp"
#include "imka/features/gpu_feature_map.hpp"
#include "imka/io/text.hpp"

namespace imka {
namespace {

constexpr std::array<std::string_view, 4> kRidgeResults = {"accuracy", "r2", "rmse", "gram_error"};
constexpr std::array<std::string_view, 1> kGramResults = {"gram_error"};
constexpr std::array<std::string_view, 4> kAttentionResults = {"output_mse", "output_error", "matrix_error",
                                                               "trivial_mse"};
constexpr std::array<std::string_view, 4> kTimeResults = {"kernel_seconds", "exact_seconds",
                                                          "kernel_memory_mb", "exact_memory_mb"};
constexpr std::array<std::string_view, 5> kPerformerResults = {"accuracy", "loss", "examples", "cores",
                                                               "saturated_share"};

// Settings without effect on Gram errors, which need no fit.
constexpr std::array<std::string_view, 4> kFitSettings = {"alpha", "intercept", "fit_on", "fit_draws"};
// Settings that are not flags of eval; eval_words covers those that matter.
constexpr std::array<std::string_view, 6> kOfEvalWords = {"dataset",     "checkpoint", "origin",
                                                          "saved_omega", "chip_hash",  "read_seconds"};

// Data sets of at most 1/kResidentShare of a GPU's free memory stay there for all their runs.
constexpr std::size_t kResidentShare = 8;

// Seconds since the last call.
class Lap {
public:
    double operator()() {
        const auto now = std::chrono::steady_clock::now();
        return std::chrono::duration<double>(now - std::exchange(begin_, now)).count();
    }

private:
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Features and products stay on the GPU.
double gram_error_on_gpu(const RunConfig& config, RunData& data, std::span<const SeededMap> maps,
                         const Exec& exec) {
    const int gpu = exec.device.number;
    constexpr auto kPooled = cuda::MemorySource::pooled;
    const auto rows = gram_rows(config, data.set());
    cuda::Buffer<float> x(gpu, rows.rows() * rows.cols(), kPooled);
    x.upload_rows(rows);
    std::vector<cuda::Buffer<float>> z;
    for (const auto& m : maps) {
        const auto& map = m.map->on_gpu(gpu);
        z.emplace_back(gpu, rows.rows() * map.features(), kPooled);
        map.transform({.x = x.data(), .z = z.back().data(), .rows = rows.rows(), .stride = map.features()},
                      {.seed = m.seed}, {}, exec);
    }
    return data.gram_on_gpu(config, exec).error(z.front().data(), z.back().data(), maps[0].map->features());
}

void add_gram_error(const RunConfig& config, std::uint64_t seed, RunData& data, const SeededMap& map,
                    const Exec& exec, SeedResult& out) {
    Lap lap;
    std::vector<SeededMap> maps = {map};
    const auto copy = copy_map(config, data.set(), seed, exec);
    if (copy) maps.push_back({&copy->map, copy->seed});
    out.values["gram_error"] =
        gram_errors_on_gpu(exec)
            ? gram_error_on_gpu(config, data, maps, exec)
            : measure_gram_error(config, data.set(), data.exact_gram(config, exec), maps, exec);
    out.times.gram = lap();
}

SeedResult run_ridge(const RunConfig& config, std::uint64_t seed, RunData& data, const Exec& exec) {
    SeedResult out;
    WorkTimes parts;
    Exec timed = exec;
    timed.times = &parts;
    timed.resident = data.rows_on_gpu(exec);
    Lap lap;
    // The chip comes first: if the matrix does not fit on it, no time is lost on the fit.
    std::optional<RunMap> on_chip;
    if (config.backend.is_chip()) on_chip = run_map(config, data.set(), seed, timed);
    if (on_chip) out.chip = on_chip->chip;
    out.times.chip = lap();
    out.model = fit_run(config, data.set(), seed, on_chip ? &on_chip->map : nullptr, timed);
    out.times.products = lap() - parts.features - parts.solve;
    out.times.solve = parts.solve;
    out.times.features = std::exchange(parts, {}).features;

    const auto predictor = on_chip ? RidgePredictor(*out.model, std::move(on_chip->map), on_chip->seed)
                                   : RidgePredictor(*out.model);
    if (config.task == Task::regression) {
        const auto errors = squared_errors(predictor, data.set().test, timed);
        out.values["r2"] = errors.r2();
        out.values["rmse"] = errors.rmse();
    } else {
        out.values["accuracy"] = accuracy(predictor, data.set().test, timed);
    }
    out.times.predict = lap() - parts.features;
    out.times.features += parts.features;
    if (config.gram_rows > 0) add_gram_error(config, seed, data, predictor.feature_map(), exec, out);
    return out;
}

void check_gram(const RunConfig& config) {
    if (config.gram_rows == 0) fail(ErrorCode::bad_config, "gram_rows: expected at least one row");
}

SeedResult run_gram(const RunConfig& config, std::uint64_t seed, RunData& data, const Exec& exec) {
    SeedResult out;
    Lap lap;
    auto placed = run_map(config, data.set(), seed, exec);
    out.chip = std::move(placed.chip);
    out.times.chip = lap();
    add_gram_error(config, seed, data, {&placed.map, placed.seed}, exec, out);
    return out;
}

DatasetFacts set_facts(const RunConfig& config, const std::filesystem::path& data_dir, const Exec& exec) {
    return dataset_facts(config.dataset, load_options(config, data_dir), exec);
}

RunInputs load_set(const RunConfig& config, const std::filesystem::path& data_dir, const Exec& exec) {
    return load_dataset(config.dataset, load_options(config, data_dir), exec);
}

DatasetFacts loaded_set_facts(const RunSource& source) {
    const auto& set = *source.set;
    return {.source_sha256 = set.source_sha256,
            .features = set.train.x.cols(),
            .train_rows = set.train.x.rows(),
            .test_rows = set.test.x.rows(),
            .classes = set.classes.size()};
}

RunSizes map_sizes(const RunConfig& config, const RunSource& source) {
    const auto recipe = feature_recipe(config, *source.set, config.seeds.front());
    validate(recipe);
    RunSizes sizes{.sizes = run_sizes(config, recipe.omega.d)};
    if (kernel_info(config.features.kernel).uses_gamma) sizes.gamma = recipe.omega.gamma;
    return sizes;
}

DatasetFacts sequence_facts(const RunConfig& config, const std::filesystem::path&, const Exec&) {
    return attention_facts(attention_source(config));
}

RunInputs load_sequences(const RunConfig& config, const std::filesystem::path&, const Exec&) {
    return load_attention(attention_source(config));
}

DatasetFacts loaded_sequence_facts(const RunSource& source) {
    const auto& data = *source.attention;
    return {.source_sha256 = data.source_sha256,
            .features = data.d,
            .train_rows = data.length,
            .test_rows = data.sequences.size()};
}

RunSizes sequence_sizes(const RunConfig& config, const RunSource& source) {
    return {.sizes = attention_sizes(config, static_cast<std::int64_t>(source.attention->d))};
}

DatasetFacts model_facts(const RunConfig& config, const std::filesystem::path& data_dir, const Exec& exec) {
    return performer_facts(load_performer_data(performer_source(config), data_dir, exec));
}

RunInputs load_model(const RunConfig& config, const std::filesystem::path& data_dir, const Exec& exec) {
    return load_performer_data(performer_source(config), data_dir, exec);
}

DatasetFacts loaded_model_facts(const RunSource& source) {
    return performer_facts(*source.performer);
}

RunSizes model_sizes(const RunConfig&, const RunSource& source) {
    return {.sizes = performer_sizes(source.performer->model.config)};
}

// exact_attention has one query per output row.
void check_time(const RunConfig& config) {
    if (config.attention->source.query_rows != 0)
        fail(ErrorCode::bad_config, "query_rows: times are measured over all queries; expected 0");
}

void validate_model(const RunConfig& config) {
    validate(performer_source(config));
    if (config.uses_chip() && !config.backend.is_chip())
        fail(ErrorCode::bad_config, fmt::format("backend: mode {} needs a chip, for example hermes",
                                                to_string(config.performer->mode)));
}

std::vector<std::string> eval_words(const SettingsText& settings) {
    const auto value = [&](const std::string& name) {
        const auto place = settings.find(name);
        return place == settings.end() ? std::string() : place->second;
    };
    const PerformerSource source{.task = value("dataset"), .checkpoint = value("checkpoint")};
    std::vector<std::string> words = {"--checkpoint", checkpoint_path(source).string()};
    if (value("saved_omega") == "true") words.emplace_back("--saved-omega");
    const auto at = value("read_seconds");
    if (parse_double(at).value_or(0.0) != 0.0) words.insert(words.end(), {"--at", at});
    return words;
}

constexpr RunFamily kDatasetRuns = {
    .defaults = [] { return RunConfig(); },
    .fields = dataset_fields,
    .chip_fields = dataset_chip_fields,
    .input_fields = [](RunConfig& c) { return fields(c.read); },
    .validate = [](const RunConfig& c) { validate(c.features); },
    .facts = set_facts,
    .load = load_set,
    .facts_of = loaded_set_facts,
    .sizes = map_sizes,
};
constexpr RunFamily kAttentionRuns = {
    .defaults = attention_defaults,
    .fields = attention_fields,
    .chip_fields = attention_chip_fields,
    .input_fields = [](RunConfig& c) { return fields(c.attention->source); },
    .validate = validate_attention,
    .facts = sequence_facts,
    .load = load_sequences,
    .facts_of = loaded_sequence_facts,
    .sizes = sequence_sizes,
};
constexpr RunFamily kPerformerRuns = {
    .defaults = performer_defaults,
    .fields = performer_fields,
    .chip_fields = performer_chip_fields,
    .input_fields = [](RunConfig& c) { return fields(c.performer->source); },
    .validate = validate_model,
    .facts = model_facts,
    .load = load_model,
    .facts_of = loaded_model_facts,
    .sizes = model_sizes,
    .place = "models",
};

constexpr std::array kKinds = {
    RunKind{.name = "ridge",
            .help = "fit and test a kernel ridge classifier or regressor",
            .family = kDatasetRuns,
            .verb = {.name = "ridge"},
            .results = kRidgeResults,
            .check = [](const RunConfig&) {},
            .run = run_ridge,
            .cost = ridge_cost,
            .shares_gpu = true},
    RunKind{.name = "gram",
            .help = "error of the Gram matrix",
            .family = kDatasetRuns,
            .verb = {.name = "gram", .no_flags = kFitSettings},
            .results = kGramResults,
            .check = check_gram,
            .run = run_gram,
            .cost = gram_cost,
            .shares_gpu = true,
            .may_be_short = true},
    RunKind{.name = "attention",
            .help = "error of kernelised attention against exact attention",
            .family = kAttentionRuns,
            .verb = {.name = "attention"},
            .results = kAttentionResults,
            .check = [](const RunConfig&) {},
            .run = run_attention,
            .cost = attention_cost,
            .shares_gpu = true,
            .may_be_short = true},
    RunKind{.name = "attention_time",
            .help = "time and memory of kernelised and exact attention",
            .family = kAttentionRuns,
            .verb = {.name = "attention"},
            .results = kTimeResults,
            .check = check_time,
            .run = time_attention,
            .cost = attention_cost,
            .measures_time = true,
            .may_be_short = true},
    RunKind{.name = "performer",
            .help = "test a trained Performer digitally or on a chip",
            .family = kPerformerRuns,
            .verb = {.name = "eval", .no_flags = kOfEvalWords, .words = eval_words},
            .results = kPerformerResults,
            .check = [](const RunConfig&) {},
            .run = run_performer,
            .cost = performer_cost,
            .shares_gpu = true,
            .may_lack_inputs = true,
            .tests_models = true},
};

}  // namespace

const Matrix<double>& RunData::exact_gram(const RunConfig& config, const Exec& exec) {
    const std::scoped_lock lock(mutex_);
    const auto key = key_of(config);
    const auto place = grams_.find(key);
    if (place != grams_.end()) return place->second;
    return grams_.emplace(key, reference_gram(config, set(), exec)).first->second;
}

// `scale` gives the same gamma for all runs on one data set; its key is 0.
RunData::GramKey RunData::key_of(const RunConfig& config) {
    return {config.features.kernel, config.features.gamma.value.value_or(0.0), config.gram_rows};
}

const GpuGramError& RunData::gram_on_gpu(const RunConfig& config, const Exec& exec) {
    const auto& exact = exact_gram(config, exec);
    const std::scoped_lock lock(mutex_);
    return grams_on_gpu_.try_emplace(key_of(config), exact.view(), exec.device.number).first->second;
}

const cuda::ResidentRows* RunData::rows_on_gpu(const Exec& exec) {
    if (exec.device.kind != DeviceKind::cuda) return nullptr;
    std::call_once(rows_asked_, [&] {
        const auto& train = set().train.x;
        const auto& test = set().test.x;
        const std::size_t bytes = (train.values().size() + test.values().size()) * sizeof(float);
        if (bytes <= cuda::free_bytes(exec.device.number) / kResidentShare)
            rows_.emplace(std::vector{train.view(), test.view()}, exec.device.number);
    });
    return rows_ ? &*rows_ : nullptr;
}

const std::vector<Matrix<float>>& RunData::exact_attention(const RunConfig& config, const Exec& exec) {
    const std::scoped_lock lock(mutex_);
    if (attention_.empty()) attention_ = exact_outputs(config, *source_.attention, exec);
    return attention_;
}

const std::vector<GpuSequence>& RunData::attention_on_gpu(const RunConfig& config, const Exec& exec) {
    const std::scoped_lock lock(mutex_);
    const auto& data = *source_.attention;
    for (std::size_t s = attention_on_gpu_.size(); s < data.sequences.size(); ++s)
        attention_on_gpu_.emplace_back(data.inputs(s), attention_options(config, 0), exec.device.number);
    return attention_on_gpu_;
}

RunData::Results RunData::take_results(const std::string& group, const std::string& run,
                                       const std::function<std::map<std::string, Results>()>& compute) {
    std::unique_lock all(mutex_);
    auto& own = groups_[group];
    all.unlock();
    const std::scoped_lock lock(own.mutex);
    if (!own.results.contains(run)) own.results = compute();
    return std::move(own.results.extract(run).mapped());
}

RunSource source_of(const RunInputs& inputs) {
    return std::visit([](const auto& one) { return RunSource(one); }, inputs);
}

const RunFamily& run_family(const RunConfig& config) {
    if (config.attention) return kAttentionRuns;
    return config.performer ? kPerformerRuns : kDatasetRuns;
}

std::span<const RunKind> run_kinds() {
    return kKinds;
}

const RunKind* find_run_kind(std::string_view name) {
    const auto* row = std::ranges::find(kKinds, name, &RunKind::name);
    return row == kKinds.end() ? nullptr : row;
}

std::string run_kind_names() {
    std::vector<std::string_view> names;
    names.reserve(std::size(kKinds));
    for (const auto& k : kKinds) names.push_back(k.name);
    return join_names(names);
}

const RunKind& run_kind(std::string_view name) {
    if (const auto* kind = find_run_kind(name)) return *kind;
    fail(ErrorCode::bad_config, fmt::format("'{}' is not a known kind; known: {}", name, run_kind_names()));
}

const RunKind& recorded_kind(std::string_view name) {
    const auto* kind = find_run_kind(name);
    return kind == nullptr ? kKinds.front() : *kind;
}

namespace {

// Refuses runs before any work, by their sizes. A chip has its own check, and a team shares the memory.
void check_memory(const RunCost& cost, const RunConfig& config, const FeatureSizes& sizes, const Exec& exec) {
    if (config.backend.is_chip() || exec.team != nullptr || cost.bytes <= physical_memory_bytes()) return;
    fail(ErrorCode::bad_config,
         fmt::format("{} features need {:.3g} GB, more than the {:.3g} GB of this machine", sizes.features,
                     cost.bytes * 1e-9, physical_memory_bytes() * 1e-9));
}

}  // namespace

RunResult run_seeds(std::string_view kind, const RunConfig& config, const RunSource& data, const Exec& exec) {
    const auto& what = run_kind(kind);
    validate(config);
    what.check(config);
    const auto sizes = what.family.sizes(config, data);
    check_memory(what.cost(config, what.family.facts_of(data)), config, sizes.sizes, exec);
    RunResult result{.sizes = sizes.sizes, .gamma = sizes.gamma};
    RunData shared(data);
    std::map<std::string, std::vector<double>> values;
    std::uint64_t done = 0;
    const bool many = what.may_be_short && config.seeds.size() > 1;
    std::optional<Progress> progress;
    if (many) progress.emplace(exec, "seeds", config.seeds.size());
    for (const auto seed : config.seeds) {
        auto one = what.run(config, seed, shared, many ? without_progress(exec) : exec);
        if (progress) progress->update(++done);
        for (const auto& [name, value] : one.values) {
            if (!std::isfinite(value))
                fail(ErrorCode::numeric,
                     fmt::format("{} is not a finite number: the features overflow", name));
            values[name].push_back(value);
        }
        if (!result.chip) result.chip = std::move(one.chip);
        if (!result.model) result.model = std::move(one.model);
        if (!result.offload) result.offload = std::move(one.offload);
    }
    for (auto& [name, list] : values) result.values[name] = summarize(std::move(list));
    return result;
}

ChipUnknowns run_draws(std::string_view kind, const RunConfig& config, const RunSource& data,
                       std::int64_t draws, const Exec& exec) {
    if (!config.backend.is_chip())
        fail(ErrorCode::bad_config, "draws of the chip's constants need a chip as backend");
    if (config.chip.chip_draw)
        fail(ErrorCode::bad_config, "chip_draw selects one draw; remove it to run over several");
    const auto available =
        static_cast<std::int64_t>(posterior_draws(resolve_chip(config.backend, config.chip)));
    if (draws < 2 || draws > available)
        fail(ErrorCode::bad_config,
             fmt::format("{} draws of the constants of {}; its file has {}, and at least 2 "
                         "are needed",
                         draws, config.backend.name, available));
    std::map<std::string, std::vector<double>> means;
    Progress progress(exec, "draws of the chip's constants", static_cast<std::uint64_t>(draws));
    for (std::int64_t k = 0; k < draws; ++k) {
        auto one = config;
        one.chip.chip_draw = k;
        one.chip.chip_hash.reset();  // hash of the chip with the fitted constants
        for (const auto& [name, value] : run_seeds(kind, one, data, without_progress(exec)).values)
            means[name].push_back(value.mean);
        progress.update(static_cast<std::uint64_t>(k) + 1);
    }
    ChipUnknowns out{.draws = draws};
    for (auto& [name, list] : means) out.deviations[name] = summarize(std::move(list)).std;
    return out;
}

}  // namespace imka
