#include "imka/io/disk_space.hpp"

#include <fmt/format.h>

#include <array>
#include <string>
#include <system_error>

#include "imka/base/error.hpp"

namespace imka {
namespace {

std::string bytes_text(double bytes) {
    constexpr std::array<const char*, 7> kUnits = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    std::size_t unit = 0;
    for (; bytes >= 1000.0 && unit + 1 < kUnits.size(); ++unit) bytes /= 1000.0;
    return fmt::format("{:.4g} {}", bytes, kUnits.at(unit));
}

}  // namespace

void check_disk_space(const std::filesystem::path& output, double bytes) {
    const auto folder = output.has_parent_path() ? output.parent_path() : std::filesystem::path(".");
    std::error_code error;
    const auto space = std::filesystem::space(folder, error);
    if (error || bytes <= static_cast<double>(space.available)) return;
    fail(ErrorCode::io, fmt::format("{}: needs about {}, but the disk has {} free", output.string(),
                                    bytes_text(bytes), bytes_text(static_cast<double>(space.available))));
}

}  // namespace imka
