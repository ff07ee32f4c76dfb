#include "imka/chip/spec/core_spec.hpp"

#include <fmt/format.h>

#include <cmath>

#include "imka/base/error.hpp"

namespace imka {
namespace {

void check_size(std::string_view field, int value) {
    if (value < 1 || value > 65536)
        fail(ErrorCode::bad_config,
             fmt::format("{}: {} is out of range; it must be from 1 to 65536", field, value));
}

void check_not_negative(std::string_view field, double value) {
    if (!std::isfinite(value) || value < 0.0)
        fail(ErrorCode::bad_config, fmt::format("{}: {} is out of range; it must be >= 0", field, value));
}

}  // namespace

void validate(const CostConfig& config) {
    check_not_negative("phase_overhead", config.phase_overhead_seconds);
    check_not_negative("product_overhead", config.product_overhead_seconds);
    check_not_negative("one_phase_power", config.one_phase_watts);
    check_not_negative("four_phase_power", config.four_phase_watts);
}

void validate(const CoreSpec& spec) {
    check_size("rows", spec.rows);
    check_size("cols", spec.cols);
    validate(spec.dac);
    validate(spec.adc);
    validate(spec.affine);
    validate(spec.ir_drop);
    check_not_negative("polarity_asymmetry", spec.polarity_asymmetry);
    validate(spec.cost);
}

}  // namespace imka
