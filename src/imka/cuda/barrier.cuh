// Barriers in shared memory: threads that produce and threads that consume wait for each other, not for the
// whole block.
#pragma once

#include <cstdint>

namespace imka::cuda {

__device__ inline std::uint32_t shared_address(const void* place) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(place));
}

// Completes a phase when `count` threads have arrived. The writes of a thread before its arrival are visible
// after the wait for that phase.
class Barrier {
public:
    // Called by one thread, before the block synchronises.
    __device__ void start(unsigned count) {
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(&state_)), "r"(count)
                     : "memory");
    }
    __device__ void arrive() {
        asm volatile(
            "{.reg .b64 state; mbarrier.arrive.shared.b64 state, [%0];}" ::"r"(shared_address(&state_))
            : "memory");
    }
    // Waits until the phase with this parity is complete: 0 for the first, 1 for the second, and so on.
    // Parity 1 before the first phase does not wait.
    __device__ void wait(unsigned parity) {
        std::uint32_t done = 0;
        while (done == 0) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
            asm volatile(
                "{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                : "=r"(done)
                : "r"(shared_address(&state_)), "r"(parity)
                : "memory");
#else
            asm volatile(
                "{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                : "=r"(done)
                : "r"(shared_address(&state_)), "r"(parity)
                : "memory");
#endif
        }
    }

private:
    std::uint64_t state_;
};

}  // namespace imka::cuda
