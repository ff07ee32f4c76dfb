#include "imka/deploy/mapping_cost.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "imka/chip/analyse/cost.hpp"

namespace imka {
namespace {

constexpr double kPico = 1e-12;
constexpr double kTeraOperations = 1e12;

double vectors_of(const ListedMatrix& m) {
    return static_cast<double>(m.calls) * static_cast<double>(m.vectors);
}

// sum += factor * p, with the interval of the parameter.
void add_cost(const CostParameter& p, double factor, CostValue& sum) {
    sum.value += factor * p.value;
    sum.low += factor * p.low;
    sum.high += factor * p.high;
}

// count / rate; the highest rate gives the least time.
CostValue time_at(const CostParameter& rate, double count) {
    return {.value = count / rate.value, .low = count / rate.high, .high = count / rate.low};
}

// Regions of each matrix and copy, by core.
using RegionCounts = std::map<std::pair<std::uint32_t, std::uint32_t>, std::map<std::uint32_t, std::size_t>>;

void add_products(const Mapping& mapping, double seconds, MappingCost& cost) {
    RegionCounts counts;
    for (const auto& r : mapping.regions) {
        const auto& m = mapping.matrices[r.matrix];
        const double vectors = vectors_of(m.shape) / static_cast<double>(m.replicas);
        ++counts[{r.matrix, r.replica}][r.core];
        cost.core_products += vectors;
        cost.chip_bytes += vectors * static_cast<double>(r.tile.rows + r.tile.cols);
    }
    for (std::uint32_t m = 0; m < mapping.matrices.size(); ++m) {
        const auto& matrix = mapping.matrices[m];
        std::size_t rounds = 1;  // regions of a copy that wait for each other on one core
        for (std::uint32_t r = 0; r < matrix.replicas; ++r) {
            for (const auto& [core, regions] : counts[{m, r}]) rounds = std::max(rounds, regions);
        }
        const auto replicas = static_cast<double>(matrix.replicas);
        const double turns = std::ceil(vectors_of(matrix.shape) / replicas);
        cost.latency_seconds += turns * static_cast<double>(rounds) * seconds;
        cost.operations += 2.0 * static_cast<double>(matrix.shape.inputs) *
                           static_cast<double>(matrix.shape.outputs) * vectors_of(matrix.shape);
        cost.partial_sums -= static_cast<double>(matrix.shape.outputs) * vectors_of(matrix.shape);
    }
    // One addition per output of a region, except for the first region of each output.
    for (const auto& r : mapping.regions) {
        const auto& m = mapping.matrices[r.matrix];
        cost.partial_sums +=
            static_cast<double>(r.tile.cols) * vectors_of(m.shape) / static_cast<double>(m.replicas);
    }
}

// Outputs that a matrix on another chip uses next, one byte each, and inputs and outputs of the network.
double bytes_in_order(const Mapping& mapping) {
    std::vector<std::set<std::size_t>> chips(mapping.matrices.size());
    for (const auto& r : mapping.regions) chips[r.matrix].insert(r.core / mapping.grid.cores);
    const auto& first = mapping.matrices.front().shape;
    double bytes = static_cast<double>(first.inputs) * vectors_of(first);
    for (std::size_t m = 0; m < mapping.matrices.size(); ++m) {
        const auto& shape = mapping.matrices[m].shape;
        const bool last = m + 1 == mapping.matrices.size();
        if (last || chips[m] != chips[m + 1]) bytes += static_cast<double>(shape.outputs) * vectors_of(shape);
    }
    return bytes;
}

void add_digital(const DigitalWork& work, const CostData& data, MappingCost& cost) {
    const auto& p = data.parameters;
    const std::pair<std::string_view, double> counts[] = {{"addition", work.additions + cost.partial_sums},
                                                          {"multiplication", work.multiplications},
                                                          {"exponential", work.exponentials},
                                                          {"division", work.divisions},
                                                          {"norm_element", work.norm_elements}};
    double all = 0.0;
    for (const auto& [name, count] : counts) {
        add_cost(parameter(p, name), kPico * count, cost.digital_joules);
        all += count;
    }
    cost.digital_seconds = time_at(parameter(p, "digital_rate"), all);
    add_cost(parameter(p, "chip_link_byte"), kPico * cost.chip_bytes, cost.link_joules);
    add_cost(parameter(p, "host_link_byte"), kPico * cost.host_bytes, cost.link_joules);
    cost.link_seconds = time_at(parameter(p, "host_link_rate"), cost.host_bytes);
}

}  // namespace

double MappingCost::tops() const {
    return operations / interval_seconds / kTeraOperations;
}

std::optional<double> MappingCost::tops_per_watt() const {
    if (!core_joules) return std::nullopt;
    return operations / *core_joules / kTeraOperations;
}

double offloaded_share(double on_chip, const DigitalWork& work) {
    const double all = on_chip + work.multiplications + work.norm_elements;
    return all > 0.0 ? on_chip / all : 0.0;
}

void add_work(const DigitalWork& work, double count, DigitalWork& sum) {
    sum.exponentials += count * work.exponentials;
    sum.divisions += count * work.divisions;
    sum.norm_elements += count * work.norm_elements;
    sum.additions += count * work.additions;
    sum.multiplications += count * work.multiplications;
}

MappingCost surrounded_cost(const Mapping& mapping, const ChipSpec& spec, const Surroundings& around,
                            const CostData& data) {
    MappingCost cost;
    const auto seconds = product_seconds(spec.core);
    add_products(mapping, seconds, cost);
    for (const auto& use : core_uses(mapping))
        cost.interval_seconds = std::max(cost.interval_seconds, use.products * seconds);
    if (const auto joules = product_joules(spec.core)) cost.core_joules = *joules * cost.core_products;
    cost.host_bytes = around.host_bytes;
    add_digital(around.work, data, cost);
    if (const auto area = chip_parameter(data, spec.name, "chip_area"))
        cost.area_mm2 = area->value * static_cast<double>(mapping.grid.chips);
    cost.lifetime_writes = parameter(data.parameters, "endurance").value;
    return cost;
}

MappingCost mapping_cost(const Mapping& mapping, const ChipSpec& spec, const DigitalWork& work,
                         const CostData& data) {
    return surrounded_cost(mapping, spec, {work, bytes_in_order(mapping)}, data);
}

std::vector<MappingCost> matrix_costs(const Mapping& mapping, const ChipSpec& spec,
                                      std::span<const Surroundings> around, const CostData& data) {
    std::vector<Mapping> parts(around.size(), Mapping{.grid = mapping.grid, .matrices = {}, .regions = {}});
    for (std::size_t m = 0; m < mapping.matrices.size(); ++m) parts[m].matrices = {mapping.matrices[m]};
    for (auto region : mapping.regions) {
        auto& part = parts[std::exchange(region.matrix, 0)];
        part.regions.push_back(region);
    }
    std::vector<MappingCost> costs;
    for (std::size_t m = 0; m < parts.size(); ++m)
        costs.push_back(surrounded_cost(parts[m], spec, around[m], data));
    return costs;
}

MachineCost machine_cost(const Machine& machine, const MatrixList& list) {
    double operations = 0.0;
    double values = 0.0;  // weights once per call, inputs and outputs of every vector
    for (const auto& m : list) {
        const auto inputs = static_cast<double>(m.inputs);
        const auto outputs = static_cast<double>(m.outputs);
        operations += 2.0 * inputs * outputs * vectors_of(m);
        values += inputs * outputs * static_cast<double>(m.calls) + (inputs + outputs) * vectors_of(m);
    }
    const double compute = operations / (machine.tops * kTeraOperations);
    const double memory = values * machine.bytes_per_value / machine.bytes_per_second;
    MachineCost cost{.seconds = std::max(compute, memory), .memory_bound = memory > compute};
    cost.joules = cost.seconds * machine.watts;
    cost.joules_without_static = cost.seconds * (machine.watts - machine.static_watts);
    return cost;
}

}  // namespace imka
