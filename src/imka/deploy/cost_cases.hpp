// Ways to run matrices on a chip and their costs: its read modes, with one copy or as many as fit.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "imka/deploy/map.hpp"
#include "imka/deploy/mapping_cost.hpp"
#include "imka/deploy/pipeline.hpp"

namespace imka {

struct CostCase {
    ReadMode mode = ReadMode::one_phase;
    std::optional<std::size_t> copies;  // of every matrix; none: as in the given mapping
    Mapping mapping;
    MappingCost cost;
};

// Both read modes, or the only one with known power.
std::vector<ReadMode> read_modes(const ChipSpec& spec);

struct CostCaseOptions {
    Cuts cuts = Cuts::grid;
    std::size_t chips = 0;  // maximum; 0: as many as needed
    DigitalWork work;
};
// First with one copy, then with as many as fit; each in all read modes.
std::vector<CostCase> cost_cases(const MatrixList& list, const ChipSpec& spec, const CostData& data,
                                 const CostCaseOptions& options);
// A mapping in all read modes, with this digital work.
std::vector<CostCase> cost_cases(const Mapping& mapping, const ChipSpec& spec, const CostData& data,
                                 const DigitalWork& work);
// A mapping of a model in all read modes.
std::vector<CostCase> cost_cases(const Mapping& mapping, const Pipeline& pipeline, const ChipSpec& spec,
                                 const CostData& data);

}  // namespace imka
