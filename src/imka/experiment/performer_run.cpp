#include "imka/experiment/performer_run.hpp"

#include <chrono>
#include <cmath>

#include "imka/train/evaluate.hpp"

namespace imka {
namespace {

std::map<std::string, double> values_of(const Evaluation& evaluation, const ModeResult& result) {
    std::map<std::string, double> values = {{"accuracy", accuracy_of(evaluation, result).mean},
                                            {"loss", loss_of(result).mean},
                                            {"examples", static_cast<double>(evaluation.labels.size())}};
    if (result.mode != EvalMode::fp32) {
        values["cores"] = static_cast<double>(result.cores);
        values["saturated_share"] = result.saturated_share;
    }
    return values;
}

// Name of a run, unique among the runs that share their inputs.
std::string run_name(const RunConfig& config, EvalMode mode, std::uint64_t seed) {
    auto copy = config;
    copy.performer->mode = mode;
    copy.seeds = {seed};
    return to_json(used_fields(copy));
}

std::vector<EvalMode> modes_with(EvalMode mode) {
    if (mode == EvalMode::fp32 || mode == EvalMode::attention) return {mode};
    return {EvalMode::all, EvalMode::all_but_last};
}

}  // namespace

FeatureSizes performer_sizes(const PerformerConfig& config) {
    FeatureSizes sizes{.d = head_size(config)};
    if (config.attention == ModelAttention::exact) return sizes;
    sizes.m = config.n_directions;
    sizes.features = config.attention == ModelAttention::favor ? 2 * sizes.m : sizes.m;
    sizes.log_ratio = std::log2(static_cast<double>(sizes.m) / static_cast<double>(sizes.d));
    return sizes;
}

SeedResult run_performer(const RunConfig& config, std::uint64_t seed, RunData& data, const Exec& exec) {
    const auto begin = std::chrono::steady_clock::now();
    const auto modes = modes_with(config.performer->mode);
    const auto& inputs = *data.source().performer;
    EvaluateOptions options{.modes = modes,
                            .seeds = {seed},
                            .saved_omega = config.performer->saved_omega,
                            .omega_law = config.performer->omega_law,
                            .truncated_omega = true,
                            .build = config.chip.projection};
    if (config.uses_chip()) options.chip = resolve_chip(config.backend, config.chip);
    const auto tested = [&] {
        const auto evaluation = evaluate(inputs.model, {inputs.test, inputs.calibration}, options, exec);
        std::map<std::string, RunData::Results> results;
        for (const auto& mode : evaluation.modes)
            results[run_name(config, mode.mode, seed)] = values_of(evaluation, mode);
        return results;
    };
    SeedResult out;
    out.values = data.take_results(run_name(config, modes[0], seed),
                                   run_name(config, config.performer->mode, seed), tested);
    out.times.predict = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return out;
}

}  // namespace imka
