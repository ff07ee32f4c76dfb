#include "imka/chip/analyse/compare_programming.hpp"

#include <algorithm>
#include <utility>

namespace imka {
namespace {

// Statistical programming draws its outcome; measure it in the same way as the other methods.
void measure_statistical(const ProgrammedChip& chip, const ProgrammingConfig& config, const Exec& exec,
                         ProgrammingSummary& summary) {
    const auto& plan = chip.plan;
    const double share = 1.0 / static_cast<double>(plan.regions.size());
    for (std::size_t r = 0; r < plan.regions.size(); ++r) {
        const auto weights = region_weights(plan, plan.regions[r]);
        const auto errors = programming_errors({.chip = plan.spec,
                                                .weights = weights.view(),
                                                .scale = plan.scales[r],
                                                .ids = chip.regions[r].ids,
                                                .config = config},
                                               chip.regions[r], chip.time, exec);
        summary.after.weight += share * errors.weight;
        summary.after.product += share * errors.product;
        summary.polarities += 2 * weights.values().size();
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
        const auto plan = calibrated(
            place(settings.spec, problem.weights, trials.build.placement),
            {.sample = problem.calibration.view(), .config = settings.calibration, .seed = seed}, quiet);
        for (auto& result : out.methods) {
            check_cancelled(exec);
            auto config = trials.build.programming;
            config.method = result.method;
            ProgrammingSummary summary;
            auto chip = program(plan, seed, config, quiet, &summary);
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
