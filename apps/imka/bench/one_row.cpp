// imka bench one_row: features of one row at a time, compared with the product of a full tile of rows, the
// cost of one row if every product is padded to a tile.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "bench/bench.hpp"
#include "imka/features/feature_map.hpp"
#include "imka/features/project_chip.hpp"
#include "imka/features/project_digital.hpp"
#include "imka/linalg/gemm.hpp"
#include "imka/ops/normals/normals.hpp"

namespace imka::app {
namespace {

constexpr std::size_t kInputs = 22;
const Exec kOneThread{.threads = 1};

Matrix<float> gaussian(std::size_t rows, std::size_t cols) {
    Matrix<float> x(rows, cols);
    ops::fill_normal(0, Stream::test, 0, x.values());
    return x;
}

// A feature map and its projection alone.
struct Side {
    std::string name;
    FeatureMap map;
    std::unique_ptr<const Projector> projector;
    std::size_t repeats;
};

// Compares rows one by one with the whole tile.
BenchCheck check_bits(const FeatureMap& map, MatrixView<const float> x) {
    const auto whole = map.transform(x, kOneThread);
    std::size_t different = 0;
    for (std::size_t r = 0; r < x.rows(); ++r) {
        const auto one = map.transform(x.slice_rows(r, 1), {.first = r}, kOneThread);
        different += std::ranges::equal(one.row(0), whole.row(r)) ? 0U : 1U;
    }
    return {.what = "rows whose bits depend on the batch",
            .value = static_cast<double>(different),
            .bound = 0.0,
            .ok = different == 0};
}

BenchResult bench_side(const BenchSetup& setup, const Side& side) {
    const auto x = gaussian(kTileRows, kInputs);
    const std::size_t m = side.projector->outputs();
    const std::size_t repeats = setup.quick ? 2 : side.repeats;
    BenchResult result{.name = "one_row",
                       .title = fmt::format("one row, {} -> {}, {}", kInputs, 2 * m, side.name),
                       .sizes = {{"rows", repeats}, {"d", kInputs}, {"D", 2 * m}},
                       .check = check_bits(side.map, x.view())};
    Matrix<float> z(1, side.map.features());
    Matrix<float> u(kTileRows, m);
    const auto one = [&] {
        for (std::size_t i = 0; i < repeats; ++i)
            side.map.transform(x.view().slice_rows(i % kTileRows, 1), {.first = i}, kOneThread, z.view());
    };
    const auto tile = [&] {
        for (std::size_t i = 0; i < repeats; ++i) side.projector->project(x.view(), {}, kOneThread, u.view());
    };
    run_rounds(setup, one, {{.name = "projection of a padded tile", .body = tile}}, result);
    const double microseconds = median(result.seconds) / static_cast<double>(repeats) * 1e6;
    result.targets = {{.what = "ratio", .wanted = 8.0, .reached = result.rivals.front().ratio.median}};
    result.note = fmt::format("{:.1f} µs per row", microseconds);
    result.more = {{"microseconds_per_row", microseconds}};
    return result;
}

}  // namespace

std::vector<BenchResult> bench_one_row(const BenchSetup& setup) {
    const std::int64_t m = setup.quick ? 64 : 704;
    const FeatureRecipe recipe{.omega = {.gamma = 0.02, .d = kInputs, .m = m, .seed = 1}};
    const auto omega = sample(recipe.omega);
    const auto inputs = gaussian(1000, kInputs);
    const auto chip = chip_preset("hermes");
    const BuildConfig config;
    const ProjectionJob job{.chip = chip, .omega = omega, .inputs = inputs.view(), .config = config};
    const Side digital{"digital", FeatureMap(recipe), std::make_unique<DigitalProjector>(omega), 1000};
    const Side emulated{"hermes", chip_feature_map(recipe, job, setup.exec).map,
                        make_chip_projector(job, setup.exec), 100};
    return {bench_side(setup, digital), bench_side(setup, emulated)};
}

}  // namespace imka::app
