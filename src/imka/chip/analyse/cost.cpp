#include "imka/chip/analyse/cost.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "imka/base/error.hpp"
#include "imka/chip/device/converter.hpp"

namespace imka {
namespace {

constexpr double kTera = 1e12;

std::size_t replicas_that_fit(const ChipSpec& chip, std::size_t tiles, int wanted) {
    const std::size_t most = core_count(chip) / tiles;
    const std::size_t replicas = wanted == 0 ? most : static_cast<std::size_t>(wanted);
    if (replicas == 0 || replicas > most)
        fail(ErrorCode::bad_config,
             fmt::format("{} copies of {} tiles need {} cores; chip '{}' has {}",
                         std::max<std::size_t>(replicas, 1), tiles,
                         std::max<std::size_t>(replicas, 1) * tiles, chip.name, core_count(chip)));
    return replicas;
}

// Copies of a matrix as placed.
struct Copies {
    std::size_t tiles;
    std::size_t replicas;
    Replication replication;
};

ProductCost cost_of(const CoreSpec& spec, const Copies& copies, double operations, std::size_t products) {
    const bool shared = copies.replication == Replication::throughput;
    const std::size_t rounds = shared ? (products + copies.replicas - 1) / copies.replicas : products;
    ProductCost out{.tiles = copies.tiles,
                    .replicas = copies.replicas,
                    .cores = copies.tiles * copies.replicas,
                    .core_products = products * copies.tiles * (shared ? 1 : copies.replicas),
                    .operations = operations,
                    .seconds = static_cast<double>(rounds) * product_seconds(spec)};
    if (products == 0) return out;
    out.tera_operations_per_second = operations / out.seconds / kTera;
    if (const auto joules = product_joules(spec)) {
        out.joules = *joules * static_cast<double>(out.core_products);
        out.tera_operations_per_joule = operations / *out.joules / kTera;
    }
    return out;
}

double operations_of(std::size_t inputs, std::size_t outputs, std::size_t products) {
    return 2.0 * static_cast<double>(inputs) * static_cast<double>(outputs) * static_cast<double>(products);
}

}  // namespace

double product_seconds(const CoreSpec& spec) {
    const int phases = spec.read_mode == ReadMode::four_phase ? 4 : 1;
    const double pulse = spec.dac.levels * spec.dac.step_seconds + spec.cost.phase_overhead_seconds;
    return phases * slice_count(spec.dac) * pulse + spec.cost.product_overhead_seconds;
}

std::optional<double> product_joules(const CoreSpec& spec) {
    const double watts =
        spec.read_mode == ReadMode::four_phase ? spec.cost.four_phase_watts : spec.cost.one_phase_watts;
    if (watts == 0.0) return std::nullopt;
    return watts * product_seconds(spec);
}

ProductCost product_cost(const ChipSpec& chip, const Workload& work) {
    validate(work.placement);
    const std::size_t tiles = tile_matrix(work.inputs, work.outputs, chip.core).size();
    const Copies copies{.tiles = tiles,
                        .replicas = replicas_that_fit(chip, tiles, work.placement.replicas),
                        .replication = work.placement.replication};
    return cost_of(chip.core, copies, operations_of(work.inputs, work.outputs, work.products), work.products);
}

ProductCost product_cost(const Plan& plan, std::uint32_t matrix, std::size_t products) {
    if (matrix >= plan.matrices.size())
        fail(ErrorCode::bad_usage,
             fmt::format("no matrix {}; the plan has {}", matrix, plan.matrices.size()));
    const auto& placed = plan.matrices[matrix];
    const auto regions = static_cast<std::size_t>(
        std::ranges::count_if(plan.regions, [&](const Region& r) { return r.matrix == matrix; }));
    const Copies copies{
        .tiles = regions / placed.replicas, .replicas = placed.replicas, .replication = placed.replication};
    const double operations = operations_of(placed.weights.rows(), placed.weights.cols(), products);
    return cost_of(plan.spec.core, copies, operations, products);
}

ChipCapacity chip_capacity(const ChipSpec& spec) {
    const auto cells =
        static_cast<std::uint64_t>(spec.core.rows) * static_cast<std::uint64_t>(spec.core.cols);
    ChipCapacity c{.cores = core_count(spec)};
    c.weights = c.cores * cells;
    c.devices = c.weights * 2 * static_cast<std::uint64_t>(spec.device.devices_per_polarity);
    // One weight, and conductance, exponent and noise for each polarity.
    c.emulator_bytes = static_cast<double>(c.weights * (1 + 2 * 3) * sizeof(float));
    c.product_seconds = product_seconds(spec.core);
    c.product_joules = product_joules(spec.core);
    const double operations = 2.0 * static_cast<double>(cells);
    c.tops = operations * static_cast<double>(c.cores) / c.product_seconds / 1e12;
    if (c.product_joules) c.tops_per_watt = operations / *c.product_joules / 1e12;
    return c;
}

}  // namespace imka
