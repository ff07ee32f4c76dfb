#include "imka/deploy/layer_cost.hpp"

#include <optional>

namespace imka {

std::vector<std::vector<std::uint32_t>> step_layers(const Pipeline& pipeline, std::size_t matrices) {
    std::vector<std::optional<std::size_t>> products;  // the last product at or before each step
    std::vector<std::vector<std::uint32_t>> layers;
    for (std::size_t s = 0; s < pipeline.steps.size(); ++s) {
        const auto& step = pipeline.steps[s];
        std::optional<std::size_t> product;
        for (const auto& input : step.inputs) product = std::max(product, products[input.step]);
        if (!step.matrices.empty()) product = s;
        products.push_back(product);
        layers.push_back(product ? pipeline.steps[*product].matrices
                                 : std::vector{static_cast<std::uint32_t>(matrices)});
    }
    return layers;
}

std::vector<MappingCost> layer_costs(const Pipeline& pipeline, const Mapping& mapping, const ChipSpec& spec,
                                     const CostData& data) {
    const auto layers = step_layers(pipeline, mapping.matrices.size());
    std::vector<DigitalWork> work(mapping.matrices.size() + 1);
    for (std::size_t s = 0; s < layers.size(); ++s) {
        for (const auto layer : layers[s])
            add_work(pipeline.steps[s].work, 1.0 / static_cast<double>(layers[s].size()), work[layer]);
    }
    return matrix_costs(mapping, spec, work, data);
}

}  // namespace imka
