// Classification accuracy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace imka {

// Number of equal entries. Both spans have the same length.
std::size_t count_right(std::span<const std::int32_t> truth, std::span<const std::int32_t> predicted);

// Fraction of equal entries. Needs at least one row.
double accuracy(std::span<const std::int32_t> truth, std::span<const std::int32_t> predicted);

}  // namespace imka
