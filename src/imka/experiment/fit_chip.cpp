#include "imka/experiment/fit_chip.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/chip/spec/chip_fields.hpp"
#include "imka/experiment/kinds.hpp"
#include "imka/experiment/published.hpp"
#include "imka/linalg/factor.hpp"

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

// The residuals to minimise, two per cell.
std::vector<double> residuals(const std::vector<FidelityCell>& cells) {
    std::vector<double> r;
    for (const auto& c : cells) {
        r.push_back(c.residual() / std::hypot(c.residual_error(), kModelError));
        r.push_back(c.accuracy_difference() / std::hypot(c.accuracy_error(), kModelAccuracy));
    }
    return r;
}

double sum_squares(const std::vector<double>& r) {
    double sum = 0.0;
    for (const double v : r) sum += v * v;
    return sum;
}

// The search: evaluations, derivatives of every residual with respect to every constant, damped steps.
class Search {
public:
    Search(const ChipComparison& comparison, const ChipSpec& chip, const ChipFitConfig& config,
           const Exec& exec)
        : comparison_(comparison), chip_(chip), free_(config.free), exec_(exec) {}

    std::vector<FidelityCell> cells_at(const std::vector<double>& values) {
        auto chip = chip_;
        for (std::size_t p = 0; p < free_.size(); ++p)
            set_constant(chip, free_[p].name, fmt::format("{}", values[p]));
        ++evaluations_;
        check_cancelled(exec_);
        return comparison_.emulate(chip, exec_);
    }
    // Two-sided if the range allows it: residuals are noisy, and a wide difference averages the noise.
    Matrix<double> slopes_at(const std::vector<double>& values) {
        Matrix<double> slopes;
        for (std::size_t p = 0; p < free_.size(); ++p) {
            auto up = values;
            auto down = values;
            up[p] = std::min(values[p] + free_[p].step, free_[p].high);
            down[p] = std::max(values[p] - free_[p].step, free_[p].low);
            const auto a = residuals(cells_at(up));
            const auto b = residuals(cells_at(down));
            if (p == 0) slopes = Matrix<double>(a.size(), free_.size());
            for (std::size_t i = 0; i < a.size(); ++i) slopes(i, p) = (a[i] - b[i]) / (up[p] - down[p]);
        }
        return slopes;
    }
    // Uses the marked residuals, or all if `used` is empty.
    std::vector<double> step(const std::vector<double>& values, const std::vector<double>& r,
                             const Matrix<double>& slopes, const std::vector<bool>& used,
                             double damping) const {
        const std::size_t n = free_.size();
        Matrix<double> a(n, n);
        Matrix<double> b(n, 1);
        normal_equations(slopes, r, used, a, b);
        for (std::size_t p = 0; p < n; ++p) a(p, p) *= 1.0 + damping;
        solve_positive_definite(a.view(), b.view(), "the constants of the chip", {.threads = 1});
        auto out = values;
        for (std::size_t p = 0; p < n; ++p)
            out[p] = std::clamp(values[p] - b(p, 0), free_[p].low, free_[p].high);
        return out;
    }
    Matrix<double> covariance(const Matrix<double>& slopes) const {
        const std::size_t n = free_.size();
        Matrix<double> a(n, n);
        Matrix<double> unused(n, 1);
        normal_equations(slopes, std::vector<double>(slopes.rows(), 0.0), {}, a, unused);
        Matrix<double> inverse(n, n);
        for (std::size_t p = 0; p < n; ++p) inverse(p, p) = 1.0;
        solve_positive_definite(a.view(), inverse.view(), "the constants of the chip", {.threads = 1});
        return inverse;
    }
    std::size_t evaluations() const { return evaluations_; }

private:
    void normal_equations(const Matrix<double>& slopes, const std::vector<double>& r,
                          const std::vector<bool>& used, Matrix<double>& a, Matrix<double>& b) const {
        for (std::size_t p = 0; p < free_.size(); ++p) {
            for (std::size_t i = 0; i < slopes.rows(); ++i) {
                if (!used.empty() && !used[i]) continue;
                for (std::size_t q = 0; q < free_.size(); ++q) a(p, q) += slopes(i, p) * slopes(i, q);
                b(p, 0) += slopes(i, p) * r[i];
            }
            // A constant without effect does not change.
            a(p, p) += 1e-6 / (free_[p].step * free_[p].step);
        }
    }

    const ChipComparison& comparison_;
    const ChipSpec& chip_;
    const std::vector<FreeConstant>& free_;
    const Exec& exec_;
    std::size_t evaluations_ = 0;
};

std::vector<double> start_values(const ChipSpec& chip, const std::vector<FreeConstant>& free) {
    const auto constants = describe(chip);
    std::vector<double> values;
    for (const auto& f : free) {
        const auto place = std::ranges::find(constants, f.name, &ConstantText::name);
        if (place == constants.end())
            fail(ErrorCode::bad_config, fmt::format("'{}' is not a constant of the chip", f.name));
        if (!(f.low < f.high) || !(f.step > 0.0))
            fail(ErrorCode::bad_config,
                 fmt::format("{}: expected a range with low < high and a step > 0", f.name));
        values.push_back(std::clamp(detail::parse_number(place->value, f.name), f.low, f.high));
    }
    return values;
}

std::vector<bool> used_without(const std::vector<FidelityCell>& cells, const std::string& dataset) {
    std::vector<bool> used;
    for (const auto& c : cells) used.insert(used.end(), 2, c.dataset != dataset);
    return used;
}

// Damped Gauss-Newton steps while chi² falls. Returns the slopes at the start of the last step.
Matrix<double> descend(Search& search, int iterations, const Exec& exec, FittedChip& fit) {
    Matrix<double> slopes;
    double damping = 0.1;
    for (int i = 0; i < iterations; ++i) {
        slopes = search.slopes_at(fit.values);
        const double before = fit.chi2;
        for (int attempt = 0; attempt < 3 && fit.chi2 == before; ++attempt) {
            const auto values = search.step(fit.values, residuals(fit.cells), slopes, {}, damping);
            auto cells = search.cells_at(values);
            const double chi2 = sum_squares(residuals(cells));
            note(exec, fmt::format("step {}: chi² {:.1f} (before {:.1f}) at {:.4g}", i + 1, chi2, before,
                                   fmt::join(values, ", ")));
            const bool better = chi2 < before;
            damping *= better ? 0.3 : 10.0;
            if (better) {
                fit.values = values;
                fit.cells = std::move(cells);
                fit.chi2 = chi2;
            }
        }
        if (fit.chi2 > 0.99 * before) break;
    }
    return slopes;
}

void add_uncertainty(const Search& search, const Matrix<double>& slopes, FittedChip& fit) {
    const auto covariance = search.covariance(slopes);
    const std::size_t n = covariance.rows();
    // A chi² above 1 per degree of freedom is misfit of the model: scale the errors by it.
    const double excess = std::max(1.0, fit.chi2 / static_cast<double>(slopes.rows() - n));
    fit.correlations = Matrix<double>(n, n);
    for (std::size_t p = 0; p < n; ++p) {
        fit.errors.push_back(std::sqrt(covariance(p, p) * excess));
        for (std::size_t q = 0; q < n; ++q)
            fit.correlations(p, q) = covariance(p, q) / std::sqrt(covariance(p, p) * covariance(q, q));
    }
}

// One step from the fit to all data sets, with the slopes found there.
void add_left_out(Search& search, const Matrix<double>& slopes, FittedChip& fit) {
    std::set<std::string> sets;
    for (const auto& c : fit.cells) sets.insert(c.dataset);
    if (sets.size() < 2) return;
    for (const auto& set : sets) {
        const auto values =
            search.step(fit.values, residuals(fit.cells), slopes, used_without(fit.cells, set), 0.0);
        auto cells = search.cells_at(values);
        std::erase_if(cells, [&](const FidelityCell& c) { return c.dataset != set; });
        fit.left_out.push_back({.dataset = set, .values = values, .scores = scores(cells)});
    }
}

}  // namespace

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
}

ChipComparison::~ChipComparison() = default;

std::size_t ChipComparison::runs() const {
    return runs_.size();
}

std::vector<FidelityCell> ChipComparison::emulate(const ChipSpec& chip, const Exec& exec) const {
    std::vector<double> errors(runs_.size());
    std::vector<double> accuracies(runs_.size());
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
        errors[i] = measure_gram_error(run.config, data.set, data.runs.exact_gram(run.config, one),
                                       predictor.feature_map(), one);
        accuracies[i] = accuracy(predictor, data.thinned, one);
    });
    std::vector<std::vector<double>> error_values(cells_.size());
    std::vector<std::vector<double>> accuracy_values(cells_.size());
    for (std::size_t i = 0; i < runs_.size(); ++i) {
        error_values[runs_[i].cell].push_back(errors[i]);
        accuracy_values[runs_[i].cell].push_back(accuracies[i]);
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

FittedChip fit_chip(const ChipComparison& comparison, const ChipSpec& chip, const ChipFitConfig& config,
                    const Exec& exec) {
    Search search(comparison, chip, config, exec);
    FittedChip fit;
    fit.values = start_values(chip, config.free);
    fit.cells = search.cells_at(fit.values);
    fit.chi2 = sum_squares(residuals(fit.cells));
    if (!config.free.empty()) {
        const auto slopes = descend(search, config.iterations, exec, fit);
        add_uncertainty(search, slopes, fit);
        if (config.leave_out) add_left_out(search, slopes, fit);
    }
    fit.evaluations = search.evaluations();
    return fit;
}

}  // namespace imka
