// imka chip mvm: error of matrix-vector products in every state, from the ideal matrix to the aged and
// compensated chip.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "chip/options.hpp"
#include "imka/base/duration.hpp"
#include "imka/chip/analyse/compare.hpp"

namespace imka::app {
namespace {

struct MvmArgs {
    TrialArgs trial;
    TimeArgs time;
    StatesConfig states;
};

std::string state_note(const MvmArgs& args, const std::string& state) {
    if (!args.trial.load.empty() && state != "aged" && state != "compensated") return "as loaded";
    if (state == "ideal") return "digital products";
    if (state == "mapped") return "devices without error; input range 1, columns at g_max";
    if (state == "calibrated") return "devices without error; ranges and columns from a sample";
    if (state == "programmed")
        return fmt::format("devices by {}; nominal output scales",
                           to_string(args.trial.build.programming.method));
    if (state == "programmed+") return "output scales and offsets fitted";
    if (state == "aged") return duration_text(args.states.read.time.seconds) + " after programming";
    return fmt::format("{} compensation", to_string(args.states.read.compensation));
}

template <class Quantity>
Summary over_seeds(const MeasuredState& state, Quantity quantity) {
    std::vector<double> values;
    for (const auto& m : state.values) values.push_back(quantity(m));
    return summarize(std::move(values));
}

// nullopt if the measurement has no value.
std::optional<Summary> over_seeds(const MeasuredState& state, std::optional<double> ErrorParts::*part) {
    if (!(state.values.front().parts.*part)) return std::nullopt;
    return over_seeds(state, [part](const Measurement& m) { return *(m.parts.*part); });
}

// Measurements of one state.
struct StateSummary {
    explicit StateSummary(const MeasuredState& s)
        : error(over_seeds(s, [](const auto& m) { return m.parts.total; })),
          linear(over_seeds(s, &ErrorParts::linear)),
          residual(over_seeds(s, &ErrorParts::residual)),
          bias(over_seeds(s, [](const auto& m) { return m.parts.bias; })),
          snr_db(over_seeds(s, [](const auto& m) { return m.parts.snr_db; })),
          saturated(over_seeds(s, [](const auto& m) { return m.saturated; })),
          limited(over_seeds(s, [](const auto& m) { return m.limited; })),
          clipped(over_seeds(s, [](const auto& m) { return m.clipped; })) {}
    Summary error;
    std::optional<Summary> linear;
    std::optional<Summary> residual;
    Summary bias;
    Summary snr_db;
    Summary saturated;
    Summary limited;
    Summary clipped;
};

Json states_json(const MvmArgs& args, const std::vector<MeasuredState>& states) {
    const auto optional = [](const std::optional<Summary>& s) { return s ? summary_json(*s) : Json(); };
    Json list = Json::array();
    for (const auto& state : states) {
        const StateSummary s(state);
        list.push_back({{"state", state.name},
                        {"note", state_note(args, state.name)},
                        {"relative_error", summary_json(s.error)},
                        {"linear", optional(s.linear)},
                        {"residual", optional(s.residual)},
                        {"bias", summary_json(s.bias)},
                        {"snr_db", summary_json(s.snr_db)},
                        {"saturated", summary_json(s.saturated)},
                        {"limited", summary_json(s.limited)},
                        {"clipped_inputs", summary_json(s.clipped)}});
    }
    return list;
}

void print_states(const MvmArgs& args, const std::vector<MeasuredState>& states) {
    TextTable table = {{"state", "error %", "linear %", "residual %", "bias %", "SNR dB", "saturated %",
                        "limited %", "clipped %", ""}};
    const auto percent = [](const Summary& s) { return fmt::format("{:.3g}", 100.0 * s.mean); };
    const auto optional = [&](const std::optional<Summary>& s) { return s ? percent(*s) : std::string("-"); };
    for (const auto& state : states) {
        const StateSummary s(state);
        table.push_back({state.name, mean_text(s.error, 100.0), optional(s.linear), optional(s.residual),
                         percent(s.bias), fmt::format("{:.1f}", s.snr_db.mean), percent(s.saturated),
                         percent(s.limited), percent(s.clipped), state_note(args, state.name)});
    }
    print_out("{}", format_table(table));
}

void run_mvm(MvmArgs& args, const Context& context) {
    args.states.read.time = read_time(args.time);
    const auto trials = make_trials(args.trial);
    const auto states = measure_states(trials, args.states, context.exec);
    const auto& config = trials.source.config;
    if (context.json) {
        auto json = chip_json(trials);
        json.update({{"inputs", config.count},
                     {"weights", args.trial.problem.weights},
                     {"input_law", args.trial.problem.inputs},
                     {"input_range", to_string(args.trial.problem.input_range)},
                     {"simulator", to_string(args.states.simulator)},
                     {"programming", to_string(trials.build.programming.method)},
                     {"seconds", args.states.read.time.seconds},
                     {"compensation", to_string(args.states.read.compensation)},
                     {"replicas", trials.build.placement.replicas},
                     {"seeds", trials.seeds},
                     {"states", states_json(args, states)}});
        return print_json(json);
    }
    print_out("{}\n{}; {} products for each of {}, {} simulator\n\n", chip_line(trials),
              problem_text(args.trial.problem, trials), config.count, seeds_text(trials),
              to_string(args.states.simulator));
    print_states(args, states);
    print_out(
        "\nerror: |y - Wx| / |Wx|, ± half of the 95 % interval over seeds. linear: the part explained by "
        "errors of the weights; residual: the rest.\n");
    if (config.count <= config.rows)
        print_out("linear and residual need more products than the matrix has inputs: --inputs {}\n",
                  4 * config.rows);
}

}  // namespace

void add_chip_mvm(CLI::App& chip, Context& context) {
    auto args = std::make_shared<MvmArgs>();
    auto* verb = add_verb(
        chip, "mvm", "Measure the error of matrix-vector products, from the ideal matrix to the aged chip",
        {"imka chip mvm --at 1d --compensation global",
         "imka chip mvm --weights w.npy --input-law x.npy --input-range search --json"});
    add_common_options(*verb, context);
    add_own_chip_options(*verb, args->trial.chip);
    add_seed_options(*verb, args->trial.chip);
    add_problem_options(*verb, args->trial.problem);
    add_enum_option(*verb, "--simulator", args->states.simulator,
                    "fast, or literal (simulates every device; slow)");
    add_programming_option(*verb, args->trial.build);
    add_time_options(*verb, args->time);
    add_enum_option(*verb, "--compensation", args->states.read.compensation,
                    "Drift compensation: none, one factor (global), one factor per output (column), or "
                    "refit scales and offsets (outputs)");
    verb->add_flag_callback(
        "--no-output-calibration", [args] { args->trial.build.output_calibration = false; },
        "Keep the nominal scale of every output");
    bind_fields(*verb, fields(args->trial.build.placement));
    add_load_option(*verb, args->trial.load);
    verb->callback([args, verb, &context] {
        if (args->trial.build.placement.replicas == 1)
            reject_without_effect(*verb, {"--replication"}, "there is one copy of the matrix (--replicas)");
        run_mvm(*args, context);
    });
}

}  // namespace imka::app
