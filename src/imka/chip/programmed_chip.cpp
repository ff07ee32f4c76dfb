#include "imka/chip/programmed_chip.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/chip/simulate/fast.hpp"
#include "imka/linalg/gemm.hpp"

namespace imka {
namespace {

RegionIds ids_of(std::uint64_t seed, const Region& region) {
    return {.seed = seed, .core = region.core, .row = region.row, .col = region.col};
}

// Draws the outcome, regions in parallel; there is nothing to count or measure.
void draw_regions(ProgrammedChip& chip, const Exec& exec) {
    const auto& plan = chip.plan;
    parallel_for(exec, plan.regions.size(), [&](std::size_t r) {
        chip.regions[r] = program_region(plan.spec, region_weights(plan, plan.regions[r]).view(),
                                         plan.scales[r], ids_of(chip.seed, plan.regions[r]));
    });
}

void add_mean(const ProgrammingErrors& part, double share, ProgrammingErrors& mean) {
    mean.weight += share * part.weight;
    mean.product += share * part.product;
}

ProgrammingSummary pulse_regions(ProgrammedChip& chip, const ProgrammingConfig& config, const Exec& exec) {
    const auto& plan = chip.plan;
    ProgrammingSummary summary;
    const double share = 1.0 / static_cast<double>(plan.regions.size());
    Progress progress(exec, "programming cores", plan.regions.size());
    for (std::size_t r = 0; r < plan.regions.size(); ++r) {
        const auto weights = region_weights(plan, plan.regions[r]);
        auto result = program_region_by({.chip = plan.spec,
                                         .weights = weights.view(),
                                         .scale = plan.scales[r],
                                         .ids = ids_of(chip.seed, plan.regions[r]),
                                         .config = config},
                                        exec);
        add_cost(result.cost, summary.cost);
        add_mean(result.before, share, summary.before);
        add_mean(result.after, share, summary.after);
        summary.polarities += result.polarities;
        summary.unreached += result.unreached;
        summary.steps.push_back(std::move(result.steps));
        chip.regions[r] = std::move(result.region);
        progress.update(r + 1);
    }
    return summary;
}

Matrix<float> clipped_inputs(MatrixView<const float> x, double range) {
    const auto most = static_cast<float>(range);
    Matrix<float> out(x.rows(), x.cols());
    for (std::size_t v = 0; v < x.rows(); ++v)
        std::ranges::transform(x.row(v), out.row(v).begin(),
                               [&](float value) { return std::clamp(value, -most, most); });
    return out;
}

// Inputs whose products the outputs are fitted to. Clipping and rounding of an input are not errors of a
// column; only the systematic loss by truncation is left for the scale to correct.
Matrix<float> target_inputs(const ProgrammedRegion& region, MatrixView<const float> x, OutputFit fit) {
    if (fit == OutputFit::centred && region.spec.dac.rounding == InputRounding::truncate)
        return clipped_inputs(x, region.input_range);
    return applied_inputs(region.spec.dac, x, region.input_range);
}

void add_half_steps(ProgrammedRegion& region) {
    const auto& affine = region.spec.affine;
    if (affine.output_bits == 0 || affine.rounding != OutputRounding::floor) return;
    for (auto& column : region.affine.columns) column.offset += 0.5;
}

// Calibration products must not share noise with later ones. Devices and reads use different streams, so
// the seed of the chip can be reused.
constexpr std::uint64_t kFirstCalibrationProduct = std::uint64_t{1} << 31U;

}  // namespace

ChipState state_of(const Plan& plan) {
    const auto has_sample = [](const PlannedMatrix& m) { return m.inputs.rows() > 0; };
    return std::ranges::any_of(plan.matrices, has_sample) ? ChipState::calibrated : ChipState::mapped;
}

ChipState state_of(const ProgrammedChip& chip) {
    if (chip.time.seconds == 0.0) return ChipState::programmed;
    return chip.corrected_seconds == chip.time.seconds ? ChipState::compensated : ChipState::aged;
}

ProgrammedChip program(Plan plan, std::uint64_t seed, const ProgrammingConfig& config, const Exec& exec,
                       ProgrammingSummary* summary) {
    validate(config);
    validate(plan);
    ProgrammedChip chip{.plan = std::move(plan), .seed = seed};
    chip.regions.resize(chip.plan.regions.size());
    ProgrammingSummary result;
    if (config.method == ProgrammingMethod::statistical)
        draw_regions(chip, exec);
    else
        result = pulse_regions(chip, config, exec);
    if (summary != nullptr) *summary = std::move(result);
    return chip;
}

ProgrammedChip with_calibrated_outputs(ProgrammedChip chip, OutputFit fit, const Exec& exec) {
    const auto& plan = chip.plan;
    for (const auto& matrix : plan.matrices) {
        if (matrix.inputs.rows() == 0)
            fail(ErrorCode::bad_usage,
                 "cannot calibrate outputs: the chip was programmed without calibration inputs");
    }
    const ProductIds ids{.seed = chip.seed, .first = kFirstCalibrationProduct};
    parallel_for(exec, chip.regions.size(), [&](std::size_t r) {
        auto& region = chip.regions[r];
        const auto inputs = region_inputs(plan, plan.regions[r]);
        region.compensation.assign(region.cols(), 1.0);
        const auto counts =
            fast_counts(prepare(region, chip.time), inputs.view(), ids, {.threads = 1}).counts;
        const auto target = target_inputs(region, inputs.view(), fit);
        const auto weights = region_weights(plan, plan.regions[r]);
        fit_affine(copy_of<double>(counts.view()).view(),
                   exact_products(target.view(), weights.view()).view(), region);
        if (fit == OutputFit::centred) add_half_steps(region);
    });
    chip.corrected_seconds = chip.time.seconds;
    return chip;
}

ProgrammedChip aged(ProgrammedChip chip, const ReadTime& time) {
    validate(time);
    if (time.seconds < chip.time.seconds)
        fail(ErrorCode::bad_usage,
             fmt::format("{} s after programming is before the chip's current time, {} s", time.seconds,
                         chip.time.seconds));
    chip.time = time;
    return chip;
}

ProgrammedChip compensated(ProgrammedChip chip, DriftCompensation kind) {
    for (auto& region : chip.regions) compensate_drift(kind, chip.time, region);
    chip.corrected_seconds =
        kind == DriftCompensation::none ? std::nullopt : std::optional(chip.time.seconds);
    return chip;
}

}  // namespace imka
