// Bins with their rectangles and holes, filled one rectangle at a time (MaxRects, Jylänki 2010).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "imka/deploy/pack.hpp"

namespace imka {

// How to choose the hole for a rectangle.
enum class FitRule {
    short_side,  // least room left along the tighter side
    long_side,   // least room left along the other side
    area,        // smallest hole
    low_corner,  // first bin with a hole; there, least row, then least column
};
inline constexpr int kFitRules = 4;

// A free rectangle that cannot be extended. Holes of a bin overlap.
struct Hole {
    std::uint32_t row = 0;
    std::uint32_t col = 0;
    std::uint32_t rows = 0;
    std::uint32_t cols = 0;
};

struct PlacedItem {
    std::uint32_t item = 0;
    std::uint32_t row = 0;
    std::uint32_t col = 0;
};

struct OpenBin {
    std::vector<Hole> holes;
    std::vector<PlacedItem> placed;
    double load = 0.0;
};

OpenBin empty_bin(const PackBin& bin);
bool takes_load(const OpenBin& open, const PackBin& bin, double load);

// Marks rows x cols cells at the position as used.
void use_cells(const Hole& cells, OpenBin& bin);

// The items and the bin of one problem, and the work done so far.
struct PackProblem {
    std::span<const PackItem> items;
    PackBin bin;
    std::uint64_t work = 0;
};

using Layout = std::vector<OpenBin>;

// Places the items in this order. Opens bins up to `most`; returns the items that do not fit.
std::vector<std::uint32_t> fill_layout(PackProblem& problem, std::span<const std::uint32_t> order,
                                       FitRule rule, std::size_t most, Layout& layout);

}  // namespace imka
