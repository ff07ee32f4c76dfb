// The model file: safetensors with a checksum and the settings as JSON text in its metadata.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "imka/base/error.hpp"
#include "imka/io/sealed_tensors.hpp"
#include "imka/learn/ridge_model.hpp"

namespace imka {
namespace {

constexpr FileKind kKind{
    .format = "imka-ridge-model", .schema = "2", .renew = "fit the model again and save it"};

nlohmann::json json_of(const std::string& key, SealedReader& file) {
    auto value = nlohmann::json::parse(file.text(key), nullptr, false);
    if (value.is_discarded()) fail(ErrorCode::bad_data, fmt::format("metadata '{}' is not valid JSON", key));
    return value;
}

// Settings in a file use the same field list as elsewhere: strict keys, ranges checked.
void load_settings(const std::string& key, SealedReader& file, const Fields& fields) {
    const auto object = json_of(key, file);
    for (const auto& [name, value] : object.items()) {
        set_field(fields, name,
                  value.is_string() ? value.get<std::string>()
                  : value.is_null() ? "auto"
                                    : value.dump());
    }
}

std::vector<std::string> classes_of(SealedReader& file) {
    try {
        auto classes = json_of("classes", file).get<std::vector<std::string>>();
        check_class_names(classes);
        return classes;
    } catch (const nlohmann::json::exception&) {
        fail(ErrorCode::bad_data, "metadata 'classes' is not a list of names");
    }
}

std::string classes_text(const std::vector<std::string>& classes) {
    try {
        check_class_names(classes);
        return nlohmann::json(classes).dump();
    } catch (const nlohmann::json::exception&) {
        fail(ErrorCode::bad_data, "a class name is not UTF-8 text, so the model cannot be saved");
    }
}

void read_weights(std::size_t features, SealedReader& file, RidgeModel& model) {
    const auto intercept = file.f64("intercept");
    const std::size_t outputs = intercept.cols();
    const std::size_t expected = model.classes.size() == 2 ? 1 : model.classes.size();
    if (intercept.rows() != 1 || outputs == 0 || (!model.classes.empty() && outputs != expected))
        fail(ErrorCode::bad_data, "tensor 'intercept' does not fit the classes");
    model.weights.intercept.assign(intercept.values().begin(), intercept.values().end());
    model.weights.w = file.f64("weights", {features, outputs}, kAnyValue);
}

RidgeModel from_tensors(TensorFile tensors) {
    SealedReader file(kKind, std::move(tensors));
    RidgeModel model;
    load_settings("features", file, fields(model.recipe));
    load_settings("ridge", file, fields(model.ridge));
    model.targets = parse_enum<Targets>(file.text("targets"));
    model.classes = classes_of(file);
    validate(model.recipe);
    const auto d = static_cast<std::size_t>(model.recipe.omega.d);
    const auto m = static_cast<std::size_t>(model.recipe.omega.m);
    model.omega = file.f32("omega", {m, d}, kAnyValue);
    read_weights(m * functions_per_direction(model.recipe.omega.kernel, model.recipe.form), file, model);
    if (file.has_f64("mean")) {
        model.standardization.mean = file.f64("mean", d, kAnyValue);
        model.standardization.std = file.f64("std", d, kPositive);
    }
    file.done();
    return model;
}

}  // namespace

void save_model(const std::filesystem::path& path, const RidgeModel& model) {
    auto recipe = model.recipe;
    auto ridge = model.ridge;
    TensorFile file;
    file.metadata = {{"features", to_json(fields(recipe))},
                     {"ridge", to_json(fields(ridge))},
                     {"targets", std::string(to_string(model.targets))},
                     {"classes", classes_text(model.classes)}};
    file.f32["omega"] = model.omega;
    file.f64["weights"] = model.weights.w;
    file.f64["intercept"] = row_of(model.weights.intercept);
    if (!model.standardization.mean.empty()) {
        file.f64["mean"] = row_of(model.standardization.mean);
        file.f64["std"] = row_of(model.standardization.std);
    }
    seal(kKind, file);
    write_safetensors(path, file);
}

RidgeModel load_model(const std::filesystem::path& path) {
    return read_sealed(path, [](TensorFile file) {
        try {
            return from_tensors(std::move(file));
        } catch (const Error& e) {
            fail(ErrorCode::bad_data, e.what());  // settings out of range are bad data here
        }
    });
}

}  // namespace imka
