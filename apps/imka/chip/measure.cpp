#include "chip/measure.hpp"

#include <cmath>

namespace imka::app {
namespace {

double share(std::uint64_t part, std::uint64_t all) {
    return all == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(all);
}

}  // namespace

Measurement measure(const ProgrammedChip& chip, const MeasurePlan& plan, const Exec& exec) {
    const auto driver = make_emulator(chip, plan.simulator, exec);
    const auto products = execute(*driver, 0, plan.inputs, {.seed = plan.seed}, exec);
    return {.parts = error_parts(plan.inputs, products.y.view(), plan.exact),
            .saturated = share(products.trace.saturated, products.trace.conversions),
            .clipped = share(products.trace.clipped_inputs, products.trace.inputs)};
}

Measurement measure(const Matrix<float>& weights, const MeasurePlan& plan, const Exec& exec) {
    return {.parts =
                error_parts(plan.inputs, digital_products(weights, plan.inputs, exec).view(), plan.exact)};
}

double measure_error(const ProgrammedChip& chip, const MeasurePlan& plan, const Exec& exec) {
    FastEmulator driver(chip, exec);
    const auto y = execute(driver, 0, plan.inputs, {.seed = plan.seed}, exec).y;
    return std::pow(10.0, -signal_to_noise_db(y.view(), plan.exact) / 20.0);
}

Summary over_seeds(const MeasuredState& state, double (*quantity)(const Measurement&)) {
    std::vector<double> values;
    for (const auto& m : state.values) values.push_back(quantity(m));
    return summarize(std::move(values));
}

std::optional<Summary> over_seeds(const MeasuredState& state, std::optional<double> ErrorParts::*part) {
    std::vector<double> values;
    for (const auto& m : state.values) {
        if (!(m.parts.*part)) return std::nullopt;
        values.push_back(*(m.parts.*part));
    }
    return summarize(std::move(values));
}

}  // namespace imka::app
