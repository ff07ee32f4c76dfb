// Small graphs for tests.
#pragma once

#include <string>
#include <vector>

#include "imka/base/random.hpp"
#include "imka/graph/graph.hpp"

namespace imka::graph {

// Values between -1 and 1.
inline Tensor random_tensor(const Shape& shape, std::uint64_t seed) {
    Tensor t(DType::f32, shape);
    const auto values = t.values<float>();
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(uniform_int(seed, Stream::test, i, 2001)) / 1000.0F - 1.0F;
    return t;
}

// Adds values and nodes by name.
class GraphBuilder {
public:
    GraphBuilder& input(const std::string& name, Dims dims, DType type = DType::f32) {
        graph.inputs.push_back(add_value(graph, {name, {type, std::move(dims)}}));
        return *this;
    }
    GraphBuilder& constant(const std::string& name, Tensor value) {
        add_constant(graph, name, std::move(value));
        return *this;
    }
    GraphBuilder& node(const std::string& op, const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs, decltype(Node::attributes) attributes = {},
                       int opset = 22) {
        Node n{"node_" + outputs[0], op, opset, std::move(attributes)};
        for (const auto& name : inputs) n.inputs.push_back(id(name));
        for (const auto& name : outputs) n.outputs.push_back(id(name));
        graph.nodes.push_back(std::move(n));
        return *this;
    }
    // The graph with this output.
    Graph build(const std::string& output) {
        graph.outputs = {id(output)};
        sort_nodes(graph);
        infer_types(graph);
        return graph;
    }

    Graph graph;

private:
    ValueId id(const std::string& name) {
        if (name.empty()) return kNoValue;
        const auto found = find_value(graph, name);
        return found ? *found : add_value(graph, {name, {}});
    }
};

inline Tensor ints(const std::vector<std::int64_t>& values) {
    return make_tensor<std::int64_t>({std::ssize(values)}, values);
}

inline Tensor scalar(float value) {
    return make_tensor<float>({}, std::vector{value});
}

}  // namespace imka::graph
