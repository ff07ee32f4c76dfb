// imka bench attention, cuda_attention: kernelised attention compared with PyTorch's exact and kernelised
// attention, and with its own causal form and other lengths; on a GPU, also compared with the processor.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <span>
#include <utility>

#include "bench/bench.hpp"
#include "imka/attention/attention.hpp"
#include "imka/attention/gpu_attention.hpp"
#include "imka/cuda/gpu.hpp"
#include "imka/cuda/rates.hpp"
#include "imka/graph/tensor_file.hpp"

namespace imka::app {
namespace {

struct AttentionSize {
    std::size_t heads;
    std::size_t length;
    std::size_t d;
    std::size_t m;
};
constexpr AttentionSize kFull{.heads = 8, .length = 4096, .d = 64, .m = 256};
constexpr AttentionSize kQuick{.heads = 2, .length = 200, .d = 8, .m = 16};

Sizes sizes_of(const AttentionSize& a, const Exec& exec) {
    return {{"heads", static_cast<double>(a.heads)},
            {"length", static_cast<double>(a.length)},
            {"d", static_cast<double>(a.d)},
            {"m", static_cast<double>(a.m)},
            {"threads", thread_count(exec)}};
}

// Queries, keys and values with norms as after a layer normalisation and a trained projection.
struct Sequence {
    explicit Sequence(const AttentionSize& a)
        : size(a),
          q(values(a, 1, 0.5F)),
          k(values(a, 2, 0.5F)),
          v(values(a, 3, 1.0F)),
          out(a.heads * a.length, a.d) {}

    static Matrix<float> values(const AttentionSize& a, std::uint64_t seed, float scale) {
        auto x = normals(a.heads * a.length, a.d, seed);
        for (auto& e : x.values()) e *= scale;
        return x;
    }
    HeadsShape shape() const { return {size.heads, size.length, size.d}; }
    AttentionInputs inputs() const {
        return {heads_first(q.data(), shape()), heads_first(k.data(), shape()),
                heads_first(v.data(), shape())};
    }
    HeadsView<float> output() { return heads_first(out.data(), shape()); }

    AttentionSize size;
    Matrix<float> q;
    Matrix<float> k;
    Matrix<float> v;
    Matrix<float> out;
};

KernelAttention attention_of(const AttentionSize& a) {
    const AttentionConfig config{.n_directions = static_cast<std::int64_t>(a.m)};
    return {config, sample(omega_recipe(config, static_cast<std::int64_t>(a.d), {.seed = 4}))};
}

// Float operations of the projections, the sums over keys and the outputs of queries.
double operations(const AttentionSize& a) {
    const auto features = 2.0 * static_cast<double>(a.m);
    return 2.0 * static_cast<double>(a.heads * a.length * a.d) * 2.0 * (static_cast<double>(a.m) + features);
}
double exact_operations(const AttentionSize& a) {
    return 4.0 * static_cast<double>(a.heads * a.length) * static_cast<double>(a.length * a.d);
}

void save(const std::filesystem::path& file, const Matrix<float>& x, const graph::Shape& shape) {
    graph::write_tensor(file, graph::make_tensor<float>(shape, x.values()));
}

// Writes the inputs of the peers, and our outputs for comparison.
void save_inputs(const ScratchFolder& folder, Sequence& s, const KernelAttention& attention,
                 const Exec& exec) {
    const auto number = [](std::size_t n) { return static_cast<std::int64_t>(n); };
    const graph::Shape shape{number(s.size.heads), number(s.size.length), number(s.size.d)};
    save(folder.path() / "q.npy", s.q, shape);
    save(folder.path() / "k.npy", s.k, shape);
    save(folder.path() / "v.npy", s.v, shape);
    const auto omega = sample(omega_recipe(attention.config(), number(s.size.d), {.seed = 4}));
    save(folder.path() / "omega.npy", omega, {number(s.size.m), number(s.size.d)});
    attention.run(s.inputs(), {}, exec, s.output());
    save(folder.path() / "imka.npy", s.out, shape);
    std::filesystem::create_directory(folder.path() / "exact");
    exact_attention(s.inputs(), {}, exec, s.output());
    save(folder.path() / "exact" / "imka.npy", s.out, shape);
}

Rival torch(const std::string& name, const std::string& peer, const ScratchFolder& folder) {
    return {.name = name, .peer = peer, .package = "torch", .folder = folder.path().string()};
}

void add_targets(std::span<const double> wanted, BenchResult& result) {
    for (std::size_t k = 0; k < wanted.size(); ++k) {
        const auto& rival = result.rivals[k];
        if (!rival.seconds.empty())
            result.targets.push_back(
                {.what = "ratio to " + rival.name, .wanted = wanted[k], .reached = rival.ratio.median});
    }
}

void set_limit(double work, BenchResult& result) {
    result.note = fmt::format("{:.3g} GFLOP/s", work / median(result.seconds) * 1e-9);
    result.limit = "matrix products";
    result.limit_time = [=](const MachineLimits& l) { return work / l.panel_all; };
}

BenchResult named(const AttentionSize& size, const std::string& what, const Exec& exec) {
    return {.name = "attention",
            .title = fmt::format("{}, {} heads, L = {}, d = {}, m = {}", what, size.heads, size.length,
                                 size.d, size.m),
            .sizes = sizes_of(size, exec)};
}

// Compares some outputs of the first head with rows of the attention matrix times the values.
BenchCheck check_rows(const Matrix<float>& weights, std::span<const std::size_t> rows, Sequence& s) {
    double most = 0.0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        for (std::size_t c = 0; c < s.size.d; ++c) {
            double sum = 0.0;
            for (std::size_t j = 0; j < s.size.length; ++j) sum += double{weights(i, j)} * s.v(j, c);
            most = std::max(most, std::abs(sum - s.out(rows[i], c)));
        }
    }
    return check_at_most("difference from rows of the attention matrix times V", most, 1e-5);
}

BenchResult bench_kernel(const BenchSetup& setup, Sequence& s, const KernelAttention& attention,
                         const ScratchFolder& folder) {
    const auto exec = without_progress(setup.exec);
    auto result = named(s.size, "FAVOR+ (positive)", exec);
    run_rounds(
        setup, [&] { attention.run(s.inputs(), {}, exec, s.output()); },
        {torch("PyTorch FAVOR+", "torch_favor", folder), torch("PyTorch exact", "torch_exact", folder),
         torch("PyTorch fused", "torch_fused", folder)},
        result);
    const std::array<std::size_t, 2> rows = {0, s.size.length - 1};
    result.check = check_rows(attention.rows(s.inputs(), 0, rows, {}, exec), rows, s);
    add_targets(std::array{3.0, 10.0, 3.0}, result);
    set_limit(operations(s.size), result);
    return result;
}

BenchResult bench_exact(const BenchSetup& setup, Sequence& s, const ScratchFolder& folder) {
    const auto exec = without_progress(setup.exec);
    auto result = named(s.size, "exact, linear memory", exec);
    run_rounds(
        setup, [&] { exact_attention(s.inputs(), {}, exec, s.output()); },
        {torch("PyTorch exact", "torch_exact", folder), torch("PyTorch fused", "torch_fused", folder)},
        result);
    const std::array<std::size_t, 2> rows = {0, s.size.length - 1};
    result.check = check_rows(exact_attention_rows(s.inputs(), 0, rows, {}), rows, s);
    set_limit(exact_operations(s.size), result);
    return result;
}

BenchResult bench_causal(const BenchSetup& setup, Sequence& s, const KernelAttention& attention) {
    const auto exec = without_progress(setup.exec);
    auto result = named(s.size, "FAVOR+ causal", exec);
    run_rounds(
        setup, [&] { attention.run(s.inputs(), {.causal = true}, exec, s.output()); },
        {{.name = "all keys", .body = [&] { attention.run(s.inputs(), {}, exec, s.output()); }}}, result);
    attention.run(s.inputs(), {.causal = true}, exec, s.output());
    const float last = s.output().head(0)(s.size.length - 1, 0);
    attention.run(s.inputs(), {}, exec, s.output());
    result.check = check_at_most("difference of the last query from the one with all keys",
                                 std::abs(last - s.output().head(0)(s.size.length - 1, 0)), 1e-5);
    result.targets = {{.what = "time / all keys",
                       .wanted = 1.5,
                       .reached = 1.0 / result.rivals.front().ratio.median,
                       .at_most = true}};
    return result;
}

BenchResult bench_twice(const BenchSetup& setup, Sequence& s, const KernelAttention& attention) {
    const auto exec = without_progress(setup.exec);
    auto twice = s.size;
    twice.length *= 2;
    Sequence longer(twice);
    auto result = named(twice, "FAVOR+", exec);
    run_rounds(
        setup, [&] { attention.run(longer.inputs(), {}, exec, longer.output()); },
        {{.name = "half of L", .body = [&] { attention.run(s.inputs(), {}, exec, s.output()); }}}, result);
    result.check = {.what = "checked at half of the length", .ok = true};
    result.targets = {{.what = "time / time at half of L",
                       .wanted = 2.2,
                       .reached = 1.0 / result.rivals.front().ratio.median,
                       .at_most = true}};
    set_limit(operations(twice), result);
    return result;
}

// One way to compute attention, on the processor and on a GPU with the data in its memory.
struct GpuCase {
    const char* what;
    std::function<void(HeadsView<float>)> on_processor;
    std::function<void(float*)> on_gpu;
    double operations;  // float operations
    double powers;
    std::vector<Rival> rivals;
};

// Lower bound of the time: each product as three half-precision products on the matrix units, powers of two,
// and each input and output moved once.
double gpu_floor(const GpuCase& c, const AttentionSize& a, const cuda::GpuRates& rates) {
    const double bytes = 4.0 * static_cast<double>(a.heads * a.length * a.d) * sizeof(float);
    return std::max(
        {1.5 * c.operations / rates.half_macs, c.powers / rates.powers, bytes / rates.write_bytes});
}

BenchResult bench_on_gpu(const BenchSetup& setup, const GpuCase& c, Sequence& s,
                         const cuda::GpuRates& rates) {
    const int gpu = setup.gpu;
    auto result = named(s.size, c.what, setup.exec);
    result.name = "cuda_attention";
    const cuda::Buffer<float> y(gpu, s.out.values().size());
    run_rounds(
        setup, [&] { c.on_gpu(y.data()); }, c.rivals, result);
    Matrix<float> got(s.out.rows(), s.out.cols());
    y.download(got.values());
    const double cpu = least_seconds(setup.quick ? 1 : 3, [&] { c.on_processor(s.output()); });
    double most = 0.0;
    double scale = 0.0;
    for (std::size_t i = 0; i < got.values().size(); ++i) {
        most = std::max(most, std::abs(double{got.values()[i]} - s.out.values()[i]));
        scale = std::max(scale, std::abs(double{s.out.values()[i]}));
    }
    result.check = check_at_most("largest difference from the processor, relative to the largest output",
                                 most / scale, 2e-5);
    const double seconds = median(result.seconds);
    const double floor = gpu_floor(c, s.size, rates);
    result.limit = "three products of halves, powers of two or memory, the largest";
    result.limit_time = [floor](const MachineLimits&) { return floor; };
    result.targets = {{.what = "x the processor", .wanted = 10.0, .reached = cpu / seconds}};
    result.note = fmt::format("{:.3g} ms, {:.3g} TFLOP/s", 1e3 * seconds, 1e-12 * c.operations / seconds);
    result.more = {{"times_of_processor", cpu / seconds}, {"processor_seconds", cpu}};
    return result;
}

}  // namespace

std::vector<BenchResult> bench_cuda_attention(const BenchSetup& setup) {
    const int gpu = setup.gpu;
    const auto rates = cuda::measure_rates(gpu);
    const auto size = setup.quick ? kQuick : kFull;
    const ScratchFolder folder;
    Sequence s(size);
    const auto attention = attention_of(size);
    const auto exec = without_progress(setup.exec);
    save_inputs(folder, s, attention, exec);
    const GpuSequence all(s.inputs(), {}, gpu);
    const GpuSequence causal(s.inputs(), {.causal = true}, gpu);
    const auto run = [&](const GpuSequence& sequence, float* y) {
        const auto& there = attention.on_gpu(gpu);
        there.attend(sequence, there.project(sequence, 0, exec), y);
    };
    const auto pairs = static_cast<double>(size.heads * size.length) * static_cast<double>(size.length);
    const double powers = 4.0 * static_cast<double>(size.heads * size.length * size.m);
    const std::vector<GpuCase> cases = {
        {.what = "FAVOR+ (positive) on a GPU",
         .on_processor = [&](HeadsView<float> out) { attention.run(s.inputs(), {}, exec, out); },
         .on_gpu = [&](float* y) { run(all, y); },
         .operations = operations(size),
         .powers = powers,
         .rivals = {torch("torch.compile FAVOR+", "torch_cuda_favor", folder),
                    torch("PyTorch fused exact", "torch_cuda_fused", folder)}},
        {.what = "FAVOR+ causal on a GPU",
         .on_processor =
             [&](HeadsView<float> out) { attention.run(s.inputs(), {.causal = true}, exec, out); },
         .on_gpu = [&](float* y) { run(causal, y); },
         .operations = operations(size),
         .powers = powers,
         .rivals = {}},
        {.what = "exact on a GPU",
         .on_processor = [&](HeadsView<float> out) { exact_attention(s.inputs(), {}, exec, out); },
         .on_gpu = [&](float* y) { exact_attention(all, {}, y); },
         .operations = exact_operations(size),
         .powers = pairs,
         .rivals = {torch("PyTorch fused", "torch_cuda_fused", folder)}}};
    std::vector<BenchResult> results;
    results.reserve(std::size(cases));
    for (const auto& c : cases) results.push_back(bench_on_gpu(setup, c, s, rates));
    return results;
}

std::vector<BenchResult> bench_attention(const BenchSetup& setup) {
    const auto size = setup.quick ? kQuick : kFull;
    const ScratchFolder folder;
    Sequence s(size);
    const auto attention = attention_of(size);
    save_inputs(folder, s, attention, without_progress(setup.exec));
    std::vector<BenchResult> results;
    results.push_back(bench_kernel(setup, s, attention, folder));
    results.push_back(bench_exact(setup, s, folder));
    results.push_back(bench_causal(setup, s, attention));
    results.push_back(bench_twice(setup, s, attention));
    return results;
}

}  // namespace imka::app
