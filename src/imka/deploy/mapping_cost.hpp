// Time, energy and area of one inference of a mapped network, with the digital work around the cores.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "imka/deploy/cost_data.hpp"
#include "imka/deploy/mapping.hpp"

namespace imka {

// Digital operations of one inference besides those of the mapping.
struct DigitalWork {
    double exponentials = 0.0;
    double divisions = 0.0;
    double norm_elements = 0.0;  // squared and added for norms
    double additions = 0.0;
    double multiplications = 0.0;
};
// sum += count * work
void add_work(const DigitalWork& work, double count, DigitalWork& sum);
// Share of the multiply-adds of a model that run on the chip. Scales and partial sums of the chip's results
// do not count. 0 if there are none at all.
double offloaded_share(double on_chip, const DigitalWork& work);

// A value with the interval that follows from the intervals of the parameters.
struct CostValue {
    double value = 0.0;
    double low = 0.0;
    double high = 0.0;
};

struct MappingCost {
    double core_products = 0.0;  // per inference, of all cores
    double operations = 0.0;     // 2 per weight and vector
    // Matrices one after another, each with all its copies and tiles at once.
    double latency_seconds = 0.0;
    // Between successive inferences: the work of the busiest core.
    double interval_seconds = 0.0;
    std::optional<double> core_joules;  // none if the power of the chip is unknown
    double partial_sums = 0.0;          // additions of the outputs of row tiles
    double chip_bytes = 0.0;            // inputs and outputs of regions
    double host_bytes = 0.0;            // inputs and outputs of the network, and values between chips
    CostValue digital_seconds;
    CostValue digital_joules;
    CostValue link_seconds;
    CostValue link_joules;
    std::optional<double> area_mm2;  // of all chips; none if it is unknown
    double lifetime_writes = 0;      // how often the chip can be written with new weights

    double tops() const;                          // 10^12 operations per second, at the interval
    std::optional<double> tops_per_watt() const;  // of the cores; none if their energy is unknown
};

// Regions of one matrix run at once on different cores, and one after another on one core. Matrices run in
// the order of the mapping: the inputs of the first, the outputs of the last, and outputs for a next matrix
// on different chips go over the host link. model_cost (layer_cost.hpp) uses the order of a network.
MappingCost mapping_cost(const Mapping& mapping, const ChipSpec& spec, const DigitalWork& work,
                         const CostData& data);

// The work outside the cores in one inference.
struct Surroundings {
    DigitalWork work;
    double host_bytes = 0.0;
};
MappingCost surrounded_cost(const Mapping& mapping, const ChipSpec& spec, const Surroundings& around,
                            const CostData& data);

// The same for every matrix alone. `around`: one entry per matrix, then any number of entries without a
// matrix. Products, operations, bytes, partial sums, joules and the seconds of latency, digital unit and link
// add up to those of mapping_cost with the sum of `around`; area and lifetime are those of the whole chips.
std::vector<MappingCost> matrix_costs(const Mapping& mapping, const ChipSpec& spec,
                                      std::span<const Surroundings> around, const CostData& data);

// The same work on another machine: a model, not a measurement.
struct MachineCost {
    double seconds = 0.0;
    double joules = 0.0;
    double joules_without_static = 0.0;
    bool memory_bound = false;
};
MachineCost machine_cost(const Machine& machine, const MatrixList& list);

}  // namespace imka
