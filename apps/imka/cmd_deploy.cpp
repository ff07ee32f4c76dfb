// imka deploy: compiles a model for a chip: places, calibrates and programs it, and shows what it costs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>

#include "app.hpp"
#include "chip/options.hpp"
#include "command_text.hpp"
#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/deploy/deployed_model.hpp"
#include "imka/deploy/error_causes.hpp"
#include "imka/deploy/floor_plan.hpp"
#include "imka/deploy/layer_cost.hpp"
#include "imka/deploy/map_verify.hpp"
#include "imka/deploy/mapping_cost.hpp"
#include "imka/deploy/mapping_file.hpp"
#include "imka/deploy/model_calibration.hpp"
#include "imka/deploy/model_error.hpp"
#include "imka/deploy/on_chip.hpp"
#include "imka/deploy/pipeline.hpp"
#include "imka/deploy/plan_file.hpp"
#include "imka/deploy/timeline.hpp"
#include "imka/deploy/what_if.hpp"
#include "imka/report/deploy_page.hpp"
#include "matrix_options.hpp"
#include "model_options.hpp"
#include "placement_options.hpp"
#include "report_files.hpp"
#include "what_if_output.hpp"

namespace imka::app {
namespace {

struct DeployArgs {
    std::filesystem::path model;
    MatrixArgs matrices;  // plan only, instead of a model
    PlacementArgs placement;
    std::string on_chip = "all";
    BuildConfig build;
    std::vector<std::string> calibrate;
    std::vector<std::string> shapes;  // NAME=1x128, or 1x128
    std::uint64_t seed = 0;
    std::filesystem::path output;
    std::filesystem::path page;
    std::filesystem::path chart_js = default_chart_js();
    std::string command;  // as given by the user
    bool explain = false;
    std::int64_t explain_inputs = 32;
    std::int64_t explain_chips = 4;
    std::vector<std::string> what_if;  // KEY=VALUE,VALUE,...
};

// Cost of a placement: products on the chip, and the time line of one inference.
struct Planned {
    std::string name;
    MapResult result;
    Timing timing;
    MappingCost cost;
    std::optional<double> offloaded;  // share of the multiply-adds; none without the digital work of a model
};

Planned planned(const DeployArgs& args, std::string name, MapResult result, Pipeline pipeline,
                const ChipSpec& spec) {
    verify_products(result.mapping);
    const auto work = digital_work(pipeline);
    auto timing =
        make_timing(std::move(pipeline), result.mapping, spec,
                    {.inferences = args.placement.schedule.inferences, .link = host_link(args.placement)});
    auto cost = model_cost(timing.pipeline, result.mapping, spec, cost_data());
    Planned p{std::move(name), std::move(result), std::move(timing), cost, {}};
    if (!args.model.empty()) p.offloaded = offloaded_share(cost.operations / 2.0, work);
    return p;
}

Json plan_json(const DeployArgs& args, const Planned& p, const ChipSpec& spec) {
    const auto& cost = p.cost;
    const auto& schedule = p.timing.schedule;
    Json json{{"name", p.name}};
    json.update(placement_json(p.result, args.placement, spec));
    json["schedule"] = timing_json(p.timing);
    json["latency_seconds"] = schedule.makespan_seconds;
    json["latency_bound_seconds"] = schedule.bound.seconds;
    json["interval_seconds"] = schedule.interval_seconds;
    json["core_joules"] = cost.core_joules ? Json(*cost.core_joules) : Json();
    json["digital_joules"] = cost.digital_joules.value;
    json["link_joules"] = cost.link_joules.value;
    json["energy_joules"] = cost.core_joules
                                ? Json(*cost.core_joules + cost.digital_joules.value + cost.link_joules.value)
                                : Json();
    json["operations"] = cost.operations;
    json["offloaded_share"] = p.offloaded ? Json(*p.offloaded) : Json();
    json["area_mm2"] = cost.area_mm2 ? Json(*cost.area_mm2) : Json();
    return json;
}

void print_plan(const DeployArgs& args, const Planned& p, const ChipSpec& spec) {
    const auto& cost = p.cost;
    print_out("{}: {}\n", p.name, count_text(p.result.mapping.matrices.size(), "matrix", "matrices"));
    print_placement(p.result, args.placement, spec);
    print_out("digital unit: {:.4g} uJ ({:.2g} to {:.2g}) per inference; area of the chips: {}\n",
              1e6 * cost.digital_joules.value, 1e6 * cost.digital_joules.low, 1e6 * cost.digital_joules.high,
              cost.area_mm2 ? fmt::format("{:.4g} mm2", *cost.area_mm2) : "unknown");
    if (p.offloaded) print_out("{:.3g} % of all multiply-adds on the chip\n", 100.0 * *p.offloaded);
}

void print_matrices(const Mapping& mapping) {
    TextTable table = {{"matrix", "inputs", "outputs", "tiles", "copies", "uses", "vectors", "cores"}};
    for (std::uint32_t m = 0; m < mapping.matrices.size(); ++m) {
        const auto& matrix = mapping.matrices[m];
        std::vector<std::uint32_t> cores;
        for (const auto& r : mapping.regions) {
            if (r.matrix == m && std::ranges::find(cores, r.core) == cores.end()) cores.push_back(r.core);
        }
        constexpr std::size_t kShown = 8;
        const auto tiles = std::ranges::count(mapping.regions, m, &Region::matrix);
        const auto more = cores.size() > kShown ? fmt::format(" ... ({})", cores.size()) : "";
        cores.resize(std::min(cores.size(), kShown));
        table.push_back(
            {matrix.shape.name, std::to_string(matrix.shape.inputs), std::to_string(matrix.shape.outputs),
             std::to_string(tiles), std::to_string(matrix.replicas), std::to_string(matrix.shape.calls),
             std::to_string(matrix.shape.vectors), fmt::format("{}{}", fmt::join(cores, " "), more)});
    }
    print_out("\n{}", format_table(table));
}

void show_plan(const DeployArgs& args, const Planned& p, const ChipSpec& spec) {
    print_plan(args, p, spec);
    print_matrices(p.result.mapping);
    print_timing(p.timing);
    if (args.placement.floor_plan) print_out("\n{}", floor_plan_text(p.result.mapping));
    if (args.placement.timeline_text) print_out("\n{}", timeline_text(p.timing.schedule, p.timing.pipeline));
}

void write_page(const DeployArgs& args, const Planned& p, const ChipSpec& spec,
                std::optional<report::ExplainedError> error) {
    if (args.page.empty()) return;
    const auto explain =
        args.command + (args.calibrate.empty() ? " --calibrate FILE.npy" : "") + " --explain";
    const report::DeployPage page{
        .name = p.name,
        .chip = spec.name,
        .command = args.command,
        .explain_command = args.model.empty() ? "" : explain,
        .verified = {"every weight has one cell", "products through the mapping are exact",
                     "nothing overlaps in time"},
        .result = p.result,
        .pipeline = p.timing.pipeline,
        .schedule = p.timing.schedule,
        .cost = p.cost,
        .layers = layer_costs(p.timing.pipeline, p.result.mapping, spec, cost_data()),
        .error = std::move(error)};
    write_file_atomic(args.page, report::render_deploy_page(report::deploy_json(page)));
}

void check_files(const DeployArgs& args) {
    check_folders(args.placement);
    if (!args.page.empty()) check_folder(args.page);
    if (!args.output.empty()) check_plan_file(args.output, "--output");
    const auto* needs = !args.what_if.empty() ? "--what-if" : args.explain ? "--explain" : "--output";
    if (args.calibrate.empty() && (!args.output.empty() || args.explain || !args.what_if.empty()))
        fail(ErrorCode::bad_usage,
             fmt::format("{} needs calibration inputs: add --calibrate FILE.npy", needs));
}

void plan_matrices(const DeployArgs& args, const Context& context) {
    const auto spec = load_spec(args.placement.chip);
    auto [name, list] = read_matrices(args.matrices);
    check_files(args);
    if (args.placement.pareto)
        return show_placements(args.placement, list, pipeline_of(list),
                               {.digital = false, .link = host_link(args.placement)}, context);
    auto result = map_matrices(list, grid_of(spec), map_options(args.placement, spec));
    const auto p = planned(args, name, std::move(result), pipeline_of(list), spec);
    write_pictures(args.placement, p.result.mapping, &p.timing, name + " on " + spec.name);
    write_page(args, p, spec, {});
    if (context.json) return print_json(plan_json(args, p, spec));
    show_plan(args, p, spec);
}

// "1x128"
graph::Shape parse_shape(const std::string& text) {
    graph::Shape shape;
    std::size_t begin = 0;
    while (begin <= text.size()) {
        const auto end = std::min(text.find('x', begin), text.size());
        shape.push_back(Codec<std::int64_t>::parse(text.substr(begin, end - begin), "--input-shape"));
        if (shape.back() < 1)
            fail(ErrorCode::bad_usage, fmt::format("--input-shape {}: sizes must be >= 1", text));
        begin = end + 1;
    }
    return shape;
}

std::vector<graph::Shape> given_shapes(const DeployArgs& args, const graph::Graph& g) {
    const auto names = names_of(g, g.inputs);
    const auto texts = files_of(args.shapes, names, "--input-shape");
    std::vector<graph::Shape> shapes;
    for (const auto& name : names) {
        const auto found = texts.find(name);
        if (found == texts.end())
            fail(ErrorCode::bad_usage,
                 fmt::format("--input-shape: no shape for the input {}", in_quotes(name)));
        shapes.push_back(parse_shape(found->second));
    }
    return shapes;
}

Json error_json(const ModelError& error, const ErrorAttribution& causes) {
    Json json{{"squared_error", summary_json(error.total)}};
    for (const auto& m : error.matrices)
        json["matrices"].push_back({{"name", m.name},
                                    {"own_error", summary_json(m.own)},
                                    {"accumulated_error", summary_json(m.accumulated)},
                                    {"alone_squared", summary_json(m.alone)},
                                    {"added_squared", summary_json(m.added)}});
    for (const auto& c : summarize_causes(causes))
        json["causes"].push_back({{"name", c.item->name},
                                  {"alone_error", summary_json(c.alone_error)},
                                  {"alone_share", summary_json(c.alone)},
                                  {"saved_share", summary_json(c.saved)}});
    return json;
}

void print_matrix_errors(const ModelError& error) {
    TextTable table = {{"matrix", "own error %", "accumulated %", "alone², share %", "added², share %"}};
    const double share = 100.0 / error.total.mean;
    double alone = 0.0;
    for (const auto& m : error.matrices) {
        table.push_back({m.name, mean_text(m.own, 100.0), mean_text(m.accumulated, 100.0),
                         mean_text(m.alone, share), mean_text(m.added, share)});
        alone += share * m.alone.mean;
    }
    table.push_back({"sum", "", "", fmt::format("{:.1f}", alone), "100"});
    print_out("{}", format_table(table));
    print_out("own: compared with exact products of the same inputs; accumulated: with those of FP32.\n");
    print_out("alone: squared error of the outputs with only this matrix on the chip\n");
    print_out("added: increase of the squared error when this matrix joins those above it on the chip\n");
    print_out("The sum of 'alone' differs from 100 where errors add up or cancel.\n");
    print_out("±: half of the 95 % interval over chips\n\n");
}

void print_causes(const ErrorAttribution& causes) {
    TextTable list = {{"cause", "error alone %", "alone², share %", "removal saves, share %", ""}};
    for (const auto& c : by_saving(summarize_causes(causes)))
        list.push_back({std::string(c.item->name), mean_text(c.alone_error, 100.0), mean_text(c.alone, 100.0),
                        mean_text(c.saved, 100.0), std::string(c.item->help)});
    print_out("{}", format_table(list));
}

// The inferences that an error was measured with.
struct TestedWith {
    std::size_t inferences = 0;
    bool calibrated = false;  // the chip was calibrated with the same inferences
};

void print_error(const report::ExplainedError& explained, const TestedWith& tested) {
    const auto& total = explained.error.total;
    print_out("\nerror of the outputs: {:.3g} %, over {} and {}{}\n", 100.0 * std::sqrt(total.mean),
              count_text(total.n, "chip", "chips"), count_text(tested.inferences, "inference", "inferences"),
              tested.calibrated ? " of the calibration" : "");
    print_matrix_errors(explained.error);
    print_causes(explained.causes);
}

std::vector<graph::Tensor> test_inputs(const DeployArgs& args, std::span<const graph::Tensor> inputs) {
    return test_inferences(inputs, {.config = args.build, .seed = args.seed},
                           static_cast<std::size_t>(args.explain_inputs));
}

std::vector<std::uint64_t> chip_seeds(const DeployArgs& args) {
    std::vector<std::uint64_t> seeds;
    for (std::int64_t s = 0; s < args.explain_chips; ++s)
        seeds.push_back(args.seed + static_cast<std::uint64_t>(s));
    return seeds;
}

report::ExplainedError explain(const DeployArgs& args, const DeployedModel& model,
                               std::span<const graph::Tensor> test, const Context& context) {
    const auto seeds = chip_seeds(args);
    return {model_error(model, test, seeds, context.exec),
            attribute_model_error(model, test, seeds, context.exec)};
}

// A model, its calibration inputs (none: plan only) and how to place it.
struct Loaded {
    graph::Graph graph;
    std::vector<graph::Tensor> inputs;
    DeployOptions options;
};

Mapping usable_mapping(const PlacementArgs& args) {
    auto mapping = read_mapping(args.from, args);
    with_file_name(args.from, [&] { verify_legal(mapping); });
    return mapping;
}

Loaded load(const DeployArgs& args, const ChipSpec& spec) {
    if (args.model.extension() == ".plan")
        fail(ErrorCode::bad_usage,
             fmt::format("{} is already deployed; 'imka run' executes it and 'imka cost' "
                         "shows its cost",
                         args.model.string()));
    Loaded loaded{.graph = load_network(args.model),
                  .options = {.on_chip = args.on_chip, .map = map_options(args.placement, spec)}};
    if (!args.placement.from.empty()) loaded.options.mapping = usable_mapping(args.placement);
    if (!args.calibrate.empty()) loaded.inputs = read_inputs(loaded.graph, args.calibrate, "--calibrate");
    auto& shapes = loaded.options.input_shapes;
    if (!args.shapes.empty()) shapes = given_shapes(args, loaded.graph);
    for (const auto& t : loaded.inputs) {
        if (args.shapes.empty()) shapes.push_back(t.shape);
    }
    return loaded;
}

// Calibrates, programs, saves and explains.
std::optional<report::ExplainedError> program_model(const DeployArgs& args, ModelPlacement placement,
                                                    std::span<const graph::Tensor> inputs,
                                                    const Context& context, Json& json) {
    const auto spec = load_spec(args.placement.chip);
    const auto model = deploy(std::move(placement), spec, args.build, inputs, args.seed, context.exec);
    if (!args.output.empty()) save_model(args.output, model);
    json["state"] = to_string(state_of(model.chip));
    json["output"] = args.output.empty() ? Json() : Json(args.output.string());
    if (!context.json)
        print_out("\n{}{}\n", state_text(model.chip),
                  args.output.empty() ? "" : fmt::format("; written to {}", args.output.string()));
    if (!args.explain) return std::nullopt;
    const auto test = test_inputs(args, inputs);
    const TestedWith tested{.inferences = static_cast<std::size_t>(test.front().shape.front()),
                            .calibrated = inputs.front().shape.front() <= args.build.calibration_inputs};
    auto explained = explain(args, model, test, context);
    json["error"] = error_json(explained.error, explained.causes);
    json["error"]["inferences"] = tested.inferences;
    json["error"]["inferences_of_calibration"] = tested.calibrated;
    if (!context.json) print_error(explained, tested);
    return explained;
}

void compare_chips(const DeployArgs& args, const Loaded& loaded, const ChipSpec& spec,
                   const Context& context) {
    std::vector<WhatIfAxis> axes;
    for (const auto& text : args.what_if) axes.push_back(parse_axis(text));
    if (!args.page.empty()) check_chart_js(args.chart_js);  // fail before the work
    const auto test = test_inputs(args, loaded.inputs);
    const auto seeds = chip_seeds(args);
    const auto points = what_if({.graph = loaded.graph,
                                 .chip = spec,
                                 .axes = axes,
                                 .options = loaded.options,
                                 .build = args.build,
                                 .calibration = loaded.inputs,
                                 .test = test,
                                 .seeds = seeds},
                                context.exec);
    const WhatIfFiles files{.figure = args.placement.figure, .page = args.page, .chart_js = args.chart_js};
    show_what_if({.name = args.model.filename().string(),
                  .chip = spec.name,
                  .command = args.command,
                  .axes = axes,
                  .points = points,
                  .assumptions = assumptions_of(axes)},
                 files, context);
}

void deploy_model(const DeployArgs& args, const Context& context) {
    check_files(args);
    require_device(context);
    const auto spec = load_spec(args.placement.chip);
    auto loaded = load(args, spec);
    if (!args.what_if.empty()) return compare_chips(args, loaded, spec, context);
    auto& [g, inputs, options] = loaded;
    auto placement = place_model(std::move(g), spec, options);
    if (args.placement.pareto)
        return show_placements(args.placement, matrix_list(placement.inference, placement.matrices),
                               placement.pipeline, {.link = host_link(args.placement)}, context);
    const auto name = args.model.filename().string();
    const auto p = planned(args, name, placement.result, placement.pipeline, spec);
    write_pictures(args.placement, p.result.mapping, &p.timing, name + " on " + spec.name);
    auto json = plan_json(args, p, spec);
    if (!context.json) show_plan(args, p, spec);
    std::optional<report::ExplainedError> error;
    if (!inputs.empty()) error = program_model(args, std::move(placement), inputs, context, json);
    write_page(args, p, spec, std::move(error));
    if (context.json) print_json(json);
}

void add_model_options(CLI::App& verb, DeployArgs& args) {
    verb.add_option("model", args.model,
                    "ONNX file, or a model of 'imka ridge --save' or 'imka train' (.safetensors)")
        ->check(CLI::ExistingFile);
    add_matrix_options(verb, args.matrices);
    add_placement_options(verb, "--mapping", args.placement);
    verb.add_option("--from-mapping", args.placement.from,
                    "Place the matrices as in this mapping file or deployed model instead")
        ->type_name("FILE")
        ->check(CLI::ExistingFile);
    verb.add_option("--calibrate", args.calibrate,
                    "Calibration inputs, inferences along the first axis: FILE.npy, NAME=FILE.npy for each "
                    "input, or FILE.npz")
        ->type_name("FILE.npy")
        ->allow_extra_args(false);
    verb.add_option("--input-shape", args.shapes,
                    "Shape of an input for the plan where the model leaves sizes open: 1x128, or NAME=1x128")
        ->type_name("SHAPE")
        ->allow_extra_args(false);
    verb.add_option(
            "--on-chip", args.on_chip,
            "Matrices on the chip: all, all-but-last, projection (random features), or names of nodes or "
            "matrices separated by commas")
        ->capture_default_str();
    bind_fields(verb, {field("seed", args.seed, {.help = "Seed of the chip and of the calibration inputs"}),
                       field("explain_inputs", args.explain_inputs,
                             range::between(1, 1e6, "Inferences for --explain and --what-if")),
                       field("explain_chips", args.explain_chips,
                             range::between(1, 1000, "Chips for --explain and --what-if"))});
}

void add_output_options(CLI::App& verb, DeployArgs& args, Context& context) {
    verb.add_option("--output", args.output, "Write the deployed model, for 'imka run'")
        ->type_name("FILE.plan");
    verb.add_option(
            "--page", args.page,
            "Write a page with floor plan, time line, energy and error per layer; with --what-if, one "
            "that compares the chips")
        ->type_name("FILE.html");
    verb.add_option("--chart-js", args.chart_js, "Copy of Chart.js 3 to embed in the page of --what-if")
        ->capture_default_str();
    verb.add_option(
            "--what-if", args.what_if,
            "Compare chips with other constants, another node (nm) or several tiers of crossbars: cores, "
            "latency, energy, area and error of each; may be repeated, all axes are combined")
        ->type_name("KEY=VALUE,VALUE,...")
        ->allow_extra_args(false);
    verb.add_flag("--explain", args.explain,
                  "Show the error of each matrix, and the causes of the total error");
    add_device_option(verb, "Where the errors of matrices (--explain) and chips (--what-if) are measured",
                      context);
}

// Rejects options that have no effect in the chosen mode of the verb.
void check_modes(const CLI::App& verb, const DeployArgs& args) {
    const std::vector<std::string> programs{"--calibrate", "--output",  "--explain",     "--at",
                                            "--on-chip",   "--what-if", "--input-shape", "--from-mapping"};
    const std::vector<std::string> pictures{"--mapping", "--svg", "--timeline", "--perfetto"};
    const auto reject = [&](const std::vector<std::string>& flags, std::string_view why) {
        reject_without_effect(verb, flags, why);
    };
    const auto& placement = args.placement;
    if (!placement.pareto && args.what_if.empty())
        reject({"--figure"}, "only --pareto and --what-if draw a figure");
    if (!placement.verify.empty() || !placement.diff.empty()) {
        for (const auto& flags : {programs, placement_flags()})
            reject(flags, "--verify and --diff read files");
        reject({"model", "--network", "--shapes", "--matrices", "--page", "--mapping", "--pareto"},
               "--verify and --diff read files");
    } else if (!args.what_if.empty() || placement.pareto) {
        reject(pictures, "--what-if and --pareto compare many placements");
        reject({"--output", "--explain"}, "--what-if and --pareto compare many placements");
    }
    if (!args.what_if.empty())
        reject({"--host-link-rate", "--host-link-latency"}, "--what-if ignores the host link");
    if (placement.pareto) reject({"--page"}, "--pareto compares many placements");
    if (args.what_if.empty() || args.page.empty()) reject({"--chart-js"}, "only --what-if --page needs it");
    if (!placement.from.empty()) {
        reject({"--cuts", "--chips", "--replicas", "--throughput", "--objective"},
               "--from-mapping already fixes the placement");
        reject({"--what-if", "--pareto"}, "--from-mapping already fixes the placement");
    }
    if (args.model.empty()) reject(programs, "without a model there is only a plan");
    const bool explains = args.explain || !args.what_if.empty();
    if (!explains)
        reject({"--explain-inputs", "--explain-chips", "--device"}, "only --explain and --what-if need it");
    if (args.calibrate.empty() && args.output.empty() && !explains)
        reject({"--seed", "--at", "--input-range", "--input-alpha", "--calibration-inputs", "--programming",
                "--output-calibration", "--read-spacing", "--compensation"},
               "nothing is programmed without --calibrate");
}

void run(const CLI::App& verb, DeployArgs& args, Context& context) {
    args.command = command_text(verb);
    check_modes(verb, args);
    if (!args.placement.verify.empty()) return verify_file(args.placement, context);
    if (!args.placement.diff.empty()) return diff_files(args.placement, context);
    const bool lists =
        !args.matrices.network.empty() || !args.matrices.shapes.empty() || !args.matrices.file.empty();
    if (args.model.empty() == !lists)
        fail(ErrorCode::bad_usage,
             "expected a model, or one of --network, --shapes and --matrices for a plan only");
    lists ? plan_matrices(args, context) : deploy_model(args, context);
}

}  // namespace

void add_deploy(CLI::App& root, Context& context) {
    auto args = std::make_shared<DeployArgs>();
    auto* verb = add_verb(
        root, "deploy", "Compile a model for a chip: place, calibrate, program; show what it costs",
        {"imka deploy model.onnx", "imka deploy model.onnx --calibrate train.npy --output model.plan",
         "imka deploy model.onnx --calibrate train.npy --explain --at 1d",
         "imka deploy model.onnx --calibrate train.npy --explain --page model.html",
         "imka deploy model.onnx --calibrate train.npy --explain --explain-chips 32 --device cuda",
         "imka deploy model.onnx --calibrate train.npy --what-if core.rows=64,128,256 --page chips.html",
         "imka deploy model.onnx --calibrate train.npy --what-if node=14,7 --what-if tiers=1,2",
         "imka deploy model.onnx --from-mapping placed.json --calibrate train.npy --output model.plan",
         "imka deploy model.onnx --on-chip all-but-last --cuts free --svg floor.svg --json",
         "imka deploy --shapes \"640x128 128x128 128x640\" --json", "imka deploy --verify model.plan",
         "imka deploy --diff before.plan after.plan"});
    add_common_options(*verb, context);
    add_model_options(*verb, *args);
    add_build_options(*verb, args->build);
    add_output_options(*verb, *args, context);
    verb->callback([args, verb, &context] { run(*verb, *args, context); });
}

}  // namespace imka::app
