#include "imka/experiment/attention_run.hpp"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <numbers>
#include <numeric>
#include <string>
#include <utility>

#include "imka/attention/attention_graph.hpp"
#include "imka/attention/gpu_attention.hpp"
#include "imka/base/error.hpp"
#include "imka/base/machine.hpp"
#include "imka/base/random.hpp"

namespace imka {
namespace {

constexpr std::size_t kCalibrationRows = 8192;           // of q and k; the chip draws its inputs from these
constexpr std::uint32_t kCalibrationSeed = 0x61760000U;  // purpose of a derived seed
constexpr std::size_t kMatrixLength = 4096;              // matrix_rows auto: no longer sequences
constexpr std::size_t kMatrixValues = std::size_t{1} << 22U;  // of the attention matrix in memory at a time

using Clock = std::chrono::steady_clock;

double seconds_after(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

HeadsView<float> heads_of(Matrix<float>& x, std::size_t heads) {
    return heads_first(x.data(), {heads, x.rows() / heads, x.cols()});
}

// The factor that the slips of the published figure give Ω: rows of length 1 / sqrt(m/d) instead of sqrt(d),
// and 2π in cos and sin.
double slip_factor(const AttentionConfig& config, std::int64_t m) {
    double factor = 1.0;
    if (config.sampler == Sampler::orf) factor /= std::sqrt(static_cast<double>(m));
    if (config.form == ops::AttentionForm::cos_sin) factor *= 2.0 * std::numbers::pi;
    return factor;
}

Matrix<float> draw_omega(const RunConfig& config, std::int64_t d, const OmegaDraw& draw, const Exec& exec) {
    const auto& run = *config.attention;
    auto recipe = omega_recipe(run.features, d, draw, config.backend.is_chip());
    if (config.protocol == Protocol::measured) recipe.convention = Convention::measured;
    auto omega = sample(recipe, exec);
    if (run.published_slips) {
        const auto factor = static_cast<float>(slip_factor(run.features, recipe.m));
        for (auto& v : omega.values()) v *= factor;
    }
    return omega;
}

// Rows of the queries and keys of all sequences, sampled if there are many.
Matrix<float> calibration_rows(const AttentionData& data, std::uint64_t seed) {
    std::vector<MatrixView<const float>> parts;
    for (const auto& s : data.sequences) {
        parts.push_back(s.q.view());
        parts.push_back(s.k.view());
    }
    std::uint64_t total = 0;
    for (const auto& p : parts) total += p.rows();
    const bool all = total <= kCalibrationRows;
    Matrix<float> rows(all ? total : kCalibrationRows, data.d);
    for (std::size_t i = 0; i < rows.rows(); ++i) {
        auto at =
            all ? i : uniform_int(derived_seed(seed, kCalibrationSeed), Stream::chip_calibration, i, total);
        std::size_t part = 0;
        while (at >= parts[part].rows()) at -= parts[part++].rows();
        std::ranges::copy(parts[part].row(at), rows.row(i).begin());
    }
    return rows;
}

// Sums over the entries of two matrices.
struct Difference {
    double squares = 0.0;  // of the exact values
    double errors = 0.0;   // squared
    std::uint64_t values = 0;

    void add(std::span<const float> exact, std::span<const float> other) {
        for (std::size_t i = 0; i < exact.size(); ++i) {
            const auto a = static_cast<double>(exact[i]);
            const double e = a - static_cast<double>(other[i]);
            squares += a * a;
            errors += e * e;
        }
        values += exact.size();
    }
    // Relative, in the Frobenius norm.
    double relative() const { return std::sqrt(errors / squares); }
};

Difference output_difference(const AttentionData& data, const Matrix<float>& exact,
                             const Matrix<float>& all) {
    Difference sum;
    const std::size_t n = data.positions.size();
    for (std::size_t h = 0; h < data.heads; ++h) {
        for (std::size_t i = 0; i < n; ++i)
            sum.add(exact.row(h * n + i), all.row(h * data.queries() + data.row(i)));
    }
    return sum;
}

std::size_t matrix_rows(const RunConfig& config, const AttentionData& data) {
    const auto usual = data.length <= kMatrixLength ? data.positions.size() : 0;
    const auto wanted = config.attention->matrix_rows;
    return wanted ? std::min(static_cast<std::size_t>(*wanted), data.positions.size()) : usual;
}

// Calls body(head, rows) for blocks of `count` rows of every head, evenly spaced among the compared queries.
template <class Body>
void for_matrix_rows(const AttentionData& data, std::size_t count, const Exec& exec, const Body& body) {
    std::vector<std::size_t> rows(count);
    for (std::size_t i = 0; i < count; ++i) rows[i] = data.row(i * data.positions.size() / count);
    const std::size_t block = std::max<std::size_t>(1, kMatrixValues / data.length);
    for (std::size_t h = 0; h < data.heads; ++h) {
        for (std::size_t first = 0; first < count; first += block) {
            check_cancelled(exec);
            body(h, std::span(rows.data() + first, std::min(block, count - first)));
        }
    }
}

Difference matrix_difference(const SeededAttention& seeded, const AttentionData& data, std::size_t sequence,
                             const AttentionOptions& options, std::size_t count, const Exec& exec) {
    const auto inputs = data.inputs(sequence);
    Difference sum;
    for_matrix_rows(data, count, exec, [&](std::size_t head, std::span<const std::size_t> rows) {
        const auto exact = exact_attention_rows(inputs, head, rows, options);
        const auto kernel = seeded.attention.rows(inputs, head, rows, options, exec);
        sum.add(exact.values(), kernel.values());
    });
    return sum;
}

// A sequence on a GPU with its projections.
struct ProjectedSequence {
    const GpuSequence& sequence;
    const GpuAttention& attention;
    GpuAttention::Projected projections;

    Matrix<float> outputs() const {
        Matrix<float> out(sequence.queries(), sequence.d());
        const cuda::Buffer<float> y(sequence.gpu(), out.values().size(), cuda::MemorySource::pooled);
        attention.attend(sequence, projections, y.data());
        y.download(out.values());
        return out;
    }
};

// there: only if the run was on a GPU.
struct SequenceRun {
    Matrix<float> outputs;
    std::optional<ProjectedSequence> there = {};
};
SequenceRun run_sequence(const RunConfig& config, const SeededAttention& seeded, RunData& runs,
                         std::size_t number, const AttentionOptions& options, const Exec& exec) {
    if (exec.device.kind == DeviceKind::cuda) {
        const auto& sequence = runs.attention_on_gpu(config, exec)[number];
        const auto& attention = seeded.attention.on_gpu(sequence.gpu());
        ProjectedSequence there{sequence, attention, attention.project(sequence, options.product_seed, exec)};
        auto outputs = there.outputs();
        return {std::move(outputs), std::move(there)};
    }
    const auto& data = *runs.source().attention;
    Matrix<float> outputs(data.heads * data.queries(), data.d);
    seeded.attention.run(data.inputs(number), options, exec, heads_of(outputs, data.heads));
    return {std::move(outputs)};
}

Difference matrix_difference(const ProjectedSequence& there, const AttentionData& data, std::size_t count,
                             const Exec& exec) {
    const int gpu = there.sequence.gpu();
    Difference sum;
    for_matrix_rows(data, count, exec, [&](std::size_t head, std::span<const std::size_t> rows) {
        const std::size_t values = rows.size() * data.length;
        const cuda::Buffer<float> exact(gpu, values, cuda::MemorySource::pooled);
        const cuda::Buffer<float> kernel(gpu, values, cuda::MemorySource::pooled);
        exact_attention_rows(there.sequence, {.head = head, .rows = rows, .out = exact.data()});
        there.attention.rows(there.sequence, there.projections,
                             {.head = head, .rows = rows, .out = kernel.data()});
        const auto [squares, errors] = squared_difference(gpu, exact.data(), kernel.data(), values);
        sum.squares += squares;
        sum.errors += errors;
        sum.values += values;
    });
    return sum;
}

// The exact outputs of sampled queries of a causal run: each with the keys up to its position.
void exact_causal_rows(const AttentionData& data, std::size_t sequence, const Exec& exec,
                       Matrix<float>& out) {
    const auto inputs = data.inputs(sequence);
    const std::size_t n = data.positions.size();
    for (std::size_t h = 0; h < data.heads; ++h) {
        for (std::size_t i = 0; i < n; ++i) {
            check_cancelled(exec);
            const std::size_t keys = data.positions[i] + 1;
            exact_attention({.q = inputs.q.head(h).slice_rows(data.positions[i], 1),
                             .k = inputs.k.head(h).slice_rows(0, keys),
                             .v = inputs.v.head(h).slice_rows(0, keys)},
                            {}, exec, out.view().slice_rows(h * n + i, 1));
        }
    }
}

// Exact outputs on a GPU: of all queries, or of the sampled queries of a causal run.
Matrix<float> exact_on_gpu(const AttentionData& data, const GpuSequence& sequence) {
    Matrix<float> out(data.heads * data.positions.size(), data.d);
    const cuda::Buffer<float> y(sequence.gpu(), out.values().size(), cuda::MemorySource::pooled);
    const bool all = data.queries() == data.positions.size();
    exact_attention(sequence, all ? std::span<const std::size_t>() : data.positions, y.data());
    y.download(out.values());
    return out;
}

void check_slips(const AttentionConfig& config) {
    const bool orf = config.sampler == Sampler::orf;
    if (orf && resolve_norms(config.sampler, config.norms) != Norms::sqrt)
        fail(ErrorCode::bad_config, "published_slips: the published figure has norms sqrt for orf");
    if (config.sampler == Sampler::sorf || (!orf && config.form != ops::AttentionForm::cos_sin))
        fail(ErrorCode::bad_config,
             fmt::format(
                 "published_slips: no effect on {} with the form {}; expected orf, or rff with cos_sin",
                 to_string(config.sampler), to_string(config.form)));
}

Offload operations_of(const FeatureSizes& sizes, const AttentionData& data) {
    const auto heads = static_cast<double>(data.heads * data.sequences.size());
    const auto queries = heads * static_cast<double>(data.queries());
    const auto keys = heads * static_cast<double>(data.length);
    const auto d = static_cast<double>(sizes.d);
    const auto features = static_cast<double>(sizes.features);
    Offload out;
    out.chip = 2.0 * d * static_cast<double>(sizes.m) * (queries + keys);
    out.digital = (features + 2.0 * d) * (queries + keys)          // functions and norms
                  + 2.0 * features * (d + 1.0) * (queries + keys)  // sums over keys, products with queries
                  + d * queries;                                   // division
    return out;
}

}  // namespace

AttentionOptions attention_options(const RunConfig& config, std::uint64_t products) {
    return {.causal = config.attention->source.causal, .product_seed = products};
}

void validate_attention(const RunConfig& config) {
    const auto& run = *config.attention;
    validate(run.features);
    validate(attention_source(config));
    if (run.published_slips) check_slips(run.features);
    if (config.protocol == Protocol::measured && run.features.kernel_epsilon != 0.0)
        fail(ErrorCode::bad_config, "kernel_epsilon: the measured protocol has none; expected 0");
    if (run.features.n_directions && run.source.head_dim)
        check_fits_memory(static_cast<double>(*run.features.n_directions),
                          static_cast<double>(*run.source.head_dim), sizeof(float), "Ω");
}

FeatureSizes attention_sizes(const RunConfig& config, std::int64_t d) {
    const auto& features = config.attention->features;
    FeatureSizes sizes{.d = d, .m = directions(features, d)};
    sizes.features = sizes.m * static_cast<std::int64_t>(ops::attention_form(features.form).per_direction);
    sizes.log_ratio = std::log2(static_cast<double>(sizes.m) / static_cast<double>(d));
    return sizes;
}

SeededAttention seeded_attention(const RunConfig& config, const AttentionData& data, const OmegaDraw& draw,
                                 const Exec& exec) {
    const auto& features = config.attention->features;
    auto omega = draw_omega(config, static_cast<std::int64_t>(data.d), draw, exec);
    if (!config.backend.is_chip())
        return {.attention = KernelAttention(features, std::move(omega)), .chip = {}};
    const auto chip = resolve_chip(config.backend, config.chip);
    const auto seeds = test_seeds(config.chip, draw.seed);
    const auto inputs = calibration_rows(data, draw.seed);
    auto placed = chip_projection({.chip = chip,
                                   .omega = omega,
                                   .inputs = inputs.view(),
                                   .config = config.chip.projection,
                                   .seed = seeds.chip,
                                   .input_scale = std::pow(static_cast<double>(data.d), -0.25)},
                                  exec);
    const auto info = chip_info(chip, config.chip, placed);
    return {.attention = KernelAttention(features, std::move(placed.projector)),
            .chip = info,
            .products = seeds.products};
}

DeployedModel deployed_run(const RunConfig& config, const AttentionData& data, std::uint64_t seed,
                           const Exec& exec) {
    if (!config.backend.is_chip())
        fail(ErrorCode::bad_config, "a deployed model needs a chip as backend, for example hermes");
    const AttentionLayer layer{
        .config = config.attention->features,
        .omega = draw_omega(config, static_cast<std::int64_t>(data.d), {.seed = seed}, exec),
        .options = attention_options(config, 0)};
    std::vector<AttentionInputs> sequences;
    for (std::size_t s = 0; s < data.sequences.size(); ++s) sequences.push_back(data.inputs(s));
    return deployed_attention(layer, sequences,
                              {.chip = resolve_chip(config.backend, config.chip),
                               .seed = test_seeds(config.chip, seed).chip,
                               .build = config.chip.projection},
                              exec);
}

std::vector<Matrix<float>> exact_outputs(const RunConfig& config, const AttentionData& data,
                                         const Exec& exec) {
    std::vector<Matrix<float>> outputs;
    const bool sampled_causal = data.all_queries && data.positions.size() < data.length;
    for (std::size_t s = 0; s < data.sequences.size(); ++s) {
        if (exec.device.kind == DeviceKind::cuda) {
            outputs.push_back(exact_on_gpu(
                data, GpuSequence(data.inputs(s), attention_options(config, 0), exec.device.number)));
            continue;
        }
        auto& out = outputs.emplace_back(data.heads * data.positions.size(), data.d);
        if (sampled_causal) {
            exact_causal_rows(data, s, exec, out);
        } else {
            exact_attention(data.inputs(s), attention_options(config, 0), exec, heads_of(out, data.heads));
        }
    }
    return outputs;
}

SeedResult run_attention(const RunConfig& config, std::uint64_t seed, RunData& runs, const Exec& exec) {
    const auto& data = *runs.source().attention;
    const auto begin = Clock::now();
    const auto& exact = runs.exact_attention(config, exec);
    SeedResult out;
    out.times.gram = seconds_after(begin);
    Trace trace;
    Exec counted = exec;
    counted.trace = &trace;
    std::optional<SeededAttention> seeded;
    double mse = 0.0;
    double trivial = 0.0;
    double error = 0.0;
    double matrix_error = 0.0;
    const auto rows = matrix_rows(config, data);
    Progress progress(exec, "attention", data.sequences.size());
    for (std::size_t s = 0; s < data.sequences.size(); ++s) {
        const auto redraws = redraw_count(config.attention->features, s);
        const auto start = Clock::now();
        if (!seeded || redraws != redraw_count(config.attention->features, s - 1))
            seeded.emplace(
                seeded_attention(config, data, {.seed = seed, .redraws = redraws}, without_progress(exec)));
        const auto built = Clock::now();
        const auto options =
            attention_options(config, derived_seed(seeded->products, static_cast<std::uint32_t>(s)));
        const auto done = run_sequence(config, *seeded, runs, s, options, without_progress(counted));
        out.times.chip += std::chrono::duration<double>(built - start).count();
        out.times.features += seconds_after(built);
        const auto difference = output_difference(data, exact[s], done.outputs);
        mse += difference.errors / static_cast<double>(difference.values);
        trivial += difference.squares / static_cast<double>(difference.values);
        error += difference.relative();
        const auto compared = Clock::now();
        if (rows > 0)
            matrix_error +=
                (done.there ? matrix_difference(*done.there, data, rows, exec)
                            : matrix_difference(*seeded, data, s, options, rows, without_progress(exec)))
                    .relative();
        out.times.gram += seconds_after(compared);
        progress.update(s + 1);
    }
    const auto n = static_cast<double>(data.sequences.size());
    out.values = {{"output_mse", mse / n}, {"output_error", error / n}, {"trivial_mse", trivial / n}};
    if (rows > 0) out.values["matrix_error"] = matrix_error / n;
    out.chip = seeded->chip;
    if (seeded->chip) {
        out.offload = operations_of(attention_sizes(config, static_cast<std::int64_t>(data.d)), data);
        out.offload->trace = std::move(trace);
    }
    return out;
}

namespace {

// Peak of the resident memory above the memory in use at the start, in bytes. 0 if the system does not report
// it.
class MemoryPeak {
public:
    MemoryPeak() {
        malloc_trim(0);                                 // memory kept from earlier calls would hide the use
        std::ofstream("/proc/self/clear_refs") << "5";  // the peak becomes the memory in use
        start_ = peak_memory_bytes();
    }
    double bytes() const { return std::max(0.0, peak_memory_bytes() - start_); }

private:
    double start_ = 0.0;
};

struct Cost {
    double seconds = 0.0;  // median
    double bytes = 0.0;
};
// At least 3 calls and half a second; one call if it takes more than 2 seconds.
template <class Call>
Cost measure(const Call& call, const Exec& exec) {
    Cost cost;
    std::vector<double> seconds;
    double sum = 0.0;
    while (seconds.size() < 3 || sum < 0.5) {
        check_cancelled(exec);
        const MemoryPeak memory;
        const auto begin = Clock::now();
        call();
        seconds.push_back(seconds_after(begin));
        cost.bytes = std::max(cost.bytes, memory.bytes());
        sum += seconds.back();
        if (sum > 2.0) break;
    }
    cost.seconds = median(seconds);
    return cost;
}

}  // namespace

SeedResult time_attention(const RunConfig& config, std::uint64_t seed, RunData& runs, const Exec& exec) {
    const auto& data = *runs.source().attention;
    const auto seeded = seeded_attention(config, data, {.seed = seed}, exec);
    const auto inputs = data.inputs(0);
    const auto options = attention_options(config, seeded.products);
    const auto kernel = measure(
        [&] {
            Matrix<float> out(data.heads * data.queries(), data.d);
            seeded.attention.run(inputs, options, exec, heads_of(out, data.heads));
        },
        exec);
    const auto exact = measure(
        [&] {
            Matrix<float> out(data.heads * data.queries(), data.d);
            exact_attention(inputs, options, exec, heads_of(out, data.heads));
        },
        exec);
    SeedResult out;
    out.times.features = kernel.seconds;
    out.times.gram = exact.seconds;
    out.values = {{"kernel_seconds", kernel.seconds},
                  {"exact_seconds", exact.seconds},
                  {"kernel_memory_mb", kernel.bytes * 1e-6},
                  {"exact_memory_mb", exact.bytes * 1e-6}};
    out.chip = seeded.chip;
    return out;
}

AttentionPicture attention_picture(const RunConfig& config, std::size_t size, const Exec& exec) {
    auto source = attention_source(config);
    source.query_rows = 0;
    source.sequences = 1;
    if (is_attention_generator(source.dataset))
        source.length = std::min<std::int64_t>(source.length.value_or(4096), 4096);
    const auto data = load_attention(source);
    AttentionPicture picture;
    const std::size_t n = std::min(size, data.length);
    for (std::size_t i = 0; i < n; ++i) picture.positions.push_back(i);
    const auto add = [&](std::string name, Matrix<float> rows) {
        Matrix<float> square(n, n);
        for (std::size_t i = 0; i < n; ++i) std::ranges::copy(rows.row(i).first(n), square.row(i).begin());
        picture.names.push_back(std::move(name));
        picture.matrices.push_back(std::move(square));
    };
    const auto inputs = data.inputs(0);
    add("exact", exact_attention_rows(inputs, 0, picture.positions, attention_options(config, 0)));
    auto digital = config;
    digital.backend = {};
    const OmegaDraw draw{.seed = config.seeds.front()};
    for (const RunConfig* one : {static_cast<const RunConfig*>(&digital), &config}) {
        if (one == &config && !config.backend.is_chip()) break;
        const auto seeded = seeded_attention(*one, data, draw, exec);
        add(one == &digital ? "FP32" : config.backend.name,
            seeded.attention.rows(inputs, 0, picture.positions,
                                  attention_options(config, derived_seed(seeded.products, 0)), exec));
    }
    return picture;
}

}  // namespace imka
