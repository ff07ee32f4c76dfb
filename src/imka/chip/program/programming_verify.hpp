// Programming of one polarity of a cell with pulses and reads: a device to a target by program-and-verify,
// and max-SET-fill, which holds as much of the target as it can in devices at SET, the state that drifts
// least.
#pragma once

#include <span>
#include <string_view>

#include "imka/base/names.hpp"
#include "imka/chip/device/device_pulse.hpp"

namespace imka {

struct VerifyConfig {
    double tolerance = 0.025;     // of |read - target| / (largest target of a device); > 0
    int max_pulses = 25;          // for one target; >= 1
    double gain_ua_per_us = 2.0;  // change of amplitude for an error of 1 uS; > 0
};
void validate(const VerifyConfig& config);

// The amplitude that leaves a device without spread at the target, uS.
double nominal_current_ua(const PulseModel& model, double target_us);

struct VerifyOutcome {
    bool reached = false;  // the last read was within the tolerance
    double read_us = 0.0;  // what it said
};

// Pulses until a read is within the tolerance of the settled target: the first amplitude is that of a nominal
// device, then I += gain (read - target). A target at or below what RESET leaves gets one full RESET, without
// verification; one above what the device reached at SET is left at SET.
VerifyOutcome program_and_verify(const PulseContext& context, const VerifyConfig& config, double target_us,
                                 PulsedDevice& device, ProgrammingCost& cost);

// What max-SET-fill did with a target.
enum class FillBranch {
    reset,        // target 0: all devices RESET
    too_small,    // all at SET are less than the target: left at SET
    keep_set,     // some kept at SET, one programmed to the rest
    program_one,  // the largest alone is enough: it is programmed, the others are RESET
};
template <>
struct EnumNames<FillBranch> {
    static constexpr std::string_view what = "fill branch";
    static constexpr std::string_view values[] = {"reset", "too_small", "keep_set", "program_one"};
};
struct FillOutcome {
    FillBranch branch = FillBranch::reset;
    std::size_t adjustable = 0;  // which device is in between; the smallest where all are at SET
    double rest_us = 0.0;        // target of that device
    bool reached = true;
};

// SET all and read them. With g_1 >= g_2 >= ... the readings: the largest devices whose sum stays below the
// target are kept at SET, the next one is programmed to the rest, all others are RESET. For two devices: both
// too small: left; g_1 < target: g_1 stays, the other is programmed to target - g_1; else g_2 is RESET and
// the larger one programmed. At most one device is in between.
FillOutcome max_set_fill(const PulseContext& context, const VerifyConfig& config, double target_us,
                         std::span<PulsedDevice> devices, ProgrammingCost& cost);

// Device k of a polarity is programmed to its share target / devices: program-and-verify alone.
FillOutcome equal_fill(const PulseContext& context, const VerifyConfig& config, double target_us,
                       std::span<PulsedDevice> devices, ProgrammingCost& cost);

}  // namespace imka
