#include "imka/deploy/pack.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <utility>

#include "imka/base/random.hpp"
#include "imka/deploy/pack_bound.hpp"
#include "imka/deploy/pack_exact.hpp"
#include "imka/deploy/pack_layout.hpp"

namespace imka {
namespace {

using Numbers = std::vector<std::uint32_t>;

constexpr int kSortRules = 5;
constexpr std::uint64_t kExactWork = 3'000'000;

// The size that an order sorts by.
double sort_size(const PackItem& item, int rule) {
    const double rows = item.rows;
    const double cols = item.cols;
    switch (rule) {
        case 0:
            return rows * cols;
        case 1:
            return rows + 1e-6 * cols;
        case 2:
            return cols + 1e-6 * rows;
        case 3:
            return std::max(rows, cols) + 1e-6 * std::min(rows, cols);
        default:
            return rows + cols;
    }
}

std::uint64_t area_of(const PackItem& item) {
    return std::uint64_t{item.rows} * item.cols;
}

// Search for a layout with few bins. Everything that is random comes from one seed.
class Search {
public:
    Search(const std::vector<PackItem>& items, const PackBin& bin, const PackOptions& options)
        : problem_{.items = items, .bin = bin}, seed_(options.seed) {}

    std::uint64_t work() const { return problem_.work; }

    // The best of many orders and rules, first plain, then with random changes; stops at `enough` bins.
    Layout restarts(std::size_t enough, std::uint64_t work) {
        Layout best;
        const int plain = kSortRules * kFitRules;
        for (int n = 0; best.empty() || (best.size() > enough && problem_.work < work); ++n) {
            const bool vary = n >= plain;
            const int sort = vary ? below(kSortRules) : n % kSortRules;
            const auto rule = static_cast<FitRule>(vary ? below(kFitRules) : n / kSortRules);
            Layout layout;
            fill_layout(problem_, ordered(all(), sort, vary ? 0.5 : 0.0), rule, problem_.items.size(),
                        layout);
            if (best.empty() || layout.size() < best.size()) best = std::move(layout);
        }
        return best;
    }

    // Packs the items of `left` into the layout by repacking a few random bins at a time with them, never
    // leaving over more cells than before. Returns the items left over when the work is used up.
    Numbers repair(Numbers left, std::uint64_t work, Layout& layout) {
        while (!left.empty() && problem_.work < work) {
            const auto some = random_bins(layout);
            Numbers items = left;
            for (const auto b : some) {
                for (const auto& p : layout[b].placed) items.push_back(p.item);
            }
            Layout parts;
            auto rest = fill_layout(problem_, ordered(std::move(items), below(kSortRules), 0.3),
                                    static_cast<FitRule>(below(kFitRules)), some.size(), parts);
            problem_.work += 50;
            if (cells(rest) > cells(left)) continue;
            parts.resize(some.size(), empty_bin(problem_.bin));
            for (std::size_t k = 0; k < some.size(); ++k) layout[some[k]] = std::move(parts[k]);
            left = std::move(rest);
        }
        return left;
    }

    std::uint64_t cells(const Numbers& list) const {
        return std::accumulate(list.begin(), list.end(), std::uint64_t{0},
                               [&](std::uint64_t sum, auto i) { return sum + area_of(problem_.items[i]); });
    }

    // Takes out the bins with the fewest used cells until `bins` are left; returns their items.
    Numbers shrink(std::size_t bins, Layout& layout) const {
        Numbers left;
        while (layout.size() > bins) {
            const auto least =
                std::ranges::min_element(layout, {}, [&](const OpenBin& b) { return used(b); });
            for (const auto& p : least->placed) left.push_back(p.item);
            layout.erase(least);
        }
        return left;
    }

private:
    // The next random word. A search needs no separate stream: no result is drawn from its numbers.
    std::uint32_t word() {
        const auto n = next_++;
        return philox4x32_10(
            {static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(n >> 32U), 0, 0},
            {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32U)})[0];
    }
    int below(int n) {
        return static_cast<int>((std::uint64_t{word()} * static_cast<std::uint64_t>(n)) >> 32U);
    }

    Numbers all() const {
        Numbers list(problem_.items.size());
        std::iota(list.begin(), list.end(), 0U);
        return list;
    }

    std::uint64_t used(const OpenBin& bin) const {
        std::uint64_t sum = 0;
        for (const auto& p : bin.placed) sum += area_of(problem_.items[p.item]);
        return sum;
    }

    // Large items first; sizes are changed by up to the share `vary` before sorting.
    Numbers ordered(Numbers list, int sort, double vary) {
        std::vector<std::pair<double, std::uint32_t>> keys;
        for (const auto i : list) {
            double size = sort_size(problem_.items[i], sort);
            if (vary > 0.0) size *= 1.0 - vary * 0x1p-32 * word();
            keys.emplace_back(-size, i);
        }
        std::ranges::sort(keys);
        std::ranges::transform(keys, list.begin(), [](const auto& key) { return key.second; });
        return list;
    }

    // One to four different bins.
    std::vector<std::size_t> random_bins(const Layout& layout) {
        const auto count = std::min<std::size_t>(layout.size(), 1 + static_cast<std::size_t>(below(4)));
        std::vector<std::size_t> some;
        while (some.size() < count) {
            const auto b = static_cast<std::size_t>(below(static_cast<int>(layout.size())));
            if (std::ranges::find(some, b) == some.end()) some.push_back(b);
        }
        return some;
    }

    PackProblem problem_;
    std::uint64_t seed_;
    std::uint64_t next_ = 0;
};

// Items that cannot share a bin with any other: on both sides, the remaining room is too small for every
// item.
std::vector<char> find_alone(const std::vector<PackItem>& items, const PackBin& bin) {
    const auto least_rows = std::ranges::min(items, {}, &PackItem::rows).rows;
    const auto least_cols = std::ranges::min(items, {}, &PackItem::cols).cols;
    std::vector<char> alone(items.size());
    std::ranges::transform(items, alone.begin(), [&](const PackItem& item) {
        return static_cast<char>(bin.rows - item.rows < least_rows && bin.cols - item.cols < least_cols);
    });
    return alone;
}

std::vector<PackSpot> spots_of(const Layout& layout, std::size_t items) {
    std::vector<PackSpot> spots(items);
    for (std::uint32_t b = 0; b < layout.size(); ++b) {
        for (const auto& p : layout[b].placed) spots[p.item] = {.bin = b, .row = p.row, .col = p.col};
    }
    return spots;
}

// Removes one bin after another as long as the search succeeds.
void reduce(Search& search, std::size_t enough, std::uint64_t work, Layout& best) {
    while (best.size() > enough && search.work() < work) {
        Layout layout = best;
        auto left = search.shrink(best.size() - 1, layout);
        if (!search.repair(std::move(left), work, layout).empty()) return;
        best = std::move(layout);
    }
}

// Closes the gap between packing and bound by exact search, unless that needs too much work.
void prove(const std::vector<PackItem>& items, const PackBin& bin, Packing& packing) {
    while (!packing.optimal()) {
        auto exact = pack_exactly(items, bin, packing.bins - 1, kExactWork);
        if (exact.answer == ExactAnswer::unknown) return;
        if (exact.answer == ExactAnswer::impossible) {
            packing.bound = {.bins = packing.bins, .reason = "exact search"};
            return;
        }
        packing.spots = std::move(exact.spots);
        --packing.bins;
    }
}

Packing pack_together(const std::vector<PackItem>& items, const PackBin& bin, const PackOptions& options) {
    if (items.empty()) return {.spots = {}, .bins = 0, .bound = pack_bound(items, bin)};
    Packing packing;
    packing.bound = pack_bound(items, bin);
    Search search(items, bin, options);
    auto layout = search.restarts(packing.bound.bins, options.work / 8);
    packing.bins = layout.size();
    packing.spots = spots_of(layout, items.size());
    if (items.size() <= kMostExactItems) prove(items, bin, packing);
    if (packing.optimal() || packing.bins < layout.size()) return packing;
    reduce(search, packing.bound.bins, options.work, layout);
    packing.bins = layout.size();
    packing.spots = spots_of(layout, items.size());
    return packing;
}

CutPacking whole_pieces(const std::vector<PackItem>& items, const Packing& packing) {
    CutPacking result{.pieces = {}, .bins = packing.bins, .bound = packing.bound};
    for (std::size_t i = 0; i < items.size(); ++i)
        result.pieces.push_back(
            {.item = i, .rows = items[i].rows, .cols = items[i].cols, .spot = packing.spots[i]});
    return result;
}

struct CutFit {
    std::uint64_t cells = 0;
    std::size_t bin = 0;
    Hole hole;
};

// The hole that takes most of the piece.
CutFit best_cut(const PackPiece& piece, double load, const PackBin& bin, const Layout& layout) {
    CutFit best;
    for (std::size_t b = 0; b < layout.size(); ++b) {
        if (!takes_load(layout[b], bin, load)) continue;
        for (const auto& hole : layout[b].holes) {
            const auto cells =
                std::uint64_t{std::min(hole.rows, piece.rows)} * std::min(hole.cols, piece.cols);
            if (cells > best.cells) best = {cells, b, hole};
        }
    }
    return best;
}

// Cuts the pieces until every part has a place in a hole; false if a load limit prevents it.
bool place_cut(std::vector<PackPiece> left, const std::vector<PackItem>& items, const PackBin& bin,
               Layout& layout, std::vector<PackPiece>& placed) {
    while (!left.empty()) {
        auto piece = left.back();
        left.pop_back();
        const auto fit = best_cut(piece, items[piece.item].load, bin, layout);
        if (fit.cells == 0) return false;
        const auto rows = std::min(piece.rows, fit.hole.rows);
        const auto cols = std::min(piece.cols, fit.hole.cols);
        if (rows < piece.rows) {
            auto below = piece;
            below.first_row += rows;
            below.rows -= rows;
            left.push_back(below);
        }
        if (cols < piece.cols) {
            auto right = piece;
            right.rows = rows;
            right.first_col += cols;
            right.cols -= cols;
            left.push_back(right);
        }
        piece.rows = rows;
        piece.cols = cols;
        piece.spot = {.bin = static_cast<std::uint32_t>(fit.bin), .row = fit.hole.row, .col = fit.hole.col};
        use_cells({fit.hole.row, fit.hole.col, rows, cols}, layout[fit.bin]);
        layout[fit.bin].load += items[piece.item].load;
        placed.push_back(piece);
    }
    return true;
}

}  // namespace

Packing pack(const std::vector<PackItem>& items, const PackBin& bin, const PackOptions& options) {
    assert(std::ranges::all_of(items, [&](const PackItem& i) {
        return i.rows >= 1 && i.cols >= 1 && i.rows <= bin.rows && i.cols <= bin.cols;
    }));
    if (items.empty()) return pack_together(items, bin, options);
    const auto alone = find_alone(items, bin);
    std::vector<PackItem> others;
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (alone[i] == 0) others.push_back(items[i]);
    }
    auto shared = pack_together(others, bin, options);
    Packing packing{.spots = {}, .bins = shared.bins, .bound = pack_bound(items, bin)};
    std::size_t next = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
        packing.spots.push_back(alone[i] == 0 ? shared.spots[next++]
                                              : PackSpot{.bin = static_cast<std::uint32_t>(packing.bins++)});
    }
    const auto total = shared.bound.bins + (packing.bins - shared.bins);
    if (total > packing.bound.bins) packing.bound = {.bins = total, .reason = shared.bound.reason};
    return packing;
}

CutPacking pack_with_cuts(const std::vector<PackItem>& items, const PackBin& bin,
                          const PackOptions& options) {
    const auto bound = cut_bound(items, bin);
    const auto whole = pack(items, bin, options);
    auto result = whole_pieces(items, whole);
    result.bound = bound;
    Search search(items, bin, options);
    for (std::size_t bins = bound.bins; bins < whole.bins; ++bins) {
        auto layout = search.restarts(bins, search.work() + options.work / 32);
        auto left = search.repair(search.shrink(bins, layout), search.work() + options.work / 8, layout);
        layout.resize(bins, empty_bin(bin));
        std::vector<PackPiece> pieces;
        for (std::uint32_t b = 0; b < layout.size(); ++b) {
            for (const auto& p : layout[b].placed)
                pieces.push_back({.item = p.item,
                                  .rows = items[p.item].rows,
                                  .cols = items[p.item].cols,
                                  .spot = {.bin = b, .row = p.row, .col = p.col}});
        }
        std::vector<PackPiece> rest;
        for (const auto i : left)
            rest.push_back({.item = i, .rows = items[i].rows, .cols = items[i].cols, .spot = {}});
        if (!place_cut(std::move(rest), items, bin, layout, pieces)) continue;
        return {.pieces = std::move(pieces), .bins = bins, .bound = bound};
    }
    return result;
}

}  // namespace imka
