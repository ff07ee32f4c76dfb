// Small networks for tests of deployment.
#pragma once

#include "graph/graphs.hpp"

namespace imka {

// Three layers of 20 inputs, 12, 12 and 5 outputs; the second uses the same weights twice.
inline graph::Graph small_network(std::int64_t batch = graph::Dim::kUnknown) {
    using graph::random_tensor;
    graph::GraphBuilder b;
    b.input("x", {{batch, batch == graph::Dim::kUnknown ? "batch" : ""}, {20}})
        .constant("w1", random_tensor({20, 12}, 1))
        .constant("b1", random_tensor({12}, 2))
        .constant("w2", random_tensor({12, 12}, 3))
        .constant("w3", random_tensor({5, 12}, 4))
        .node("Gemm", {"x", "w1", "b1"}, {"h1"})
        .node("Tanh", {"h1"}, {"t1"})
        .node("MatMul", {"t1", "w2"}, {"h2"})
        .node("Tanh", {"h2"}, {"t2"})
        .node("MatMul", {"t2", "w2"}, {"h3"})
        .node("Add", {"h3", "t1"}, {"s"})
        .node("Gemm", {"s", "w3"}, {"y"}, {{"transB", std::int64_t{1}}});
    return b.build("y");
}

// A convolution of two groups, padded, on maps of 4 x 4, then a layer.
inline graph::Graph small_cnn() {
    using graph::random_tensor;
    graph::GraphBuilder b;
    b.input("x", {{graph::Dim::kUnknown, "batch"}, {4}, {4}, {4}})
        .constant("k", random_tensor({6, 2, 3, 3}, 5))
        .constant("w", random_tensor({96, 3}, 6))
        .node("Conv", {"x", "k"}, {"c"},
              {{"group", std::int64_t{2}}, {"pads", std::vector<std::int64_t>{1, 1, 1, 1}}})
        .node("Relu", {"c"}, {"r"})
        .node("Flatten", {"r"}, {"f"})
        .node("MatMul", {"f", "w"}, {"y"});
    return b.build("y");
}

inline std::vector<graph::Tensor> inputs_of(const graph::Graph& graph, std::int64_t inferences,
                                            std::uint64_t seed) {
    std::vector<graph::Tensor> inputs;
    for (const auto id : graph.inputs) {
        graph::Shape shape{inferences};
        for (std::size_t a = 1; a < graph.values[id].type.dims->size(); ++a)
            shape.push_back((*graph.values[id].type.dims)[a].size);
        inputs.push_back(graph::random_tensor(shape, seed));
    }
    return inputs;
}

}  // namespace imka
