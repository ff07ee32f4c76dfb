#include "imka/deploy/what_if.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "imka/base/config.hpp"
#include "imka/base/error.hpp"
#include "imka/chip/analyse/trials.hpp"
#include "imka/chip/simulate/emulator.hpp"
#include "imka/chip/spec/chip_fields.hpp"
#include "imka/deploy/layer_cost.hpp"
#include "imka/deploy/model_error.hpp"
#include "imka/deploy/pareto.hpp"
#include "imka/deploy/schedule.hpp"
#include "imka/deploy/technology.hpp"

namespace imka {
namespace {

using Constants = std::vector<std::pair<std::string, std::string>>;

std::vector<Constants> combinations(std::span<const WhatIfAxis> axes) {
    std::vector<Constants> all{{}};
    for (const auto& axis : axes) {
        std::vector<Constants> next;
        for (const auto& before : all) {
            for (const auto& value : axis.values) {
                next.push_back(before);
                next.back().emplace_back(axis.key, value);
            }
        }
        all = std::move(next);
    }
    return all;
}

Redesign redesign(const ChipSpec& from, const Constants& constants) {
    Redesign out{.from = from, .chip = from, .technology = {}};
    for (const auto& [key, value] : constants) {
        if (!set_technology(key, value, out.technology)) set_constant(out.chip, key, value);
    }
    return out;
}

// The chip with every tier as separate cores.
ChipSpec flat(const Redesign& r) {
    auto spec = r.chip;
    spec.cores *= r.technology.tiers;
    validate(spec);
    return spec;
}

std::optional<CostValue> joules_of(const MappingCost& cost, const CostValue& factor) {
    if (!cost.core_joules) return std::nullopt;
    const auto& digital = cost.digital_joules;
    const auto& link = cost.link_joules;
    return CostValue{.value = *cost.core_joules * factor.value + digital.value + link.value,
                     .low = *cost.core_joules * factor.low + digital.low + link.low,
                     .high = *cost.core_joules * factor.high + digital.high + link.high};
}

std::optional<CostValue> area_of(const Redesign& r, std::size_t chips, const CostData& data) {
    auto area = chip_area(r, data);
    if (!area) return std::nullopt;
    const auto n = static_cast<double>(chips);
    return CostValue{.value = n * area->value, .low = n * area->low, .high = n * area->high};
}

Summary errors_of(const WhatIfJob& job, const DeployedModel& model, const Exec& exec) {
    const auto exact = run_batches({.graph = job.graph, .matrices = {}, .inputs = job.test}, nullptr, exec);
    std::vector<double> errors;
    for (const auto seed : job.seeds) {
        const auto chip = rebuilt(model, {model.chip.plan.spec, model.build, seed}, exec);
        const auto driver = make_emulator(chip.chip, Simulator::fast, exec);
        const auto outputs = run_model(chip, *driver, job.test, product_seed(seed), exec).outputs;
        errors.push_back(std::sqrt(squared_error(outputs, exact)));
    }
    return summarize(std::move(errors));
}

WhatIfPoint measure(const WhatIfJob& job, const Constants& constants, const Exec& exec) {
    const auto design = redesign(job.chip, constants);
    const auto spec = flat(design);
    auto placement = place_model(job.graph, spec, job.options);
    const auto& mapping = placement.result.mapping;
    const auto data = in_node(cost_data(), design);
    const auto stacked = folded(mapping, design.technology.tiers);
    WhatIfPoint point{
        .constants = constants,
        .cores = placement.result.cores,
        .chips = mapping.grid.chips,
        .latency_seconds = make_schedule(placement.pipeline, stacked, spec, data).makespan_seconds,
        .joules =
            joules_of(model_cost(placement.pipeline, mapping, spec, data), core_energy_factor(design, data)),
        .area_mm2 = area_of(design, mapping.grid.chips, data)};
    const auto model =
        deploy(std::move(placement), spec, job.build, job.calibration, job.seeds.front(), exec);
    point.error = errors_of(job, model, exec);
    return point;
}

}  // namespace

WhatIfAxis parse_axis(const std::string& text) {
    const auto [key, values] = parse_assignment(text, "--what-if");
    WhatIfAxis axis{.key = key, .values = {}};
    std::size_t begin = 0;
    while (begin <= values.size()) {
        const auto end = std::min(values.find(',', begin), values.size());
        axis.values.push_back(values.substr(begin, end - begin));
        begin = end + 1;
    }
    return axis;
}

std::vector<CostParameter> assumptions_of(std::span<const WhatIfAxis> axes) {
    constexpr std::string_view kKeys[] = {"node", "tiers", "core.rows", "core.cols"};
    const auto assumed = [&](const WhatIfAxis& axis) {
        return std::ranges::find(kKeys, axis.key) != std::end(kKeys);
    };
    if (std::ranges::none_of(axes, assumed)) return {};
    return cost_data().technology;
}

std::vector<WhatIfPoint> what_if(const WhatIfJob& job, const Exec& exec) {
    const auto all = combinations(job.axes);
    // Wrong constants are found before the work begins.
    for (const auto& constants : all) (void)flat(redesign(job.chip, constants));
    std::vector<WhatIfPoint> points;
    Progress progress(exec, "chips", all.size());
    Exec inner = without_progress(exec);
    for (const auto& constants : all) {
        points.push_back(measure(job, constants, inner));
        inner.log = nullptr;  // notes would repeat
        progress.update(points.size());
    }
    mark_best(
        [](const WhatIfPoint& p) {
            return std::array{p.error.mean, p.joules ? p.joules->value : 0.0, p.latency_seconds};
        },
        points);
    return points;
}

}  // namespace imka
