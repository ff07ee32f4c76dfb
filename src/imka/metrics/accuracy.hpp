// Share of rows whose class was found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace imka {

// Rows whose class was found. Rows of both belong together.
std::size_t count_right(std::span<const std::int32_t> truth, std::span<const std::int32_t> predicted);

// At least one row.
double accuracy(std::span<const std::int32_t> truth, std::span<const std::int32_t> predicted);

}  // namespace imka
