#include "imka/chip/analyse/compare_programming.hpp"

#include <algorithm>
#include <utility>

namespace imka {
namespace {

// The outcome of statistical programming is drawn, not measured: it is measured here as the others are.
void measure_statistical(const ChipMatrix& chip, const ProgrammingConfig& config, const Exec& exec,
                         ProgrammingSummary& summary) {
    const double share = 1.0 / static_cast<double>(chip.core_count());
    for (std::size_t c = 0; c < chip.core_count(); ++c) {
        const auto& tile = chip.tiling.tiles[c % chip.tiling.tiles.size()];
        Matrix<float> weights(tile.rows, tile.cols);
        for (std::size_t r = 0; r < tile.rows; ++r)
            std::ranges::copy(chip.weights.row(tile.first_row + r).subspan(tile.first_col, tile.cols),
                              weights.row(r).begin());
        const auto errors = programming_errors(exec,
                                               {.chip = chip.spec,
                                                .weights = weights.view(),
                                                .mapping = chip.mappings[c % chip.tiling.tiles.size()],
                                                .ids = chip.cores[c].ids,
                                                .config = config},
                                               chip.cores[c], chip.time);
        summary.after.weight += share * errors.weight;
        summary.after.product += share * errors.product;
        summary.polarities += 2 * tile.rows * tile.cols;
    }
    summary.before = summary.after;
}

}  // namespace

std::vector<ProgrammingMethod> programming_methods(const ChipSpec& spec) {
    std::vector<ProgrammingMethod> methods = {ProgrammingMethod::statistical};
    if (spec.pulses)
        methods.insert(methods.end(), {ProgrammingMethod::verify, ProgrammingMethod::max_set_fill,
                                       ProgrammingMethod::gradient_descent});
    return methods;
}

ProgrammingComparison compare_programming(const ChipTrials& trials,
                                          const std::vector<ProgrammingMethod>& methods, const Exec& exec) {
    validate(trials);
    ProgrammingComparison out;
    for (const auto method : methods) out.methods.push_back({.method = method, .draws = {}});
    const auto quiet = without_progress(exec);
    const auto& settings = trials.build.settings;
    Progress progress(exec, "programming", trials.seeds.size() * methods.size());
    std::uint64_t done = 0;
    for (const auto seed : trials.seeds) {
        const auto problem = draw_problem(trials.source, seed);
        auto blank = ideal_matrix(settings.spec, problem.weights, seed);
        place(blank, trials.build.placement);
        calibrate(blank, problem.calibration.view(), settings.calibration, quiet);
        for (auto& result : out.methods) {
            check_cancelled(exec);
            auto chip = blank;
            auto config = trials.build.programming;
            config.method = result.method;
            auto summary = program(chip, config, quiet);
            if (result.method == ProgrammingMethod::statistical)
                measure_statistical(chip, config, quiet, summary);
            result.draws.push_back(std::move(summary));
            if (&result == &out.methods.back() && result.draws.size() == 1) out.first = std::move(chip);
            progress.update(++done);
        }
    }
    return out;
}

const MethodResult* find_method(const std::vector<MethodResult>& results, ProgrammingMethod method) {
    const auto it = std::ranges::find(results, method, &MethodResult::method);
    return it == results.end() ? nullptr : &*it;
}

std::optional<std::vector<double>> gradient_gains(const std::vector<MethodResult>& results) {
    const auto* fill = find_method(results, ProgrammingMethod::max_set_fill);
    const auto* gradient = find_method(results, ProgrammingMethod::gradient_descent);
    if (fill == nullptr || gradient == nullptr) return std::nullopt;
    std::vector<double> gains;
    for (std::size_t d = 0; d < fill->draws.size(); ++d)
        gains.push_back(1.0 - gradient->draws[d].after.product / fill->draws[d].after.product);
    return gains;
}

}  // namespace imka
