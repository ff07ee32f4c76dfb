// imka chip mvm: error of matrix-vector products, state by state from the ideal matrix to the compensated
// chip.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "chip/commands.hpp"
#include "chip/measure.hpp"
#include "chip/options.hpp"
#include "imka/base/duration.hpp"
#include "imka/base/error.hpp"
#include "imka/chip/spec/chip_fields.hpp"

namespace imka::app {
namespace {

struct Args {
    ChipArgs chip{.seeds = {0, 1, 2, 3, 4}};
    ProblemArgs problem;
    BuildPlan plan;
    Simulator simulator = Simulator::fast;
    std::string time = "0";
    std::string spacing = "0.001";
    AgeCompensation compensation = AgeCompensation::none;
    std::filesystem::path load;
};

// One chip on its way: what was measured in each state is kept by the state's name.
class Journey {
public:
    explicit Journey(std::vector<MeasuredState>& states) : states_(states) {}
    void arrive(const std::string& name, const std::string& note, const Measurement& m) {
        auto place = std::ranges::find(states_, name, &MeasuredState::name);
        if (place == states_.end()) place = states_.insert(states_.end(), {.name = name, .note = note});
        place->values.push_back(m);
    }

private:
    std::vector<MeasuredState>& states_;
};

// Devices without error: what is left is mapping and converters.
ChipSettings perfect_devices(ChipSettings settings) {
    for (const auto* name : {"programming_error", "zero_threshold", "conductance_limits", "stuck_devices",
                             "drift", "frozen_read_noise", "fresh_read_noise"})
        settings = without(std::move(settings), name);
    return settings;
}

struct Times {
    double seconds = 0.0;
    double spacing = 1e-3;
};

// What the stations of one chip's way share.
struct Road {
    const Args& args;
    const ProblemSource& source;
    Times times;
    const Exec& exec;
    Journey& journey;
};

// From programming on.
void grow_old(const Road& road, const MeasurePlan& plan, ChipMatrix& chip) {
    if (road.times.seconds <= chip.time.seconds) return;
    age(chip, {.seconds = road.times.seconds, .spacing_seconds = road.times.spacing});
    road.journey.arrive("aged", duration_text(road.times.seconds) + " after programming",
                        measure(chip, plan, road.exec));
    if (road.args.compensation == AgeCompensation::none) return;
    compensate_by(chip, road.args.compensation, road.exec);
    road.journey.arrive("compensated", fmt::format("{} compensation", to_string(road.args.compensation)),
                        measure(chip, plan, road.exec));
}

void travel_loaded(const Road& road, ChipMatrix chip, std::uint64_t seed) {
    const auto problem = road.source.draw(seed);
    const auto exact = exact_products(problem.inputs.view(), problem.weights.view());
    const MeasurePlan plan{.inputs = problem.inputs.view(),
                           .exact = exact.view(),
                           .seed = product_seed(seed),
                           .simulator = road.args.simulator};
    age(chip, {.seconds = chip.time.seconds, .spacing_seconds = road.times.spacing});
    road.journey.arrive(std::string(to_string(chip.state)), "as loaded", measure(chip, plan, road.exec));
    grow_old(road, plan, chip);
}

void travel(const Road& road, const ChipSettings& settings, std::uint64_t seed) {
    const auto& [args, source, times, exec, journey] = road;
    const auto problem = source.draw(seed);
    const auto exact = exact_products(problem.inputs.view(), problem.weights.view());
    const MeasurePlan plan{.inputs = problem.inputs.view(),
                           .exact = exact.view(),
                           .seed = product_seed(seed),
                           .simulator = args.simulator};
    const auto measured = [&](const ChipMatrix& chip) { return measure(chip, plan, road.exec); };
    const ReadTime now{.seconds = 0.0, .spacing_seconds = times.spacing};

    journey.arrive("ideal", "digital products", measured(ideal_matrix(settings.spec, problem.weights, seed)));
    const auto perfect = perfect_devices(settings);
    auto chip = ideal_matrix(perfect.spec, problem.weights, seed);
    place(chip, args.plan.placement);
    program(chip, {}, exec);
    age(chip, now);
    journey.arrive("mapped", "devices without error; inputs of range 1, columns at g_max", measured(chip));

    BuildPlan nominal = args.plan;
    nominal.programming = {};
    nominal.output_calibration = false;
    chip = build_chip(perfect, problem, nominal, seed, exec);
    age(chip, now);
    journey.arrive("calibrated", "devices without error; ranges and columns from a sample", measured(chip));

    nominal.programming = args.plan.programming;
    chip = build_chip(settings, problem, nominal, seed, exec);
    age(chip, now);
    journey.arrive(
        "programmed",
        fmt::format("devices by {}; nominal output scales", to_string(args.plan.programming.method)),
        measured(chip));
    if (args.plan.output_calibration) {
        calibrate_outputs(chip, exec);
        journey.arrive("programmed+", "output scales and offsets fitted", measured(chip));
    }
    grow_old(road, plan, chip);
}

Json state_json(const MeasuredState& state) {
    const auto optional = [](const std::optional<Summary>& s) { return s ? summary_json(*s) : Json(); };
    return {{"state", state.name},
            {"note", state.note},
            {"relative_error", summary_json(over_seeds(state, [](const auto& m) { return m.parts.total; }))},
            {"linear", optional(over_seeds(state, &ErrorParts::linear))},
            {"residual", optional(over_seeds(state, &ErrorParts::residual))},
            {"bias", summary_json(over_seeds(state, [](const auto& m) { return m.parts.bias; }))},
            {"snr_db", summary_json(over_seeds(state, [](const auto& m) { return m.parts.snr_db; }))},
            {"saturated", summary_json(over_seeds(state, [](const auto& m) { return m.saturated; }))},
            {"clipped_inputs", summary_json(over_seeds(state, [](const auto& m) { return m.clipped; }))}};
}

void print_states(const std::vector<MeasuredState>& states) {
    TextTable table = {
        {"state", "error %", "linear %", "residual %", "bias %", "SNR dB", "saturated %", "clipped %", ""}};
    const auto mean = [](const Summary& s, double factor) { return fmt::format("{:.3g}", factor * s.mean); };
    const auto optional = [&](const std::optional<Summary>& s) {
        return s ? mean(*s, 100.0) : std::string("-");
    };
    for (const auto& s : states) {
        table.push_back(
            {s.name, mean_text(over_seeds(s, [](const auto& m) { return m.parts.total; }), 100.0),
             optional(over_seeds(s, &ErrorParts::linear)), optional(over_seeds(s, &ErrorParts::residual)),
             mean(over_seeds(s, [](const auto& m) { return m.parts.bias; }), 100.0),
             fmt::format("{:.1f}", over_seeds(s, [](const auto& m) { return m.parts.snr_db; }).mean),
             mean(over_seeds(s, [](const auto& m) { return m.saturated; }), 100.0),
             mean(over_seeds(s, [](const auto& m) { return m.clipped; }), 100.0), s.note});
    }
    fmt::print("{}", format_table(table));
}

void run(const Args& args, const Context& context) {
    const Times times{.seconds = parse_duration(args.time, "--time"),
                      .spacing = parse_duration(args.spacing, "--spacing")};
    std::optional<ChipMatrix> loaded;
    if (!args.load.empty()) loaded = load_programmed(args.load);
    const auto spec = loaded ? loaded->spec : load_spec(args.chip);
    const auto source = loaded ? ProblemSource(args.problem, loaded->weights) : ProblemSource(args.problem);
    if (!loaded) check_fits_chip(spec, source, args.plan.placement);
    const auto settings = make_settings(spec, args.problem);
    std::vector<MeasuredState> states;
    Journey journey(states);
    Progress progress(context.exec, "chips", args.chip.seeds.size());
    Exec quiet = context.exec;
    quiet.progress = nullptr;
    const Road road{.args = args, .source = source, .times = times, .exec = quiet, .journey = journey};
    for (std::size_t i = 0; i < args.chip.seeds.size(); ++i) {
        if (loaded) {
            travel_loaded(road, *loaded, args.chip.seeds[i]);
        } else {
            travel(road, settings, args.chip.seeds[i]);
        }
        progress.update(i + 1);
    }
    if (context.json) {
        Json list = Json::array();
        for (const auto& s : states) list.push_back(state_json(s));
        return print_json({{"chip", spec.name},
                           {"chip_hash", chip_hash(spec)},
                           {"rows", source.rows()},
                           {"cols", source.cols()},
                           {"inputs", source.count()},
                           {"weights", args.problem.weights},
                           {"input_law", args.problem.inputs},
                           {"input_range", to_string(args.problem.input_range)},
                           {"simulator", to_string(args.simulator)},
                           {"programming", to_string(args.plan.programming.method)},
                           {"seconds", times.seconds},
                           {"compensation", to_string(args.compensation)},
                           {"replicas", args.plan.placement.replicas},
                           {"seeds", args.chip.seeds},
                           {"states", list}});
    }
    fmt::print("{}\n{}; {} products for each of {} seed{}, {} simulator\n\n",
               chip_line(spec, source.rows(), source.cols()), source.description(), source.count(),
               args.chip.seeds.size(), args.chip.seeds.size() == 1 ? "" : "s", to_string(args.simulator));
    print_states(states);
    fmt::print(
        "\nerror: |y - Wx| / |Wx|, ± half of the 95 % interval over seeds. linear: what wrong weights "
        "explain; residual: the rest.\n");
    if (source.count() <= source.rows())
        fmt::print("linear and residual need more products than inputs of the matrix: --inputs {}\n",
                   4 * source.rows());
}

}  // namespace

void add_chip_mvm(CLI::App& chip, Context& context) {
    auto args = std::make_shared<Args>();
    auto* verb =
        add_verb(chip, "mvm", "Error of matrix-vector products, from the ideal matrix to the aged chip",
                 {"imka chip mvm --time 1d --compensation global",
                  "imka chip mvm --weights w.npy --input-law x.npy --input-range search --json"});
    add_common_options(*verb, context);
    add_chip_options(*verb, args->chip);
    add_seed_options(*verb, args->chip);
    add_problem_options(*verb, args->problem);
    add_enum_option(*verb, "--simulator", args->simulator, "fast, or device by device (slow)");
    add_enum_option(*verb, "--programming", args->plan.programming.method, "How devices are written");
    verb->add_option("--time", args->time, "Time since programming: 90, 30min, 1h, 7d, 1y")
        ->capture_default_str();
    verb->add_option("--spacing", args->spacing, "Time between two products")->capture_default_str();
    add_enum_option(*verb, "--compensation", args->compensation,
                    "What is done about drift; outputs: scales and offsets are fitted again");
    verb->add_flag_callback(
        "--no-output-calibration", [args] { args->plan.output_calibration = false; },
        "Keep the nominal scale of every output");
    verb->add_option("--replicas", args->plan.placement.replicas, "Copies of the matrix; 0: as many as fit")
        ->check(CLI::Range(0, 65536))
        ->capture_default_str();
    add_enum_option(*verb, "--replication", args->plan.placement.replication,
                    "Copies share the inputs, or all take every input and are averaged");
    add_load_option(*verb, args->load);
    verb->callback([args, &context] { run(*args, context); });
}

}  // namespace imka::app
