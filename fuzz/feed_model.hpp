// Shared by the model file fuzzer and the test that replays its seeds. The bytes become the metadata settings
// of a file with valid tensors, so that they get past the tensor reader (which has its own fuzzer). Bad
// settings may only throw imka::Error; good ones give a model that predicts.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "imka/base/error.hpp"
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
inline std::string model_file(std::string_view bytes) {
    std::array<std::size_t, 4> sizes{};
    const auto letters = take_line(bytes);
    for (std::size_t i = 0; i < std::min(sizes.size(), letters.size()); ++i) {
        sizes[i] = static_cast<std::size_t>(letters[i] - 'A') % 16;
    }
    const auto [m, d, outputs, options] = sizes;
    nlohmann::json header;
    auto& metadata = header["__metadata__"];
    metadata = {{"format", "imka-ridge-model"}, {"schema", "1"}};
    for (const auto* key : {"features", "ridge", "targets", "classes"}) metadata[key] = take_line(bytes);
    std::size_t end = 0;
    const auto tensor = [&](const char* name, std::size_t rows, std::size_t cols, std::size_t width) {
        const std::size_t begin = end;
        end += rows * cols * width;
        header[name] = {
            {"dtype", width == 4 ? "F32" : "F64"}, {"shape", {rows, cols}}, {"data_offsets", {begin, end}}};
    };
    tensor("omega", m, d, 4);
    tensor("weights", (options & 2U) != 0 ? 2 * m : m, outputs, 8);
    tensor("intercept", 1, outputs, 8);
    if ((options & 1U) != 0) {
        tensor("mean", 1, d, 8);
        tensor("std", 1, d, 8);
    }
    const auto text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    std::string file;
    for (unsigned shift = 0; shift < 64; shift += 8)
        file += static_cast<char>((text.size() >> shift) & 0xffU);
    return file + text + std::string(end, '\0');
}

// Returns whether the settings give a model.
inline bool feed_model(std::string_view bytes) {
    static const TempDir folder;
    const auto path = folder / "model.imka";
    std::ofstream(path, std::ios::binary) << model_file(bytes);
    try {
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
