// A chip with cores of another size, in another node, or with several tiers of crossbars: energy and area
// with the intervals of the assumptions behind them (costs/costs.yaml, section technology).
#pragma once

#include <optional>
#include <string_view>

#include "imka/chip/spec/chip.hpp"
#include "imka/deploy/cost_data.hpp"
#include "imka/deploy/mapping_cost.hpp"

namespace imka {

struct Technology {
    double node_nm = 0.0;  // 0: that of the chip
    int tiers = 1;         // of crossbars; stacked crossbars share converters and drivers
};

// Sets "node" (nm) or "tiers"; false for other keys. Error{bad_config} for a value out of range.
bool set_technology(std::string_view key, std::string_view value, Technology& technology);

// A chip that does not exist, and the one whose power and area are known.
struct Redesign {
    ChipSpec from;
    ChipSpec chip;
    Technology technology;
};

// Energy of a core product relative to the power of `from`: converters in proportion to the columns, drivers
// to the rows, cells to both; each with its own exponent of the node.
CostValue core_energy_factor(const Redesign& redesign, const CostData& data);

// Of one chip, in mm²; none if the area of `from` is unknown. Cores as above; the rest of the chip is in
// proportion to the number of cores. A further tier adds a share of the area of the cores.
std::optional<CostValue> chip_area(const Redesign& redesign, const CostData& data);

// The parameters with the energies of digital work and of wires on the chip in the node of the redesign.
CostData in_node(CostData data, const Redesign& redesign);

// The mapping with all tiers of a stack as one core, which does one product at a time. For schedules: regions
// of different tiers overlap. Crossbar c of a chip is in stack c modulo the number of stacks.
Mapping folded(Mapping mapping, int tiers);

}  // namespace imka
