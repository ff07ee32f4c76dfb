// imka bench chip: products of an emulated chip compared with plain matrix products of the same shape, and
// how their time grows with cores and batches.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "bench/bench.hpp"
#include "imka/base/matrix.hpp"
#include "imka/chip/build.hpp"
#include "imka/chip/programmed_chip.hpp"
#include "imka/chip/simulate/emulator.hpp"
#include "imka/chip/simulate/fast.hpp"
#include "imka/chip/simulate/literal.hpp"
#include "imka/chip/spec/chip.hpp"
#include "imka/linalg/gemm.hpp"

namespace imka::app {
namespace {

constexpr std::size_t kSide = 256;  // rows and columns of a full core
constexpr float kInputScale =
    0.3F;  // standard deviation of the inputs; most calibrated ranges are about 4 times this
const Exec kOneCore{.threads = 1};  // ratios to one matrix product are for one processor core
const ProductIds kIds{.seed = 5, .first = 0};

Matrix<float> inputs(std::size_t rows, std::size_t cols) {
    auto x = normals(rows, cols, 2);
    for (auto& v : x.values()) v *= kInputScale;
    return x;
}

// A square matrix that fills cores, calibrated and programmed: 8-bit inputs and outputs, new read noise in
// every product, converter noise, fitted scale and offset per column.
ProgrammedChip programmed(const ChipSpec& spec, std::size_t side) {
    const auto sample = inputs(256, side);
    return build_chip(
        BuildJob{.chip = spec, .weights = normals(side, side, 1), .sample = sample.view(), .seed = 3},
        kOneCore);
}

// Code paths of the simulator, by converter mode.
struct Way {
    const char* name;
    ReadMode mode;
    bool linear;    // no rounding and no saturation
    double wanted;  // maximum cost in matrix products; 0: no target
};
constexpr Way kLinear{"linear", ReadMode::four_phase, true, 4.0};
constexpr Way kOnePhase{"one phase", ReadMode::one_phase, false, 0.0};
constexpr Way kFourPhases{"four phases", ReadMode::four_phase, false, 10.0};

ChipSpec chip_of(const Way& way) {
    auto spec = chip_preset("hermes");
    spec.core.read_mode = way.mode;
    if (way.linear) {
        spec.core.adc.rounding = AdcRounding::none;
        spec.core.adc.max_count = 0;
    }
    return spec;
}

// Without noise both simulators give the same counts; a count at the edge of a step can round to either side.
BenchCheck check_way(const Way& way) {
    auto spec = chip_of(way);
    spec.core.adc.noise_counts = 0.0;
    const auto chip = programmed(spec, kSide);
    const ReadTime time{.seconds = 0.0, .spacing_seconds = 0.0};
    const auto x = inputs(2, kSide);
    const auto fast = fast_products(prepare(chip.regions[0], time), x.view(), kIds, kOneCore);
    const auto literal = literal_products(chip.regions[0], x.view(), time, kIds);
    double steps = 0.0;
    for (std::size_t i = 0; i < fast.values().size(); ++i)
        steps = std::max(steps, std::abs(double{fast.values()[i]} - literal.values()[i]) /
                                    chip.regions[0].affine.output_step);
    return check_at_most("largest difference from the literal simulator without noise, output steps", steps,
                         1.01);
}

// A plain product of this shape in tiles, as in the simulator.
void multiply(const Matrix<float>& x, const Matrix<float>& w, Matrix<float>& y) {
    for (std::size_t first = 0; first < x.rows(); first += kTileRows)
        blas_gemm_nt(x.view().slice_rows(first, kTileRows), w.view(), y.view().slice_rows(first, kTileRows));
}

BenchResult bench_way(const BenchSetup& setup, const Way& way) {
    const std::size_t rows = setup.quick ? kTileRows : 16 * kTileRows;
    const auto chip = programmed(chip_of(way), kSide);
    const auto core = prepare(chip.regions[0], chip.time);
    const auto x = inputs(rows, kSide);
    const auto w = normals(kSide, kSide, 1);
    Matrix<float> y(rows, kSide);
    BenchResult result{.name = "chip",
                       .title = fmt::format("core of {0} x {0}, {1} products, {2}", kSide, rows, way.name),
                       .sizes = {{"rows", rows}, {"inputs", kSide}, {"outputs", kSide}},
                       .check = check_way(way)};
    const auto twice = [&] {
        multiply(x, w, y);
        multiply(x, w, y);
    };
    run_rounds(
        setup, [&] { fast_products(core, x.view(), kIds, kOneCore); },
        {{.name = "sgemm of the shape", .body = [&] { multiply(x, w, y); }},
         {.name = "two of them", .body = twice},
         {.name = "aihwkit", .peer = "aihwkit_products", .package = "aihwkit"}},
        result);
    const double products = static_cast<double>(rows) / median(result.seconds);
    const double multiple = 1.0 / result.rivals[0].ratio.median;
    if (way.wanted > 0.0)
        result.targets = {
            {.what = "time / sgemm's", .wanted = way.wanted, .reached = multiple, .at_most = true}};
    const auto one = inputs(1, kSide);
    const auto literal_product = [&] { literal_products(chip.regions[0], one.view(), chip.time, kIds); };
    const double literal = least_seconds(setup.quick ? 1 : 3, literal_product) * products;
    result.note =
        fmt::format("{:.3g} k products/s, literal simulator {:.3g} times slower", products * 1e-3, literal);
    result.more = {{"products_per_second", products},
                   {"times_of_sgemm", multiple},
                   {"times_of_two_sgemms", 1.0 / result.rivals[1].ratio.median},
                   {"literal_times_slower", literal}};
    return result;
}

// Time per product of one core, and its ratio to the time with small batches.
void add_core_time(std::size_t cores, BenchResult& result) {
    const double core_products = result.sizes[0].second * static_cast<double>(cores);
    const double nanoseconds = median(result.seconds) / core_products * 1e9;
    result.note = fmt::format("{:.1f} µs per product of a core", nanoseconds * 1e-3);
    result.more = {{"nanoseconds_per_core_product", nanoseconds},
                   {"times_of_pieces", 1.0 / result.rivals[0].ratio.median}};
}

// Compared with the same number of products on a single core: the cost of all cores if cost is linear.
BenchResult bench_cores(const BenchSetup& setup, const FastRegion& one, std::size_t cores) {
    const std::size_t rows = setup.quick ? kTileRows : 4 * kTileRows;
    const auto side = kSide * static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(cores))));
    const auto chip = programmed(chip_of(kFourPhases), side);
    FastEmulator emulator(chip, kOneCore);
    Matrix<float> y(rows, side);
    const auto x = inputs(rows, side);
    const auto few = inputs(rows, kSide);
    BenchResult result{.name = "chip",
                       .title = fmt::format("{} cores, {} products, four phases", cores, rows),
                       .sizes = {{"rows", rows}, {"cores", cores}},
                       .check = {.what = "cores",
                                 .value = static_cast<double>(core_count(chip.plan)),
                                 .bound = static_cast<double>(cores),
                                 .ok = core_count(chip.plan) == cores}};
    const auto pieces = [&] {
        for (std::size_t c = 0; c < cores; ++c) fast_products(one, few.view(), kIds, kOneCore);
    };
    run_rounds(
        setup, [&] { emulator.multiply(0, x.view(), kIds, kOneCore, y.view()); },
        {{.name = fmt::format("{} times 1 core", cores), .body = pieces}}, result);
    add_core_time(cores, result);
    return result;
}

BenchResult bench_batch(const BenchSetup& setup, const FastRegion& core, std::size_t rows) {
    const auto x = inputs(rows, kSide);
    BenchResult result{.name = "chip",
                       .title = fmt::format("1 core, batch of {}, four phases", rows),
                       .sizes = {{"rows", rows}, {"cores", 1}}};
    Matrix<float> y;
    const auto pieces = [&] {
        for (std::size_t first = 0; first < rows; first += kTileRows)
            fast_products(core, x.view().slice_rows(first, kTileRows), kIds, kOneCore);
    };
    run_rounds(
        setup, [&] { y = fast_products(core, x.view(), kIds, kOneCore); },
        {{.name = fmt::format("batches of {}", kTileRows), .body = pieces}}, result);
    // The last row alone must have the same bits as in the batch.
    const auto last = fast_products(core, x.view().slice_rows(rows - 1, 1),
                                    {.seed = kIds.seed, .first = kIds.first + rows - 1}, kOneCore);
    const bool same = std::ranges::equal(last.row(0), y.row(rows - 1));
    result.check = check_at_most("rows whose bits depend on the batch", same ? 0.0 : 1.0, 0.0);
    add_core_time(1, result);
    return result;
}

}  // namespace

ChipSpec linear_chip() {
    return chip_of(kLinear);
}

std::vector<BenchResult> bench_chip(const BenchSetup& setup) {
    std::vector<BenchResult> results;
    for (const auto& way : {kLinear, kOnePhase, kFourPhases}) results.push_back(bench_way(setup, way));
    const auto chip = programmed(chip_of(kFourPhases), kSide);
    const auto core = prepare(chip.regions[0], chip.time);
    const std::size_t most_cores = setup.quick ? 4 : 64;
    for (std::size_t cores = 4; cores <= most_cores; cores *= 4)
        results.push_back(bench_cores(setup, core, cores));
    const std::size_t most_rows = setup.quick ? 1024 : 16384;
    for (std::size_t rows = 256; rows <= most_rows; rows *= 4)
        results.push_back(bench_batch(setup, core, rows));
    return results;
}

}  // namespace imka::app
