// Status codes of the CUDA runtime as errors.
#pragma once

#include <cstddef>
#include <string_view>

namespace imka::cuda {

// `status` is a cudaError_t. Error{missing_part} that says what failed, why, and what to do.
void check(int status, std::string_view what);

// The same for an allocation: the message has the bytes asked for and the bytes free.
void check_allocation(int status, int gpu, std::size_t bytes);

}  // namespace imka::cuda
