// A mapping: which cells of which cores hold the weights of which matrix. Sizes only, no weights.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "imka/chip/plan.hpp"
#include "imka/chip/region.hpp"
#include "imka/deploy/matrix_list.hpp"

namespace imka {

// The cores available for placement.
struct CoreGrid {
    std::size_t rows = 256;  // of a core: inputs
    std::size_t cols = 256;  // outputs
    std::size_t cores = 64;  // of one chip
    std::size_t chips = 1;
    bool operator==(const CoreGrid&) const = default;
};
CoreGrid grid_of(const ChipSpec& spec);

// A placed matrix. type, weight and bias identify it in mapping files.
struct MappedMatrix {
    ListedMatrix shape;
    std::size_t replicas = 1;
    std::string type = "Linear";
    std::string weight;
    std::string bias;
    bool operator==(const MappedMatrix&) const = default;
};

struct Mapping {
    CoreGrid grid;
    std::vector<MappedMatrix> matrices;
    // By matrix, replica, first output and first input.
    std::vector<Region> regions;
    bool operator==(const Mapping&) const = default;
};

// Cores with at least one region.
std::size_t cores_used(const Mapping& mapping);

// Use of one core.
struct CoreUse {
    std::size_t core = 0;
    std::size_t regions = 0;
    double utilisation = 0.0;  // share of its cells that hold weights
    // Products per inference. Regions of a core multiply one after another; copies of a matrix share its
    // vectors.
    double products = 0.0;
};
std::vector<CoreUse> core_uses(const Mapping& mapping);
// Share of the cells of the used cores that hold weights.
double utilisation(const Mapping& mapping);

// The chip plan of the mapping: the same regions with weights, uncalibrated. `weights`: one matrix per mapped
// matrix, inputs x outputs. The result is valid. Error{bad_config} if cores or weights have different sizes.
Plan plan_of(const Mapping& mapping, const ChipSpec& spec, std::vector<Matrix<float>> weights);

}  // namespace imka
