// imka run: describes a model (ONNX or deployed), or runs it on arrays: digitally, or on the emulated chip.
#include <fmt/format.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app.hpp"
#include "chip/options.hpp"
#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/base/names.hpp"
#include "imka/chip/simulate/emulator.hpp"
#include "imka/deploy/deployed_model.hpp"
#include "imka/deploy/plan_file.hpp"
#include "imka/deploy/recording.hpp"
#include "imka/graph/executor.hpp"
#include "imka/graph/simplify.hpp"
#include "model_options.hpp"

namespace imka::app {
namespace {

struct ModelRunArgs {
    std::filesystem::path model;
    std::vector<std::string> inputs;   // FILE, or NAME=FILE
    std::vector<std::string> outputs;  // the same
    ChipArgs chip{.chip = "fp32"};
    std::vector<std::string> calibrate;  // same form as inputs
    std::uint64_t seed = 0;              // of the noise
    std::optional<std::uint64_t> chip_seed;
    std::filesystem::path record;
    std::filesystem::path replay;
};

bool is_plan(const ModelRunArgs& args) {
    return args.model.extension() == ".plan";
}

Json value_json(const graph::Value& v) {
    return {{"name", v.name}, {"type", graph::to_text(v.type)}};
}

Json model_json(const ModelRunArgs& args, const graph::Graph& g,
                const std::vector<graph::StaticMatrix>& matrices) {
    Json j = {{"model", args.model.string()}, {"nodes", g.nodes.size()}};
    for (const auto id : g.inputs) j["inputs"].push_back(value_json(g.values[id]));
    for (const auto id : g.outputs) j["outputs"].push_back(value_json(g.values[id]));
    j["matrices"] = Json::array();
    for (const auto& m : matrices)
        j["matrices"].push_back(
            {{"name", m.name}, {"inputs", m.inputs}, {"outputs", m.outputs}, {"uses", m.uses.size()}});
    return j;
}

Json chip_json(const DeployedModel& model) {
    const auto& chip = model.chip;
    return {{"backend", chip.plan.spec.name}, {"state", to_string(state_of(chip))},
            {"chip_seed", chip.seed},         {"read_seconds", chip.time.seconds},
            {"chips", chip.plan.spec.chips},  {"cores", core_count(chip.plan)},
            {"matrices", model.matrices}};
}

void print_values(const graph::Graph& g) {
    TextTable values = {{"", "name", "type"}};
    for (const auto id : g.inputs)
        values.push_back({"input", g.values[id].name, graph::to_text(g.values[id].type)});
    for (const auto id : g.outputs)
        values.push_back({"output", g.values[id].name, graph::to_text(g.values[id].type)});
    print_out("{}\n", format_table(values));
}

// `deployed`: null for an ONNX model.
void describe_model(const ModelRunArgs& args, const graph::Graph& g, const DeployedModel* deployed,
                    const Context& context) {
    const auto matrices = graph::static_matrices(g);
    if (context.json) {
        auto json = model_json(args, g, matrices);
        if (deployed != nullptr) json["on_chip"] = chip_json(*deployed);
        return print_json(json);
    }
    std::map<std::string, int> operators;
    for (const auto& node : g.nodes) ++operators[node.op];
    print_out("{}: {} nodes\n\n", args.model.string(), g.nodes.size());
    print_values(g);
    TextTable ops = {{"operator", "nodes"}};
    for (const auto& [op, count] : operators) ops.push_back({op, std::to_string(count)});
    print_out("{}\n", format_table(ops));
    TextTable table = {{"matrix that can be placed on a chip", "inputs", "outputs", "uses"}};
    for (const auto& m : matrices)
        table.push_back(
            {m.name, std::to_string(m.inputs), std::to_string(m.outputs), std::to_string(m.uses.size())});
    print_out("{}", matrices.empty() ? "no matrix with constant weights\n" : format_table(table));
    if (deployed == nullptr) return;
    const auto& chip = deployed->chip;
    print_out("\non {}: {} of {}, {}; {}; chip seed {}\n", chip.plan.spec.name, deployed->matrices.size(),
              count_text(matrices.size(), "matrix", "matrices"),
              count_text(core_count(chip.plan), "core", "cores"), state_text(chip), chip.seed);
}

// Outputs of a run, and what to print about it.
struct Ran {  // NOLINT(bugprone-exception-escape): moving Json does not throw
    std::vector<graph::Tensor> outputs;
    double seconds = 0.0;
    Json json;         // further keys
    std::string text;  // last lines
};

template <class Body>
double seconds_of(Body&& body) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Lists the nodes that ran on the processor because they have no GPU variant.
void add_device(const std::vector<std::string>& on_processor, const Context& context, Ran& ran) {
    if (context.exec.device.kind == DeviceKind::cpu) return;
    ran.json["device"] = to_string(context.exec.device);
    ran.json["nodes_on_processor"] = on_processor;
    if (!on_processor.empty())
        ran.text += fmt::format("{} on the processor: {}\n", count_text(on_processor.size(), "node", "nodes"),
                                fmt::join(on_processor, ", "));
}

Ran run_digital(graph::Graph g, const std::vector<graph::Tensor>& inputs, const Context& context) {
    std::vector<graph::Shape> shapes;
    std::vector<graph::TensorView> views;
    for (const auto& t : inputs) {
        shapes.push_back(t.shape);
        views.push_back(t.view());
    }
    graph::Executor executor(graph::simplified(graph::with_input_shapes(std::move(g), shapes)));
    graph::RunResult result;
    Ran ran;
    ran.seconds = seconds_of([&] { result = executor.run(views, nullptr, context.exec); });
    ran.json = {{"backend", "fp32"}, {"peak_bytes", result.peak_bytes}};
    ran.text =
        fmt::format("{:.3g} MB of intermediate tensors\n", static_cast<double>(result.peak_bytes) / 1e6);
    std::vector<std::string> names;
    for (const auto n : result.on_processor) names.push_back(executor.graph().nodes[n].name);
    add_device(names, context, ran);
    ran.outputs = std::move(result.outputs);
    return ran;
}

Json trace_json(const Trace& trace) {
    return {{"core_products", trace.core_products},
            {"conversions", trace.conversions},
            {"saturated", trace.saturated},
            {"results", trace.results},
            {"limited", trace.limited},
            {"inputs", trace.inputs},
            {"clipped_inputs", trace.clipped_inputs},
            {"bytes_in", trace.bytes_in},
            {"bytes_out", trace.bytes_out},
            {"digital_operations", trace.digital_operations}};
}

std::string trace_text(const ModelRun& run) {
    const auto& trace = run.trace;
    std::uint64_t products = 0;
    for (const auto n : trace.core_products) products += n;
    const auto share = [](std::uint64_t part, std::uint64_t all) {
        return all == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(all);
    };
    return fmt::format(
        "{} core products, {} conversions ({:.3g} % saturated), {:.3g} % of results limited, {:.3g} % of "
        "inputs clipped, {:.3g} MB to and {:.3g} MB from the cores, {:.3g} MB over the host link\n",
        products, trace.conversions, share(trace.saturated, trace.conversions),
        share(trace.limited, trace.results), share(trace.clipped_inputs, trace.inputs),
        static_cast<double>(trace.bytes_in) / 1e6, static_cast<double>(trace.bytes_out) / 1e6,
        run.host_bytes / 1e6);
}

Json work_json(const DigitalWork& work) {
    return {{"exponentials", work.exponentials},
            {"divisions", work.divisions},
            {"norm_elements", work.norm_elements},
            {"additions", work.additions},
            {"multiplications", work.multiplications}};
}

std::string work_text(const ModelRun& run) {
    const auto& work = run.digital;
    return fmt::format(
        "digital operators: {:.3g} exponentials, {:.3g} divisions, {:.3g} elements of norms, {:.3g} "
        "additions, "
        "{:.3g} multiplications; {:.3g} % of all multiply-adds on the chip\n",
        work.exponentials, work.divisions, work.norm_elements, work.additions, work.multiplications,
        100.0 * offloaded_share(run.multiply_adds, work));
}

// The emulator, optionally recorded, or a replayed recording.
std::unique_ptr<ChipDriver> make_driver(const ModelRunArgs& args, const DeployedModel& model,
                                        const Exec& exec) {
    if (!args.replay.empty()) return std::make_unique<ReplayingDriver>(load_recording(args.replay));
    auto emulator = make_emulator(model.chip, Simulator::fast, exec);
    if (args.record.empty()) return emulator;
    return std::make_unique<RecordingDriver>(std::move(emulator));
}

Ran run_deployed(const ModelRunArgs& args, const DeployedModel& model,
                 const std::vector<graph::Tensor>& inputs, const Context& context) {
    const auto driver = make_driver(args, model, context.exec);
    ModelRun result;
    Ran ran;
    ran.seconds = seconds_of([&] { result = run_model(model, *driver, inputs, args.seed, context.exec); });
    if (!args.record.empty())
        save_recording(args.record, dynamic_cast<const RecordingDriver&>(*driver).recording());
    ran.json = chip_json(model);
    ran.json["seed"] = args.seed;
    ran.json["trace"] = trace_json(result.trace);
    ran.json["trace"]["multiply_adds"] = result.multiply_adds;
    ran.json["trace"]["digital"] = work_json(result.digital);
    ran.json["trace"]["host_bytes"] = result.host_bytes;
    ran.json["offloaded_share"] = offloaded_share(result.multiply_adds, result.digital);
    ran.text = fmt::format("{}, chip seed {}, seed {}: {}{}", model.chip.plan.spec.name, model.chip.seed,
                           args.seed, trace_text(result), work_text(result));
    add_device(result.on_processor, context, ran);
    ran.outputs = std::move(result.outputs);
    return ran;
}

void show(const ModelRunArgs& args, const graph::Graph& g, const Ran& ran,
          const std::map<std::string, std::string>& files, const Context& context) {
    const auto names = names_of(g, g.outputs);
    Json list = Json::array();
    for (std::size_t i = 0; i < names.size(); ++i) {
        const auto& tensor = ran.outputs[i];
        const auto file = files.find(names[i]);
        list.push_back({{"name", names[i]},
                        {"type", to_string(tensor.type)},
                        {"shape", tensor.shape},
                        {"file", file == files.end() ? Json() : Json(file->second)}});
        if (!context.json)
            print_out("{}: {} {}{}\n", names[i], to_string(tensor.type), graph::to_text(tensor.shape),
                      file == files.end() ? "" : fmt::format(" written to {}", file->second));
    }
    if (!context.json) return print_out("{:.3g} s; {}", ran.seconds, ran.text);
    Json json{{"model", args.model.string()}, {"outputs", list}, {"seconds", ran.seconds}};
    json.update(ran.json);
    print_json(json);
}

DeployedModel load_plan(const ModelRunArgs& args, const Exec& exec) {
    auto model = load_deployed(args.model);
    if (args.chip_seed) model = rebuilt(model, {model.chip.plan.spec, model.build, *args.chip_seed}, exec);
    return model;
}

DeployedModel deploy_now(const ModelRunArgs& args, graph::Graph g, const Context& context) {
    const auto spec = load_spec(args.chip);
    if (args.calibrate.empty())
        fail(ErrorCode::bad_usage, "a chip needs calibration inputs: add --calibrate FILE.npy");
    const auto inputs = read_inputs(g, args.calibrate, "--calibrate");
    DeployOptions options;
    for (const auto& t : inputs) options.input_shapes.push_back(t.shape);
    auto placement = place_model(std::move(g), spec, options);
    return deploy(std::move(placement), spec, {}, inputs, args.chip_seed.value_or(args.seed), context.exec);
}

void run_plan(const ModelRunArgs& args, const Context& context) {
    const auto model = load_plan(args, context.exec);
    if (args.inputs.empty()) return describe_model(args, model.graph, &model, context);
    const auto files = output_files(model.graph, args.outputs);
    const auto ran = run_deployed(args, model, read_inputs(model.graph, args.inputs, "--input"), context);
    write_outputs(model.graph, ran.outputs, files);
    show(args, model.graph, ran, files, context);
}

void run_network(const ModelRunArgs& args, const Context& context) {
    auto g = load_network(args.model);
    if (args.inputs.empty()) return describe_model(args, g, nullptr, context);
    const auto files = output_files(g, args.outputs);
    const auto inputs = read_inputs(g, args.inputs, "--input");
    const auto ran = args.chip.chip == "fp32"
                         ? run_digital(g, inputs, context)
                         : run_deployed(args, deploy_now(args, g, context), inputs, context);
    write_outputs(g, ran.outputs, files);
    show(args, g, ran, files, context);
}

void run(const CLI::App& verb, const ModelRunArgs& args, const Context& context) {
    if (args.inputs.empty() != args.outputs.empty())
        fail(ErrorCode::bad_usage, "expected both --input and --output, or neither to describe the model");
    if (args.inputs.empty())
        reject_without_effect(
            verb, {"--backend", "--chip-set", "--calibrate", "--seed", "--device", "--record", "--replay"},
            "without --input and --output the model is only described");
    require_device(context);
    if (is_plan(args)) {
        reject_without_effect(verb, {"--backend", "--chip-set", "--calibrate"},
                              "the plan has its own chip; 'imka deploy' compiles for another one");
        return run_plan(args, context);
    }
    if (args.chip.chip == "fp32")
        reject_without_effect(verb,
                              {"--chip-set", "--calibrate", "--seed", "--chip-seed", "--record", "--replay"},
                              "the model runs digitally; --backend names a chip");
    run_network(args, context);
}

}  // namespace

void add_run(CLI::App& root, Context& context) {
    auto args = std::make_shared<ModelRunArgs>();
    auto* verb =
        add_verb(root, "run", "Describe a model, or run it digitally or on the emulated chip",
                 {"imka run model.onnx", "imka run model.onnx --input x.npy --output y.npy",
                  "imka run model.onnx --input tokens=t.npy --input mask=m.npy --output y.npy --json",
                  "imka run model.plan --input x.npy --output y.npy --seed 3",
                  "imka run model.onnx --backend hermes --calibrate train.npy --input x.npy --output y.npy"});
    add_common_options(*verb, context);
    verb->add_option("model", args->model,
                     "ONNX file, ridge model or Performer (.safetensors), or a deployed model (.plan) of "
                     "'imka deploy'")
        ->required()
        ->check(CLI::ExistingFile);
    verb->add_option("--input", args->inputs,
                     "Array of an input: FILE.npy, or NAME=FILE.npy if the model has several; may be "
                     "repeated. FILE.npz: all inputs")
        ->allow_extra_args(false);
    verb->add_option(
            "--output", args->outputs,
            "File for an output: FILE.npy, or NAME=FILE.npy if the model has several; may be repeated")
        ->allow_extra_args(false);
    add_chip_options(*verb, args->chip);
    verb->add_option("--calibrate", args->calibrate,
                     "Calibration inputs to deploy an ONNX model with: as --input, with many inferences")
        ->allow_extra_args(false);
    bind_fields(*verb, {field("seed", args->seed, {.help = "Seed of the noise of products"}),
                        field("chip_seed", args->chip_seed,
                              {.help = "Program a chip anew with this seed; auto: that of the plan"})});
    add_device_option(*verb, "Where the model runs and the chip is emulated", context);
    verb->add_option("--record", args->record, "Write all products of the run, to repeat it without a chip")
        ->type_name("FILE");
    verb->add_option("--replay", args->replay, "Take all products from a file written by --record")
        ->type_name("FILE")
        ->check(CLI::ExistingFile)
        ->excludes("--record")
        ->excludes("--device");
    verb->callback([args, verb, &context] { run(*verb, *args, context); });
}

}  // namespace imka::app
