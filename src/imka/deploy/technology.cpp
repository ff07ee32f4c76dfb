#include "imka/deploy/technology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <span>
#include <vector>

#include "imka/base/config.hpp"
#include "imka/base/error.hpp"

namespace imka {
namespace {

using Formula = std::function<double(std::span<const double>)>;

// A formula of parameters, with its least and largest value at the ends of their intervals.
CostValue over_intervals(const CostData& data, std::span<const std::string_view> names,
                         const Formula& formula) {
    std::vector<const CostParameter*> parameters;
    std::vector<double> values;
    for (const auto name : names) {
        parameters.push_back(&parameter(data.technology, name));
        values.push_back(parameters.back()->value);
    }
    const double middle = formula(values);
    CostValue out{.value = middle, .low = middle, .high = middle};
    for (std::size_t corner = 0; corner < (std::size_t{1} << names.size()); ++corner) {
        for (std::size_t k = 0; k < names.size(); ++k)
            values[k] = (corner >> k) % 2 == 0 ? parameters[k]->low : parameters[k]->high;
        const double value = formula(values);
        out.low = std::min(out.low, value);
        out.high = std::max(out.high, value);
    }
    return out;
}

double node_ratio(const Redesign& r, const CostData& data) {
    const auto node = chip_parameter(data, r.from.name, "chip_node");
    return r.technology.node_nm > 0.0 && node ? r.technology.node_nm / node->value : 1.0;
}

// Sizes of the new core relative to the known one.
struct Sizes {
    double rows = 1.0;
    double cols = 1.0;
};
Sizes sizes_of(const Redesign& r) {
    return {.rows = static_cast<double>(r.chip.core.rows) / r.from.core.rows,
            .cols = static_cast<double>(r.chip.core.cols) / r.from.core.cols};
}

// p: share of the converters, share of the drivers, exponent of both, exponent of the cells.
double core_factor(std::span<const double> p, const Sizes& size, double node) {
    const double cells = 1.0 - p[0] - p[1];
    return (p[0] * size.cols + p[1] * size.rows) * std::pow(node, p[2]) +
           cells * size.rows * size.cols * std::pow(node, p[3]);
}

void scale(const CostParameter& exponent, double node, CostParameter& p) {
    p.value *= std::pow(node, exponent.value);
    p.low *= std::min(std::pow(node, exponent.low), std::pow(node, exponent.high));
    p.high *= std::max(std::pow(node, exponent.low), std::pow(node, exponent.high));
}

}  // namespace

bool set_technology(std::string_view key, std::string_view value, Technology& technology) {
    if (key != "node" && key != "tiers") return false;
    const Fields fields{field("node", technology.node_nm, range::between(0, 1000, "technology node", "nm")),
                        field("tiers", technology.tiers, range::between(1, 64, "tiers of crossbars"))};
    set_field(fields, key, value);
    check_ranges(fields);
    return true;
}

CostValue core_energy_factor(const Redesign& redesign, const CostData& data) {
    constexpr std::array<std::string_view, 4> kNames{"converter_energy_share", "driver_energy_share",
                                                     "analog_energy_exponent", "cell_energy_exponent"};
    const auto size = sizes_of(redesign);
    const double node = node_ratio(redesign, data);
    return over_intervals(data, kNames,
                          [&](std::span<const double> p) { return core_factor(p, size, node); });
}

std::optional<CostValue> chip_area(const Redesign& redesign, const CostData& data) {
    constexpr std::array<std::string_view, 7> kNames{"converter_area_share",
                                                     "driver_area_share",
                                                     "analog_area_exponent",
                                                     "cell_area_exponent",
                                                     "core_area_share",
                                                     "digital_area_exponent",
                                                     "tier_area"};
    const auto known = chip_parameter(data, redesign.from.name, "chip_area");
    if (!known) return std::nullopt;
    const auto size = sizes_of(redesign);
    const double node = node_ratio(redesign, data);
    const double area = known->value * redesign.chip.cores / redesign.from.cores;
    return over_intervals(data, kNames, [&](std::span<const double> p) {
        const double tiers = 1.0 + p[6] * (redesign.technology.tiers - 1);
        return area * (p[4] * core_factor(p, size, node) * tiers + (1.0 - p[4]) * std::pow(node, p[5]));
    });
}

CostData in_node(CostData data, const Redesign& redesign) {
    const double node = node_ratio(redesign, data);
    const auto& exponent = parameter(data.technology, "digital_energy_exponent");
    for (auto& p : data.parameters) {
        for (const auto* name :
             {"addition", "multiplication", "exponential", "division", "norm_element", "chip_link_byte"}) {
            if (p.name == name) scale(exponent, node, p);
        }
    }
    return data;
}

Mapping folded(Mapping mapping, int tiers) {
    const auto crossbars = static_cast<std::uint32_t>(mapping.grid.cores);
    const auto stacks = crossbars / static_cast<std::uint32_t>(tiers);
    for (auto& r : mapping.regions) r.core = r.core / crossbars * stacks + r.core % crossbars % stacks;
    mapping.grid.cores = stacks;
    return mapping;
}

}  // namespace imka
