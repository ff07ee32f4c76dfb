// Programs one polarity of a cell with pulses and reads. Program-and-verify brings one device to a target;
// max-SET-fill holds as much of the target as possible in devices at SET, the state that drifts least.
#pragma once

#include <span>
#include <string_view>

#include "imka/base/names.hpp"
#include "imka/chip/device/device_pulse.hpp"

namespace imka {

struct VerifyConfig {
    double tolerance = 0.025;     // of |read - target| / (largest target of a device); > 0
    int max_pulses = 25;          // per target; >= 1
    double gain_ua_per_us = 2.0;  // change of amplitude per uS of error; > 0
};
void validate(const VerifyConfig& config);

// Amplitude that brings a device without spread to the target (uS).
double nominal_current_ua(const PulseModel& model, double target_us);

struct VerifyOutcome {
    bool reached = false;  // the last read was within the tolerance
    double read_us = 0.0;  // value of that read
};

// Pulses until a read is within the tolerance of the settled target: starts at the amplitude of a nominal
// device, then I += gain (read - target). A target at or below the RESET conductance gets one full RESET
// without verification; a device whose SET conductance is below the target stays at SET.
VerifyOutcome program_and_verify(const PulseContext& context, const VerifyConfig& config, double target_us,
                                 PulsedDevice& device, ProgrammingCost& cost);

// Case that max-SET-fill chose for a target.
enum class FillBranch {
    reset,        // target 0: all devices RESET
    too_small,    // all devices at SET give less than the target: left at SET
    keep_set,     // some kept at SET, one programmed to the remainder
    program_one,  // the largest device is enough: it is programmed, the others are RESET
};
template <>
struct EnumNames<FillBranch> {
    static constexpr std::string_view what = "fill branch";
    static constexpr std::string_view values[] = {"reset", "too_small", "keep_set", "program_one"};
};
struct FillOutcome {
    FillBranch branch = FillBranch::reset;
    std::size_t adjustable = 0;  // device with an intermediate state; the smallest if all are at SET
    double rest_us = 0.0;        // target of that device
    bool reached = true;
};

// SETs and reads all devices. With readings g_1 >= g_2 >= ...: the largest devices whose sum stays below
// the target are kept at SET, the next one is programmed to the remainder, all others are RESET. For two
// devices: both too small: left at SET; g_1 < target: g_1 stays, the other is programmed to target - g_1;
// else g_2 is RESET and the larger one programmed. At most one device has an intermediate state.
FillOutcome max_set_fill(const PulseContext& context, const VerifyConfig& config, double target_us,
                         std::span<PulsedDevice> devices, ProgrammingCost& cost);

// Programs each device of a polarity to target / devices, by program-and-verify only.
FillOutcome equal_fill(const PulseContext& context, const VerifyConfig& config, double target_us,
                       std::span<PulsedDevice> devices, ProgrammingCost& cost);

}  // namespace imka
