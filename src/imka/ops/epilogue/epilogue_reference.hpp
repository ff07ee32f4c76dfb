// The contract of epilogue.hpp as plain loops over C library functions; for tests and as a fallback.
#pragma once

#include <span>

namespace imka::ops::reference {

void cos_sin(std::span<const float> u, float scale, std::span<float> c, std::span<float> s);
void offset_cos(std::span<const float> u, std::span<const float> offset, float scale, std::span<float> out);
void step_power(std::span<const float> u, int power, float scale, std::span<float> out);
void exp_plus_minus(std::span<const float> u, float shift, float scale, std::span<float> p,
                    std::span<float> n);

}  // namespace imka::ops::reference
