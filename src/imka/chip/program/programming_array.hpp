// One polarity of an array programmed with pulses: the single devices, and the state that the simulators
// use.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/chip/device/device.hpp"
#include "imka/chip/device/device_pulse.hpp"

namespace imka {

// Programs one polarity of a cell with pulses and reads. Program-and-verify brings one device to a target;
// max-SET-fill holds as much of the target as possible in devices at SET, the state that drifts least.
struct VerifyConfig {
    double tolerance = 0.025;     // limit of |read - target| / (largest target of a device); > 0
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

struct PulsedArray {
    DeviceIds ids;  // of polarities; device k of polarity p has the number p * devices_per_polarity + k
    std::size_t rows = 0;
    std::size_t cols = 0;
    std::size_t depth = 1;               // devices per polarity
    std::vector<PulsedDevice> devices;   // (row * cols + col) * depth + k
    std::vector<double> pulsed_seconds;  // time of the last pulse of each device; 0 at the end of filling
    std::vector<FillOutcome> outcomes;   // row * cols + col
};

enum class FillMethod {
    equal,    // every device gets an equal share of the target
    max_set,  // max-SET-fill
};

struct FillJob {
    MatrixView<const float> target_us;
    DeviceIds ids;
    FillMethod method = FillMethod::max_set;
    VerifyConfig verify;
};

// Programs every polarity to its target. Error{bad_config} for targets outside [0, g_max], naming the
// first. Same bits for any thread count.
PulsedArray fill_array(const PulseContext& context, const FillJob& job, const Exec& exec,
                       ProgrammingCost& cost);

// Conductance and read noise of one polarity (the sum of its devices) at a time on the clock of
// pulsed_seconds.
struct PolarityNow {
    double g_us = 0.0;
    double noise_us = 0.0;  // to be multiplied by sqrt(ln(...)) of ReadNoiseParts
};
PolarityNow polarity_at(const PulseContext& context, const PulsedArray& array, std::size_t cell,
                        double seconds);

// State t_0 after end_seconds. A sum of devices with different exponents and ages is not a power law; the
// exponent is chosen to reproduce the exact loss over the following day.
DeviceState array_state(const PulseContext& context, const PulsedArray& array, double end_seconds);

}  // namespace imka
