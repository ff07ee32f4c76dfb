#include "imka/deploy/cost_cases.hpp"

#include <utility>

#include "imka/deploy/layer_cost.hpp"

namespace imka {
namespace {

template <class Cost>
std::vector<CostCase> in_read_modes(const Mapping& mapping, ChipSpec spec, const Cost& cost) {
    std::vector<CostCase> cases;
    for (const auto mode : read_modes(spec)) {
        spec.core.read_mode = mode;
        cases.push_back({.mode = mode, .copies = {}, .mapping = mapping, .cost = cost(spec)});
    }
    return cases;
}

}  // namespace

std::vector<ReadMode> read_modes(const ChipSpec& spec) {
    const auto& cost = spec.core.cost;
    if (cost.four_phase_watts == 0.0 && cost.one_phase_watts > 0.0) return {ReadMode::one_phase};
    if (cost.one_phase_watts == 0.0 && cost.four_phase_watts > 0.0) return {ReadMode::four_phase};
    return {ReadMode::one_phase, ReadMode::four_phase};
}

std::vector<CostCase> cost_cases(const MatrixList& list, const ChipSpec& spec, const CostData& data,
                                 const CostCaseOptions& options) {
    std::vector<CostCase> cases;
    for (const std::size_t replicas : {1U, 0U}) {
        const MapOptions map{.cuts = options.cuts, .chips = options.chips, .replicas = replicas};
        const auto mapping = map_matrices(list, grid_of(spec), map).mapping;
        for (auto& c : cost_cases(mapping, spec, data, options.work)) {
            c.copies = mapping.matrices.front().replicas;
            cases.push_back(std::move(c));
        }
    }
    return cases;
}

std::vector<CostCase> cost_cases(const Mapping& mapping, const ChipSpec& spec, const CostData& data,
                                 const DigitalWork& work) {
    return in_read_modes(mapping, spec,
                         [&](const ChipSpec& chip) { return mapping_cost(mapping, chip, work, data); });
}

std::vector<CostCase> cost_cases(const Mapping& mapping, const Pipeline& pipeline, const ChipSpec& spec,
                                 const CostData& data) {
    return in_read_modes(mapping, spec,
                         [&](const ChipSpec& chip) { return model_cost(pipeline, mapping, chip, data); });
}

}  // namespace imka
