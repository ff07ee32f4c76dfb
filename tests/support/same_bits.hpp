// Compares numbers bit by bit: a NaN equals itself, 0 and -0 differ.
#pragma once

#include <algorithm>
#include <span>

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
    return std::ranges::equal(std::as_bytes(a), std::as_bytes(b));
}
