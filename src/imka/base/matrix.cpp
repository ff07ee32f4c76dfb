#include "imka/base/matrix.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <new>

#include "imka/base/error.hpp"

namespace imka {

void* allocate_pages(std::size_t bytes) {
    constexpr std::size_t kHugePage = std::size_t{2} << 20U;
    void* memory = nullptr;
    if (posix_memalign(&memory, kHugePage, bytes) != 0) throw std::bad_alloc();
    // Best effort: small pages work too.
    madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

void release_pages(void* memory) noexcept {
    std::free(memory);
}

void check_fits_memory(double rows, double cols, std::size_t value_bytes, std::string_view what) {
    const double bytes = rows * cols * static_cast<double>(value_bytes);
    const double memory =
        static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
    if (!(bytes <= memory)) {
        fail(ErrorCode::bad_config,
             fmt::format(
                 "{} of {:.0f} x {:.0f} values needs {:.3g} GB, more than the {:.3g} GB of this machine",
                 what, rows, cols, bytes * 1e-9, memory * 1e-9));
    }
}

}  // namespace imka
