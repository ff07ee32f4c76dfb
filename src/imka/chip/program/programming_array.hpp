// One polarity of an array programmed with pulses: the single devices, and the state that the simulators
// use.
#pragma once

#include <cstdint>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/chip/device/device_state.hpp"
#include "imka/chip/program/programming_verify.hpp"

namespace imka {

struct PulsedArray {
    DeviceIds ids;  // of polarities; device k of polarity p has the number p * devices_per_polarity + k
    std::size_t rows = 0;
    std::size_t cols = 0;
    std::size_t depth = 1;               // devices per polarity
    std::vector<PulsedDevice> devices;   // (row * cols + col) * depth + k
    std::vector<double> pulsed_seconds;  // time of the last pulse of each device; 0: the end of filling
    std::vector<FillOutcome> outcomes;   // row * cols + col
};

enum class FillMethod {
    equal,    // every device gets an equal share of the target
    max_set,  // max-SET-fill
};

struct FillPlan {
    MatrixView<const float> target_us;
    DeviceIds ids;
    FillMethod method = FillMethod::max_set;
    VerifyConfig verify;
};

// Programs every polarity to its target. Error{bad_config} for targets outside [0, g_max], naming the
// first. Same bits for any thread count.
PulsedArray fill_array(const PulseContext& context, const FillPlan& plan, const Exec& exec,
                       ProgrammingCost& cost);

// Conductance and read noise (for a power of 1) of one polarity, the sum of its devices, at a time on the
// clock of pulsed_seconds.
struct PolarityNow {
    double g_us = 0.0;
    double noise_us = 0.0;  // times sqrt(ln(...)) of read_noise.hpp
};
PolarityNow polarity_at(const PulseContext& context, const PulsedArray& array, std::size_t cell,
                        double seconds);

// State t_0 after end_seconds. A sum of devices with different exponents and ages is not a power law; its
// exponent reproduces the exact loss over the following day.
DeviceState array_state(const PulseContext& context, const PulsedArray& array, double end_seconds);

}  // namespace imka
