// Costs by layer: each matrix with the digital operators that follow it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "imka/deploy/mapping_cost.hpp"
#include "imka/deploy/pipeline.hpp"

namespace imka {

// The layers of each step. Layer m is matrix m of the mapping and the digital steps after its products, up to
// the next products. The last layer, number `matrices`, has the digital steps before any product. A grouped
// convolution and the steps after it have several layers.
std::vector<std::vector<std::uint32_t>> step_layers(const Pipeline& pipeline, std::size_t matrices);

// Cost of the whole network, with its digital work and bytes over the host link.
MappingCost model_cost(const Pipeline& pipeline, const Mapping& mapping, const ChipSpec& spec,
                       const CostData& data);

// matrix_costs of all layers: one per matrix, and one for the steps before any product. Layers of a step
// share its digital work and bytes equally.
std::vector<MappingCost> layer_costs(const Pipeline& pipeline, const Mapping& mapping, const ChipSpec& spec,
                                     const CostData& data);

}  // namespace imka
