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
#include "imka/base/duration.hpp"
#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/base/random.hpp"
#include "imka/deploy/deployed_model.hpp"
#include "imka/deploy/floor_plan.hpp"
#include "imka/deploy/layer_cost.hpp"
#include "imka/deploy/map_verify.hpp"
#include "imka/deploy/mapping_cost.hpp"
#include "imka/deploy/mapping_file.hpp"
#include "imka/deploy/model_error.hpp"
#include "imka/deploy/on_chip.hpp"
#include "imka/deploy/pipeline.hpp"
#include "imka/deploy/plan_file.hpp"
#include "imka/deploy/schedule.hpp"
#include "imka/graph/static_matrices.hpp"
#include "imka/report/deploy_page.hpp"
#include "matrix_options.hpp"
#include "model_options.hpp"

namespace imka::app {
namespace {

struct Args {
    std::filesystem::path model;
    ChipArgs chip;
    MatrixArgs matrices;  // plan only, instead of a model
    DeployOptions options;
    BuildConfig build;
    std::vector<std::string> calibrate;
    std::vector<std::string> shapes;  // NAME=1x128, or 1x128
    std::uint64_t seed = 0;
    std::filesystem::path output;
    std::filesystem::path svg;
    std::filesystem::path page;
    std::string command;  // as given
    std::filesystem::path mapping;
    std::filesystem::path verify;
    std::vector<std::string> diff;
    bool floor_plan = false;
    bool explain = false;
    std::int64_t explain_inputs = 32;
    std::int64_t explain_chips = 4;
};

// What a placement costs: products on the chip, and the time line of one inference.
struct Planned {
    std::string name;
    MapResult result;
    Pipeline pipeline;
    Schedule schedule;
    MappingCost cost;
};

DigitalWork total_work(const Pipeline& pipeline) {
    DigitalWork sum;
    for (const auto& step : pipeline.steps) add_work(step.work, 1.0, sum);
    return sum;
}

Planned planned(std::string name, MapResult result, Pipeline pipeline, const ChipSpec& spec) {
    const auto data = cost_data();
    Planned out{.name = std::move(name), .result = std::move(result), .pipeline = std::move(pipeline)};
    const auto& mapping = out.result.mapping;
    verify_products(mapping);
    out.schedule = make_schedule(out.pipeline, mapping, spec, data);
    verify_schedule(out.schedule, out.pipeline, mapping, spec);
    out.cost = mapping_cost(mapping, spec, total_work(out.pipeline), data);
    return out;
}

// Numbers of the placed matrices in static_matrices(graph).
std::vector<std::size_t> matrix_numbers(const graph::Graph& graph, const std::vector<std::string>& names) {
    const auto all = graph::static_matrices(graph);
    std::vector<std::size_t> numbers;
    for (const auto& name : names) {
        const auto found = std::ranges::find(all, name, &graph::StaticMatrix::name);
        numbers.push_back(static_cast<std::size_t>(found - all.begin()));
    }
    return numbers;
}

Json plan_json(const Planned& p, const ChipSpec& spec) {
    const auto& [result, cost, schedule] = std::tie(p.result, p.cost, p.schedule);
    const double joules =
        cost.core_joules.value_or(std::nan("")) + cost.digital_joules.value + cost.link_joules.value;
    return {{"name", p.name},
            {"backend", spec.name},
            {"matrices", result.mapping.matrices.size()},
            {"cores", result.cores},
            {"lower_bound", result.bound.bins},
            {"bound", result.bound.reason},
            {"optimal", result.optimal()},
            {"chips", result.mapping.grid.chips},
            {"tiles", result.mapping.regions.size()},
            {"utilisation", utilisation(result.mapping)},
            {"latency_seconds", schedule.makespan_seconds},
            {"latency_bound_seconds", schedule.bound.seconds},
            {"latency_bound", schedule.bound.reason},
            {"interval_seconds", schedule.interval_seconds},
            {"energy_joules", joules},
            {"core_joules", cost.core_joules ? Json(*cost.core_joules) : Json()},
            {"digital_joules", cost.digital_joules.value},
            {"core_products", cost.core_products},
            {"operations", cost.operations},
            {"area_mm2", cost.area_mm2},
            {"verified", true}};
}

void print_plan(const Planned& p, const ChipSpec& spec) {
    const auto& [result, cost, schedule] = std::tie(p.result, p.cost, p.schedule);
    const auto& grid = result.mapping.grid;
    print_out("{} on {}: {}\n", p.name, spec.name,
              count_text(result.mapping.matrices.size(), "matrix", "matrices"));
    print_out("{} on {}; lower bound {} ({}){}; {:.1f} % of their cells in use\n",
              count_text(result.cores, "core", "cores"), count_text(grid.chips, "chip", "chips"),
              result.bound.bins, result.bound.reason, result.optimal() ? ": optimal" : "",
              100.0 * utilisation(result.mapping));
    print_out("one inference: {:.4g} us (at least {:.4g}: {}), {} core products",
              1e6 * schedule.makespan_seconds, 1e6 * schedule.bound.seconds, schedule.bound.reason,
              cost.core_products);
    if (cost.core_joules)
        print_out(", {:.4g} uJ in the cores and {:.3g} ({:.2g} to {:.2g}) in the digital unit",
                  1e6 * *cost.core_joules, 1e6 * cost.digital_joules.value, 1e6 * cost.digital_joules.low,
                  1e6 * cost.digital_joules.high);
    print_out(
        "\nverified: every weight has one cell, products through the mapping are exact, nothing overlaps in "
        "time\n");
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

void write_pictures(const Args& args, const Planned& p, const ChipSpec& spec) {
    const auto title = p.name + " on " + spec.name;
    if (!args.svg.empty()) write_file_atomic(args.svg, floor_plan_svg(p.result.mapping, title));
    if (!args.mapping.empty()) save_mapping(args.mapping, p.result.mapping);
}

void show_plan(const Args& args, const Planned& p, const ChipSpec& spec) {
    print_plan(p, spec);
    print_matrices(p.result.mapping);
    print_out("\n{}", pipeline_text(p.pipeline));
    if (args.floor_plan) print_out("\n{}", floor_plan_text(p.result.mapping));
}

void write_page(const Args& args, const Planned& p, const ChipSpec& spec,
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
        .pipeline = p.pipeline,
        .schedule = p.schedule,
        .cost = p.cost,
        .layers = layer_costs(p.pipeline, p.result.mapping, spec, cost_data()),
        .error = std::move(error)};
    write_file_atomic(args.page, report::render_deploy_page(report::deploy_json(page)));
}

void plan_matrices(const Args& args, const Context& context) {
    const auto spec = load_spec(args.chip);
    auto [name, list] = read_matrices(args.matrices);
    auto result = map_matrices(list, grid_of(spec), args.options.map);
    const auto p = planned(name, std::move(result), pipeline_of(list), spec);
    write_pictures(args, p, spec);
    write_page(args, p, spec, {});
    if (context.json) return print_json(plan_json(p, spec));
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

std::vector<graph::Shape> given_shapes(const Args& args, const graph::Graph& g) {
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
    for (const auto& a : causes.items)
        json["causes"].push_back({{"name", a.item->name},
                                  {"alone_error", summary_json(summarize(a.alone_error))},
                                  {"alone_share", summary_json(summarize(a.alone))},
                                  {"saved_share", summary_json(summarize(a.saved))}});
    return json;
}

void print_error(const ModelError& error, const ErrorAttribution& causes) {
    print_out("\nerror of the outputs: {:.3g} %, over {} chips\n", 100.0 * std::sqrt(error.total.mean),
              error.total.n);
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
    print_out(
        "own: products compared with exact ones of the same inputs; accumulated: with those of FP32. Shares "
        "of "
        "the\nsquared error of the outputs: with only this matrix on the chip, and added when it joins those "
        "above it;\nthe first sum differs from 100 where errors of matrices add up or cancel. ±: half of the "
        "95 "
        "% interval over chips\n\n");
    TextTable list = {{"cause", "error alone %", "alone², share %", "removal saves, share %", ""}};
    std::vector<const Attribution*> items;
    for (const auto& a : causes.items) items.push_back(&a);
    std::ranges::stable_sort(items, std::greater<>(), [](const auto* a) { return summarize(a->saved).mean; });
    for (const auto* a : items)
        list.push_back({std::string(a->item->name), mean_text(summarize(a->alone_error), 100.0),
                        mean_text(summarize(a->alone), 100.0), mean_text(summarize(a->saved), 100.0),
                        std::string(a->item->help)});
    print_out("{}", format_table(list));
}

// Inferences that were not used for calibration, or all if there are no others.
std::vector<graph::Tensor> test_inputs(const Args& args, std::span<const graph::Tensor> inputs) {
    const auto count = static_cast<std::uint32_t>(inputs[0].shape[0]);
    auto order = permutation(args.seed, Stream::chip_calibration, count);
    const auto used = static_cast<std::size_t>(args.build.calibration_inputs);
    if (order.size() > used) order.erase(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(used));
    order.resize(std::min(order.size(), static_cast<std::size_t>(args.explain_inputs)));
    return select_inferences(inputs, order);
}

report::ExplainedError explain(const Args& args, const DeployedModel& model,
                               std::span<const graph::Tensor> inputs, const Context& context) {
    const auto test = test_inputs(args, inputs);
    std::vector<std::uint64_t> seeds;
    for (std::int64_t s = 0; s < args.explain_chips; ++s)
        seeds.push_back(args.seed + static_cast<std::uint64_t>(s));
    return {model_error(model, test, seeds, context.exec),
            attribute_model_error(model, test, seeds, context.exec)};
}

void deploy_model(Args& args, const Context& context) {
    const auto spec = load_spec(args.chip);
    for (const auto& file : {args.output, args.svg, args.mapping, args.page}) {
        if (!file.empty()) check_folder(file);
    }
    if (args.calibrate.empty() && (!args.output.empty() || args.explain))
        fail(ErrorCode::bad_usage, fmt::format("{} needs calibration inputs: add --calibrate FILE.npy",
                                               args.explain ? "--explain" : "--output"));
    auto g = load_network(args.model);
    const auto inputs =
        args.calibrate.empty() ? std::vector<graph::Tensor>{} : read_inputs(g, args.calibrate, "--calibrate");
    if (!args.shapes.empty()) args.options.input_shapes = given_shapes(args, g);
    if (args.shapes.empty()) {
        for (const auto& t : inputs) args.options.input_shapes.push_back(t.shape);
    }
    auto placement = place_model(std::move(g), spec, args.options);
    const auto numbers = matrix_numbers(placement.inference, placement.matrices);
    const auto p = planned(args.model.filename().string(), placement.result,
                           pipeline_of(placement.inference, numbers), spec);
    write_pictures(args, p, spec);
    auto json = plan_json(p, spec);
    if (!context.json) show_plan(args, p, spec);
    std::optional<report::ExplainedError> explained;
    if (!inputs.empty()) {
        const auto model = deploy(std::move(placement), spec, args.build, inputs, args.seed, context.exec);
        if (!args.output.empty()) save_model(args.output, model);
        json["state"] = to_string(state_of(model.chip));
        json["output"] = args.output.empty() ? Json() : Json(args.output.string());
        if (!context.json)
            print_out("\n{}{}\n", to_string(state_of(model.chip)),
                      args.output.empty() ? "" : fmt::format("; written to {}", args.output.string()));
        if (args.explain) {
            explained = explain(args, model, inputs, context);
            json["error"] = error_json(explained->error, explained->causes);
            if (!context.json) print_error(explained->error, explained->causes);
        }
    }
    write_page(args, p, spec, std::move(explained));
    if (context.json) print_json(json);
}

// The mapping of a deployed model or of a mapping file.
Mapping read_mapping(const std::filesystem::path& file, const Args& args) {
    if (file.extension() == ".plan") return mapping_of(load_deployed(file));
    return load_mapping(file, grid_of(load_spec(args.chip)));
}

void verify_file(const Args& args, const Context& context) {
    const auto mapping = read_mapping(args.verify, args);
    with_file_name(args.verify, [&] { verify_products(mapping); });
    if (context.json)
        return print_json({{"file", args.verify.string()},
                           {"verified", true},
                           {"matrices", mapping.matrices.size()},
                           {"cores", cores_used(mapping)},
                           {"utilisation", utilisation(mapping)}});
    print_out("{}: {} on {}\n", args.verify.string(),
              count_text(mapping.matrices.size(), "matrix", "matrices"),
              count_text(cores_used(mapping), "core", "cores"));
    print_out("verified: every weight has one cell, and products through the mapping are exact\n");
    if (args.floor_plan) print_out("\n{}", floor_plan_text(mapping));
}

void diff_files(const Args& args, Context& context) {
    const auto lines =
        mapping_differences(read_mapping(args.diff[0], args), read_mapping(args.diff[1], args));
    context.exit_code = lines.empty() ? 0 : 1;
    if (context.json) return print_json({{"equal", lines.empty()}, {"differences", lines}});
    for (const auto& line : lines) print_out("{}\n", line);
    if (lines.empty()) print_out("no differences\n");
}

void add_model_options(CLI::App& verb, Args& args) {
    verb.add_option("model", args.model, "ONNX file, or a ridge model of 'imka ridge --save' (.safetensors)")
        ->check(CLI::ExistingFile);
    add_matrix_options(verb, args.matrices);
    add_chip_options(verb, args.chip);
    verb.add_option("--calibrate", args.calibrate,
                    "Calibration inputs, inferences along the first axis: FILE.npy, NAME=FILE.npy for each "
                    "input, or FILE.npz")
        ->type_name("FILE.npy");
    verb.add_option("--input-shape", args.shapes,
                    "Shape of an input for the plan where the model leaves sizes open: 1x128, or NAME=1x128")
        ->type_name("SHAPE");
    verb.add_option(
            "--on-chip", args.options.on_chip,
            "Matrices on the chip: all, all-but-last, projection (random features), or names of nodes or "
            "matrices separated by commas")
        ->capture_default_str();
    add_enum_option(verb, "--cuts", args.options.map.cuts,
                    "Where matrices are cut: at multiples of the core, also elsewhere to save cores, or "
                    "evenly with one tile per core (as imka ridge)");
    bind_fields(
        verb,
        {field("chips", args.options.map.chips,
               range::between(0, 65536, "Most chips; 0 = as many as needed")),
         field("replicas", args.options.map.replicas,
               range::between(0, 65536, "Copies of all matrices; 0: as many as fit")),
         field("seed", args.seed, {.help = "Seed of the chip and of the calibration inputs"}),
         field("explain_inputs", args.explain_inputs, range::between(1, 1e6, "Inferences for --explain")),
         field("explain_chips", args.explain_chips, range::between(1, 1000, "Chips for --explain"))});
}

void add_build_options(CLI::App& verb, Args& args) {
    Fields chosen;
    for (auto& f : fields(args.build)) {
        for (const auto* name : {"input_range", "input_alpha", "calibration_inputs", "programming",
                                 "output_calibration", "read_spacing", "compensation"}) {
            if (f.name == name) chosen.push_back(f);
        }
    }
    bind_fields(verb, chosen);
    verb.add_option_function<std::string>(
            "--at",
            [&args](const std::string& text) { args.build.read_seconds = parse_duration(text, "--at"); },
            "Time since programming at which the chip is read: 90, 30min, 1h, 7d, 1y")
        ->type_name("TIME")
        ->default_str("0");
}

void add_output_options(CLI::App& verb, Args& args) {
    verb.add_option("--output", args.output, "Write the deployed model, for 'imka run'")
        ->type_name("FILE.plan");
    verb.add_option("--mapping", args.mapping, "Write the mapping as JSON")->type_name("FILE.json");
    verb.add_option("--svg", args.svg, "Draw the floor plan")->type_name("FILE.svg");
    verb.add_option("--page", args.page,
                    "Write a page with floor plan, time line, energy and error per layer")
        ->type_name("FILE.html");
    verb.add_flag("--floor-plan", args.floor_plan, "Print the floor plan of every core as text");
    verb.add_flag("--explain", args.explain, "Show the error matrix by matrix, and what causes it");
    verb.add_option("--verify", args.verify, "Check a plan or a mapping file instead")->type_name("FILE");
    verb.add_option("--diff", args.diff,
                    "Compare two plans or mapping files instead; exit code 1 if they differ")
        ->type_name("FILE FILE")
        ->expected(2);
}

void run(const CLI::App& verb, Args& args, Context& context) {
    const bool lists =
        !args.matrices.network.empty() || !args.matrices.shapes.empty() || !args.matrices.file.empty();
    args.command = command_text(verb);
    if (!args.verify.empty()) return verify_file(args, context);
    if (!args.diff.empty()) return diff_files(args, context);
    if (args.model.empty() == !lists)
        fail(ErrorCode::bad_usage,
             "expected a model, or one of --network, --shapes and --matrices for a plan only");
    if (!lists) return deploy_model(args, context);
    reject_without_effect(verb,
                          {"--calibrate", "--output", "--explain", "--on-chip", "--input-shape", "--at"},
                          "without a model there is only a plan");
    plan_matrices(args, context);
}

}  // namespace

void add_deploy(CLI::App& root, Context& context) {
    auto args = std::make_shared<Args>();
    auto* verb = add_verb(
        root, "deploy", "Compile a model for a chip: place, calibrate, program; show what it costs",
        {"imka deploy model.onnx", "imka deploy model.onnx --calibrate train.npy --output model.plan",
         "imka deploy model.onnx --calibrate train.npy --explain --at 1d",
         "imka deploy model.onnx --calibrate train.npy --explain --page model.html",
         "imka deploy model.onnx --on-chip all-but-last --cuts free --svg floor.svg --json",
         "imka deploy --shapes \"640x128 128x128 128x640\" --json", "imka deploy --verify model.plan",
         "imka deploy --diff before.plan after.plan"});
    add_common_options(*verb, context);
    add_model_options(*verb, *args);
    add_build_options(*verb, *args);
    add_output_options(*verb, *args);
    verb->callback([args, verb, &context] { run(*verb, *args, context); });
}

}  // namespace imka::app
