#include "imka/graph/builder.hpp"

namespace imka::graph {

ValueId Builder::input(const std::string& name, Dims dims, DType type) {
    graph_.inputs.push_back(add_value(graph_, {name, {type, std::move(dims)}}));
    return graph_.inputs.back();
}

ValueId Builder::constant(const std::string& name, Tensor value) {
    return add_constant(graph_, name, std::move(value));
}

ValueId Builder::node(const std::string& op, const std::string& output, std::vector<ValueId> inputs,
                      decltype(Node::attributes) attributes) {
    const auto id = add_value(graph_, {output, {}});
    graph_.nodes.push_back({.name = output,
                            .op = op,
                            .attributes = std::move(attributes),
                            .inputs = std::move(inputs),
                            .outputs = {id}});
    return id;
}

ValueId Builder::cast(const std::string& output, ValueId x, DType type) {
    std::int64_t number = 1;  // in ONNX
    while (dtype_of_onnx(number) != type) ++number;
    return node("Cast", output, {x}, {{"to", number}});
}

Graph Builder::finished(std::string name, std::vector<ValueId> outputs) && {
    graph_.name = std::move(name);
    graph_.outputs = std::move(outputs);
    infer_types(graph_);
    verify(graph_);
    return std::move(graph_);
}

}  // namespace imka::graph
