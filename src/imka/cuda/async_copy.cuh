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

// Blocks of a cluster can reach each other's shared memory. All threads of all its blocks:
__device__ inline void sync_cluster() {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
__device__ inline unsigned block_in_cluster() {
    unsigned block;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(block));
    return block;
}
// At the barrier that block `block` has at this place.
__device__ inline void arrive_at(std::uint32_t barrier, unsigned block) {
    asm volatile(
        "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n}" ::"r"(barrier),
        "r"(block)
        : "memory");
}
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// As copy_block, to these places in all blocks of the bits `blocks`. Slow on other GPUs than Hopper.
__device__ inline void copy_block_to(std::uint32_t to, const void* from, unsigned bytes,
                                     std::uint32_t barrier, std::uint16_t blocks) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1], %2, [%3], %4;" ::"r"(to),
        "l"(from), "r"(bytes), "r"(barrier), "h"(blocks)
        : "memory");
}
#endif

}  // namespace imka::cuda
