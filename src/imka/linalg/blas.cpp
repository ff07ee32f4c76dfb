#include "imka/linalg/blas.hpp"

#include <cblas.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <exception>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "imka/base/error.hpp"

// Exported by OpenBLAS, without a header. A buffer stays mapped after it is freed and is reused by a later
// call.
extern "C" {
void* blas_memory_alloc(int position);
void blas_memory_free(void* buffer);
}

namespace imka {
namespace {

// Address space of a buffer (128 MiB for x86-64 in OpenBLAS 0.3) with its alignment, and a reserve for the
// rest of the call.
constexpr std::size_t kBufferBytes = std::size_t{160} << 20U;

bool has_space() {
    void* place = mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) return false;
    munmap(place, kBufferBytes);
    return true;
}

// Processor time, not time: a thread that waits for a busy processor has not tried yet.
constexpr double kAttemptSeconds = 0.2;

clockid_t clock_of_this_thread() {
    clockid_t clock{};
    pthread_getcpuclockid(pthread_self(), &clock);
    return clock;
}

// 0 if the thread of the clock has ended.
double seconds_on(clockid_t clock) {
    timespec t{};
    if (clock_gettime(clock, &t) != 0) return 0.0;
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// The buffers that OpenBLAS has mapped. A call in progress uses one; further calls wait for a free one.
class Buffers {
public:
    // False if there is no buffer and no space for one.
    bool take() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !growing_; });
        if (used_ == mapped_ && may_grow()) grow(lock);
        if (mapped_ == 0) return false;
        changed_.wait(lock, [this] { return !growing_ && used_ < mapped_; });
        ++used_;
        return true;
    }

    void give_back() {
        const std::scoped_lock lock(mutex_);
        --used_;
        changed_.notify_all();
    }

private:
    bool may_grow() const {
        using namespace std::chrono_literals;
        return (!last_.valid() || last_.wait_for(0s) == std::future_status::ready) && has_space();
    }

    // Waits until no call is in progress: a call that finds no free buffer might map one itself.
    void grow(std::unique_lock<std::mutex>& lock) {
        std::vector<void*> taken(mapped_);
        growing_ = true;
        changed_.wait(lock, [this] { return used_ == 0; });
        std::ranges::generate(taken, [] { return blas_memory_alloc(0); });
        if (map_another()) ++mapped_;
        std::ranges::for_each(taken, blas_memory_free);
        growing_ = false;
        changed_.notify_all();
    }

    // Makes OpenBLAS take a buffer, which maps a new one if all are taken. If another thread takes the free
    // space first, OpenBLAS retries forever. So this runs in a separate thread, which can be abandoned.
    bool map_another() {
        try {
            std::promise<clockid_t> started;
            auto clock = started.get_future();
            std::packaged_task<void()> attempt([started = std::move(started)]() mutable {
                started.set_value(clock_of_this_thread());
                blas_memory_free(blas_memory_alloc(0));
            });
            last_ = attempt.get_future();
            std::thread(std::move(attempt)).detach();
            return wait_for_last(clock.get());
        } catch (const std::exception&) {
            last_ = {};
            return false;
        }
    }

    // False if the attempt has used its processor time in vain; it then continues in the background. Looking
    // for space in the meantime would take it away from the attempt.
    bool wait_for_last(clockid_t clock) const {
        using namespace std::chrono_literals;
        while (last_.wait_for(10ms) != std::future_status::ready) {
            if (seconds_on(clock) > kAttemptSeconds) return false;
        }
        return true;
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t mapped_ = 0;
    std::size_t used_ = 0;
    bool growing_ = false;
    std::future<void> last_;
};

Buffers& buffers() {
    static Buffers all;
    return all;
}

}  // namespace

BlasCall::BlasCall() {
    static std::once_flag once;
    std::call_once(once, [] { openblas_set_num_threads(1); });
    if (buffers().take()) return;
    fail(ErrorCode::io, fmt::format("out of memory: matrix products need {} MiB of address space; raise the "
                                    "limit (ulimit -v) or use fewer threads",
                                    kBufferBytes >> 20U));
}

BlasCall::~BlasCall() {
    buffers().give_back();
}

}  // namespace imka
