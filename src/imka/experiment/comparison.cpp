#include "imka/experiment/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/base/parallel.hpp"
#include "imka/base/sha256.hpp"
#include "imka/base/version.hpp"
#include "imka/chip/spec/chip_fields.hpp"
#include "imka/data/dataset.hpp"
#include "imka/experiment/kinds.hpp"
#include "imka/experiment/published.hpp"
#include "imka/learn/ridge_model.hpp"

namespace imka {

struct ChipComparison::Data {
    Dataset set;
    Part thinned;  // test rows for accuracies
    RunData runs{set};
};

struct ChipComparison::Run {
    std::size_t cell = 0;
    Data* data = nullptr;
    std::uint64_t seed = 0;
    RunConfig config;
    RidgeModel model;  // fitted in FP32
};

// Emulations by the hash of their chip, as JSON lines after a line that identifies the runs. Every addition
// replaces the file, so a program that is killed loses at most one emulation.
class ChipComparison::Kept {
public:
    Kept(std::filesystem::path path, const std::string& identity, std::size_t runs) : path_(std::move(path)) {
        check_folder(path_);
        text_ = nlohmann::ordered_json({{"format", "imka-emulations"}, {"runs", identity}}).dump() + "\n";
        if (std::filesystem::exists(path_)) load(runs);
    }
    std::optional<Values> find(const std::string& hash) const {
        const auto it = values_.find(hash);
        return it == values_.end() ? std::nullopt : std::optional(it->second);
    }
    void add(const std::string& hash, const Values& values) {
        values_[hash] = values;
        text_ += nlohmann::ordered_json(
                     {{"chip", hash}, {"errors", values.errors}, {"accuracies", values.accuracies}})
                     .dump() +
                 "\n";
        write_file_atomic(path_, text_);
    }

private:
    void load(std::size_t runs) {
        constexpr std::size_t kMostBytes = std::size_t{1} << 30U;
        const auto content = read_file(path_, kMostBytes);
        if (!content.starts_with(text_))
            fail(ErrorCode::bad_data,
                 fmt::format("{}: contains no emulations of these runs; remove it or choose a different file",
                             path_.string()));
        std::size_t first = text_.size();
        for (int line = 2; first < content.size(); ++line) {
            const auto end = content.find('\n', first);
            try {
                if (end == std::string::npos) fail(ErrorCode::bad_data, "the line is cut short");
                load_line(content.substr(first, end - first), runs);
            } catch (const std::exception& e) {
                fail(ErrorCode::bad_data, fmt::format("{}:{}: {}", path_.string(), line, e.what()));
            }
            first = end + 1;
        }
        text_ = content;
    }
    void load_line(const std::string& line, std::size_t runs) {
        const auto json = nlohmann::json::parse(line);
        Values values{.errors = json.at("errors").get<std::vector<double>>(),
                      .accuracies = json.at("accuracies").get<std::vector<double>>()};
        if (values.errors.size() != runs || values.accuracies.size() != runs)
            fail(ErrorCode::bad_data, fmt::format("expected {} errors and accuracies", runs));
        values_[json.at("chip").get<std::string>()] = std::move(values);
    }

    std::filesystem::path path_;
    std::string text_;
    std::map<std::string, Values> values_;
};

namespace {

using CellKey = std::tuple<std::string, std::string, std::string, std::int64_t>;

std::map<CellKey, std::size_t> cell_places(const ComparisonConfig& config, std::vector<FidelityCell>& cells) {
    std::map<CellKey, std::size_t> places;
    for (const auto& p : read_published(config.measured)) {
        const bool wanted =
            config.datasets.empty() || std::ranges::find(config.datasets, p.dataset) != config.datasets.end();
        if (!wanted || p.backend != config.backend || p.table != "ridge") continue;
        const auto [place, is_new] =
            places.try_emplace({p.dataset, p.kernel, p.sampler, std::llround(p.log_ratio)}, cells.size());
        if (is_new)
            cells.push_back({.dataset = p.dataset,
                             .kernel = p.kernel,
                             .sampler = p.sampler,
                             .log_ratio = p.log_ratio,
                             .m = p.m});
        auto& cell = cells[place->second];
        if (p.quantity == Quantity::gram_error) {
            cell.error_measured = p.value;
        } else {
            cell.accuracy_measured = p.value;
        }
    }
    return places;
}

CellKey key_of(const RunConfig& config) {
    return {config.dataset, std::string(to_string(config.features.kernel)),
            std::string(to_string(config.features.sampler)),
            std::llround(config.features.log_ratio.value_or(-1.0))};
}

// Evenly spaced rows of the test part.
Part thin_out(const Part& test, std::int64_t rows) {
    const auto n = std::min(static_cast<std::size_t>(rows), test.x.rows());
    Part out{.x = Matrix<float>(n, test.x.cols()), .y = std::vector<std::int32_t>(n)};
    for (std::size_t i = 0; i < n; ++i) {
        const std::size_t row = i * test.x.rows() / n;
        std::ranges::copy(test.x.row(row), out.x.row(i).begin());
        out.y[i] = test.y[row];
    }
    return out;
}

}  // namespace

std::vector<double> residuals(const std::vector<FidelityCell>& cells) {
    std::vector<double> r;
    for (const auto& c : cells) {
        r.push_back(c.residual() / std::hypot(c.residual_error(), kModelError));
        r.push_back(c.accuracy_difference() / std::hypot(c.accuracy_error(), kModelAccuracy));
    }
    return r;
}

double chi_squared(const std::vector<FidelityCell>& cells) {
    double sum = 0.0;
    for (const double v : residuals(cells)) sum += v * v;
    return sum;
}

std::vector<FidelityScore> scores(const std::vector<FidelityCell>& cells) {
    std::vector<FidelityScore> out;
    std::set<std::string> kernels;
    for (const auto& k : cells) {
        if (!kernels.insert(k.kernel).second) continue;
        out.push_back(fidelity_score(cells, "all", k.kernel));
        std::set<std::string> sets;
        for (const auto& c : cells) {
            if (c.kernel == k.kernel && sets.insert(c.dataset).second)
                out.push_back(fidelity_score(cells, c.dataset, k.kernel));
        }
    }
    return out;
}

ChipComparison::ChipComparison(const ComparisonConfig& config, const Exec& exec) {
    const auto places = cell_places(config, cells_);
    if (cells_.empty())
        fail(ErrorCode::bad_data, fmt::format("{}: no rows of the backend '{}' for the requested data sets",
                                              config.measured.string(), config.backend));
    for (const auto& c : cells_) {
        if (c.error_measured.n == 0 || !c.accuracy_measured)
            fail(ErrorCode::bad_data,
                 fmt::format("{}: {}, {}, {}, r = {}: expected both Gram error and accuracy",
                             config.measured.string(), c.dataset, c.kernel, c.sampler, c.log_ratio));
    }
    std::map<std::pair<std::string, std::uint64_t>, Data*> loaded;
    for (const auto& point : expand(config.experiment)) {
        for (const auto seed : point.config.seeds) {
            auto run = run_config(point, seed);
            const auto cell = places.find(key_of(run));
            if (cell == places.end() || !run.backend.is_chip()) continue;
            auto& data = loaded[{run.dataset, run.split_seed}];
            if (data == nullptr) {
                data = data_.emplace_back(std::make_unique<Data>()).get();
                data->set = load_dataset(run.dataset, load_options(run, config.data_dir), exec);
                data->thinned = thin_out(data->set.test, config.test_rows);
            }
            run.chip.fit_on = FitOn::fp32;
            runs_.push_back({.cell = cell->second, .data = data, .seed = seed, .config = std::move(run)});
        }
    }
    Progress progress(exec, "fitting weights", runs_.size());
    std::atomic<std::size_t> done = 0;
    parallel_for(exec, runs_.size(), [&](std::size_t i) {
        auto& run = runs_[i];
        run.model = fit_run(run.config, run.data->set, run.seed, nullptr, {.threads = 1});
        ++done;
    });
    progress.update(done);
    if (!config.kept.empty())
        kept_ = std::make_unique<Kept>(config.kept, identity(config.test_rows), runs_.size());
}

ChipComparison::~ChipComparison() = default;

// Emulations of other runs, or by another version of the program, are not the same.
std::string ChipComparison::identity(std::int64_t test_rows) const {
    auto text = fmt::format("imka {}, {} test rows\n", build_info().version, test_rows);
    for (const auto& run : runs_) {
        auto config = run.config;
        config.chip.chip_hash.reset();
        text += fmt::format("{} {} {}\n", run.cell, run.seed, config_hash(config));
    }
    return sha256_hex(text);
}

std::size_t ChipComparison::runs() const {
    return runs_.size();
}

ChipComparison::Values ChipComparison::emulate_runs(const ChipSpec& chip, const Exec& exec) const {
    Values out{.errors = std::vector<double>(runs_.size()), .accuracies = std::vector<double>(runs_.size())};
    const Exec one{.threads = 1, .cancel = exec.cancel};
    parallel_for(exec, runs_.size(), [&](std::size_t i) {
        const auto& run = runs_[i];
        auto& data = *run.data;
        const auto seeds = test_seeds(run.config.chip, run.seed);
        auto map = chip_feature_map(run.model.recipe,
                                    {.chip = chip,
                                     .omega = run.model.omega,
                                     .inputs = data.set.train.x.view(),
                                     .config = run.config.chip.projection,
                                     .seed = seeds.chip},
                                    one)
                       .map;
        const RidgePredictor predictor(run.model, std::move(map), seeds.products);
        out.errors[i] = measure_gram_error(run.config, data.set, data.runs.exact_gram(run.config, one),
                                           std::array{predictor.feature_map()}, one);
        out.accuracies[i] = accuracy(predictor, data.thinned, one);
    });
    return out;
}

std::vector<FidelityCell> ChipComparison::emulate(const ChipSpec& chip, const Exec& exec) const {
    const auto hash = chip_hash(chip);
    auto values = kept_ ? kept_->find(hash) : std::nullopt;
    if (!values) {
        values = emulate_runs(chip, exec);
        if (kept_) kept_->add(hash, *values);
    }
    std::vector<std::vector<double>> error_values(cells_.size());
    std::vector<std::vector<double>> accuracy_values(cells_.size());
    for (std::size_t i = 0; i < runs_.size(); ++i) {
        error_values[runs_[i].cell].push_back(values->errors[i]);
        accuracy_values[runs_[i].cell].push_back(values->accuracies[i]);
    }
    std::vector<FidelityCell> out;
    for (std::size_t c = 0; c < cells_.size(); ++c) {
        if (error_values[c].empty()) continue;
        out.push_back(cells_[c]);
        out.back().error = summarize(std::move(error_values[c]));
        out.back().accuracy = summarize(std::move(accuracy_values[c]));
    }
    return out;
}

}  // namespace imka
