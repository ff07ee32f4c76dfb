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

MappingCost model_cost(const Pipeline& pipeline, const Mapping& mapping, const ChipSpec& spec,
                       const CostData& data) {
    return surrounded_cost(mapping, spec, {digital_work(pipeline), host_bytes(pipeline, mapping)}, data);
}

std::vector<MappingCost> layer_costs(const Pipeline& pipeline, const Mapping& mapping, const ChipSpec& spec,
                                     const CostData& data) {
    const auto layers = step_layers(pipeline, mapping.matrices.size());
    const auto bytes = link_bytes(pipeline, mapping);
    std::vector<Surroundings> around(mapping.matrices.size() + 1);
    for (std::size_t s = 0; s < layers.size(); ++s) {
        const double share = 1.0 / static_cast<double>(layers[s].size());
        for (const auto layer : layers[s]) {
            add_work(pipeline.steps[s].work, share, around[layer].work);
            around[layer].host_bytes += share * (bytes[s].before + bytes[s].after);
        }
    }
    return matrix_costs(mapping, spec, around, data);
}

}  // namespace imka
