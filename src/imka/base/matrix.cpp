#include "imka/base/matrix.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "imka/base/error.hpp"

namespace imka {

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
