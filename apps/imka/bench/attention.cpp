// imka bench attention: kernelised attention next to PyTorch's exact and kernelised attention, and next to
// its own causal form and other lengths.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <span>
#include <utility>

#include "bench/bench.hpp"
#include "imka/attention/attention.hpp"
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

// The files that the peers read; the outputs that they compare theirs with.
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

// Some outputs of the first head against rows of the attention matrix times the values.
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
    result.check = check_rows(attention.rows(s.inputs(), {}, 0, rows, exec), rows, s);
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
    result.check = check_rows(exact_attention_rows(s.inputs(), {}, 0, rows), rows, s);
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

}  // namespace

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
