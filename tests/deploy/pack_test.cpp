// Packings are legal, bounds hold against brute force, and known problems reach their best known number.
#include "imka/deploy/pack.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>
#include <set>

#include "imka/deploy/pack_bound.hpp"
#include "imka/deploy/pack_exact.hpp"
#include "instances.hpp"

namespace imka {
namespace {

// Every item inside its bin, no cell used twice, all bins in use, loads kept.
void expect_legal(const std::vector<PackItem>& items, const PackBin& bin, const std::vector<PackSpot>& spots,
                  std::size_t bins) {
    ASSERT_EQ(spots.size(), items.size());
    std::map<std::uint32_t, std::vector<char>> cells;
    std::map<std::uint32_t, double> loads;
    for (std::size_t i = 0; i < items.size(); ++i) {
        const auto& s = spots[i];
        ASSERT_LE(s.row + items[i].rows, bin.rows);
        ASSERT_LE(s.col + items[i].cols, bin.cols);
        loads[s.bin] += items[i].load;
        auto& used = cells[s.bin];
        used.resize(std::size_t{bin.rows} * bin.cols);
        for (std::uint32_t r = s.row; r < s.row + items[i].rows; ++r) {
            for (std::uint32_t c = s.col; c < s.col + items[i].cols; ++c)
                ASSERT_EQ(used[std::size_t{r} * bin.cols + c]++, 0) << "item " << i;
        }
    }
    EXPECT_EQ(cells.size(), bins);
    for (const auto& [b, load] : loads) EXPECT_LE(load, bin.load * (1 + 1e-9));
}

// Whether the items from `next` on fit into the bins, by trying every position of every item.
bool fits_by_force(const std::vector<PackItem>& items, const PackBin& bin, std::size_t next,
                   std::vector<std::vector<char>>& bins) {
    if (next == items.size()) return true;
    const auto& item = items[next];
    std::set<std::vector<char>> tried;  // equal bins give equal answers
    for (auto& cells : bins) {
        if (!tried.insert(cells).second) continue;
        for (std::uint32_t r = 0; r + item.rows <= bin.rows; ++r) {
            for (std::uint32_t c = 0; c + item.cols <= bin.cols; ++c) {
                const auto each = [&](const std::function<bool(char&)>& action) {
                    for (std::uint32_t y = r; y < r + item.rows; ++y) {
                        for (std::uint32_t x = c; x < c + item.cols; ++x) {
                            if (!action(cells[std::size_t{y} * bin.cols + x])) return false;
                        }
                    }
                    return true;
                };
                if (!each([](char& cell) { return cell == 0; })) continue;
                each([](char& cell) { return cell = 1; });
                if (fits_by_force(items, bin, next + 1, bins)) return true;
                each([](char& cell) { return (cell = 0) == 0; });
            }
        }
    }
    return false;
}

std::size_t least_bins_by_force(const std::vector<PackItem>& items, const PackBin& bin) {
    for (std::size_t bins = 1;; ++bins) {
        std::vector<std::vector<char>> cells(bins, std::vector<char>(std::size_t{bin.rows} * bin.cols));
        if (fits_by_force(items, bin, 0, cells)) return bins;
    }
}

TEST(Pack, BoundsAndExactSearchAgreeWithBruteForceOnTinyProblems) {
    const PackBin bin{.rows = 5, .cols = 6};
    int above_area = 0;
    for (std::uint64_t seed = 0; seed < 150; ++seed) {
        Draw draw{.seed = 1000 + seed};
        std::vector<PackItem> items(draw.between(2, 6));
        for (auto& item : items) item = {draw.between(1, 5), draw.between(1, 6)};
        const auto best = least_bins_by_force(items, bin);
        const auto bound = pack_bound(items, bin);
        EXPECT_LE(bound.bins, best) << "seed " << seed;
        EXPECT_LE(cut_bound(items, bin).bins, bound.bins);
        above_area += bound.bins > cut_bound(items, bin).bins ? 1 : 0;
        const auto packing = pack(items, bin, {});
        EXPECT_EQ(packing.bins, best) << "seed " << seed;
        EXPECT_TRUE(packing.optimal()) << "seed " << seed;
        expect_legal(items, bin, packing.spots, packing.bins);
        if (best > 1) {
            EXPECT_EQ(pack_exactly(items, bin, best - 1, 1U << 24U).answer, ExactAnswer::impossible);
        }
        const auto exact = pack_exactly(items, bin, best, 1U << 24U);
        ASSERT_EQ(exact.answer, ExactAnswer::packed);
        expect_legal(items, bin, exact.spots, best);
    }
    EXPECT_GT(above_area, 20) << "the shapes hardly matter in these problems";
}

TEST(Pack, ExactSearchSaysSoWhenItStops) {
    const std::vector<PackItem> items(7, {3, 3});
    EXPECT_EQ(pack_exactly(items, {.rows = 8, .cols = 8}, 1, 10).answer, ExactAnswer::unknown);
    EXPECT_EQ(pack_exactly(items, {.rows = 8, .cols = 8}, 1, 1U << 24U).answer, ExactAnswer::impossible);
}

TEST(Pack, BoundNamesItsReason) {
    const PackBin bin{.rows = 256, .cols = 256};
    EXPECT_EQ(pack_bound({{256, 200}, {256, 200}}, bin).bins, 2U);
    EXPECT_EQ(pack_bound({{256, 256}, {1, 1}}, bin).reason, "area");
    EXPECT_EQ(pack_bound({{129, 129}, {129, 129}, {129, 129}}, bin).reason,
              "tiles of more than half a core in both directions");
    // Three columns of 86 do not fit side by side, although 7 of them have the area of 2.35 bins.
    const auto shapes = pack_bound(std::vector<PackItem>(7, {256, 86}), bin);
    EXPECT_EQ(shapes.bins, 4U);
    EXPECT_EQ(shapes.reason, "shapes of the tiles");
    const auto loads = pack_bound({{1, 1, 6.0}, {1, 1, 6.0}}, {.rows = 256, .cols = 256, .load = 10.0});
    EXPECT_EQ(loads.bins, 2U);
    EXPECT_EQ(loads.reason, "products per core");
}

TEST(Pack, GivesTheSamePackingForTheSameSeed) {
    const auto items = random_instance(6);
    const auto a = pack(items, kTestBin, {.seed = 3, .work = 2'000'000});
    const auto b = pack(items, kTestBin, {.seed = 3, .work = 2'000'000});
    ASSERT_EQ(a.bins, b.bins);
    for (std::size_t i = 0; i < items.size(); ++i) {
        EXPECT_EQ(a.spots[i].bin, b.spots[i].bin);
        EXPECT_EQ(a.spots[i].row, b.spots[i].row);
        EXPECT_EQ(a.spots[i].col, b.spots[i].col);
    }
}

TEST(Pack, KeepsLoadLimits) {
    auto items = random_instance(2);
    double sum = 0.0;
    for (std::size_t i = 0; i < items.size(); ++i) sum += items[i].load = 1.0 + static_cast<double>(i % 5);
    const PackBin bin{.rows = 256, .cols = 256, .load = 12.0};
    const auto packing = pack(items, bin, {.work = 1'000'000});
    expect_legal(items, bin, packing.spots, packing.bins);
    EXPECT_GE(static_cast<double>(packing.bins), sum / 12.0);
    const auto cut = pack_with_cuts(items, bin, {.work = 1'000'000});
    EXPECT_LE(cut.bins, packing.bins);
    std::map<std::uint32_t, double> loads;
    for (const auto& piece : cut.pieces) loads[piece.spot.bin] += items[piece.item].load;
    for (const auto& [b, load] : loads) EXPECT_LE(load, 12.0 * (1 + 1e-9));
}

TEST(Pack, WithCutsAlwaysReachesTheArea) {
    for (std::uint64_t number = 0; number < 24; ++number) {
        const auto items = random_instance(500 + number);
        const auto cut = pack_with_cuts(items, kTestBin, {.work = 1'000'000});
        EXPECT_TRUE(cut.optimal()) << number;
        EXPECT_EQ(cut.bound.reason, "area");
        std::vector<PackItem> parts;
        std::vector<PackSpot> spots;
        std::vector<std::uint64_t> cells(items.size());
        for (const auto& piece : cut.pieces) {
            parts.push_back({piece.rows, piece.cols});
            spots.push_back(piece.spot);
            cells[piece.item] += std::uint64_t{piece.rows} * piece.cols;
            EXPECT_LE(piece.first_row + piece.rows, items[piece.item].rows);
            EXPECT_LE(piece.first_col + piece.cols, items[piece.item].cols);
        }
        expect_legal(parts, kTestBin, spots, cut.bins);
        for (std::size_t i = 0; i < items.size(); ++i)
            EXPECT_EQ(cells[i], std::uint64_t{items[i].rows} * items[i].cols);
    }
}

// 500 instances of instances.hpp, with a tenth of the default work.
TEST(Pack, IsProvenWithinOneBinForMostGeneratedProblems) {
    std::array<int, 4> within{};
    std::array<int, 4> counts{};
    int optimal = 0;
    constexpr int kCount = 500;
    for (std::uint64_t number = 0; number < kCount; ++number) {
        const auto items = random_instance(number);
        const auto packing = pack(items, kTestBin, {.work = 6'000'000});
        ASSERT_GE(packing.bins, packing.bound.bins);
        if (number < 40) expect_legal(items, kTestBin, packing.spots, packing.bins);
        const auto kind = static_cast<std::size_t>(kind_of(number));
        ++counts[kind];
        within[kind] += packing.bins <= packing.bound.bins + 1 ? 1 : 0;
        optimal += packing.optimal() ? 1 : 0;
    }
    const int all = within[0] + within[1] + within[2] + within[3];
    const auto text = fmt::format(
        "{} of {} within one core of the bound ({:.1f} %), {} optimal; layers {} of {}, matrices {} of {}, "
        "small {} "
        "of {}, mixed {} of {}",
        all, kCount, 100.0 * all / kCount, optimal, within[0], counts[0], within[1], counts[1], within[2],
        counts[2], within[3], counts[3]);
    RecordProperty("share", text);
    fmt::print("{}\n", text);
    EXPECT_GE(all, kCount * 95 / 100) << text;
}

}  // namespace
}  // namespace imka
