#include "imka/chip/analyse/compare.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace imka {
namespace {

ChipBuild with_perfect_devices(ChipBuild build) {
    for (const auto* name : {"programming_error", "zero_threshold", "conductance_limits", "stuck_devices",
                             "drift", "frozen_read_noise", "fresh_read_noise"})
        build.settings = switched::without(std::move(build.settings), name);
    build.programming = {};
    return build;
}

// States of one chip. Reads use the spacing of the settings from the start, because outputs are calibrated
// on such reads.
struct StateWalk {
    const ChipTrials& trials;
    const StatesConfig& config;
    const Problem& problem;
    const Exec& exec;
    std::function<void(std::string_view name, const Measurement& measured)> add_measured;

    void add(std::string_view name, const ProgrammedChip& chip) const {
        add_measured(name, measure(chip, problem, config.simulator, exec));
    }

    ProgrammedChip read_now(ProgrammedChip chip) const {
        chip.time.spacing_seconds = config.read.time.spacing_seconds;
        return chip;
    }

    void add_unprogrammed() const {
        add_measured("ideal", measure_digital(problem, exec));
        auto perfect = with_perfect_devices(trials.build);
        auto plan = place(perfect.settings.spec, problem.weights, perfect.placement);
        add("mapped", read_now(program(std::move(plan), problem.seed, perfect.programming, exec)));
        perfect.output_calibration = false;
        add("calibrated", read_now(build_chip(perfect, problem, exec)));
    }

    void add_programmed() const {
        auto build = trials.build;
        build.output_calibration = false;
        auto chip = read_now(build_chip(build, problem, exec));
        add("programmed", chip);
        if (trials.build.output_calibration) {
            chip = with_calibrated_outputs(std::move(chip), OutputFit::applied, exec);
            add("programmed+", chip);
        }
        add_aged(std::move(chip));
    }

    void add_aged(ProgrammedChip chip) const {
        if (config.read.time.seconds <= chip.time.seconds) return;
        chip = aged(std::move(chip), config.read.time);
        add("aged", chip);
        if (config.read.compensation == AgeCompensation::none) return;
        add("compensated", compensated(std::move(chip), config.read.compensation, OutputFit::applied, exec));
    }

    void run() const {
        if (!trials.programmed) {
            add_unprogrammed();
            return add_programmed();
        }
        add(to_string(state_of(*trials.programmed)), read_now(*trials.programmed));
        add_aged(*trials.programmed);
    }
};

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

std::vector<MeasuredState> measure_states(const ChipTrials& trials, const StatesConfig& config,
                                          const Exec& exec) {
    validate(trials);
    const auto quiet = without_progress(exec);
    Progress progress(exec, "chips", trials.seeds.size());
    std::vector<MeasuredState> states;
    for (std::size_t i = 0; i < trials.seeds.size(); ++i) {
        check_cancelled(exec);
        const auto problem = with_exact_products(draw_problem(trials.source, trials.seeds[i]));
        std::size_t next = 0;
        const auto add = [&](std::string_view name, const Measurement& measured) {
            if (next == states.size()) states.push_back({.name = std::string(name)});
            states[next++].values.push_back(measured);
        };
        StateWalk{trials, config, problem, quiet, add}.run();
        progress.update(i + 1);
    }
    return states;
}

std::vector<AgedErrors> measure_ageing(const ChipTrials& trials, const AgeingConfig& config,
                                       const Exec& exec) {
    validate(trials);
    std::vector<AgedErrors> errors(config.seconds.size());
    const auto quiet = without_progress(exec);
    Progress progress(exec, "ageing chips", trials.seeds.size() * errors.size());
    std::uint64_t done = 0;
    for (const auto seed : trials.seeds) {
        const auto problem = with_exact_products(draw_problem(trials.source, seed));
        auto chip = trial_chip(trials, problem, quiet);
        for (std::size_t t = 0; t < errors.size(); ++t) {
            check_cancelled(exec);
            chip = aged(std::move(chip),
                        {.seconds = config.seconds[t], .spacing_seconds = config.spacing_seconds});
            for (std::size_t k = 0; k < kAgeCompensations.size(); ++k) {
                const auto corrected = compensated(chip, kAgeCompensations[k], OutputFit::applied, quiet);
                errors[t][k].push_back(measure_error(corrected, problem, quiet));
            }
            progress.update(++done);
        }
    }
    return errors;
}

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
    for (const auto method : methods) out.methods.push_back({.method = method});
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
