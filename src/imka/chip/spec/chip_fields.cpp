#include "imka/chip/spec/chip_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "imka/base/error.hpp"
#include "imka/base/sha256.hpp"

namespace imka {
namespace {

using range::between;
using range::positive_share;
using range::share;

// Constants beyond these have no physical meaning, and their products may overflow.
constexpr double kTiny = 1e-15;
constexpr double kHuge = 1e9;
constexpr FieldInfo positive(std::string_view help, std::string_view unit = "") {
    return between(kTiny, kHuge, help, unit);
}
constexpr FieldInfo not_negative(std::string_view help, std::string_view unit = "") {
    return between(0.0, kHuge, help, unit);
}

Fields chip_fields(ChipSpec& c) {
    return {
        field("chip.cores", c.cores, between(1, 65536, "cores of one chip")),
        field("chip.chips", c.chips, between(1, 65536, "chips that share the work")),
    };
}

Fields device_fields(DeviceModel& d) {
    return {
        field("device.g_max", d.g_max_us, positive("largest target of one polarity", "uS")),
        field("device.devices_per_polarity", d.devices_per_polarity, between(1, 16, "devices per polarity")),
        field("device.t_0", d.t_0_seconds, positive("age at which the model was fitted", "s")),
        field("device.t_read", d.t_read_seconds, positive("duration of a read", "s")),
        field("device.programming_reference_g_max", d.programming_reference_g_max_us,
              positive("g_max of the devices that programming_error describes", "uS")),
        field("device.programming_scale", d.programming_scale,
              not_negative("multiplies the programming error")),
        field("device.zero_threshold", d.zero_threshold_us,
              not_negative("a target below this becomes exactly 0", "uS")),
        field("device.drift_scale", d.drift_scale, not_negative("multiplies the drift exponent")),
        field("device.read_noise_scale", d.read_noise_scale, not_negative("multiplies the read noise")),
        field("device.read_noise_frozen_scale", d.read_noise_frozen_scale,
              not_negative("multiplies the part of read noise that is the same in every product")),
        field("device.read_noise_fresh_scale", d.read_noise_fresh_scale,
              not_negative("multiplies the part of read noise that is new in every product")),
        field("device.programming_drift_correlation", d.programming_drift_correlation,
              share("correlation of the programming error with the loss by drift")),
        field("device.stuck_at_reset_probability", d.stuck_at_reset_probability,
              share("probability that one device is stuck at 0")),
        field("device.stuck_at_max_probability", d.stuck_at_max_probability,
              share("probability that one device is stuck at its maximum")),
        field("device.g_floor", d.g_floor_us, not_negative("minimum conductance of a polarity", "uS")),
        field("device.g_ceiling", d.g_ceiling_us,
              {.help = "maximum conductance of a polarity",
               .unit = "uS",
               .min = 0.0,
               .above_min = true,
               .unlimited = true}),
    };
}

Fields core_fields(CoreSpec& c) {
    return {
        field("core.rows", c.rows, between(1, 65536, "inputs of a core")),
        field("core.cols", c.cols, between(1, 65536, "outputs of a core")),
        field("core.read_mode", c.read_mode,
              {.help = "one phase per sign of input and weight, or all at once"}),
        field("core.polarity_asymmetry", c.polarity_asymmetry,
              not_negative("one-phase: spread of the conductance of devices read backwards")),
        field("core.input_levels", c.dac.levels, between(1, 32767, "input steps on either side of 0")),
        field("core.input_encoding", c.dac.encoding, {.help = "one pulse, or one per bit"}),
        field("core.input_step", c.dac.step_seconds, positive("pulse of one input step", "s")),
        field("core.input_rounding", c.dac.rounding, {.help = "rounding of inputs to steps"}),
        field("core.input_jitter", c.dac.jitter_steps,
              not_negative("standard deviation of an input's pulse length, new in every product", "steps")),
        field("core.counts_per_us", c.adc.counts_per_us,
              positive("counts for 1 uS over a full pulse", "counts/uS")),
        field("core.max_count", c.adc.max_count,
              between(0, 1e9, "count at which a conversion saturates; 0: never", "counts")),
        field("core.phase_fill", c.adc.fill,
              between(1e-3, 100.0, "largest share of max_count that a calibration phase may reach")),
        field("core.rounding", c.adc.rounding, {.help = "rounding of a conversion"}),
        field("core.gain_sd", c.adc.gain_sd, not_negative("spread of the gains of columns around 1")),
        field("core.negative_gain_sd", c.adc.negative_gain_sd,
              not_negative("one-phase: spread of the gain for negative currents around the positive one")),
        field("core.offset_sd", c.adc.offset_sd_counts,
              not_negative("spread of the offsets of columns", "counts")),
        field("core.adc_noise", c.adc.noise_counts,
              not_negative("standard deviation of a conversion", "counts")),
        field("core.offset_mean", c.adc.offset_mean_counts,
              between(-kHuge, kHuge, "mean of the offsets of columns", "counts")),
        field(
            "core.polarity_error", c.adc.polarity_error_counts,
            not_negative("one-phase: standard deviation of the comparator that decides the sign", "counts")),
        field("core.output_floor", c.adc.output_floor,
              {.help = "round down the signed sum of all conversions"}),
        field("core.fp16", c.affine.fp16, {.help = "affine correction in half precision"}),
        field("core.output_bits", c.affine.output_bits,
              between(0, 16, "bits of the result, sign included; 0: no rounding")),
        field("core.output_rounding", c.affine.rounding, {.help = "rounding of the result to steps"}),
        field("core.output_range", c.affine.range,
              {.help = "what sets the output range: the largest product, or the mean over columns of the "
                       "largest product"}),
        field("core.output_headroom", c.affine.headroom,
              positive("output range relative to the product that sets it")),
        field("core.product_limit", c.affine.limit.deviations,
              not_negative("products saturate at this many root mean squares of products; 0: never")),
        field("core.product_limit_unit", c.affine.limit.unit,
              {.help = "root mean square of all products of the core, or of the column"}),
        field("core.product_limit_shape", c.affine.limit.shape,
              {.help = "shape of the saturation of products"}),
        field("core.ir_drop", c.ir_drop.scale, not_negative("multiplies the voltage lost along wires")),
        field("core.wire_resistance", c.ir_drop.wire_ohm,
              not_negative("resistance of the wire between two cells", "ohm")),
        field("core.phase_overhead", c.cost.phase_overhead_seconds,
              not_negative("time after every pulse and conversion", "s")),
        field("core.product_overhead", c.cost.product_overhead_seconds,
              not_negative("time once per product", "s")),
        field("core.one_phase_power", c.cost.one_phase_watts,
              not_negative("power of a core that multiplies in one phase; 0: unknown", "W")),
        field("core.four_phase_power", c.cost.four_phase_watts,
              not_negative("power of a core that multiplies in four phases; 0: unknown", "W")),
    };
}

Fields pulse_fields(PulseModel& p) {
    return {
        field("pulses.set_mean", p.set_mean_us, positive("mean conductance at SET", "uS")),
        field("pulses.set_sd", p.set_sd_us, not_negative("spread of the SET conductance over devices", "uS")),
        field("pulses.reset_conductance", p.reset_us, not_negative("conductance at full RESET", "uS")),
        field("pulses.half_current", p.half_mean_ua, positive("amplitude that halves the conductance", "uA")),
        field("pulses.half_current_sd", p.half_sd_ua,
              not_negative("spread of half_current over devices", "uA")),
        field("pulses.current_width", p.width_ua,
              positive("width of the amplitude range over which conductance falls", "uA")),
        field("pulses.cycle_sd", p.cycle_sd, not_negative("relative spread from pulse to pulse")),
        field("pulses.reset_current", p.reset_ua, positive("amplitude of a full RESET", "uA")),
        field("pulses.drift_g_max", p.drift_g_max_us,
              positive("conductance at u = 1 of the curves in this section", "uS")),
        field("pulses.device_share", p.device_share,
              share("share of the variance of drift that is fixed for a device, not new with every pulse")),
        field("pulses.glass_full", p.glass_full, positive_share("share of glass above which drift is full")),
        field("pulses.settling", p.settling, not_negative("exponent of the mean loss between pulse and t_0")),
        field("pulses.t_verify", p.t_verify_seconds,
              positive("time from a pulse to the verifying read", "s")),
        field("pulses.count_conductance", p.count_us,
              not_negative("step of a conversion in a read; 0: none", "uS")),
        field("pulses.conversion_noise", p.conversion_noise_us,
              not_negative("standard deviation of a conversion in a read", "uS")),
        field("pulses.verify_reads", p.verify_reads, between(1, 1000, "conversions averaged in a read")),
        field("pulses.pulse_voltage", p.pulse_volts, positive("voltage across device and selector", "V")),
        field("pulses.reset_pulse", p.reset_pulse_seconds, positive("duration of a RESET pulse", "s")),
        field("pulses.set_pulse", p.set_pulse_seconds, positive("duration of a SET pulse", "s")),
        field("pulses.set_current", p.set_ua, positive("amplitude of SET", "uA")),
        field("pulses.read_energy", p.read_joules,
              not_negative("energy of one conversion of one column", "J")),
        field("pulses.product_energy", p.product_joules,
              not_negative("energy of one product of a core", "J")),
        field("pulses.product_time", p.product_seconds, positive("duration of one product of a core", "s")),
        field("pulses.parallel_devices", p.parallel_devices,
              between(1, 1e9, "devices of a core that are programmed in parallel")),
    };
}

// Drift exponents above 10 or noise above 100 times the signal must be mistakes.
constexpr double kLargestDrift = 10.0;
constexpr double kLargestNoise = 100.0;

std::vector<CurveField> device_curves(DeviceModel& d) {
    return {
        {"device.programming_error", "uS", "spread of programming", d.programming_error_us, 0.0, kHuge},
        {"device.drift_mean", "", "mean of the drift exponent", d.drift_mean, -kLargestDrift, kLargestDrift},
        {"device.drift_sd", "", "spread of the drift exponent over devices", d.drift_sd, 0.0, kLargestDrift},
        {"device.read_noise", "", "Q of the read noise", d.read_noise, 0.0, kLargestNoise},
    };
}

std::vector<CurveField> pulse_curves(PulseModel& p) {
    return {
        {"pulses.drift_mean", "", "mean of the drift exponent of one device", p.drift_mean, -kLargestDrift,
         kLargestDrift},
        {"pulses.drift_sd", "", "spread of the drift exponent over devices and pulses", p.drift_sd, 0.0,
         kLargestDrift},
        {"pulses.read_noise", "", "Q of the read noise of one device", p.read_noise, 0.0, kLargestNoise},
    };
}

void check_curves(const std::vector<CurveField>& curves) {
    for (const auto& c : curves) validate(c.curve, c.name, c.min, c.max);
}

template <class List>
void append(List part, List& list) {
    for (auto& item : part) list.push_back(std::move(item));
}

std::string_view section_of(std::string_view name) {
    return name.substr(0, name.find('.'));
}

[[noreturn]] void fail_unknown(const Fields& list, std::string_view name) {
    std::vector<std::string_view> names;
    for (const auto& f : list) names.emplace_back(f.name);
    fail(ErrorCode::bad_config,
         fmt::format("'{}' is not a known constant; {}", name, nearest_names(name, names)));
}

void set_unchecked(ChipSpec& chip, std::string_view name, std::string_view text) {
    if (section_of(name) == "pulses" && !chip.pulses)
        fail(ErrorCode::bad_config, fmt::format("{}: the chip {} has no pulse model", name, chip.name));
    const auto list = fields(chip);
    const auto it = std::find_if(list.begin(), list.end(), [&](const Field& f) { return f.name == name; });
    if (it == list.end()) fail_unknown(list, name);
    try {
        it->set(text);
    } catch (const Error& e) {
        // Errors of enum names do not mention the setting, so add it.
        const std::string message = e.what();
        fail(e.code(), message.starts_with(name) ? message : fmt::format("{}: {}", name, message));
    }
}

// The value as written in a file: text without JSON quotes. Hashes depend on it.
std::string file_text(const Field& f) {
    const auto json = f.json();
    if (json == "null") return "none";  // no limit
    return json.starts_with('"') ? json.substr(1, json.size() - 2) : json;
}

std::string bound_text(std::string_view what, double value) {
    return std::isfinite(value) ? fmt::format(" {} {}", what, value) : "";
}

// Equal curves have equal text; numbers round-trip exactly.
std::string short_curve_text(const Curve& curve) {
    if (curve.pieces.empty()) return "0";
    std::string text;
    for (const auto& p : curve.pieces) {
        text += fmt::format("{}{} [{}]{}{}{}", text.empty() ? "" : "; ", to_string(p.form),
                            fmt::join(p.coefficients, ", "), bound_text("below", p.below),
                            bound_text("min", p.min), bound_text("max", p.max));
    }
    if (curve.argument_at_g_max != 1.0)
        text += fmt::format("; argument at g_max {}", curve.argument_at_g_max);
    if (curve.value_scale != 1.0) text += fmt::format("; times {}", curve.value_scale);
    return text;
}

std::string source_of(const ChipSpec& chip, std::string_view name) {
    const auto it = std::find_if(chip.provenance.begin(), chip.provenance.end(),
                                 [&](const Provenance& p) { return p.key == name; });
    return it == chip.provenance.end() ? std::string{} : it->source;
}

}  // namespace

Fields fields(ChipSpec& chip) {
    auto list = chip_fields(chip);
    append(device_fields(chip.device), list);
    append(core_fields(chip.core), list);
    if (chip.pulses) append(pulse_fields(*chip.pulses), list);
    return list;
}

std::vector<CurveField> curve_fields(ChipSpec& chip) {
    auto list = device_curves(chip.device);
    if (chip.pulses) append(pulse_curves(*chip.pulses), list);
    return list;
}

void validate(const DeviceModel& model) {
    DeviceModel m = model;
    check_ranges(device_fields(m));
    check_curves(device_curves(m));
    if (m.stuck_at_reset_probability + m.stuck_at_max_probability > 1.0)
        fail(ErrorCode::bad_config,
             fmt::format(
                 "device.stuck_at_max_probability: {} is out of range; it must be at most 1 together with "
                 "stuck_at_reset_probability",
                 m.stuck_at_max_probability));
    if (m.g_ceiling_us <= m.g_floor_us)
        fail(ErrorCode::bad_config,
             fmt::format("device.g_ceiling: {} is out of range; it must be above g_floor", m.g_ceiling_us));
}

void validate(const CoreSpec& spec) {
    CoreSpec s = spec;
    check_ranges(core_fields(s));
    if (s.affine.output_bits == 1)
        fail(ErrorCode::bad_config, "core.output_bits: 1 is out of range; it must be 0 or from 2 to 16");
}

void validate(const PulseModel& model) {
    PulseModel m = model;
    check_ranges(pulse_fields(m));
    check_curves(pulse_curves(m));
}

void validate(const ChipSpec& chip) {
    ChipSpec c = chip;
    check_ranges(chip_fields(c));
    validate(chip.device);
    validate(chip.core);
    if (chip.pulses) validate(*chip.pulses);
}

void set_constant(ChipSpec& chip, std::string_view name, std::string_view text) {
    ChipSpec changed = chip;
    set_unchecked(changed, name, text);
    validate(changed);
    chip = std::move(changed);
}

void set_constants(ChipSpec& chip, std::string_view list) {
    ChipSpec changed = chip;
    std::set<std::string> keys;
    while (!list.empty()) {
        const auto comma = list.find(',');
        const auto [key, value] = parse_assignment(list.substr(0, comma), "constant");
        if (!keys.insert(key).second) fail(ErrorCode::bad_config, fmt::format("duplicate key '{}'", key));
        set_unchecked(changed, key, value);
        list = comma == std::string_view::npos ? std::string_view{} : list.substr(comma + 1);
    }
    validate(changed);
    chip = std::move(changed);
}

std::size_t posterior_draws(const ChipSpec& chip) {
    return chip.posterior.empty() ? 0 : chip.posterior.begin()->second.size();
}

ChipSpec posterior_draw(const ChipSpec& chip, std::size_t draw) {
    const std::size_t draws = posterior_draws(chip);
    if (draws == 0)
        fail(
            ErrorCode::bad_config,
            fmt::format("the chip {} has no posterior: its file gives no draws of its constants", chip.name));
    if (draw >= draws)
        fail(ErrorCode::bad_config,
             fmt::format("draw {} of the posterior of the chip {}; it has {} draws, from 0", draw, chip.name,
                         draws));
    ChipSpec out = chip;
    for (const auto& [name, values] : chip.posterior)
        set_unchecked(out, name, fmt::format("{}", values[draw]));
    validate(out);
    return out;
}

void check_posterior(const ChipSpec& chip) {
    constexpr std::size_t kMostDraws = 1000;
    const std::size_t draws = posterior_draws(chip);
    for (const auto& [name, values] : chip.posterior) {
        if (values.empty() || values.size() > kMostDraws || values.size() != draws)
            fail(
                ErrorCode::bad_config,
                fmt::format("posterior: {} has {} draws; expected the same number for every constant, from 1 "
                            "to {}",
                            name, values.size(), kMostDraws));
    }
    // Ranges are intervals: the smallest and the largest value of a constant are enough.
    for (const auto& [name, values] : chip.posterior) {
        const auto [low, high] = std::ranges::minmax(values);
        for (const double value : {low, high}) {
            ChipSpec changed = chip;
            try {
                set_constant(changed, name, fmt::format("{}", value));
            } catch (const Error& e) {
                fail(e.code(), fmt::format("posterior: {}", e.what()));
            }
        }
    }
}

std::vector<ConstantText> describe(const ChipSpec& chip) {
    ChipSpec copy = chip;
    std::vector<ConstantText> rows;
    for (const auto& f : fields(copy))
        rows.push_back({.name = f.name,
                        .value = file_text(f),
                        .unit = std::string(f.info.unit),
                        .source = source_of(chip, f.name),
                        .help = std::string(f.info.help)});
    for (const auto& c : curve_fields(copy))
        rows.push_back({.name = c.name,
                        .value = short_curve_text(c.curve),
                        .unit = std::string(c.unit),
                        .source = source_of(chip, c.name),
                        .help = std::string(c.help)});
    return rows;
}

std::string chip_hash(const ChipSpec& chip) {
    std::map<std::string, std::string> defaults;
    for (auto& row : describe({})) defaults[row.name] = row.value;
    std::string text;
    for (const auto& row : describe(chip)) {
        const auto it = defaults.find(row.name);
        if (it == defaults.end() || it->second != row.value)
            text += fmt::format("{}={}\n", row.name, row.value);
    }
    return sha256_hex(text);
}

}  // namespace imka
