// Drift of a programmed conductance: g(t) = g (t / t_0)^-nu with t = t_0 + time since programming. g is
// the conductance at t = t_0.
#pragma once

#include "imka/chip/device/device.hpp"

namespace imka {

// nu = |mean + sd z| of a device programmed to target_us; z is its standard normal number.
double drift_exponent(const DeviceModel& model, double target_us, double z);

// (t / t_0)^-nu with t = t_0 + seconds, seconds >= 0.
double drift_factor(double nu, double seconds, double t_0_seconds);

}  // namespace imka
