// Reads and writes plan files.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/base/names.hpp"
#include "imka/deploy/chip_file.hpp"
#include "imka/deploy/plan_file.hpp"
#include "imka/graph/graph_file.hpp"
#include "imka/graph/static_matrices.hpp"

namespace imka {
namespace {

constexpr FileKind kPlanFile{.format = kPlanFormat, .schema = "1", .renew = "deploy the model again"};
const std::string kChip = "chip.";

std::string weights_name(std::size_t matrix) {
    return fmt::format("matrix.{}.weights", matrix);
}

BuildConfig read_build(const nlohmann::json& json) {
    BuildConfig build;
    for (const auto& item : json.items()) {
        // The text of a field: "auto" for null, names without quotes.
        const auto& value = item.value();
        set_field(fields(build), item.key(),
                  value.is_null()     ? "auto"
                  : value.is_string() ? value.get<std::string>()
                                      : value.dump());
    }
    validate(build);
    return build;
}

// The chip without the weights, which the graph has.
TensorFile chip_part(const ProgrammedChip& chip) {
    auto part = to_tensors(chip);
    for (std::size_t k = 0; k < chip.plan.matrices.size(); ++k) part.f32.erase(weights_name(k));
    return part;
}

ProgrammedChip read_chip(TensorFile part, const DeployedModel& model) {
    const auto known = graph::matrices_by_name(model.graph);
    for (std::size_t k = 0; k < model.matrices.size(); ++k) {
        const auto found = known.find(model.matrices[k]);
        if (found == known.end())
            fail(ErrorCode::bad_data,
                 fmt::format("metadata 'model': the graph has no matrix {}", in_quotes(model.matrices[k])));
        part.f32[weights_name(k)] = graph::weights_of(model.graph, found->second);
    }
    // The checksum of the chip covers the weights, so those of the graph must be the programmed ones.
    return chip_from_tensors(std::move(part));
}

}  // namespace

TensorFile to_tensors(const DeployedModel& model) {
    TensorFile file;
    graph::add_graph(model.graph, file);
    add_part(kChip, chip_part(model.chip), file);
    auto build = model.build;
    const nlohmann::json json = {{"matrices", model.matrices},
                                 {"input_shapes", model.input_shapes},
                                 {"build", nlohmann::json::parse(to_json(fields(build)))}};
    file.metadata["model"] = json.dump();
    seal(kPlanFile, file);
    return file;
}

DeployedModel model_from_tensors(TensorFile tensors) {
    SealedReader file(kPlanFile, std::move(tensors));
    DeployedModel model;
    try {
        const auto json = nlohmann::json::parse(file.text("model"));
        model.matrices = json.at("matrices").get<std::vector<std::string>>();
        model.input_shapes = json.at("input_shapes").get<std::vector<graph::Shape>>();
        model.build = read_build(json.at("build"));
    } catch (const nlohmann::json::exception&) {
        fail(ErrorCode::bad_data, "metadata 'model' is not the JSON text of a deployed model");
    } catch (const Error& e) {
        fail(ErrorCode::bad_data, e.what());
    }
    model.graph = graph::read_graph(file);
    model.chip = read_chip(file.part(kChip), model);
    if (model.input_shapes.size() != model.graph.inputs.size())
        fail(ErrorCode::bad_data, "metadata 'model': expected one shape per input of the graph");
    if (model.chip.plan.matrices.size() != model.matrices.size())
        fail(ErrorCode::bad_data, fmt::format("{} matrices on the chip, {} names",
                                              model.chip.plan.matrices.size(), model.matrices.size()));
    file.done();
    return model;
}

void save_model(const std::filesystem::path& path, const DeployedModel& model) {
    write_safetensors(path, to_tensors(model));
}

DeployedModel load_deployed(const std::filesystem::path& path) {
    return read_sealed(path, model_from_tensors);
}

}  // namespace imka
