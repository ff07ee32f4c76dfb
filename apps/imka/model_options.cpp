#include "model_options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "imka/base/duration.hpp"
#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/base/names.hpp"
#include "imka/deploy/plan_file.hpp"
#include "imka/graph/graph_file.hpp"
#include "imka/graph/onnx_import.hpp"
#include "imka/graph/tensor_file.hpp"
#include "imka/io/safetensors.hpp"
#include "imka/learn/ridge_graph.hpp"
#include "imka/train/performer_graph.hpp"

namespace imka::app {

namespace {

// A Performer with its own Ω, for documents of the full length.
graph::Graph performer_graph(const std::filesystem::path& file) {
    const auto model = load_performer(file);
    auto g = graph_of(model, model.omega);
    for (const auto id : g.inputs) {
        auto& dims = *g.values[id].type.dims;
        if (dims.size() == 2) dims[1] = {.size = model.config.length};
    }
    graph::infer_types(g);
    return g;
}

}  // namespace

graph::Graph load_network(const std::filesystem::path& file) {
    if (file.extension() != ".safetensors" && !begins_like_safetensors(file)) return graph::load_onnx(file);
    const auto metadata = read_safetensors(file).metadata;
    const auto found = metadata.find("format");
    const auto format = found == metadata.end() ? std::string() : found->second;
    if (format == kPerformerFormat) return performer_graph(file);
    if (format == graph::kGraphFormat) return graph::load_graph(file);
    if (format == kPlanFormat)
        fail(ErrorCode::bad_usage,
             fmt::format("{} is a deployed model; its name must end with .plan", file.string()));
    return graph_of(load_model(file));
}

void check_plan_file(const std::filesystem::path& file, std::string_view option) {
    if (file.extension() != ".plan")
        fail(ErrorCode::bad_usage,
             fmt::format("{} {}: expected a name that ends with .plan", option, in_quotes(file.string())));
    check_folder(file);
}

std::vector<std::string> names_of(const graph::Graph& g, const std::vector<graph::ValueId>& ids) {
    std::vector<std::string> names;
    names.reserve(ids.size());
    for (const auto id : ids) names.push_back(g.values[id].name);
    return names;
}

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
        if (!known && !name.empty() && name.find('/') == std::string::npos)
            fail(ErrorCode::bad_usage,
                 fmt::format(
                     "{} {}: expected {}=FILE.npy or FILE.npy; put ./ before a file name that contains '='",
                     option, in_quotes(text), names.front()));
        if (!files.try_emplace(known ? name : names.front(), known ? text.substr(equals + 1) : text).second)
            fail(ErrorCode::bad_usage,
                 fmt::format("{}: {} is given twice", option, in_quotes(known ? name : names.front())));
    }
    return files;
}

std::vector<graph::Tensor> read_inputs(const graph::Graph& graph, const std::vector<std::string>& texts,
                                       std::string_view option) {
    if (texts.size() == 1 && texts[0].ends_with(".npz")) return graph::read_tensors(texts[0], graph);
    const auto names = names_of(graph, graph.inputs);
    const auto files = files_of(texts, names, option);
    std::vector<graph::Tensor> tensors;
    for (std::size_t i = 0; i < names.size(); ++i) {
        const auto file = files.find(names[i]);
        if (file == files.end())
            fail(ErrorCode::bad_usage, fmt::format("no file for the input {}; add {} {}=FILE.npy",
                                                   in_quotes(names[i]), option, names[i]));
        tensors.push_back(graph::read_tensor(file->second, graph.values[graph.inputs[i]]));
    }
    return tensors;
}

std::map<std::string, std::string> output_files(const graph::Graph& graph,
                                                const std::vector<std::string>& texts) {
    auto files = files_of(texts, names_of(graph, graph.outputs), "--output");
    for (const auto& [name, file] : files) check_folder(file);
    return files;
}

void write_outputs(const graph::Graph& graph, std::span<const graph::Tensor> outputs,
                   const std::map<std::string, std::string>& files) {
    const auto names = names_of(graph, graph.outputs);
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (const auto file = files.find(names[i]); file != files.end())
            graph::write_tensor(file->second, outputs[i]);
    }
}

std::string state_text(const ProgrammedChip& chip) {
    const auto state = to_string(state_of(chip));
    if (chip.time.seconds == 0.0) return std::string(state);
    return fmt::format("{}: read {} after programming", state, duration_text(chip.time.seconds));
}

}  // namespace imka::app
