// Programming methods for a region, with their cost and error.
#pragma once

#include <string_view>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/names.hpp"
#include "imka/chip/program/programming_gradient.hpp"
#include "imka/chip/region.hpp"
#include "imka/chip/spec/chip.hpp"

namespace imka {

enum class ProgrammingMethod {
    statistical,       // the outcome is drawn from the device model: no pulses, no cost
    verify,            // program-and-verify: every device of a polarity to its share
    max_set_fill,      // as much as possible in devices at SET
    gradient_descent,  // max-SET-fill, then pulses that reduce the error of products
};
template <>
struct EnumNames<ProgrammingMethod> {
    static constexpr std::string_view what = "programming method";
    static constexpr std::string_view values[] = {"statistical", "verify", "max_set_fill",
                                                  "gradient_descent"};
};

struct ProgrammingConfig {
    ProgrammingMethod method = ProgrammingMethod::statistical;
    VerifyConfig verify;
    GradientConfig gradient;
};
void validate(const ProgrammingConfig& config);

// Relative errors t_0 after programming.
struct ProgrammingErrors {
    double weight = 0.0;  // |g - g_target| / |g_target| of net conductances, without read noise
    // Of measured products of random inputs; scale and offset of each column are fitted on other inputs.
    double product = 0.0;
};

struct ProgrammingResult {
    ProgrammedRegion region;
    ProgrammingCost cost;
    // Before the last stage of the method: one pulse per device without verification (verify,
    // max_set_fill), or after max-SET-fill (gradient_descent). Same as `after` for a method without
    // pulses.
    ProgrammingErrors before;
    ProgrammingErrors after;
    std::uint64_t polarities = 0;     // programmed
    std::uint64_t unreached = 0;      // polarities whose last read was out of tolerance
    std::vector<GradientStep> steps;  // of gradient descent
};

// Weights (inputs x outputs) and the region that will hold them.
struct ProgrammingJob {
    const ChipSpec& chip;
    MatrixView<const float> weights;
    const RegionScale& scale;
    RegionIds ids;
    ProgrammingConfig config;
};

// Like program_region, but programs the devices by the given method; gradient_descent also sets scale and
// offset of the columns to its last fit. Error{bad_config} if the chip has no pulse model. Same bits for
// any thread count.
ProgrammingResult program_region_by(const ProgrammingJob& job, const Exec& exec);

// Errors of a region that holds the weights of the job, at a time after t_0; inputs as in config.gradient.
ProgrammingErrors programming_errors(const ProgrammingJob& job, const ProgrammedRegion& region,
                                     const ReadTime& time, const Exec& exec);

}  // namespace imka
