// Asynchronous copies from global to shared memory.
#pragma once

#include <cstdint>

namespace imka::cuda {

// Copies 16 bytes; both addresses are multiples of 16.
__device__ inline void copy_chunk(std::uint32_t to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
// Copies 4 bytes, or writes zeros if they do not exist.
__device__ inline void copy_float(std::uint32_t to, const float* from, bool exists) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(exists ? 4 : 0)
                 : "memory");
}
__device__ inline void commit_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits until at most kPending groups of this thread's copies are unfinished.
template <int kPending>
__device__ inline void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace imka::cuda
