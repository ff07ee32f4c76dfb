#include "imka/experiment/fit_chip.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "imka/base/error.hpp"
#include "imka/base/random.hpp"
#include "imka/chip/spec/chip_fields.hpp"
#include "imka/linalg/factor.hpp"

namespace imka {
namespace {

// The search: evaluations, derivatives of every residual with respect to every constant, damped steps.
class Search {
public:
    Search(const ChipComparison& comparison, const ChipSpec& chip, const ChipFitConfig& config,
           const Exec& exec)
        : comparison_(comparison), chip_(chip), free_(config.free), exec_(exec) {}

    std::vector<FidelityCell> cells_at(const std::vector<double>& values) {
        ++evaluations_;
        check_cancelled(exec_);
        return comparison_.emulate(with_constants(chip_, free_, values), exec_);
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
    // Half the matrix of second derivatives of chi².
    Matrix<double> curvature(const Matrix<double>& slopes) const {
        const std::size_t n = free_.size();
        Matrix<double> a(n, n);
        Matrix<double> unused(n, 1);
        normal_equations(slopes, std::vector<double>(slopes.rows(), 0.0), {}, a, unused);
        return a;
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
            const double chi2 = chi_squared(cells);
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

Matrix<double> inverse_of(Matrix<double> a) {
    Matrix<double> inverse(a.rows(), a.rows());
    for (std::size_t p = 0; p < a.rows(); ++p) inverse(p, p) = 1.0;
    solve_positive_definite(a.view(), inverse.view(), "the constants of the chip", {.threads = 1});
    return inverse;
}

void add_uncertainty(const Search& search, const Matrix<double>& slopes, FittedChip& fit) {
    const auto curvature = search.curvature(slopes);
    const auto covariance = inverse_of(curvature);
    const std::size_t n = covariance.rows();
    // A chi² above 1 per degree of freedom is misfit of the model: scale the errors by it.
    fit.excess = std::max(1.0, fit.chi2 / static_cast<double>(slopes.rows() - n));
    fit.correlations = Matrix<double>(n, n);
    for (std::size_t p = 0; p < n; ++p) {
        fit.errors.push_back(std::sqrt(covariance(p, p) * fit.excess));
        fit.matters.push_back(2.0 * std::sqrt(fit.excess / curvature(p, p)));
        for (std::size_t q = 0; q < n; ++q)
            fit.correlations(p, q) = covariance(p, q) / std::sqrt(covariance(p, p) * covariance(q, q));
    }
}

double sum_squares(const std::vector<double>& r, const std::vector<bool>& used) {
    double sum = 0.0;
    for (std::size_t i = 0; i < r.size(); ++i) sum += used[i] ? r[i] * r[i] : 0.0;
    return sum;
}

// Gauss-Newton steps from the fit to all data sets, with the slopes at that fit. The first step is always
// taken, so that the left-out set has no influence to first order; more steps follow while chi² of the other
// sets falls.
FittedChip::LeftOut leave_out(Search& search, const std::string& set, const Matrix<double>& slopes,
                              const FittedChip& fit) {
    constexpr int kSteps = 3;
    const auto used = used_without(fit.cells, set);
    auto values = fit.values;
    auto cells = fit.cells;
    for (int i = 0; i < kSteps; ++i) {
        const auto r = residuals(cells);
        const auto next = search.step(values, r, slopes, used, 0.0);
        auto next_cells = search.cells_at(next);
        if (i > 0 && sum_squares(residuals(next_cells), used) >= sum_squares(r, used)) break;
        values = next;
        cells = std::move(next_cells);
    }
    std::erase_if(cells, [&](const FidelityCell& c) { return c.dataset != set; });
    return {.dataset = set, .values = values, .scores = scores(cells)};
}

void add_left_out(Search& search, const Matrix<double>& slopes, FittedChip& fit) {
    std::set<std::string> sets;
    for (const auto& c : fit.cells) sets.insert(c.dataset);
    if (sets.size() < 2) return;
    for (const auto& set : sets) fit.left_out.push_back(leave_out(search, set, slopes, fit));
}

// Gaussian approximation of the posterior around the fit, inside the ranges of the constants.
class Laplace {
public:
    Laplace(const std::vector<FreeConstant>& free, const FittedChip& fit)
        : free_(free), fit_(fit), root_(cholesky(covariance_of(fit))) {}

    struct Draw {
        std::vector<double> values;
        double log_density = 0.0;  // up to a constant
    };
    Draw draw(std::uint64_t seed, std::uint64_t number) const {
        constexpr std::uint64_t kTries = 10'000;
        const std::size_t n = free_.size();
        for (std::uint64_t t = 0; t < kTries; ++t) {
            Draw out{.values = fit_.values};
            for (std::size_t q = 0; q < n; ++q) {
                const double z = normal(seed, Stream::chip_posterior, (number * kTries + t) * n + q);
                for (std::size_t p = q; p < n; ++p) out.values[p] += root_(p, q) * z;
                out.log_density -= 0.5 * z * z;
            }
            if (is_inside(out.values)) return out;
        }
        fail(ErrorCode::numeric,
             "the fit lies so far outside the ranges of its constants that no draw is "
             "inside; widen the ranges");
    }

private:
    static Matrix<double> covariance_of(const FittedChip& fit) {
        const std::size_t n = fit.errors.size();
        Matrix<double> out(n, n);
        for (std::size_t p = 0; p < n; ++p) {
            for (std::size_t q = 0; q < n; ++q)
                out(p, q) = fit.correlations(p, q) * fit.errors[p] * fit.errors[q];
        }
        return out;
    }
    // The lower triangular factor.
    static Matrix<double> cholesky(Matrix<double> a) {
        const std::size_t n = a.rows();
        for (std::size_t j = 0; j < n; ++j) {
            for (std::size_t k = 0; k < j; ++k) a(j, j) -= a(j, k) * a(j, k);
            a(j, j) = std::sqrt(std::max(a(j, j), 0.0));
            for (std::size_t i = j + 1; i < n; ++i) {
                for (std::size_t k = 0; k < j; ++k) a(i, j) -= a(i, k) * a(j, k);
                a(i, j) = a(j, j) > 0.0 ? a(i, j) / a(j, j) : 0.0;
            }
        }
        return a;
    }
    bool is_inside(const std::vector<double>& values) const {
        for (std::size_t p = 0; p < values.size(); ++p) {
            if (values[p] < free_[p].low || values[p] > free_[p].high) return false;
        }
        return true;
    }

    const std::vector<FreeConstant>& free_;
    const FittedChip& fit_;
    Matrix<double> root_;
};

std::vector<CellPrediction> predictions(const std::vector<std::vector<FidelityCell>>& states) {
    std::vector<CellPrediction> out(states.front().size());
    const auto n = static_cast<double>(states.size());
    for (std::size_t c = 0; c < out.size(); ++c) {
        double squares = 0.0;
        for (const auto& cells : states) {
            const double value = std::log(cells[c].error.mean);
            out[c].predicted += value / n;
            squares += value * value / n;
            out[c].seeds_sd += cells[c].residual_error() / n;
        }
        out[c].chip_sd = std::sqrt(std::max(squares - out[c].predicted * out[c].predicted, 0.0));
        out[c].measured = std::log(states.front()[c].error_measured.mean);
    }
    return out;
}

}  // namespace

ChipSpec with_constants(ChipSpec chip, const std::vector<FreeConstant>& free,
                        const std::vector<double>& values) {
    for (std::size_t p = 0; p < free.size(); ++p)
        set_constant(chip, free[p].name, fmt::format("{}", values[p]));
    return chip;
}

FittedChip fit_chip(const ChipComparison& comparison, const ChipSpec& chip, const ChipFitConfig& config,
                    const Exec& exec) {
    Search search(comparison, chip, config, exec);
    FittedChip fit;
    fit.values = start_values(chip, config.free);
    fit.cells = search.cells_at(fit.values);
    fit.chi2 = chi_squared(fit.cells);
    if (!config.free.empty()) {
        const auto slopes = descend(search, config.iterations, exec, fit);
        add_uncertainty(search, slopes, fit);
        if (config.leave_out) add_left_out(search, slopes, fit);
    }
    fit.evaluations = search.evaluations();
    return fit;
}

bool CellPrediction::covered(double model) const {
    constexpr double kDeviations = 1.96;  // 95 %
    return std::abs(predicted - measured) <= kDeviations * std::hypot(chip_sd, seeds_sd, model);
}

double Posterior::coverage(double model) const {
    const auto inside = std::ranges::count_if(cells, [&](const auto& c) { return c.covered(model); });
    return static_cast<double>(inside) / static_cast<double>(cells.size());
}

std::vector<double> Posterior::values(std::size_t constant) const {
    std::vector<double> out;
    for (const auto& draw : draws) out.push_back(draw[constant]);
    return out;
}

Posterior sample_posterior(const ChipComparison& comparison, const ChipSpec& chip,
                           const std::vector<FreeConstant>& free, const FittedChip& fit,
                           const PosteriorConfig& config, const Exec& exec) {
    const Laplace laplace(free, fit);
    Posterior out;
    std::vector<std::vector<FidelityCell>> states;
    auto values = fit.values;
    auto cells = fit.cells;
    double weight = -0.5 * fit.chi2 / fit.excess;  // ln(posterior / proposal)
    int accepted = 0;
    Progress progress(exec, "sampling the posterior", static_cast<std::uint64_t>(config.draws));
    for (int k = 0; k < config.draws; ++k) {
        check_cancelled(exec);
        const auto number = static_cast<std::uint64_t>(k);
        auto proposed = laplace.draw(config.seed, number);
        auto next = comparison.emulate(with_constants(chip, free, proposed.values), without_progress(exec));
        const double next_weight = -0.5 * chi_squared(next) / fit.excess - proposed.log_density;
        if (std::log(uniform(config.seed, Stream::chip_posterior_choice, number)) < next_weight - weight) {
            ++accepted;
            values = std::move(proposed.values);
            cells = std::move(next);
            weight = next_weight;
        }
        out.draws.push_back(values);
        states.push_back(cells);
        progress.update(number + 1);
    }
    out.accepted = accepted / static_cast<double>(config.draws);
    out.cells = predictions(states);
    // In random order, so that the first N draws are also a sample.
    std::vector<std::vector<double>> chain = std::move(out.draws);
    out.draws.clear();
    for (const auto k : permutation(config.seed, Stream::subsample, static_cast<std::uint32_t>(chain.size())))
        out.draws.push_back(chain[k]);
    return out;
}

ChipSpec measured_chip(ChipSpec chip, const std::vector<FreeConstant>& free, const FittedChip& fit,
                       const std::optional<Posterior>& posterior) {
    chip = with_constants(std::move(chip), free, fit.values);
    chip.posterior.clear();
    if (!posterior) return chip;
    for (std::size_t p = 0; p < free.size(); ++p) chip.posterior[free[p].name] = posterior->values(p);
    return chip;
}

}  // namespace imka
