// The contract of epilogue.hpp in plain loops over the C library's functions; for tests and as the last
// resort.
#pragma once

#include <span>

namespace imka::ops::reference {

void cos_sin(std::span<const float> u, float scale, std::span<float> c, std::span<float> s);
void offset_cos(std::span<const float> u, std::span<const float> offset, float scale, std::span<float> out);
void step_power(std::span<const float> u, int power, float scale, std::span<float> out);
void exp_plus_minus(std::span<const float> u, float shift, float scale, std::span<float> p,
                    std::span<float> n);

}  // namespace imka::ops::reference
