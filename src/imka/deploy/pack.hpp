// Packs rectangles into as few bins of one size as possible, without rotation, and proves a lower bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace imka {

// A rectangle to pack. The loads of the rectangles in a bin must not exceed the load of the bin.
struct PackItem {
    std::uint32_t rows = 0;
    std::uint32_t cols = 0;
    double load = 0.0;
    bool operator==(const PackItem&) const = default;
};

struct PackBin {
    std::uint32_t rows = 0;
    std::uint32_t cols = 0;
    double load = std::numeric_limits<double>::infinity();
};

struct PackSpot {
    std::uint32_t bin = 0;
    std::uint32_t row = 0;
    std::uint32_t col = 0;
};

// A lower bound on the number of bins of any packing, and why.
struct PackBound {
    std::size_t bins = 0;
    std::string reason;  // "area", "rectangles of more than half a core in both directions", ...
};

struct PackOptions {
    std::uint64_t seed = 0;
    // Steps of the search, in units of about 10 ns. Not seconds, so that results do not depend on the
    // machine.
    std::uint64_t work = 60'000'000;
};

struct Packing {
    std::vector<PackSpot> spots;  // one per item
    std::size_t bins = 0;
    PackBound bound;
    bool optimal() const { return bins == bound.bins; }
};

// Every item must fit an empty bin. The same items, bin and options give the same packing.
Packing pack(const std::vector<PackItem>& items, const PackBin& bin, const PackOptions& options);

// An item, or a part of one, in a bin.
struct PackPiece {
    std::size_t item = 0;
    std::uint32_t first_row = 0;  // of the part in the item
    std::uint32_t first_col = 0;
    std::uint32_t rows = 0;
    std::uint32_t cols = 0;
    PackSpot spot;
};

struct CutPacking {
    std::vector<PackPiece> pieces;
    std::size_t bins = 0;
    PackBound bound;
    bool optimal() const { return bins == bound.bins; }
};

// The same with items that may be cut anywhere, if that saves a bin. A part has the load of its item. Without
// a load limit the result has the fewest bins that the area allows.
CutPacking pack_with_cuts(const std::vector<PackItem>& items, const PackBin& bin, const PackOptions& options);

}  // namespace imka
