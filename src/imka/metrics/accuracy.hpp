// Share of rows whose class was found.
#pragma once

#include <cstdint>
#include <span>

namespace imka {

// Rows of both belong together; at least one row.
double accuracy(std::span<const std::int32_t> truth, std::span<const std::int32_t> predicted);

}  // namespace imka
