#include "imka/deploy/pack_exact.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

#include "imka/deploy/pack_layout.hpp"

namespace imka {
namespace {

struct Corner {
    std::uint32_t row = 0;
    std::uint32_t col = 0;
};

// Corners of the staircase around the placed items: every cell above and left of a corner's diagonal is used
// or given up. Each packing can be built by putting one item after another on a corner (Martello, Pisinger
// and Vigo 2000), because "left of or above" orders the items of a packing.
std::vector<Corner> corners_of(const std::vector<Hole>& placed) {
    std::vector<Corner> ends{{0, 0}};
    for (const auto& p : placed) ends.push_back({p.row + p.rows, p.col + p.cols});
    std::vector<Corner> corners;
    for (const auto& a : ends) {
        std::uint32_t col = 0;  // least free column from this row on
        for (const auto& p : placed) {
            if (p.row + p.rows > a.row) col = std::max(col, p.col + p.cols);
        }
        corners.push_back({a.row, col});
    }
    // From top right to bottom left; of the points in one column only the topmost is a corner.
    std::ranges::sort(corners, [](const Corner& a, const Corner& b) {
        return std::pair(a.row, a.col) < std::pair(b.row, b.col);
    });
    std::vector<Corner> steps;
    for (const auto& c : corners) {
        if (steps.empty() || c.col < steps.back().col) steps.push_back(c);
    }
    return steps;
}

class ExactSearch {
public:
    ExactSearch(const std::vector<PackItem>& items, const PackBin& bin, std::uint64_t work)
        : items_(items), bin_(bin), work_(work) {
        order_.resize(items.size());
        std::iota(order_.begin(), order_.end(), 0U);
        std::ranges::stable_sort(order_, [&](std::uint32_t a, std::uint32_t b) { return area(a) > area(b); });
    }

    ExactResult run(std::size_t bins) {
        const bool packed = assign(0, bins);
        if (work_ == 0) return {.answer = ExactAnswer::unknown, .spots = {}};
        if (!packed) return {.answer = ExactAnswer::impossible, .spots = {}};
        ExactResult result{.answer = ExactAnswer::packed, .spots = std::vector<PackSpot>(items_.size())};
        for (std::uint32_t b = 0; b < sets_.size(); ++b) {
            for (const auto& p : *known_.at(sets_[b]))
                result.spots[p.item] = {.bin = b, .row = p.row, .col = p.col};
        }
        return result;
    }

private:
    using Placed = std::vector<PlacedItem>;

    std::uint64_t area(std::uint32_t i) const { return std::uint64_t{items_[i].rows} * items_[i].cols; }
    bool out_of_work() { return work_ == 0 || --work_ == 0; }

    // Puts item `next` of order_ and all later ones into existing sets or new ones.
    bool assign(std::size_t next, std::size_t bins) {
        if (next == order_.size()) return true;
        const auto bit = 1U << order_[next];
        for (std::size_t s = 0; s <= sets_.size() && s < bins; ++s) {
            if (out_of_work()) return false;
            if (s == sets_.size()) {
                sets_.push_back(bit);
                if (fits(bit) && assign(next + 1, bins)) return true;
                sets_.pop_back();
                return false;
            }
            if (!fits(sets_[s] | bit)) continue;
            sets_[s] |= bit;
            if (assign(next + 1, bins)) return true;
            sets_[s] &= ~bit;
        }
        return false;
    }

    // Whether one bin takes all items of the set; remembers how.
    bool fits(std::uint32_t set) {
        if (const auto found = known_.find(set); found != known_.end()) return found->second.has_value();
        auto answer = search_bin(set);
        if (work_ == 0) return false;
        return known_.emplace(set, std::move(answer)).first->second.has_value();
    }

    std::optional<Placed> search_bin(std::uint32_t set) {
        std::uint64_t cells = 0;
        double load = 0.0;
        for (std::uint32_t i = 0; i < items_.size(); ++i) {
            if ((set >> i & 1U) == 0) continue;
            cells += area(i);
            load += items_[i].load;
        }
        if (cells > std::uint64_t{bin_.rows} * bin_.cols || !takes_load({}, bin_, load)) return std::nullopt;
        placed_.clear();
        numbers_.clear();
        if (!place_rest(set, cells)) return std::nullopt;
        Placed result;
        for (std::size_t k = 0; k < placed_.size(); ++k)
            result.push_back({numbers_[k], placed_[k].row, placed_[k].col});
        return result;
    }

    // Cells right of or below the staircase: all that is left for other items.
    std::uint64_t open_cells(const std::vector<Corner>& corners) const {
        std::uint64_t cells = 0;
        for (std::size_t k = 0; k < corners.size(); ++k) {
            const auto end = k + 1 < corners.size() ? corners[k + 1].row : bin_.rows;
            cells += std::uint64_t{end - corners[k].row} * (bin_.cols - corners[k].col);
        }
        return cells;
    }

    bool place_rest(std::uint32_t set, std::uint64_t cells) {
        if (set == 0) return true;
        const auto corners = corners_of(placed_);
        if (open_cells(corners) < cells) return false;
        for (std::uint32_t k = 0; k < order_.size(); ++k) {
            const auto i = order_[k];
            if ((set >> i & 1U) == 0 || same_as_earlier(set, k)) continue;
            for (const auto& corner : corners) {
                if (out_of_work()) return false;
                if (corner.row + items_[i].rows > bin_.rows || corner.col + items_[i].cols > bin_.cols)
                    continue;
                placed_.push_back({corner.row, corner.col, items_[i].rows, items_[i].cols});
                numbers_.push_back(i);
                if (place_rest(set & ~(1U << i), cells - area(i))) return true;
                placed_.pop_back();
                numbers_.pop_back();
            }
        }
        return false;
    }

    // Whether an item of the same size was tried in this place.
    bool same_as_earlier(std::uint32_t set, std::uint32_t k) const {
        const auto i = order_[k];
        return std::any_of(order_.begin(), order_.begin() + k, [&](std::uint32_t j) {
            return (set >> j & 1U) != 0 && items_[j].rows == items_[i].rows &&
                   items_[j].cols == items_[i].cols;
        });
    }

    const std::vector<PackItem>& items_;
    PackBin bin_;
    std::uint64_t work_;
    std::vector<std::uint32_t> order_;
    std::vector<std::uint32_t> sets_;
    std::unordered_map<std::uint32_t, std::optional<Placed>> known_;
    std::vector<Hole> placed_;
    std::vector<std::uint32_t> numbers_;
};

}  // namespace

ExactResult pack_exactly(const std::vector<PackItem>& items, const PackBin& bin, std::size_t bins,
                         std::uint64_t work) {
    assert(items.size() <= kMostExactItems);
    return ExactSearch(items, bin, work).run(bins);
}

}  // namespace imka
