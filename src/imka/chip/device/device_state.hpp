// Programmed devices and their change with time. Programming is statistical: the outcome is drawn from the
// device model, without pulses. Every draw is a function of (seed, device), so any part of an array can be
// computed alone.
#pragma once

#include <cstdint>

#include "imka/base/matrix.hpp"
#include "imka/chip/device/device.hpp"
#include "imka/chip/device/read_noise.hpp"

namespace imka {

// Identifies devices and thereby their random numbers. Device (r, c) of an array has the index first + r *
// stride + c; arrays of one seed must not overlap.
struct DeviceIds {
    std::uint64_t seed = 0;
    std::uint64_t first = 0;
    std::uint64_t stride = 0;  // >= columns of the array
};
inline std::uint64_t device_index(const DeviceIds& ids, std::size_t row, std::size_t col) {
    return ids.first + row * ids.stride + col;
}

// One polarity of every cell of an array, after programming.
struct DeviceState {
    DeviceIds ids;
    Matrix<float> g_us;        // conductance t_0 after programming, uS
    Matrix<float> nu;          // drift exponent
    Matrix<float> read_noise;  // Q_s
};

// g = clamp(target + sigma(target) N(0,1), g_floor, g_ceiling), exact for targets below the zero
// threshold; nu from the target; Q_s from g. Stuck devices limit the target to the range of the others of
// their polarity. Error{bad_config} for targets outside [0, g_max], naming the first.
DeviceState program_devices(const DeviceModel& model, MatrixView<const float> target_us, DeviceIds ids);

// Conductances at a time: value with drift and frozen noise, and standard deviation of the noise that is
// fresh in every product.
struct Conductances {
    Matrix<float> g_us;
    Matrix<float> fresh_sd_us;
};
Conductances conductances_at(const DeviceModel& model, const DeviceState& state, const ReadTime& time);

}  // namespace imka
