#include "imka/deploy/paper_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "imka/base/error.hpp"
#include "imka/base/names.hpp"
#include "imka/chip/analyse/cost.hpp"
#include "imka/metrics/metrics.hpp"

namespace imka {
namespace {

using Values = std::map<std::string, double, std::less<>>;

constexpr std::size_t kLength = 1024;  // vectors of the supplementary table

ChipSpec hermes(ReadMode mode) {
    auto spec = chip_preset("hermes");
    spec.core.read_mode = mode;
    return spec;
}

ProductCost mapped(ReadMode mode, std::size_t d, std::size_t m, int replicas) {
    return product_cost(
        hermes(mode), {.inputs = d, .outputs = m, .products = kLength, .placement = {.replicas = replicas}});
}

// Latency in ms and energy in mJ of the table, at peak throughput as in the paper.
void add_table(const CostData& data, std::size_t d, std::size_t m, Values& values) {
    const auto key = [d](const std::string& name, const char* what) {
        return fmt::format("{}.{}.{}", d, name, what);
    };
    const auto filled = mapped(ReadMode::one_phase, d, m, 0);
    values[key("hermes", "latency")] = 1e3 * filled.seconds;
    values[key("hermes", "energy")] = 1e3 * filled.joules.value();
    values[key("hermes", "one_copy_tops")] = mapped(ReadMode::one_phase, d, m, 1).tera_operations_per_second;
    for (const auto* name : {"A100 INT8", "A100 FP16", "CPU"}) {
        const auto& other = machine(data, name);
        const double seconds = filled.operations / (other.tops * 1e12);
        values[key(name, "latency")] = 1e3 * seconds;
        values[key(name, "energy")] = 1e3 * seconds * other.watts;
    }
}

void add_ratios(const CostData& data, Values& values) {
    const auto& gpu = machine(data, "A100 INT8");
    const double chip = values["512.hermes.energy"];
    values["gpu.throughput_ratio"] = gpu.tops / values["hermes.tops"];
    values["gpu.energy_ratio_int8"] = values["512.A100 INT8.energy"] / chip;
    values["gpu.energy_ratio_fp16"] = values["512.A100 FP16.energy"] / chip;
    values["gpu.energy_ratio_idle"] =
        values["gpu.energy_ratio_int8"] * (gpu.watts - gpu.static_watts) / gpu.watts;
    values["gpu.energy_ratio_four_phase"] =
        values["512.A100 INT8.energy"] / (1e3 * mapped(ReadMode::four_phase, 512, 1024, 0).joules.value());
    values["area.ratio"] = gpu.area_mm2 / parameter(data.parameters, "chip_area").value;
}

// With the sizes stated in costs.yaml.
void add_operations(Values& values) {
    const double d = 64;
    const double a = 4;
    const double l = 2;
    const double m = a * d;
    const double big_d = l * m;
    const double n = 10000;
    const double h = 100000;
    values["flops.kernel_digital"] = 8 * a * d * d + 4 * l * a * d;
    values["flops.kernel_chip"] = 4 * l * a * d;
    values["flops.explicit"] = 4 * h * d + 2 * h;
    values["flops.kernel"] = 2 * d * n;
    values["flops.approximation"] = 4 * m * d + 2 * big_d;
    values["flops.chip"] = 2 * big_d;
    values["flops.ridge_exact"] = 4 * n * d;
    values["flops.ridge_chip"] = 2 * big_d;
    const auto offloaded = [](double features_per_direction) { return 1.0 / (1.0 + features_per_direction); };
    values["offload.softmax"] = offloaded(2);
    values["offload.relu"] = offloaded(1);
}

Values computed_values(const CostData& data) {
    Values values;
    const auto one = chip_capacity(hermes(ReadMode::one_phase));
    const auto four = chip_capacity(hermes(ReadMode::four_phase));
    values["hermes.tops"] = one.tops;
    values["hermes.tops_per_watt"] = one.tops_per_watt.value();
    values["hermes.four_phase_tops"] = four.tops;
    values["hermes.four_phase_tops_per_watt"] = four.tops_per_watt.value();
    add_table(data, 512, 1024, values);
    add_table(data, 1024, 2048, values);
    add_ratios(data, values);
    add_operations(values);
    const auto alone = mapped(ReadMode::one_phase, 512, 1024, 1);
    values["area.shared_omega"] = static_cast<double>(alone.tiles);
    values["area.own_omega"] = 6 * static_cast<double>(alone.tiles);
    values["endurance.reprogrammed"] = parameter(data.parameters, "endurance").value * alone.seconds / 3600.0;
    return values;
}

std::string printed_like(const std::string& text, double value) {
    if (text.empty()) return fmt::format("{:.6g}", value);
    const auto point = text.find('.');
    const auto decimals = point == std::string::npos ? 0 : text.size() - point - 1;
    return fmt::format("{:.{}f}", value, decimals);
}

struct Steps {
    double integration = 0.0;
    double conversion = 0.0;
    double phases = 0.0;
    double input_bits = 0.0;
};

Steps steps_of(const NeurramPoint& point, int most_bits_of_one_phase) {
    const int bits = std::max(1, point.input_bits - 1);  // without the sign
    std::vector<int> phases{bits};
    if (point.phases > 1 && bits > most_bits_of_one_phase) phases = {(bits + 1) / 2, bits / 2};
    Steps steps{.phases = static_cast<double>(phases.size()), .input_bits = static_cast<double>(bits)};
    int left = point.output_bits;
    for (const int b : phases) {
        steps.integration += std::exp2(b) - 1;
        steps.conversion += std::max(left, 0);
        left -= b;
    }
    return steps;
}

// The chip file next to the measured point with the same numbers of bits.
NeurramRow preset_row(const NeurramData& data) {
    const auto spec = chip_preset("neurram");
    const auto capacity = chip_capacity(spec);
    const int input_bits =
        static_cast<int>(std::bit_width(static_cast<unsigned>(spec.core.dac.levels))) + 1;  // and the sign
    for (const auto& point : data.points) {
        if (point.input_bits == input_bits && point.output_bits == spec.core.affine.output_bits)
            return {
                .measured = point, .tops = capacity.tops, .tops_per_watt = capacity.tops_per_watt.value()};
    }
    fail(ErrorCode::bad_config, fmt::format("no measured point with {} input bits and {} output bits",
                                            input_bits, spec.core.affine.output_bits));
}

}  // namespace

std::vector<PaperRow> paper_rows(const CostData& data) {
    const auto values = computed_values(data);
    std::vector<PaperRow> rows;
    for (const auto& published : data.published) {
        const auto found = values.find(published.name);
        if (found == values.end())
            fail(ErrorCode::bad_config, fmt::format("no formula for {}", in_quotes(published.name)));
        PaperRow row{.published = published,
                     .computed = found->second,
                     .printed = printed_like(published.text, found->second)};
        if (!published.text.empty()) row.agrees = row.printed == published.text;
        rows.push_back(std::move(row));
    }
    return rows;
}

NeurramCheck neurram_check(const NeurramData& data) {
    const auto constant = [&](std::string_view name) { return parameter(data.constants, name).value; };
    const double operations = 2.0 * static_cast<double>(data.rows * data.cols);
    NeurramCheck check;
    std::vector<double> tops_errors;
    std::vector<double> watt_errors;
    for (const auto& point : data.points) {
        const auto s = steps_of(point, data.most_bits_of_one_phase);
        const double us = s.integration * constant("integration_step") +
                          s.conversion * constant("conversion_step") + s.phases * constant("phase");
        const double nj = s.integration * constant("integration_step_energy") +
                          s.conversion * constant("conversion_step_energy") +
                          s.input_bits * constant("input_bit_energy");
        const NeurramRow row{.measured = point,
                             .tops = static_cast<double>(data.cores) * operations / us * 1e-6,
                             .tops_per_watt = operations / nj * 1e-3};
        tops_errors.push_back(std::abs(row.tops / point.tops - 1));
        watt_errors.push_back(std::abs(row.tops_per_watt / point.tops_per_watt - 1));
        check.rows.push_back(row);
    }
    check.preset = preset_row(data);
    check.median_tops_error = median(tops_errors);
    check.median_tops_per_watt_error = median(watt_errors);
    return check;
}

}  // namespace imka
