#include "imka/deploy/pack_layout.hpp"

#include <algorithm>

namespace imka {
namespace {

constexpr std::uint64_t kNoFit = ~std::uint64_t{0};

// Smaller is better.
std::uint64_t score(const Hole& hole, const PackItem& item, FitRule rule) {
    const std::uint64_t rows_left = hole.rows - item.rows;
    const std::uint64_t cols_left = hole.cols - item.cols;
    const auto [less, more] = std::minmax(rows_left, cols_left);
    switch (rule) {
        case FitRule::short_side:
            return (less << 32U) | more;
        case FitRule::long_side:
            return (more << 32U) | less;
        case FitRule::area:
            return std::uint64_t{hole.rows} * hole.cols;
        case FitRule::low_corner:
            return (std::uint64_t{hole.row} << 32U) | hole.col;
    }
    return kNoFit;
}

struct Fit {
    std::size_t bin = 0;
    std::size_t hole = 0;
    std::uint64_t score = kNoFit;
};

void try_bin(const OpenBin& open, const PackItem& item, FitRule rule, std::size_t number, Fit& best) {
    for (std::size_t h = 0; h < open.holes.size(); ++h) {
        const auto& hole = open.holes[h];
        if (hole.rows < item.rows || hole.cols < item.cols) continue;
        const auto value = score(hole, item, rule);
        if (value < best.score) best = {number, h, value};
    }
}

Fit best_fit(PackProblem& problem, const PackItem& item, FitRule rule, const Layout& layout) {
    Fit best;
    for (std::size_t b = 0; b < layout.size(); ++b) {
        problem.work += 1 + layout[b].holes.size();
        if (!takes_load(layout[b], problem.bin, item.load)) continue;
        try_bin(layout[b], item, rule, b, best);
        if (rule == FitRule::low_corner && best.score != kNoFit) break;
    }
    return best;
}

bool disjoint(const Hole& a, const Hole& b) {
    return a.row >= b.row + b.rows || b.row >= a.row + a.rows || a.col >= b.col + b.cols ||
           b.col >= a.col + a.cols;
}

bool inside(const Hole& a, const Hole& b) {
    return a.row >= b.row && a.col >= b.col && a.row + a.rows <= b.row + b.rows &&
           a.col + a.cols <= b.col + b.cols;
}

// The up to four holes that remain of a hole around used cells.
void split(const Hole& hole, const Hole& used, std::vector<Hole>& out) {
    const auto end_row = hole.row + hole.rows;
    const auto end_col = hole.col + hole.cols;
    if (used.row > hole.row) out.push_back({hole.row, hole.col, used.row - hole.row, hole.cols});
    if (used.col > hole.col) out.push_back({hole.row, hole.col, hole.rows, used.col - hole.col});
    const auto below = used.row + used.rows;
    if (below < end_row) out.push_back({below, hole.col, end_row - below, hole.cols});
    const auto right = used.col + used.cols;
    if (right < end_col) out.push_back({hole.row, right, hole.rows, end_col - right});
}

}  // namespace

OpenBin empty_bin(const PackBin& bin) {
    return {.holes = {{0, 0, bin.rows, bin.cols}}, .placed = {}};
}

bool takes_load(const OpenBin& open, const PackBin& bin, double load) {
    // Allows for rounding of sums.
    return open.load + load <= bin.load * (1.0 + 1e-9);
}

void use_cells(const Hole& cells, OpenBin& bin) {
    std::vector<Hole> holes;
    std::vector<Hole> parts;
    for (const auto& hole : bin.holes) {
        if (disjoint(hole, cells)) {
            holes.push_back(hole);
        } else {
            split(hole, cells, parts);
        }
    }
    // Old holes are maximal, so only parts can be inside another hole.
    for (std::size_t p = 0; p < parts.size(); ++p) {
        const auto covers = [&](const Hole& other) { return inside(parts[p], other); };
        bool covered = std::ranges::any_of(holes, covers);
        for (std::size_t q = p + 1; q < parts.size() && !covered; ++q) covered = covers(parts[q]);
        if (!covered) holes.push_back(parts[p]);
    }
    bin.holes = std::move(holes);
}

std::vector<std::uint32_t> fill_layout(PackProblem& problem, std::span<const std::uint32_t> order,
                                       FitRule rule, std::size_t most, Layout& layout) {
    std::vector<std::uint32_t> left;
    for (const auto number : order) {
        const auto& item = problem.items[number];
        auto fit = best_fit(problem, item, rule, layout);
        if (fit.score == kNoFit) {
            if (layout.size() >= most) {
                left.push_back(number);
                continue;
            }
            layout.push_back(empty_bin(problem.bin));
            fit = {.bin = layout.size() - 1, .hole = 0, .score = 0};
        }
        auto& bin = layout[fit.bin];
        const auto hole = bin.holes[fit.hole];
        problem.work += 4 * bin.holes.size();
        use_cells({hole.row, hole.col, item.rows, item.cols}, bin);
        bin.placed.push_back({number, hole.row, hole.col});
        bin.load += item.load;
    }
    return left;
}

}  // namespace imka
