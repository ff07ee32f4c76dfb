// The file of a model: safetensors with a checksum and the settings as JSON text in its metadata.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "imka/base/error.hpp"
#include "imka/io/sealed_tensors.hpp"
#include "imka/train/performer.hpp"

namespace imka {
namespace {

constexpr FileKind kKind{.format = kPerformerFormat, .schema = "1", .renew = "train the model again"};
constexpr std::string_view kRange = "input_range.";
constexpr std::string_view kState = "state.";

std::vector<std::string> names_with(std::string_view prefix, const TensorFile& file) {
    std::vector<std::string> names;
    for (const auto& [name, value] : file.f32) {
        if (name.starts_with(prefix)) names.push_back(name);
    }
    return names;
}

void read_config(const std::string& text, PerformerConfig& config) {
    const auto object = nlohmann::json::parse(text, nullptr, false);
    if (!object.is_object()) fail(ErrorCode::bad_data, "metadata 'model' is not a JSON object");
    for (const auto& [name, value] : object.items())
        set_field(fields(config), name, value.is_string() ? value.get<std::string>() : value.dump());
    validate(config);
}

Performer from_tensors(TensorFile tensors) {
    const auto ranges = names_with(kRange, tensors);
    const auto states = names_with(kState, tensors);
    SealedReader file(kKind, std::move(tensors));
    Performer model;
    read_config(file.text("model"), model.config);
    model.task = file.text("task");
    model.training = file.text("training");
    for (const auto& s : parameter_shapes(model.config))
        model.weights.emplace(s.name, file.f32(s.name, {s.rows, s.cols}, kAnyValue));
    const std::pair shape{static_cast<std::size_t>(model.config.n_directions),
                          static_cast<std::size_t>(head_size(model.config))};
    for (std::int64_t i = 0; i < model.config.layers; ++i)
        model.omega.push_back(file.f32(fmt::format("omega{}", i), shape, kAnyValue));
    for (const auto& name : ranges)
        model.input_ranges[name.substr(kRange.size())] = file.f32(name, {1, 1}, kPositive)(0, 0);
    for (const auto& name : states) model.state[name.substr(kState.size())] = file.f32(name);
    file.done();
    return model;
}

}  // namespace

void save_performer(const std::filesystem::path& path, const Performer& model) {
    auto config = model.config;
    TensorFile file;
    file.metadata = {{"model", to_json(fields(config))}, {"task", model.task}, {"training", model.training}};
    file.f32 = model.weights;
    for (std::size_t i = 0; i < model.omega.size(); ++i) file.f32[fmt::format("omega{}", i)] = model.omega[i];
    for (const auto& [name, range] : model.input_ranges) {
        Matrix<float> value(1, 1);
        value(0, 0) = range;
        file.f32[std::string(kRange) + name] = std::move(value);
    }
    for (const auto& [name, value] : model.state) file.f32[std::string(kState) + name] = value;
    seal(kKind, file);
    write_safetensors(path, file);
}

Performer load_performer(const std::filesystem::path& path) {
    return read_sealed(path, from_tensors);
}

}  // namespace imka
