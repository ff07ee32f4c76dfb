// Ways to program a region, what they cost and how well they did.
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
    statistical,       // the outcome is drawn from the device model: no pulses, nothing to count
    verify,            // program-and-verify, every device of a polarity to its share
    max_set_fill,      // as much as possible in devices at SET
    gradient_descent,  // max-SET-fill, then pulses that lower the error of products
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

// Errors t_0 after programming, relative.
struct ProgrammingErrors {
    double weight = 0.0;  // |g - g_target| / |g_target| of net conductances, without read noise
    double product =
        0.0;  // measured products of random inputs, scale and offset of each column fitted on others
};

struct ProgrammingResult {
    ProgrammedRegion region;
    ProgrammingCost cost;
    // Before the last stage of the method: one pulse a device, nothing verified (verify, max_set_fill); after
    // max-SET-fill (gradient_descent). As after where nothing is pulsed.
    ProgrammingErrors before;
    ProgrammingErrors after;
    std::uint64_t polarities = 0;     // programmed
    std::uint64_t unreached = 0;      // whose last read was out of tolerance
    std::vector<GradientStep> steps;  // of gradient descent
};

// Weights (inputs x outputs) and the region that is to hold them.
struct ProgrammingJob {
    const ChipSpec& chip;
    MatrixView<const float> weights;
    const RegionScale& scale;
    RegionIds ids;
    ProgrammingConfig config;
};

// The region as program_region gives it, its devices programmed by the method; gradient_descent also sets
// scale and offset of the columns to those fitted at the end. Error{bad_config} where the chip has no model
// of pulses. Same bits for any thread count.
ProgrammingResult program_region_by(const ProgrammingJob& job, const Exec& exec);

// The errors of a region that holds the weights of the job, at a time after t_0; inputs as in
// config.gradient.
ProgrammingErrors programming_errors(const ProgrammingJob& job, const ProgrammedRegion& region,
                                     const ReadTime& time, const Exec& exec);

}  // namespace imka
