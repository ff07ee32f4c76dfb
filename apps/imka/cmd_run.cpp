// imka run: describes an ONNX model, or runs it digitally on arrays.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "app.hpp"
#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/base/names.hpp"
#include "imka/graph/executor.hpp"
#include "imka/graph/onnx_import.hpp"
#include "imka/graph/simplify.hpp"
#include "imka/graph/tensor_file.hpp"
#include "terminal.hpp"

namespace imka::app {
namespace {

struct Args {
    std::filesystem::path model;
    std::vector<std::string> inputs;   // FILE, or NAME=FILE
    std::vector<std::string> outputs;  // the same
};

std::vector<std::string> names_of(const graph::Graph& g, const std::vector<graph::ValueId>& ids) {
    std::vector<std::string> names;
    for (const auto id : ids) names.push_back(g.values[id].name);
    return names;
}

// The file of each name. Texts are NAME=FILE, or FILE if there is only one name.
std::map<std::string, std::string> files_of(const std::vector<std::string>& texts,
                                            const std::vector<std::string>& names, std::string_view option) {
    std::map<std::string, std::string> files;
    for (const auto& text : texts) {
        const auto equals = text.find('=');
        const auto name = equals == std::string::npos ? std::string() : text.substr(0, equals);
        const bool known = std::ranges::find(names, name) != names.end();
        if (!known && names.size() != 1)
            fail(ErrorCode::bad_usage, fmt::format("{} {}: expected NAME=FILE.npy, with NAME one of {}",
                                                   option, in_quotes(text), fmt::join(names, ", ")));
        if (!files.try_emplace(known ? name : names.front(), known ? text.substr(equals + 1) : text).second)
            fail(ErrorCode::bad_usage,
                 fmt::format("{}: {} is given twice", option, in_quotes(known ? name : names.front())));
    }
    return files;
}

Json value_json(const graph::Value& v) {
    return {{"name", v.name}, {"type", graph::to_text(v.type)}};
}

Json model_json(const Args& args, const graph::Graph& g, const std::vector<graph::StaticMatrix>& matrices) {
    Json j = {{"model", args.model.string()}, {"nodes", g.nodes.size()}};
    for (const auto id : g.inputs) j["inputs"].push_back(value_json(g.values[id]));
    for (const auto id : g.outputs) j["outputs"].push_back(value_json(g.values[id]));
    j["matrices"] = Json::array();
    for (const auto& m : matrices)
        j["matrices"].push_back(
            {{"name", m.name}, {"inputs", m.inputs}, {"outputs", m.outputs}, {"uses", m.uses.size()}});
    return j;
}

void describe_model(const Args& args, const graph::Graph& g, const Context& context) {
    const auto matrices = graph::static_matrices(g);
    if (context.json) return print_json(model_json(args, g, matrices));
    std::map<std::string, int> operators;
    for (const auto& node : g.nodes) ++operators[node.op];
    print_out("{}: {} nodes\n\n", args.model.string(), g.nodes.size());
    TextTable values = {{"", "name", "type"}};
    for (const auto id : g.inputs)
        values.push_back({"input", g.values[id].name, graph::to_text(g.values[id].type)});
    for (const auto id : g.outputs)
        values.push_back({"output", g.values[id].name, graph::to_text(g.values[id].type)});
    print_out("{}\n", format_table(values));
    TextTable ops = {{"operator", "nodes"}};
    for (const auto& [op, count] : operators) ops.push_back({op, std::to_string(count)});
    print_out("{}\n", format_table(ops));
    TextTable table = {{"matrix that can be placed on a chip", "inputs", "outputs", "uses"}};
    for (const auto& m : matrices)
        table.push_back(
            {m.name, std::to_string(m.inputs), std::to_string(m.outputs), std::to_string(m.uses.size())});
    print_out("{}", matrices.empty() ? "no matrix with constant weights\n" : format_table(table));
}

std::vector<graph::Tensor> read_inputs(const Args& args, const graph::Graph& g) {
    const auto names = names_of(g, g.inputs);
    const auto files = files_of(args.inputs, names, "--input");
    std::vector<graph::Tensor> tensors;
    for (std::size_t i = 0; i < names.size(); ++i) {
        const auto file = files.find(names[i]);
        if (file == files.end())
            fail(ErrorCode::bad_usage, fmt::format("no file for the input {}; add --input {}=FILE.npy",
                                                   in_quotes(names[i]), names[i]));
        tensors.push_back(graph::read_tensor(file->second, g.values[g.inputs[i]]));
    }
    return tensors;
}

void run_model(const Args& args, graph::Graph g, const Context& context) {
    const auto out_names = names_of(g, g.outputs);
    const auto files = files_of(args.outputs, out_names, "--output");
    for (const auto& [name, file] : files) check_folder(file);
    const auto inputs = read_inputs(args, g);
    std::vector<graph::Shape> shapes;
    std::vector<graph::TensorView> views;
    for (const auto& t : inputs) {
        shapes.push_back(t.shape);
        views.push_back(t.view());
    }
    graph::Executor executor(graph::simplified(graph::with_input_shapes(std::move(g), shapes)));
    const auto begin = std::chrono::steady_clock::now();
    const auto result = executor.run(views, nullptr, context.exec);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    Json list = Json::array();
    for (std::size_t i = 0; i < out_names.size(); ++i) {
        const auto file = files.find(out_names[i]);
        if (file != files.end()) graph::write_tensor(file->second, result.outputs[i]);
        list.push_back({{"name", out_names[i]},
                        {"type", to_string(result.outputs[i].type)},
                        {"shape", result.outputs[i].shape},
                        {"file", file == files.end() ? Json() : Json(file->second)}});
        if (!context.json)
            print_out("{}: {} {}{}\n", out_names[i], to_string(result.outputs[i].type),
                      graph::to_text(result.outputs[i].shape),
                      file == files.end() ? "" : fmt::format(" written to {}", file->second));
    }
    if (context.json)
        return print_json({{"model", args.model.string()},
                           {"outputs", list},
                           {"seconds", seconds},
                           {"peak_bytes", result.peak_bytes}});
    print_out("{:.3g} s, {:.3g} MB of intermediate tensors\n", seconds,
              static_cast<double>(result.peak_bytes) / 1e6);
}

void run(const Args& args, const Context& context) {
    if (args.inputs.empty() != args.outputs.empty())
        fail(ErrorCode::bad_usage, "expected both --input and --output, or neither to describe the model");
    auto g = graph::load_onnx(args.model);
    if (args.inputs.empty()) return describe_model(args, g, context);
    run_model(args, std::move(g), context);
}

}  // namespace

void add_run(CLI::App& root, Context& context) {
    auto args = std::make_shared<Args>();
    auto* verb =
        add_verb(root, "run", "Describe an ONNX model, or run it digitally",
                 {"imka run model.onnx", "imka run model.onnx --input x.npy --output y.npy",
                  "imka run model.onnx --input tokens=t.npy --input mask=m.npy --output y.npy --json"});
    add_common_options(*verb, context);
    verb->add_option("model", args->model, "ONNX file")->required()->check(CLI::ExistingFile);
    verb->add_option(
        "--input", args->inputs,
        "Array of an input: FILE.npy, or NAME=FILE.npy if the model has several; may be repeated");
    verb->add_option(
        "--output", args->outputs,
        "File for an output: FILE.npy, or NAME=FILE.npy if the model has several; may be repeated");
    verb->callback([args, &context] { run(*args, context); });
}

}  // namespace imka::app
