#include "imka/deploy/pack_bound.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace imka {
namespace {

// A dual feasible function of a side, in integers: if the sides of some rectangles add up to at most the side
// of the bin, their values add up to at most `whole`. Then for two such functions f and g the sum of
// f(rows) g(cols) over the rectangles of one bin is at most the product of both wholes.
struct SideFunction {
    std::vector<std::int64_t> values;  // one per distinct side
    std::int64_t whole = 0;
    auto operator<=>(const SideFunction&) const = default;
};

using Sides = std::vector<std::int64_t>;  // distinct, ascending

SideFunction proportional(const Sides& sides, std::int64_t bin) {
    return {.values = sides, .whole = bin};
}

// Sides of more than bin - e count as the whole bin, sides below e as nothing; 1 <= e <= bin / 2.
SideFunction threshold(const Sides& sides, std::int64_t bin, std::int64_t e) {
    SideFunction f{.values = {}, .whole = bin};
    for (const auto x : sides) f.values.push_back(x > bin - e ? bin : (x < e ? 0 : x));
    return f;
}

// Sides in units of k, rounded down up to half of the bin and up above; 1 <= k <= bin / 2.
SideFunction stepped(const Sides& sides, std::int64_t bin, std::int64_t k) {
    SideFunction f{.values = {}, .whole = 2 * (bin / k)};
    for (const auto x : sides) {
        if (2 * x < bin) {
            f.values.push_back(2 * (x / k));
        } else {
            f.values.push_back(2 * x == bin ? bin / k : 2 * (bin / k - (bin - x) / k));
        }
    }
    return f;
}

// Sides as multiples of 1 / k, where x (k + 1) / bin is rounded down unless it is whole.
SideFunction rounded(const Sides& sides, std::int64_t bin, std::int64_t k) {
    SideFunction f{.values = {}, .whole = k * bin};
    for (const auto x : sides) {
        const auto scaled = (k + 1) * x;
        f.values.push_back(scaled % bin == 0 ? k * x : scaled / bin * bin);
    }
    return f;
}

constexpr std::int64_t kMostSteps = 256;  // functions of one kind, for large bins

std::vector<SideFunction> functions_of(const Sides& sides, std::int64_t bin) {
    std::set<SideFunction> all;
    std::set<std::int64_t> thresholds{bin / 2};
    for (const auto x : sides) thresholds.insert(2 * x <= bin ? x : bin - x + 1);
    for (const auto e : thresholds) {
        if (e >= 1 && 2 * e <= bin) all.insert(threshold(sides, bin, e));
    }
    const auto stride = std::max<std::int64_t>(1, bin / 2 / kMostSteps);
    for (std::int64_t k = 1; 2 * k <= bin; k += stride) all.insert(stepped(sides, bin, k));
    // Larger bins could overflow the sums.
    for (std::int64_t k = 1; k <= 64 && bin <= 4096; ++k) all.insert(rounded(sides, bin, k));
    std::vector<SideFunction> list{proportional(sides, bin)};
    list.insert(list.end(), all.begin(), all.end());
    return list;
}

Sides sides_of(const std::vector<PackItem>& items, std::uint32_t PackItem::*side) {
    std::set<std::int64_t> distinct;
    for (const auto& item : items) distinct.insert(item.*side);
    return {distinct.begin(), distinct.end()};
}

std::size_t index_of(const Sides& sides, std::uint32_t side) {
    return static_cast<std::size_t>(std::ranges::lower_bound(sides, side) - sides.begin());
}

std::size_t ceil_divide(std::int64_t a, std::int64_t b) {
    return static_cast<std::size_t>((a + b - 1) / b);
}

// The largest bound of a pair of functions.
std::size_t function_bound(const std::vector<PackItem>& items, const PackBin& bin) {
    const auto rows = sides_of(items, &PackItem::rows);
    const auto cols = sides_of(items, &PackItem::cols);
    std::map<std::pair<std::size_t, std::size_t>, std::int64_t> counts;
    for (const auto& item : items) ++counts[{index_of(rows, item.rows), index_of(cols, item.cols)}];
    const auto col_functions = functions_of(cols, bin.cols);
    std::size_t best = 0;
    for (const auto& f : functions_of(rows, bin.rows)) {
        std::vector<std::int64_t> weights(cols.size());
        for (const auto& [place, count] : counts) weights[place.second] += count * f.values[place.first];
        for (const auto& g : col_functions) {
            std::int64_t sum = 0;
            for (std::size_t c = 0; c < weights.size(); ++c) sum += weights[c] * g.values[c];
            best = std::max(best, ceil_divide(sum, f.whole * g.whole));
        }
    }
    return best;
}

PackBound load_bound(const std::vector<PackItem>& items, const PackBin& bin) {
    double sum = 0.0;
    std::size_t large = 0;
    for (const auto& item : items) {
        sum += item.load;
        if (item.load > bin.load / 2) ++large;
    }
    // Rounding must not raise the bound.
    const auto all = static_cast<std::size_t>(std::ceil(sum / bin.load * (1.0 - 1e-12)));
    return {.bins = std::max(all, large), .reason = "products per core"};
}

PackBound better(PackBound a, PackBound b) {
    return b.bins > a.bins ? std::move(b) : std::move(a);
}

}  // namespace

PackBound cut_bound(const std::vector<PackItem>& items, const PackBin& bin) {
    std::int64_t cells = 0;
    for (const auto& item : items) cells += std::int64_t{item.rows} * item.cols;
    return better({.bins = ceil_divide(cells, std::int64_t{bin.rows} * bin.cols), .reason = "area"},
                  load_bound(items, bin));
}

PackBound pack_bound(const std::vector<PackItem>& items, const PackBin& bin) {
    if (items.empty()) return {.bins = 0, .reason = "area"};
    const auto large = std::ranges::count_if(items, [&](const PackItem& item) {
        return 2 * std::uint64_t{item.rows} > bin.rows && 2 * std::uint64_t{item.cols} > bin.cols;
    });
    auto bound =
        better(cut_bound(items, bin), {.bins = static_cast<std::size_t>(large),
                                       .reason = "tiles of more than half a core in both directions"});
    return better(std::move(bound), {.bins = function_bound(items, bin), .reason = "shapes of the tiles"});
}

}  // namespace imka
