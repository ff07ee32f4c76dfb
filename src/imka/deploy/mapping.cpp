#include "imka/deploy/mapping.hpp"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "imka/base/error.hpp"

namespace imka {

CoreGrid grid_of(const ChipSpec& spec) {
    return {.rows = static_cast<std::size_t>(spec.core.rows),
            .cols = static_cast<std::size_t>(spec.core.cols),
            .cores = static_cast<std::size_t>(spec.cores),
            .chips = static_cast<std::size_t>(spec.chips)};
}

std::size_t cores_used(const Mapping& mapping) {
    return core_uses(mapping).size();
}

std::vector<CoreUse> core_uses(const Mapping& mapping) {
    std::map<std::uint32_t, CoreUse> uses;
    const double cells = static_cast<double>(mapping.grid.rows) * static_cast<double>(mapping.grid.cols);
    for (const auto& region : mapping.regions) {
        auto& use = uses[region.core];
        const auto& matrix = mapping.matrices.at(region.matrix);
        use.core = region.core;
        ++use.regions;
        use.utilisation += static_cast<double>(region.tile.rows * region.tile.cols) / cells;
        use.products += static_cast<double>(matrix.shape.calls) * static_cast<double>(matrix.shape.vectors) /
                        static_cast<double>(matrix.replicas);
    }
    std::vector<CoreUse> list;
    list.reserve(uses.size());
    for (const auto& [core, use] : uses) list.push_back(use);
    return list;
}

double utilisation(const Mapping& mapping) {
    const auto uses = core_uses(mapping);
    double sum = 0.0;
    for (const auto& use : uses) sum += use.utilisation;
    return uses.empty() ? 0.0 : sum / static_cast<double>(uses.size());
}

Plan plan_of(const Mapping& mapping, const ChipSpec& spec, std::vector<Matrix<float>> weights) {
    const auto grid = grid_of(spec);
    if (grid.rows != mapping.grid.rows || grid.cols != mapping.grid.cols || grid.cores != mapping.grid.cores)
        fail(ErrorCode::bad_config,
             fmt::format("a mapping for chips of {} cores of {} x {}; chip '{}' has {} of {} x {}",
                         mapping.grid.cores, mapping.grid.rows, mapping.grid.cols, spec.name, grid.cores,
                         grid.rows, grid.cols));
    if (weights.size() != mapping.matrices.size())
        fail(ErrorCode::bad_config,
             fmt::format("{} weight matrices for a mapping of {}", weights.size(), mapping.matrices.size()));
    Plan plan{.spec = spec, .regions = mapping.regions};
    plan.spec.chips = static_cast<int>(mapping.grid.chips);
    for (std::size_t m = 0; m < weights.size(); ++m) {
        const auto& [shape, replicas, type, weight, bias] = mapping.matrices[m];
        if (weights[m].rows() != shape.inputs || weights[m].cols() != shape.outputs)
            fail(ErrorCode::bad_config,
                 fmt::format("matrix '{}': weights of {} x {}; the mapping has {} x {}", shape.name,
                             weights[m].rows(), weights[m].cols(), shape.inputs, shape.outputs));
        plan.matrices.push_back({.weights = std::move(weights[m]), .replicas = replicas});
    }
    for (const auto& region : plan.regions)
        plan.scales.push_back({.column_us = std::vector<double>(region.tile.cols, spec.device.g_max_us)});
    validate(plan);
    return plan;
}

}  // namespace imka
