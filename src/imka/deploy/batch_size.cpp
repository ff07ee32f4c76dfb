#include "imka/deploy/batch_size.hpp"

#include <algorithm>

namespace imka {
namespace {

using graph::Graph;
using graph::TensorView;

constexpr std::size_t kBatchElements = std::size_t{1} << 20U;  // of one input per batch

std::size_t inferences_of(std::span<const TensorView> inputs) {
    return static_cast<std::size_t>(inputs[0].shape[0]);
}

}  // namespace

std::vector<graph::Shape> batch_shapes(std::span<const TensorView> inputs, std::size_t batch) {
    std::vector<graph::Shape> shapes;
    for (const auto& t : inputs) {
        shapes.push_back(t.shape);
        shapes.back()[0] = static_cast<std::int64_t>(batch);
    }
    return shapes;
}

std::optional<std::size_t> fixed_batch(const Graph& graph) {
    for (const auto id : graph.inputs) {
        const auto& dims = graph.values[id].type.dims;
        if (dims && !dims->empty() && dims->front().known())
            return static_cast<std::size_t>(dims->front().size);
    }
    return std::nullopt;
}

std::size_t largest_tensor(const Graph& graph, std::span<const TensorView> inputs) {
    const auto batch = fixed_batch(graph).value_or(inferences_of(inputs));
    std::size_t most = 1;
    for (const auto& value : graph::with_input_shapes(graph, batch_shapes(inputs, batch)).values) {
        const auto shape = known_shape(value.type);
        if (shape && !value.constant) most = std::max(most, graph::element_count(*shape));
    }
    return (most + batch - 1) / batch;
}

std::size_t batch_size(const Graph& graph, std::span<const TensorView> inputs, std::size_t most_elements) {
    if (const auto fixed = fixed_batch(graph)) return *fixed;
    const auto inferences = inferences_of(inputs);
    std::size_t elements = 1;
    for (const auto& t : inputs) elements = std::max(elements, t.count() / inferences);
    const auto batch = std::min(kBatchElements / elements, inferences);
    if (batch <= 1) return 1;
    return std::clamp<std::size_t>(most_elements / largest_tensor(graph, inputs), 1, batch);
}

}  // namespace imka
