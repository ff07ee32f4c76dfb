// Devices on which tests compute.
#pragma once

#include "imka/base/exec.hpp"

namespace imka {

inline const Exec kCpu{.threads = 2};
inline const Exec kGpu{.threads = 2, .device = {.kind = DeviceKind::cuda}};

}  // namespace imka
