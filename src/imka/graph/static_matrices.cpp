#include "imka/graph/static_matrices.hpp"

#include <fmt/format.h>

#include <map>
#include <tuple>

#include "imka/graph/operator.hpp"

namespace imka::graph {
namespace {

std::int64_t product(const Shape& shape, std::size_t first, std::size_t last) {
    std::int64_t rows = 1;
    for (std::size_t a = first; a < last; ++a) rows *= shape[a];
    return rows;
}

// Rows of one run: the windows of all images, or the elements without the last axis.
std::optional<std::int64_t> rows_of(const Graph& graph, const Node& node) {
    const auto shape = known_shape(graph.values[node.outputs[0]].type);
    if (!shape) return std::nullopt;
    if (node.op == "Conv") return (*shape)[0] * product(*shape, 2, shape->size());
    return product(*shape, 0, shape->size() - 1);
}

// The matrices of one node, without uses.
std::vector<StaticMatrix> matrices_of(const Graph& graph, const Node& node) {
    if (node.op != "MatMul" && node.op != "Gemm" && node.op != "Conv") return {};
    const ValueId id = node.inputs[1];
    const auto& weight = graph.values[id];
    if (!weight.constant || weight.constant->type != DType::f32 || weight.constant->bytes.empty()) return {};
    const auto& shape = weight.constant->shape;
    const auto size = [&](std::size_t axis) { return static_cast<std::size_t>(shape[axis]); };
    if (node.op == "Conv") {
        const auto groups = static_cast<std::size_t>(int_attribute(node, "group", 1));
        std::vector<StaticMatrix> all;
        for (std::size_t g = 0; g < groups; ++g) {
            all.push_back({groups == 1 ? weight.name : fmt::format("{}.g{}", weight.name, g),
                           id,
                           g,
                           element_count(shape) / size(0),
                           size(0) / groups,
                           true,
                           {}});
        }
        return all;
    }
    if (shape.size() != 2 || int_attribute(node, "transA", 0) != 0) return {};
    const bool transposed = int_attribute(node, "transB", 0) != 0;
    return {{weight.name, id, 0, size(transposed ? 1 : 0), size(transposed ? 0 : 1), transposed, {}}};
}

}  // namespace

std::vector<StaticMatrix> static_matrices(const Graph& graph) {
    std::vector<StaticMatrix> all;
    std::map<std::tuple<ValueId, std::size_t, std::size_t, bool>, std::size_t> known;  // index in all
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
        for (auto& matrix : matrices_of(graph, graph.nodes[n])) {
            const std::tuple key(matrix.weight, matrix.group, matrix.outputs, matrix.transposed);
            const auto [found, added] = known.try_emplace(key, all.size());
            if (added) all.push_back(std::move(matrix));
            all[found->second].uses.push_back({n, rows_of(graph, graph.nodes[n])});
        }
    }
    return all;
}

std::map<std::string, StaticMatrix> matrices_by_name(const Graph& graph) {
    std::map<std::string, StaticMatrix> known;
    for (auto& m : static_matrices(graph)) known.emplace(m.name, m);
    return known;
}

Matrix<float> weights_of(const Graph& graph, const StaticMatrix& matrix) {
    const auto values = graph.values[matrix.weight].constant->values<float>();
    Matrix<float> out(matrix.inputs, matrix.outputs);
    const auto* from = values.data() + matrix.group * matrix.inputs * matrix.outputs;
    for (std::size_t i = 0; i < matrix.inputs; ++i) {
        for (std::size_t o = 0; o < matrix.outputs; ++o)
            out(i, o) = matrix.transposed ? from[o * matrix.inputs + i] : from[i * matrix.outputs + o];
    }
    return out;
}

}  // namespace imka::graph
