// The model file: safetensors with the settings as JSON text in its metadata.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "imka/base/error.hpp"
#include "imka/base/version.hpp"
#include "imka/io/safetensors.hpp"
#include "imka/learn/ridge_model.hpp"

namespace imka {
namespace {

constexpr std::string_view kFormat = "imka-ridge-model";
constexpr std::string_view kSchema = "1";

template <class T>
Matrix<T> one_row(const std::vector<T>& values) {
    Matrix<T> row(1, values.size());
    std::copy(values.begin(), values.end(), row.values().begin());
    return row;
}

template <class T>
std::vector<T> values_of(const Matrix<T>& m) {
    return {m.values().begin(), m.values().end()};
}

// Settings in a file use the same field list as elsewhere: strict keys, ranges checked.
void load_json(const Fields& fields, const std::string& text) {
    const auto object = nlohmann::json::parse(text);
    for (const auto& [key, value] : object.items()) {
        set_field(fields, key,
                  value.is_string() ? value.get<std::string>()
                  : value.is_null() ? "auto"
                                    : value.dump());
    }
}

const std::string& entry(const TensorFile& file, const std::string& key) {
    const auto it = file.metadata.find(key);
    if (it == file.metadata.end()) fail(ErrorCode::bad_data, fmt::format("metadata '{}' is missing", key));
    return it->second;
}

template <class T>
Matrix<T> take(std::map<std::string, Matrix<T>>& tensors, const std::string& name, std::size_t rows,
               std::size_t cols) {
    const auto it = tensors.find(name);
    if (it == tensors.end()) fail(ErrorCode::bad_data, fmt::format("tensor '{}' is missing", name));
    const auto& m = it->second;
    if (m.rows() != rows || m.cols() != cols) {
        fail(ErrorCode::bad_data, fmt::format("tensor '{}' has the shape {} x {}, expected {} x {}", name,
                                              m.rows(), m.cols(), rows, cols));
    }
    for (const T v : m.values()) {
        if (!std::isfinite(v))
            fail(ErrorCode::bad_data, fmt::format("tensor '{}' has a value that is not finite", name));
    }
    return std::move(it->second);
}

RidgeModel model_of(TensorFile& file) {
    if (entry(file, "format") != kFormat || entry(file, "schema") != kSchema) {
        fail(ErrorCode::bad_data, fmt::format("not an {} file of schema {}", kFormat, kSchema));
    }
    RidgeModel model;
    load_json(fields(model.recipe), entry(file, "features"));
    load_json(fields(model.ridge), entry(file, "ridge"));
    model.targets = parse_enum<Targets>(entry(file, "targets"));
    model.classes = nlohmann::json::parse(entry(file, "classes")).get<std::vector<std::string>>();
    validate(model.recipe);
    const auto d = static_cast<std::size_t>(model.recipe.omega.d);
    const auto m = static_cast<std::size_t>(model.recipe.omega.m);
    const auto features = m * functions_per_direction(model.recipe.omega.kernel, model.recipe.form);
    model.omega = take(file.f32, "omega", m, d);
    const std::size_t outputs = file.f64.contains("intercept") ? file.f64.at("intercept").cols() : 0;
    const std::size_t expected = model.classes.size() == 2 ? 1 : model.classes.size();
    if (outputs == 0 || (!model.classes.empty() && outputs != expected)) {
        fail(ErrorCode::bad_data, "tensor 'intercept' does not fit the classes");
    }
    model.weights.w = take(file.f64, "weights", features, outputs);
    model.weights.intercept = values_of(take(file.f64, "intercept", 1, outputs));
    if (file.f64.contains("mean")) {
        model.standardization.mean = values_of(take(file.f64, "mean", 1, d));
        model.standardization.std = values_of(take(file.f64, "std", 1, d));
    }
    return model;
}

}  // namespace

void save_model(const std::filesystem::path& path, const RidgeModel& model) {
    auto recipe = model.recipe;
    auto ridge = model.ridge;
    TensorFile file;
    file.metadata = {{"format", std::string(kFormat)},
                     {"schema", std::string(kSchema)},
                     {"imka_version", std::string(build_info().version)},
                     {"features", to_json(fields(recipe))},
                     {"ridge", to_json(fields(ridge))},
                     {"targets", std::string(to_string(model.targets))},
                     {"classes", nlohmann::json(model.classes).dump()}};
    file.f32["omega"] = model.omega;
    file.f64["weights"] = model.weights.w;
    file.f64["intercept"] = one_row(model.weights.intercept);
    if (!model.standardization.mean.empty()) {
        file.f64["mean"] = one_row(model.standardization.mean);
        file.f64["std"] = one_row(model.standardization.std);
    }
    write_safetensors(path, file);
}

RidgeModel load_model(const std::filesystem::path& path) {
    TensorFile file = read_safetensors(path);
    try {
        return model_of(file);
    } catch (const Error& e) {
        fail(ErrorCode::bad_data, fmt::format("{}: {}", path.string(), e.what()));
    } catch (const nlohmann::json::exception& e) {
        fail(ErrorCode::bad_data,
             fmt::format("{}: settings are not valid JSON: {}", path.string(), e.what()));
    }
}

}  // namespace imka
