#include "imka/linalg/blas.hpp"

#include <cblas.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <atomic>
#include <mutex>
#include <set>
#include <vector>

#include "imka/base/error.hpp"

// Exported by OpenBLAS, without a header. A buffer stays mapped after it is freed and serves a later call.
extern "C" {
void* blas_memory_alloc(int position);
void blas_memory_free(void* buffer);
}

namespace imka {
namespace {

// Calls in progress, and the number of buffers that OpenBLAS has mapped: a call in progress uses one.
std::atomic<std::size_t> calls{0};
std::atomic<std::size_t> buffers{0};

// Address space of a buffer (128 MiB for x86-64 in OpenBLAS 0.3) with its alignment, and some for what else
// the call needs.
constexpr std::size_t kBufferBytes = std::size_t{160} << 20U;

bool has_space() {
    void* place = mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) return false;
    munmap(place, kBufferBytes);
    return true;
}

// Maps buffers until there are `count`. Only here does OpenBLAS map new ones, so that it never waits for
// memory.
void map_buffers(std::size_t count) {
    static std::mutex mutex;
    static std::set<void*> known;
    const std::scoped_lock lock(mutex);
    std::vector<void*> taken;
    while (known.size() < count && has_space()) {
        taken.push_back(blas_memory_alloc(0));
        known.insert(taken.back());
    }
    for (void* buffer : taken) blas_memory_free(buffer);
    buffers = known.size();
}

}  // namespace

BlasCall::BlasCall() {
    static std::once_flag once;
    std::call_once(once, [] { openblas_set_num_threads(1); });
    const auto wanted = ++calls;
    if (wanted <= buffers) return;
    map_buffers(wanted);
    if (wanted <= buffers) return;
    --calls;
    fail(
        ErrorCode::io,
        fmt::format("out of memory: matrix products need {} MiB of address space per thread; raise the limit "
                    "(ulimit -v) or use fewer threads",
                    kBufferBytes >> 20U));
}

BlasCall::~BlasCall() {
    --calls;
}

}  // namespace imka
