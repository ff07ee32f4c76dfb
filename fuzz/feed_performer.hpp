// Shared by the fuzzers of trained models and recipes and the test that replays their seeds. Bad input may
// only throw imka::Error.
#pragma once

#include <string>
#include <string_view>

#include "feed_model.hpp"
#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/io/sealed_tensors.hpp"
#include "imka/io/settings.hpp"
#include "imka/train/performer.hpp"
#include "imka/train/performer_graph.hpp"
#include "imka/train/progress.hpp"
#include "imka/train/recipe.hpp"
#include "support/temp_dir.hpp"

namespace imka::fuzz {

// Tensors of a small model with this metadata, so that the bytes get past the tensor reader.
inline TensorFile performer_file(std::string_view bytes) {
    static const auto tensors = [] {
        const TempDir folder;
        auto recipe = load_recipe("tiny");
        save_performer(folder / "m", initial_performer(recipe.model, "tiny", 0));
        return read_safetensors(folder / "m");
    }();
    auto file = tensors;
    for (const auto* key : {"task", "training", "model"}) file.metadata[key] = std::string(take_line(bytes));
    seal({.format = kPerformerFormat, .schema = "1", .renew = {}}, file);
    return file;
}

// One line each: task, training, model. Returns whether they give a model.
inline bool feed_performer(std::string_view bytes) {
    static const TempDir folder;
    try {
        write_safetensors(folder / "m", performer_file(bytes));
        const auto model = load_performer(folder / "m");
        verify(graph_of(model, model.omega));
        progress_of(model);
        check_same_recipe(model, load_recipe("tiny"));
        return true;
    } catch (const Error&) {
        return false;
    }
}

// The bytes are the text of a recipe. An accepted recipe must round-trip.
inline bool feed_recipe(std::string_view bytes) {
    static const TempDir folder;
    const auto path = (folder / "recipe.yaml").string();
    try {
        write_file_atomic(path, bytes);
        const auto text = recipe_yaml(load_recipe(path));
        write_file_atomic(path, text);
        if (recipe_yaml(load_recipe(path)) != text) __builtin_trap();
        return true;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace imka::fuzz
