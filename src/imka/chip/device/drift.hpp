// Drift of a programmed conductance: g(t) = g (t / t_0)^-nu. The clock t starts when programming ends, less
// t_0: g is what a read t_0 after programming would give on average.
#pragma once

#include "imka/chip/device/device.hpp"

namespace imka {

// nu = |mean + sd z| of a device programmed to target_us; z is its standard normal number.
double drift_exponent(const DeviceModel& model, double target_us, double z);

// (t / t_0)^-nu with t = t_0 + seconds, seconds >= 0.
double drift_factor(double nu, double seconds, double t_0_seconds);

}  // namespace imka
