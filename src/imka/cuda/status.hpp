// Status codes of the CUDA runtime as errors.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "imka/base/error.hpp"

namespace imka::cuda {

// A GPU that this process can no longer use: a kernel or the hardware failed, or the build has no code for
// it.
class DeviceLost : public Error {
public:
    explicit DeviceLost(const std::string& message) : Error(ErrorCode::missing_part, message) {}
};

// `status` is a cudaError_t. Error{missing_part} that says what failed, why, and what to do; DeviceLost if
// the GPU cannot be used any more. Waits for the work of the calling thread if there is an error.
void check(int status, std::string_view what);

// The same for an allocation: the message states the requested and the free bytes.
void check_allocation(int status, int gpu, std::size_t bytes);

}  // namespace imka::cuda
