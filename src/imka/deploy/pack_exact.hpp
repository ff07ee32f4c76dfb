// Exact answer for a few rectangles: can they be packed into a given number of bins?
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "imka/deploy/pack.hpp"

namespace imka {

inline constexpr std::size_t kMostExactItems = 16;

enum class ExactAnswer { packed, impossible, unknown };

struct ExactResult {
    ExactAnswer answer = ExactAnswer::unknown;
    std::vector<PackSpot> spots;  // one per item, if packed
};

// Searches all packings of at most kMostExactItems items; unknown if that takes more than `work` steps.
ExactResult pack_exactly(const std::vector<PackItem>& items, const PackBin& bin, std::size_t bins,
                         std::uint64_t work);

}  // namespace imka
