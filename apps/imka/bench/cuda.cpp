// imka bench cuda_chip, cuda_training, cuda_performer: products of an emulated 64-core chip and normals,
// attention in training, and whole Performers on a GPU, compared with the rates of the chip, the limits of
// the GPU and the processor.
#include "imka/chip/simulate/cuda_emulator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "bench/bench.hpp"
#include "imka/chip/build.hpp"
#include "imka/chip/simulate/emulator.hpp"
#include "imka/cuda/gpu.hpp"
#include "imka/cuda/memory.hpp"
#include "imka/cuda/rates.hpp"
#include "imka/ops/attention/fused.hpp"
#include "imka/ops/normals/normals.hpp"
#include "imka/ops/normals/variants.hpp"
#include "imka/train/evaluate.hpp"

namespace imka::app {
namespace {

constexpr std::size_t kCoreSide = 256;
constexpr double kMacs = 1.0 * kCoreSide * kCoreSide;
const ProductIds kGpuIds{.seed = 5, .first = 0};

struct GpuWay {
    const char* name;
    ReadMode mode;
    double wanted;  // single-core products per second of the real chip
};
constexpr GpuWay kWays[] = {{"one phase", ReadMode::one_phase, 481e6},
                            {"four phases", ReadMode::four_phase, 123e6}};

// A square matrix on `cores` cores: standard normal weights, inputs with standard deviation 0.3.
struct Problem {
    ProgrammedChip chip;
    std::size_t side;
};
Problem problem(const GpuWay& way, std::size_t cores, const Exec& exec) {
    auto spec = chip_preset("hermes");
    spec.core.read_mode = way.mode;
    const auto side =
        kCoreSide * static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(cores))));
    auto sample = normals(256, side, 2);
    for (auto& v : sample.values()) v *= 0.3F;
    return {build_chip(
                BuildJob{.chip = spec, .weights = normals(side, side, 1), .sample = sample.view(), .seed = 3},
                exec),
            side};
}

// Comparison of both devices for the same products of one core.
struct Agreement {
    double different = 0.0;  // share of results that differ
    double steps = 0.0;      // largest difference, in output steps
};
Agreement compare(const GpuWay& way, std::size_t rows, const BenchSetup& setup) {
    const auto [chip, side] = problem(way, 1, setup.exec);
    auto x = normals(rows, side, 4);
    for (auto& v : x.values()) v *= 0.3F;
    const auto driver = make_cuda_emulator(chip, setup.exec_on_gpu());
    const auto gpu = execute(*driver, 0, x.view(), kGpuIds, setup.exec).y;
    FastEmulator fast(chip, setup.exec);
    const auto cpu = execute(fast, 0, x.view(), kGpuIds, setup.exec).y;
    Agreement out;
    for (std::size_t i = 0; i < cpu.values().size(); ++i) {
        const double difference = std::abs(double{cpu.values()[i]} - gpu.values()[i]);
        if (difference > 0.0) out.different += 1.0;
        out.steps = std::max(out.steps, difference / chip.regions[0].affine.output_step);
    }
    out.different /= static_cast<double>(cpu.values().size());
    return out;
}

// Lower bound of the time of one core's product: three byte products and one half-precision product per
// charge, one normal per conversion, one result written per eight cores.
struct Floor {
    double matrix_units = 0.0;
    double normals = 0.0;
    double memory = 0.0;
    double seconds() const { return std::max({matrix_units, normals, memory}); }
};
Floor floor_of(const GpuWay& way, const cuda::GpuRates& rates) {
    const double charges = way.mode == ReadMode::one_phase ? 1.0 : 4.0;
    return {.matrix_units = charges * (3.0 * kMacs / rates.byte_macs + kMacs / rates.half_macs),
            .normals = charges * kCoreSide / rates.normals,
            .memory = (kCoreSide * sizeof(float) / 8.0 + kCoreSide * (1.0 + sizeof(float) / 8.0)) /
                      rates.write_bytes};
}

BenchResult bench_products(const BenchSetup& setup, const GpuWay& way, const cuda::GpuRates& rates) {
    const std::size_t cores = setup.quick ? 4 : 64;
    const std::size_t rows = setup.quick ? 1024 : 65536;
    const int gpu = setup.gpu;
    const auto [chip, side] = problem(way, cores, setup.exec);
    const auto driver = make_cuda_emulator(chip, setup.exec_on_gpu());
    const auto agreement = compare(way, setup.quick ? 64 : 2048, setup);
    auto host = normals(rows, side, 4);
    for (auto& v : host.values()) v *= 0.3F;
    const cuda::Buffer<float> x(gpu, host.values());
    const cuda::Buffer<float> y(gpu, rows * side);
    const cuda::ProductRows batch{.x = x.data(), .y = y.data(), .rows = rows};
    BenchResult result{
        .name = "cuda_chip",
        .title = fmt::format("{} cores, {} products, {}", cores, rows, way.name),
        .sizes = {{"rows", static_cast<double>(rows)}, {"cores", static_cast<double>(cores)}},
        .check = check_at_most("largest difference from the processor, output steps", agreement.steps, 1.01)};
    Matrix<float> few(256, side);
    std::copy_n(host.values().begin(), few.values().size(), few.values().begin());
    FastEmulator fast(chip, setup.exec);
    Matrix<float> out(few.rows(), side);
    // The processor gets 256 rows; its time is scaled to all rows.
    run_rounds(
        setup, [&] { driver->multiply_on_gpu(0, batch, kGpuIds); }, {}, result);
    const double cpu = least_seconds(setup.quick ? 1 : 3,
                                     [&] { fast.multiply(0, few.view(), kGpuIds, setup.exec, out.view()); }) *
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
    const int gpu = setup.gpu;
    cuda::Buffer<float> out(gpu, count);
    BenchResult result{.name = "cuda_chip",
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
    result.check = check_at_most("numbers whose bits differ from the processor's",
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

// Attention of one layer in training, with 128 directions.
struct BatchSize {
    const char* name;
    std::int64_t batch;
    std::int64_t tokens;
    std::int64_t heads;
    std::int64_t head_size;
};
constexpr BatchSize kAttentionSizes[] = {{"cifar10", 128, 1024, 2, 32},
                                         {"listops", 256, 2000, 2, 32},
                                         {"imdb", 128, 4000, 2, 32},
                                         {"pathfinder32", 256, 1024, 8, 16}};

std::uint16_t to_bfloat(float x) {
    return static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(x) + 0x8000U) >> 16U);
}
float from_bfloat(std::uint16_t x) {
    return std::bit_cast<float>(std::uint32_t{x} << 16U);
}

// Memory of one layer and both passes over it. Q, K and V are stored side by side; the output also serves
// as its own gradient.
template <class Element>
class LayerOnGpu {
public:
    LayerOnGpu(const ops::FusedAttention& shape, int gpu, std::span<const Element> qkv,
               const Matrix<float>& omega)
        : shape_(shape),
          qkv_(gpu, qkv),
          gradients_(gpu, qkv.size()),
          y_(gpu, qkv.size() / 3),
          omega_(gpu, omega.values()),
          saved_(gpu, fused_saved_bytes(shape)),
          workspace_(gpu, fused_workspace_bytes(shape)) {}

    void forward() const {
        fused_forward(shape_, inputs(), nullptr,
                      {.workspace = workspace_.data(), .saved = saved_.data(), .y = y_.data()});
    }
    void backward() const {
        const auto width = shape_.out_stride;
        fused_backward(shape_, inputs(), nullptr,
                       {.dy = y_.data(),
                        .saved = saved_.data(),
                        .workspace = workspace_.data(),
                        .dq = gradients_.data(),
                        .dk = gradients_.data() + width,
                        .dv = gradients_.data() + 2 * width});
    }
    // Waits for both passes.
    std::vector<Element> outputs() const {
        std::vector<Element> values(y_.size());
        y_.download(values);
        return values;
    }
    void wait() const {
        Element last{};
        y_.download({&last, 1});
    }

private:
    ops::FusedInputs inputs() const {
        const auto width = shape_.out_stride;
        return {
            .q = qkv_.data(), .k = qkv_.data() + width, .v = qkv_.data() + 2 * width, .omega = omega_.data()};
    }

    ops::FusedAttention shape_;
    cuda::Buffer<Element> qkv_;
    cuda::Buffer<Element> gradients_;
    cuda::Buffer<Element> y_;
    cuda::Buffer<float> omega_;
    cuda::Memory saved_;
    cuda::Memory workspace_;
};

ops::FusedAttention attention_shape(const BatchSize& size, bool quick) {
    ops::FusedAttention shape;
    shape.batch = quick ? 2 : size.batch;
    shape.tokens = size.tokens;
    shape.heads = size.heads;
    shape.head_size = size.head_size;
    shape.directions = 128;
    shape.out_stride = size.heads * size.head_size;
    shape.stride = 3 * shape.out_stride;
    return shape;
}

// Lower bound of the time of both passes: their products and powers, and each input and output moved once.
double attention_floor(const ops::FusedAttention& s, const cuda::GpuRates& rates) {
    const auto rows = static_cast<double>(s.batch * s.tokens * s.heads);
    const auto d = static_cast<double>(s.head_size);
    const auto m = static_cast<double>(s.directions);
    const double macs = rows * (6.0 * m * d + 6.0 * 2.0 * m * d);
    const double powers = rows * 4.0 * 2.0 * m;
    const double bytes = rows * d * 2.0 * 11.0;
    return std::max({macs / rates.half_macs, powers / rates.powers, bytes / rates.write_bytes});
}

// |a - b| / |b|
double relative_difference(std::span<const std::uint16_t> a, std::span<const float> b) {
    double difference = 0.0;
    double norm = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        difference += std::pow(double{from_bfloat(a[i])} - b[i], 2);
        norm += std::pow(double{b[i]}, 2);
    }
    return std::sqrt(difference / norm);
}

BenchResult bench_fused(const BenchSetup& setup, const BatchSize& size, const cuda::GpuRates& rates) {
    const int gpu = setup.gpu;
    const auto shape = attention_shape(size, setup.quick);
    const auto omega =
        normals(static_cast<std::size_t>(shape.directions), static_cast<std::size_t>(shape.head_size), 5);
    auto single = normals(static_cast<std::size_t>(shape.batch * shape.tokens),
                          static_cast<std::size_t>(shape.stride), 6);
    std::vector<std::uint16_t> words;
    for (float& v : single.values()) {
        words.push_back(to_bfloat(v));
        v = from_bfloat(words.back());
    }
    const LayerOnGpu<std::uint16_t> layer(shape, gpu, words, omega);
    BenchResult result{.name = "cuda_training",
                       .title = fmt::format("attention of {}, {} x {} tokens, forward and backward",
                                            size.name, shape.batch, shape.tokens),
                       .sizes = {{"batch", static_cast<double>(shape.batch)},
                                 {"tokens", static_cast<double>(shape.tokens)}}};
    constexpr int kRepeats = 20;  // one call takes less time than the overhead of wait()
    run_rounds(
        setup,
        [&] {
            for (int i = 0; i < kRepeats; ++i) {
                layer.forward();
                layer.backward();
            }
            layer.wait();
        },
        {}, result);
    for (auto& seconds : result.seconds) seconds /= kRepeats;
    auto exact = shape;
    exact.type = ops::FusedType::float32;
    const LayerOnGpu<float> reference(exact, gpu, single.values(), omega);
    reference.forward();
    result.check = check_at_most("relative difference of bfloat16 from float32",
                                 relative_difference(layer.outputs(), reference.outputs()), 2e-2);
    result.limit = "products, powers of two or memory, the largest";
    result.limit_time = [shape, rates](const MachineLimits&) { return attention_floor(shape, rates); };
    const auto tokens = static_cast<double>(shape.batch * shape.tokens);
    result.note = fmt::format("{:.3g} ms, {:.3g} M tokens/s", 1e3 * median(result.seconds),
                              1e-6 * tokens / median(result.seconds));
    result.more = {{"tokens_per_second", tokens / median(result.seconds)}};
    return result;
}

// Images of noise.
LraData noise_images(std::size_t count, std::uint32_t size) {
    LraData data{.task = LraTask::cifar10, .origin = "noise"};
    data.tokens = Matrix<std::uint8_t>(count, size);
    std::uint64_t i = 0;
    for (auto& v : data.tokens.values())
        v = static_cast<std::uint8_t>(uniform_int(7, Stream::test, i++, std::uint64_t{256}));
    data.lengths.assign(count, size);
    for (std::uint32_t e = 0; e < count; ++e)
        data.examples.push_back({.first = e, .second = e, .label = static_cast<std::uint8_t>(e % 10)});
    return data;
}

double loss_on(const Performer& model, const LraData& images, const Exec& exec) {
    return evaluate(model, {images, images}, {}, exec).modes[0].seeds[0].loss;
}

// Tests a Performer for cifar10 (2 layers of width 64, 2 heads, 128 directions), digitally and on a chip.
std::vector<BenchResult> bench_performer(const BenchSetup& setup) {
    const PerformerConfig config{
        .embedding = Embedding::affine, .classes = 10, .activation = Activation::silu};
    const auto model = initial_performer(config, "cifar10", 3);
    const auto images = noise_images(setup.quick ? 4 : 2048, static_cast<std::uint32_t>(config.length));
    const auto few = noise_images(4, static_cast<std::uint32_t>(config.length));
    const auto on_gpu = setup.exec_on_gpu();
    const double difference = std::abs(loss_on(model, few, on_gpu) / loss_on(model, few, setup.exec) - 1.0);
    struct Mode {
        EvalMode mode;
        double wanted;  // M tokens/s
    };
    std::vector<BenchResult> results;
    for (const auto& [mode, wanted] :
         {Mode{EvalMode::fp32, 10.0}, Mode{EvalMode::attention, 0.0}, Mode{EvalMode::all, 3.0}}) {
        const EvaluateOptions options{.modes = {mode}, .seeds = {0, 1, 2}, .chip = chip_preset("hermes")};
        const auto test = evaluate(model, {images, few}, options, on_gpu);
        BenchResult result{
            .name = "cuda_performer",
            .title = fmt::format("Performer, {} tokens, {}", test.tokens, to_string(mode)),
            .sizes = {{"tokens", static_cast<double>(test.tokens)}},
            .check = check_at_most("relative difference of the loss from the processor, digital", difference,
                                   1e-5)};
        for (const auto& seed : test.modes[0].seeds) result.seconds.push_back(seed.seconds);
        const double rate = static_cast<double>(test.tokens) / median(result.seconds);
        if (wanted > 0.0) result.targets = {{.what = "M tokens/s", .wanted = wanted, .reached = 1e-6 * rate}};
        result.note = fmt::format("{:.3g} M tokens/s", 1e-6 * rate);
        result.more = {{"tokens_per_second", rate}};
        results.push_back(std::move(result));
    }
    return results;
}

BenchResult rate_result(const char* title, double rate, const char* unit) {
    return {.name = "cuda_chip",
            .title = title,
            .check = {.what = "rate", .value = rate, .bound = 0.0, .ok = rate > 0.0},
            .more = {{"per_second", rate}},
            .note = fmt::format("{:.4g} {}", rate * 1e-12, unit)};
}

}  // namespace

bool has_gpu() {
    return !cuda::gpus().empty();
}

std::vector<BenchResult> bench_cuda_chip(const BenchSetup& setup) {
    const auto rates = cuda::measure_rates(setup.gpu);
    std::vector<BenchResult> results = {bench_fill(setup, rates)};
    for (const auto& way : kWays) results.push_back(bench_products(setup, way, rates));
    results.push_back(rate_result("peak: bytes on the matrix units", rates.byte_macs, "T multiply-adds/s"));
    results.push_back(rate_result("peak: halves on the matrix units", rates.half_macs, "T multiply-adds/s"));
    results.push_back(rate_result("peak: TF32 on the matrix units", rates.tf32_macs, "T multiply-adds/s"));
    results.push_back(rate_result("peak: normals", rates.normals, "T normals/s"));
    results.push_back(rate_result("peak: powers of two", rates.powers, "T powers/s"));
    results.push_back(rate_result("peak: memory writes", rates.write_bytes, "TB/s"));
    return results;
}

std::vector<BenchResult> bench_cuda_training(const BenchSetup& setup) {
    const auto rates = cuda::measure_rates(setup.gpu);
    std::vector<BenchResult> results;
    for (const auto& size : kAttentionSizes) results.push_back(bench_fused(setup, size, rates));
    return results;
}

std::vector<BenchResult> bench_cuda_performer(const BenchSetup& setup) {
    cuda::require_gpu(setup.gpu);
    return bench_performer(setup);
}

}  // namespace imka::app
