#include "imka/chip/program/programming_array.hpp"

#include <fmt/format.h>

#include <cassert>
#include <cmath>
#include <span>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"

namespace imka {
namespace {

constexpr double kDaySeconds = 86400.0;

void check_targets(const DeviceModel& model, MatrixView<const float> target_us) {
    const double most = model.g_max_us * (1.0 + 1e-6);
    for (std::size_t r = 0; r < target_us.rows(); ++r) {
        for (std::size_t c = 0; c < target_us.cols(); ++c) {
            const float target = target_us(r, c);
            if (!(target >= 0.0F && target <= most))
                fail(ErrorCode::bad_config,
                     fmt::format("target of row {}, column {}: {} uS; it must be from 0 to {} uS", r, c,
                                 target, model.g_max_us));
        }
    }
}

void fill_cell(const PulseContext& c, const FillPlan& plan, std::size_t cell, PulsedArray& a,
               ProgrammingCost& cost) {
    const std::uint64_t polarity = device_index(a.ids, cell / a.cols, cell % a.cols);
    const std::span<PulsedDevice> devices(&a.devices[cell * a.depth], a.depth);
    for (std::size_t k = 0; k < a.depth; ++k) devices[k] = make_device(c, polarity * a.depth + k);
    const auto fill = plan.method == FillMethod::equal ? equal_fill : max_set_fill;
    const double target_us = plan.target_us(cell / a.cols, cell % a.cols);
    a.outcomes[cell] = fill(c, plan.verify, target_us, devices, cost);
}

}  // namespace

PulsedArray fill_array(const PulseContext& context, const FillPlan& plan, const Exec& exec,
                       ProgrammingCost& cost) {
    const auto target_us = plan.target_us;
    check_targets(context.device, target_us);
    const std::size_t cells = target_us.rows() * target_us.cols();
    const auto depth = static_cast<std::size_t>(context.device.devices_per_polarity);
    PulsedArray a{.ids = plan.ids,
                  .rows = target_us.rows(),
                  .cols = target_us.cols(),
                  .depth = depth,
                  .devices = std::vector<PulsedDevice>(cells * depth),
                  .pulsed_seconds = std::vector<double>(cells * depth, 0.0),
                  .outcomes = std::vector<FillOutcome>(cells)};
    std::vector<ProgrammingCost> costs(a.rows);
    parallel_for(exec, a.rows, [&](std::size_t r) {
        for (std::size_t c = 0; c < a.cols; ++c) fill_cell(context, plan, r * a.cols + c, a, costs[r]);
    });
    for (const auto& part : costs) add_cost(part, cost);
    return a;
}

PolarityNow polarity_at(const PulseContext& context, const PulsedArray& a, std::size_t cell, double seconds) {
    PolarityNow now;
    double power = 0.0;
    for (std::size_t i = cell * a.depth; i < (cell + 1) * a.depth; ++i) {
        const auto& d = a.devices[i];
        const double g = conductance_after(context, d, seconds - a.pulsed_seconds[i]);
        const double noise = g * d.read_noise;
        now.g_us += g;
        power += noise * noise;
    }
    now.noise_us = std::sqrt(power);
    return now;
}

DeviceState array_state(const PulseContext& context, const PulsedArray& a, double end_seconds) {
    const double t_0 = context.device.t_0_seconds;
    const double when = end_seconds + t_0;
    const double log_ratio = std::log1p(kDaySeconds / t_0);
    DeviceState state{a.ids, {a.rows, a.cols}, {a.rows, a.cols}, {a.rows, a.cols}};
    for (std::size_t cell = 0; cell < a.rows * a.cols; ++cell) {
        const auto now = polarity_at(context, a, cell, when);
        if (now.g_us <= 0.0) continue;
        const double later = polarity_at(context, a, cell, when + kDaySeconds).g_us;
        state.g_us.values()[cell] = static_cast<float>(now.g_us);
        state.nu.values()[cell] = static_cast<float>(std::log(now.g_us / later) / log_ratio);
        state.read_noise.values()[cell] = static_cast<float>(now.noise_us / now.g_us);
    }
    return state;
}

}  // namespace imka
