// imka bench cuda: products of an emulated 64-core chip and normals on a GPU, next to the rates of the chip,
// the floors of the GPU and the processor.
#include "imka/chip/simulate/cuda_emulator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/bench.hpp"
#include "imka/chip/build.hpp"
#include "imka/chip/simulate/emulator.hpp"
#include "imka/cuda/gpu.hpp"
#include "imka/cuda/memory.hpp"
#include "imka/cuda/rates.hpp"
#include "imka/ops/normals/normals.hpp"
#include "imka/ops/normals/variants.hpp"

namespace imka::app {
namespace {

constexpr std::size_t kSide = 256;
constexpr double kMacs = 1.0 * kSide * kSide;
const ProductIds kIds{.seed = 5, .first = 0};

struct Way {
    const char* name;
    ReadMode mode;
    double wanted;  // products of a core per second, of the chip itself
};
constexpr Way kWays[] = {{"one phase", ReadMode::one_phase, 481e6},
                         {"four phases", ReadMode::four_phase, 123e6}};

// A square matrix on `cores` cores, standard normal weights and inputs of a third of that.
struct Problem {
    ProgrammedChip chip;
    std::size_t side;
};
Problem problem(const Way& way, std::size_t cores, const Exec& exec) {
    auto spec = chip_preset("hermes");
    spec.core.read_mode = way.mode;
    const auto side = kSide * static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(cores))));
    auto sample = normals(256, side, 2);
    for (auto& v : sample.values()) v *= 0.3F;
    return {build_chip(
                BuildJob{.chip = spec, .weights = normals(side, side, 1), .sample = sample.view(), .seed = 3},
                exec),
            side};
}

// Results of both devices for the same products of one core.
struct Agreement {
    double different = 0.0;  // share of the results
    double steps = 0.0;      // largest difference, in output steps
};
Agreement compare(const Way& way, std::size_t rows, const Exec& exec) {
    const auto [chip, side] = problem(way, 1, exec);
    auto x = normals(rows, side, 4);
    for (auto& v : x.values()) v *= 0.3F;
    const auto gpu = execute(*make_cuda_emulator(chip, exec), 0, x.view(), kIds, exec).y;
    FastEmulator fast(chip, exec);
    const auto cpu = execute(fast, 0, x.view(), kIds, exec).y;
    Agreement out;
    for (std::size_t i = 0; i < cpu.values().size(); ++i) {
        const double difference = std::abs(double{cpu.values()[i]} - gpu.values()[i]);
        if (difference > 0.0) out.different += 1.0;
        out.steps = std::max(out.steps, difference / chip.regions[0].affine.output_step);
    }
    out.different /= static_cast<double>(cpu.values().size());
    return out;
}

// Least time of one core's product: three products of bytes and one of halves per charge, a normal per
// conversion, one result written per eight cores.
struct Floor {
    double matrix_units = 0.0;
    double normals = 0.0;
    double memory = 0.0;
    double seconds() const { return std::max({matrix_units, normals, memory}); }
};
Floor floor_of(const Way& way, const cuda::GpuRates& rates) {
    const double charges = way.mode == ReadMode::one_phase ? 1.0 : 4.0;
    return {
        .matrix_units = charges * (3.0 * kMacs / rates.byte_macs + kMacs / rates.half_macs),
        .normals = charges * kSide / rates.normals,
        .memory = (kSide * sizeof(float) / 8.0 + kSide * (1.0 + sizeof(float) / 8.0)) / rates.write_bytes};
}

BenchResult bench_products(const BenchSetup& setup, const Way& way, const cuda::GpuRates& rates) {
    const std::size_t cores = setup.quick ? 4 : 64;
    const std::size_t rows = setup.quick ? 1024 : 65536;
    const int gpu = setup.exec.device.number;
    const auto [chip, side] = problem(way, cores, setup.exec);
    const auto driver = make_cuda_emulator(chip, setup.exec);
    const auto agreement = compare(way, setup.quick ? 64 : 2048, setup.exec);
    auto host = normals(rows, side, 4);
    for (auto& v : host.values()) v *= 0.3F;
    const cuda::Buffer<float> x(gpu, host.values());
    const cuda::Buffer<float> y(gpu, rows * side);
    const GpuBatch batch{.x = x.data(), .y = y.data(), .rows = rows};
    BenchResult result{
        .name = "cuda",
        .title = fmt::format("{} cores, {} products, {}", cores, rows, way.name),
        .sizes = {{"rows", static_cast<double>(rows)}, {"cores", static_cast<double>(cores)}},
        .check = check_at_most("largest difference from the processor, output steps", agreement.steps, 1.01)};
    Matrix<float> few(256, side);
    std::copy_n(host.values().begin(), few.values().size(), few.values().begin());
    FastEmulator fast(chip, setup.exec);
    Matrix<float> out(few.rows(), side);
    // The processor gets 256 rows; its time is scaled to all.
    run_rounds(
        setup, [&] { driver->multiply_on_gpu(0, batch, kIds); }, {}, result);
    const double cpu = least_seconds(setup.quick ? 1 : 3,
                                     [&] { fast.multiply(0, few.view(), kIds, setup.exec, out.view()); }) *
                       static_cast<double>(rows) / 256.0;
    const double seconds = median(result.seconds);
    const auto products = static_cast<double>(rows * cores);
    const auto floor = floor_of(way, rates);
    result.limit = "matrix units, normals or memory, the largest";
    result.limit_time = [floor, products](const MachineLimits&) { return products * floor.seconds(); };
    result.targets = {
        {.what = "M products/s", .wanted = way.wanted * 1e-6, .reached = products / seconds * 1e-6}};
    result.note = fmt::format("{:.2g} of the chip's rate, {:.3g} x the processor, {:.2e} of results differ",
                              products / seconds / way.wanted, cpu / seconds, agreement.different);
    result.more = {{"products_per_second", products / seconds},
                   {"times_of_chip", products / seconds / way.wanted},
                   {"times_of_processor", cpu / seconds},
                   {"floor_matrix_units_share", products * floor.matrix_units / seconds},
                   {"floor_normals_share", products * floor.normals / seconds},
                   {"floor_memory_share", products * floor.memory / seconds},
                   {"different_results", agreement.different},
                   {"largest_difference_steps", agreement.steps}};
    return result;
}

BenchResult bench_fill(const BenchSetup& setup, const cuda::GpuRates& rates) {
    const std::size_t count = setup.quick ? 1U << 20U : 1U << 29U;
    const int gpu = setup.exec.device.number;
    cuda::Buffer<float> out(gpu, count);
    BenchResult result{.name = "cuda",
                       .title = fmt::format("{:.3g} M normals", static_cast<double>(count) * 1e-6),
                       .sizes = {{"count", static_cast<double>(count)}}};
    run_rounds(
        setup, [&] { ops::fill_normal_on_gpu({.seed = 7}, gpu, out); }, {}, result);
    const std::size_t checked = std::min<std::size_t>(count, 1U << 22U);
    std::vector<float> expected(checked);
    std::vector<float> got(checked);
    ops::fill_normal(7, Stream::test, 0, expected);
    out.download(got);
    const auto wrong = std::ranges::mismatch(expected, got).in1 - expected.begin();
    result.check = check_at_most("numbers with other bits than on the processor",
                                 static_cast<double>(checked) - static_cast<double>(wrong), 0.0);
    const auto n = static_cast<double>(count);
    result.limit = "normals drawn or bytes written, the larger";
    result.limit_time = [rates, n](const MachineLimits&) {
        return std::max(n / rates.normals, 4.0 * n / rates.write_bytes);
    };
    result.note = fmt::format("{:.3g} G normals/s", n / median(result.seconds) * 1e-9);
    result.more = {{"normals_per_second", n / median(result.seconds)}};
    return result;
}

BenchResult rate_result(const char* title, double rate, const char* unit) {
    return {.name = "cuda",
            .title = title,
            .check = {.what = "rate", .value = rate, .bound = 0.0, .ok = rate > 0.0},
            .more = {{"per_second", rate}},
            .note = fmt::format("{:.4g} {}", rate * 1e-12, unit)};
}

}  // namespace

bool has_gpu() {
    return !cuda::gpus().empty();
}

std::vector<BenchResult> bench_cuda(const BenchSetup& setup) {
    const auto rates = cuda::measure_rates(setup.exec.device.number);
    std::vector<BenchResult> results = {bench_fill(setup, rates)};
    for (const auto& way : kWays) results.push_back(bench_products(setup, way, rates));
    results.push_back(rate_result("peak: bytes on the matrix units", rates.byte_macs, "T multiply-adds/s"));
    results.push_back(rate_result("peak: halves on the matrix units", rates.half_macs, "T multiply-adds/s"));
    results.push_back(rate_result("peak: normals", rates.normals, "T normals/s"));
    results.push_back(rate_result("peak: memory writes", rates.write_bytes, "TB/s"));
    return results;
}

}  // namespace imka::app
