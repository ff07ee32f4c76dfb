// Shared by the fuzzer of ONNX models and the test that replays its seeds: bytes are rejected with
// imka::Error or give a graph that is simplified and, if it is small, runs.
#pragma once

#include <string_view>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/graph/executor.hpp"
#include "imka/graph/onnx_import.hpp"
#include "imka/graph/simplify.hpp"

namespace imka::fuzz {

// Larger ones only slow down the fuzzer and reach no other code.
inline bool is_small(const graph::Graph& g) {
    if (g.nodes.size() > 200) return false;
    for (const auto& value : g.values) {
        const auto shape = graph::known_shape(value.type);
        if (!shape || graph::element_count(*shape) > 4096) return false;
    }
    return true;
}

// Sizes of the inputs; unknown ones are 2.
inline std::vector<graph::Shape> input_shapes(const graph::Graph& g) {
    std::vector<graph::Shape> shapes;
    for (const auto id : g.inputs) {
        auto& shape = shapes.emplace_back();
        for (const auto& dim : g.values[id].type.dims.value_or(graph::Dims{}))
            shape.push_back(dim.known() ? dim.size : 2);
    }
    return shapes;
}

// Whether the bytes are a model that runs.
inline bool feed_onnx(std::string_view bytes) {
    try {
        const auto parsed = graph::parse_onnx(bytes, {"input", {}});
        if (parsed.values.size() > 2000) return false;
        const auto g = graph::simplified(graph::with_input_shapes(parsed, input_shapes(parsed)));
        (void)graph::static_matrices(g);
        if (!is_small(g)) return false;
        std::vector<graph::Tensor> inputs;
        for (const auto id : g.inputs)
            inputs.emplace_back(g.values[id].type.type, *graph::known_shape(g.values[id].type));
        std::vector<graph::TensorView> views;
        for (const auto& t : inputs) views.push_back(t.view());
        graph::Executor(g).run(views, nullptr, {.threads = 1});
        return true;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace imka::fuzz
