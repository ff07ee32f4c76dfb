// Shared by the fuzzer of deployed models and the test that replays its seeds: bytes that are safetensors get
// a valid checksum, and are then rejected with imka::Error or give a model that runs.
#pragma once

#include <string_view>

#include "imka/base/error.hpp"
#include "imka/chip/simulate/emulator.hpp"
#include "imka/deploy/plan_file.hpp"
#include "imka/io/sealed_tensors.hpp"

namespace imka::fuzz {

// Returns whether the bytes are a deployed model.
inline bool feed_plan(std::string_view bytes) {
    try {
        auto file = read_safetensors(ByteStream("input", bytes, {.decompress = false}));
        file.metadata["sha256"] = checksum(file);
        const auto model = model_from_tensors(std::move(file));
        const Exec one{.threads = 1};
        FastEmulator emulator(model.chip, one);
        std::vector<graph::Tensor> inputs;
        for (const auto id : model.graph.inputs) {
            const auto& type = model.graph.values[id].type;
            graph::Shape shape;
            for (const auto& dim : type.dims.value_or(graph::Dims{}))
                shape.push_back(dim.known() ? dim.size : 2);
            // Larger ones only slow down the fuzzer and reach no other code.
            if (graph::element_count(shape) > 1000) return false;
            inputs.emplace_back(type.type, shape);
        }
        (void)run_model(model, emulator, inputs, 1, one);
        return true;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace imka::fuzz
