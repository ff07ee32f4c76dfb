// Shared by the model file fuzzer and the test that replays its seeds. The bytes become the metadata settings
// of a file with valid tensors, so that they get past the tensor reader (which has its own fuzzer). Bad
// settings may only throw imka::Error; good ones give a model that predicts.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/io/sealed_tensors.hpp"
#include "imka/learn/ridge_model.hpp"
#include "support/temp_dir.hpp"

namespace imka::fuzz {

// Removes and returns the first line.
inline std::string_view take_line(std::string_view& bytes) {
    const auto line = bytes.substr(0, bytes.find('\n'));
    bytes.remove_prefix(std::min(bytes.size(), line.size() + 1));
    return line;
}

// One line each: sizes, features, ridge, targets, classes. Sizes are m, d, outputs and options as characters
// starting at 'A' = 0; bit 0 of the options adds mean and std, bit 1 selects two features per direction.
inline TensorFile model_file(std::string_view bytes) {
    std::array<std::size_t, 4> sizes{};
    const auto letters = take_line(bytes);
    for (std::size_t i = 0; i < std::min(sizes.size(), letters.size()); ++i) {
        sizes[i] = static_cast<std::size_t>(letters[i] - 'A') % 16;
    }
    const auto [m, d, outputs, options] = sizes;
    TensorFile file;
    for (const auto* key : {"features", "ridge", "targets", "classes"})
        file.metadata[key] = std::string(take_line(bytes));
    file.f32["omega"] = Matrix<float>(m, d);
    file.f64["weights"] = Matrix<double>((options & 2U) != 0 ? 2 * m : m, outputs);
    file.f64["intercept"] = Matrix<double>(1, outputs);
    if ((options & 1U) != 0) {
        file.f64["mean"] = Matrix<double>(1, d);
        file.f64["std"] = row_of(std::vector<double>(d, 1.0));
    }
    seal({.format = "imka-ridge-model", .schema = "2", .renew = {}}, file);
    return file;
}

// Returns whether the settings give a model.
inline bool feed_model(std::string_view bytes) {
    static const TempDir folder;
    const auto path = folder / "model.imka";
    try {
        write_safetensors(path, model_file(bytes));
        const auto model = load_model(path);
        const RidgePredictor predictor(model);
        const Matrix<float> x(3, model.omega.cols());
        Matrix<double> scores(3, predictor.outputs());
        predictor.scores(x.view(), 0, Exec{.threads = 1}, scores.view());
        return true;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace imka::fuzz
