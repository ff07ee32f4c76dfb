// Copies from global to shared memory that run beside other work.
#pragma once

#include <cstdint>

namespace imka::cuda {

// 16 bytes; both addresses are multiples of 16.
__device__ inline void copy_chunk(std::uint32_t to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ inline void commit_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
// Until at most kPending groups of this thread's copies are under way.
template <int kPending>
__device__ inline void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// A barrier is 8 bytes of shared memory. A phase ends with `arrivals` arrivals and the last announced byte.
__device__ inline void init_barrier(std::uint32_t barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// After init_barrier, before __syncthreads.
__device__ inline void publish_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void arrive(std::uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline void arrive_and_expect(std::uint32_t barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}
// Until the phase of this parity has ended; phases have parities 0, 1, 0, ... The one before the first has
// ended.
__device__ inline void wait_for_phase(std::uint32_t barrier, unsigned parity) {
    asm volatile(
        "{\n.reg .pred done;\nagain:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra over;\nbra again;\nover:\n}" ::"r"(barrier),
        "r"(parity)
        : "memory");
}

// Copies a multiple of 16 bytes; the barrier counts them.
__device__ inline void copy_block(std::uint32_t to, const void* from, unsigned bytes, std::uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
        "l"(from), "r"(bytes), "r"(barrier)
        : "memory");
}

}  // namespace imka::cuda
