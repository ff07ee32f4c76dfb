#include "imka/train/evaluate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/chip/simulate/emulator.hpp"
#include "imka/cuda/gpu.hpp"
#include "imka/deploy/deployed_model.hpp"
#include "imka/linalg/gemm.hpp"
#include "imka/train/performer_graph.hpp"

namespace imka {
namespace {

using graph::Tensor;

// Tokens per batch: a GPU needs many rows, a processor's cache holds few.
constexpr std::size_t kBatchTokens = std::size_t{1} << 14U;
constexpr std::size_t kGpuBatchTokens = std::size_t{1} << 18U;
constexpr std::size_t kLengths = 32;  // lengths of batches; padding is at most a 32nd of the longest document
constexpr std::string_view kLastLayer = "classifier.output.weight";

std::size_t shortest(const LraData& data, const LraData::Example& e, const PerformerConfig& config) {
    const auto first = data.lengths[e.first];
    return config.documents == 2 ? std::min(first, data.lengths[e.second]) : first;
}
std::size_t longest(const LraData& data, const LraData::Example& e, const PerformerConfig& config) {
    const auto first = data.lengths[e.first];
    return config.documents == 2 ? std::max(first, data.lengths[e.second]) : first;
}

// Examples whose documents have `tokens` tokens in the graph's inputs; longer documents are cut.
struct Batch {
    std::size_t tokens = 0;
    std::vector<std::uint32_t> examples;
};

using Which = std::uint32_t LraData::Example::*;  // the first or the second document

// Calls body(i, document, count) for each example i of the batch: its document, cut to `count` tokens.
template <class Body>
void for_documents(const LraData& data, const Batch& batch, Which which, const Body& body) {
    for (std::size_t i = 0; i < batch.examples.size(); ++i) {
        const auto document = data.examples[batch.examples[i]].*which;
        body(i, document, std::min<std::size_t>(data.lengths[document], batch.tokens));
    }
}

Tensor tokens_of(const LraData& data, const Batch& batch, Which which) {
    Tensor tokens(graph::DType::u8, {static_cast<std::int64_t>(batch.examples.size()),
                                     static_cast<std::int64_t>(batch.tokens)});
    auto* to = tokens.values<std::uint8_t>().data();
    for_documents(data, batch, which, [&](std::size_t i, std::uint32_t document, std::size_t count) {
        std::memcpy(to + i * batch.tokens, data.tokens.row(document).data(), count);
    });
    return tokens;
}

Tensor lengths_of(const LraData& data, const Batch& batch, Which which) {
    Tensor lengths(graph::DType::i64, {static_cast<std::int64_t>(batch.examples.size())});
    for_documents(data, batch, which, [&](std::size_t i, std::uint32_t, std::size_t count) {
        lengths.values<std::int64_t>()[i] = static_cast<std::int64_t>(count);
    });
    return lengths;
}

std::vector<Tensor> inputs_of(const PerformerConfig& config, const LraData& data, const Batch& batch) {
    std::vector<Tensor> inputs;
    for (const auto which : {&LraData::Example::first, &LraData::Example::second}) {
        if (which == &LraData::Example::second && config.documents == 1) continue;
        inputs.push_back(tokens_of(data, batch, which));
        if (config.embedding == Embedding::table) inputs.push_back(lengths_of(data, batch, which));
    }
    return inputs;
}

// All examples in batches, by length. The length of an example's batch depends on that example only.
std::vector<Batch> batches_of(const PerformerConfig& config, const LraData& data, std::size_t batch_tokens) {
    const auto most = static_cast<std::size_t>(config.length);
    const auto step = (most + kLengths - 1) / kLengths;
    std::map<std::size_t, std::vector<std::uint32_t>> by_length;
    for (std::uint32_t i = 0; i < data.examples.size(); ++i) {
        const auto length = std::max<std::size_t>(1, longest(data, data.examples[i], config));
        by_length[std::min(most, (length + step - 1) / step * step)].push_back(i);
    }
    std::vector<Batch> batches;
    for (const auto& [tokens, examples] : by_length) {
        const auto size = std::max<std::size_t>(1, batch_tokens / tokens);
        for (std::size_t first = 0; first < examples.size(); first += size) {
            const auto begin = examples.begin() + static_cast<std::ptrdiff_t>(first);
            const auto count = std::min(size, examples.size() - first);
            batches.push_back({tokens, {begin, begin + static_cast<std::ptrdiff_t>(count)}});
        }
    }
    return batches;
}

// At most `most` examples without padding: those of at least the median length, cut to that length.
Batch unpadded(const PerformerConfig& config, const LraData& data, std::size_t most) {
    if (data.examples.empty()) fail(ErrorCode::bad_data, "expected at least one example");
    std::vector<std::size_t> lengths;
    for (const auto& e : data.examples) lengths.push_back(shortest(data, e, config));
    auto sorted = lengths;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((sorted.size() - 1) / 2);
    std::ranges::nth_element(sorted, middle);
    Batch batch{.tokens = std::max<std::size_t>(1, *middle)};
    for (std::uint32_t i = 0; i < lengths.size() && batch.examples.size() < most; ++i) {
        if (lengths[i] >= *middle) batch.examples.push_back(i);
    }
    return batch;
}

[[noreturn]] void fail_data(const Performer& model, const LraData& data, const std::string& what) {
    fail(ErrorCode::bad_config, fmt::format("a model for the task {} cannot run on examples of {}: {}",
                                            in_quotes(model.task), to_string(data.task), what));
}

void check_data(const Performer& model, const LraData& data) {
    const auto& config = model.config;
    if (model.task != to_string(data.task)) fail_data(model, data, "the tasks differ");
    if (data.examples.empty()) fail(ErrorCode::bad_data, "expected at least one example");
    const auto& task = lra_task(data.task);
    const auto check = [&](std::string_view name, std::int64_t has, std::int64_t wanted) {
        if (has != wanted) fail_data(model, data, fmt::format("{} {}; expected {}", name, has, wanted));
    };
    check("documents", config.documents, task.documents);
    check("classes", config.classes, task.classes);
    check("embedding of pixels", config.embedding == Embedding::affine ? 1 : 0, task.pixels ? 1 : 0);
    if (!task.pixels && config.vocabulary <= task.symbols)
        fail_data(model, data,
                  fmt::format("vocabulary {}; expected at least {}", config.vocabulary, task.symbols + 1));
    for (const auto length : data.lengths) {
        if (length > config.length || (task.pixels && length != config.length))
            fail_data(
                model, data,
                fmt::format("a document has {} tokens; the model was built for {}", length, config.length));
    }
}

// Multiplies on the chip. Products are numbered over all batches; inputs of the last layer are kept.
class EvalHook : public ModelHook {
public:
    EvalHook(ChipDriver& driver, std::uint64_t seed, std::optional<std::uint32_t> last)
        : chip_(driver, seed), last_(last), last_size_(last ? driver.shape(*last).inputs : 0) {}
    bool multiply(const ModelCall& call, MatrixView<const float> x, const Exec& exec,
                  MatrixView<float> y) override {
        if (call.matrix == last_) {
            for (std::size_t r = 0; r < x.rows(); ++r)
                last_inputs_.insert(last_inputs_.end(), x.row(r).begin(), x.row(r).end());
        }
        return chip_.multiply(numbered(call, x.rows()), x, exec, y);
    }
    bool takes_gpu_rows() const override { return chip_.takes_gpu_rows(); }
    bool multiply_on_gpu(const ModelCall& call, const cuda::ProductRows& rows, const Exec& exec) override {
        if (call.matrix == last_) {
            const auto before = last_inputs_.size();
            last_inputs_.resize(before + rows.rows * last_size_);
            cuda::download(rows.x, rows.rows * last_size_ * sizeof(float), last_inputs_.data() + before);
        }
        return chip_.multiply_on_gpu(numbered(call, rows.rows), rows, exec);
    }
    // Inputs of the last layer since the previous call, possibly of several products: a batch that is too
    // large for the memory runs in parts.
    Matrix<float> take_last_inputs() {
        Matrix<float> inputs(last_size_ == 0 ? 0 : last_inputs_.size() / last_size_, last_size_);
        std::ranges::copy(last_inputs_, inputs.values().begin());
        last_inputs_.clear();
        return inputs;
    }
    const Trace& trace() const { return chip_.trace(); }

private:
    ModelCall numbered(const ModelCall& call, std::size_t count) {
        auto& rows = rows_[{call.matrix, call.use}];
        const auto first = rows;
        rows += count;
        return {call.matrix, call.use, first};
    }

    ChipHook chip_;
    std::optional<std::uint32_t> last_;
    std::size_t last_size_;  // inputs of the last layer
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> rows_;
    std::vector<float> last_inputs_;
};

// Logits of all examples, one row each.
struct Logits {
    Matrix<float> values;
    Matrix<float> digital_last;  // with the last layer computed digitally; empty without a chip for it
    double seconds = 0.0;
    std::size_t cores = 0;
    double saturated_share = 0.0;
};

// With a GPU, one thread per chip: many threads on one chip would leave cores idle.
std::size_t seeds_at_once(const EvaluateOptions& options, const Exec& exec) {
    const auto threads = static_cast<std::size_t>(thread_count(exec));
    const auto usual = exec.device.kind == DeviceKind::cuda ? threads : 1;
    return std::min(options.seeds.size(), options.seeds_at_once > 0 ? options.seeds_at_once : usual);
}

// For work on `at_once` seeds in parallel.
Exec shared_exec(Exec exec, std::size_t at_once) {
    if (at_once == 1) return exec;
    exec.threads = std::max(1, thread_count(exec) / static_cast<int>(at_once));
    return without_progress(exec);
}

// Model, examples and batches of an evaluation. Thread-safe.
class Tester {
public:
    Tester(const Performer& model, const EvaluationData& data, const EvaluateOptions& options,
           const Exec& exec)
        : model_(model),
          data_(data),
          options_(options),
          exec_(exec),
          preparing_(shared_exec(exec, seeds_at_once(options, exec))),
          batches_(batches_of(model.config, data.test, batch_tokens(options, exec))) {}

    Logits digital(const graph::Graph& graph, std::uint64_t seed) const {
        const auto turn = wait_for_turn();
        BatchRunner runner(graph, {});
        return run(runner, nullptr, fmt::format("fp32, seed {}", seed));
    }

    // `mode`: attention or all.
    Logits on_chip(graph::Graph graph, EvalMode mode, std::uint64_t seed) const {
        const auto model = deployed(std::move(graph), mode, seed);
        const auto turn = wait_for_turn();
        const auto driver = make_emulator(model.chip, Simulator::fast, exec_);
        EvalHook hook(*driver, seed, number_of(model, kLastLayer));
        BatchRunner runner(model.graph, model.matrices);
        auto logits = run(runner, &hook, fmt::format("{}, seed {}", to_string(mode), seed));
        logits.cores = core_count(model.chip.plan);
        const auto& trace = hook.trace();
        if (trace.conversions > 0)
            logits.saturated_share =
                static_cast<double>(trace.saturated) / static_cast<double>(trace.conversions);
        return logits;
    }

private:
    static std::size_t batch_tokens(const EvaluateOptions& options, const Exec& exec) {
        if (options.batch_tokens > 0) return options.batch_tokens;
        return exec.device.kind == DeviceKind::cuda ? kGpuBatchTokens : kBatchTokens;
    }

    // Tests run one at a time, with all threads or the whole GPU.
    std::unique_lock<std::mutex> wait_for_turn() const {
        return std::unique_lock(exec_.device.kind == DeviceKind::cuda ? cuda::turns(exec_.device.number)
                                                                      : testing_);
    }

    static std::optional<std::uint32_t> number_of(const DeployedModel& model, std::string_view name) {
        const auto found = std::ranges::find(model.matrices, name);
        if (found == model.matrices.end()) return std::nullopt;
        return static_cast<std::uint32_t>(found - model.matrices.begin());
    }

    DeployedModel deployed(graph::Graph graph, EvalMode mode, std::uint64_t seed) const {
        const auto& calibration = data_.calibration;
        const auto inputs =
            inputs_of(model_.config, calibration,
                      unpadded(model_.config, calibration, (calibration.examples.size() + 1) / 2));
        DeployOptions options{.on_chip = mode == EvalMode::attention ? "projection" : "all"};
        for (const auto& t : inputs) options.input_shapes.push_back(t.shape);
        auto placement = place_model(std::move(graph), options_.chip, options);
        auto quiet = preparing_;
        quiet.log = nullptr;  // no note about few inputs: each token counts as one
        quiet.device = {};    // chips do not depend on where they are tested
        return deploy(std::move(placement), options_.chip, options_.build, inputs, seed, quiet);
    }

    Logits run(BatchRunner& runner, EvalHook* hook, const std::string& label) const {
        const auto begin = std::chrono::steady_clock::now();
        const auto classes = static_cast<std::size_t>(model_.config.classes);
        Logits logits{.values = Matrix<float>(data_.test.examples.size(), classes)};
        if (hook != nullptr) logits.digital_last = logits.values;
        Progress progress(exec_, label, data_.test.examples.size());
        std::size_t done = 0;
        for (const auto& batch : batches_) {
            const auto inputs = inputs_of(model_.config, data_.test, batch);
            const auto outputs = runner.run(inputs, hook, without_progress(exec_));
            const MatrixView<const float> y(outputs.at(0).values<float>().data(), batch.examples.size(),
                                            classes);
            store(batch, y, logits.values);
            if (hook != nullptr) {
                const auto last = hook->take_last_inputs();
                assert(last.rows() == 0 || last.rows() == batch.examples.size());
                if (last.rows() > 0) store(batch, last_layer(last).view(), logits.digital_last);
            }
            progress.update(done += batch.examples.size());
        }
        logits.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        return logits;
    }

    Matrix<float> last_layer(const Matrix<float>& x) const {
        const auto& w = model_.weights.at(std::string(kLastLayer));
        Matrix<float> y(x.rows(), w.rows());
        gemm_nt_rows(x, w, exec_, y);
        return y;
    }

    static void store(const Batch& batch, MatrixView<const float> y, Matrix<float>& all) {
        for (std::size_t i = 0; i < batch.examples.size(); ++i)
            std::ranges::copy(y.row(i), all.row(batch.examples[i]).begin());
    }

    const Performer& model_;
    const EvaluationData& data_;
    const EvaluateOptions& options_;
    const Exec& exec_;
    Exec preparing_;  // of chips
    std::vector<Batch> batches_;
    mutable std::mutex testing_;
};

// Class and loss of every example.
SeedEvaluation result_of(const Matrix<float>& logits, std::span<const std::int32_t> labels) {
    SeedEvaluation result;
    for (std::size_t i = 0; i < logits.rows(); ++i) {
        const auto row = logits.row(i);
        if (!std::ranges::all_of(row, [](float v) { return std::isfinite(v); }))
            fail(ErrorCode::numeric, fmt::format("the logits of example {} are not finite", i));
        const auto best = std::ranges::max_element(row);
        result.predicted.push_back(static_cast<std::int32_t>(best - row.begin()));
        double sum = 0.0;
        for (const float v : row) sum += std::exp(static_cast<double>(v) - static_cast<double>(*best));
        const auto own = static_cast<double>(row[static_cast<std::size_t>(labels[i])]);
        result.loss +=
            (std::log(sum) + static_cast<double>(*best) - own) / static_cast<double>(logits.rows());
    }
    return result;
}

bool has(const EvaluateOptions& options, EvalMode mode) {
    return std::ranges::find(options.modes, mode) != options.modes.end();
}

void check_options(const Performer& model, const EvaluateOptions& options, const Exec& exec) {
    if (options.modes.empty() || options.seeds.empty())
        fail(ErrorCode::bad_config, "expected at least one mode and one seed");
    for (const auto mode : options.modes) {
        if (std::ranges::count(options.modes, mode) > 1)
            fail(ErrorCode::bad_config, fmt::format("mode {} is given twice", to_string(mode)));
    }
    if (options.saved_omega && options.omega_law != OmegaLaw::gaussian)
        fail(ErrorCode::bad_config, "omega_law has no effect with saved_omega; use one of them");
    if (has(options, EvalMode::attention) && model.config.attention == ModelAttention::exact)
        fail(ErrorCode::bad_config, "mode attention: exact attention has no random directions for a chip");
    if (exec.device.kind == DeviceKind::cuda) cuda::require_gpu(exec.device.number);
}

// Runs every mode with a seed. Thread-safe.
class SeedRuns {
public:
    SeedRuns(const Performer& model, const Tester& tester, const EvaluateOptions& options, Evaluation& out)
        : model_(model), tester_(tester), options_(options), out_(out) {}

    // `number`: index of the seed.
    void run(std::size_t number) {
        const auto seed = options_.seeds[number];
        const auto graph = graph_of(model_, omega(seed));
        if (has(options_, EvalMode::fp32)) add(EvalMode::fp32, number, digital(graph, seed));
        if (has(options_, EvalMode::attention))
            add(EvalMode::attention, number, tester_.on_chip(graph, EvalMode::attention, seed));
        if (!has(options_, EvalMode::all) && !has(options_, EvalMode::all_but_last)) return;
        auto logits = tester_.on_chip(graph, EvalMode::all, seed);
        if (has(options_, EvalMode::all)) add(EvalMode::all, number, logits);
        logits.values = std::move(logits.digital_last);
        if (has(options_, EvalMode::all_but_last)) add(EvalMode::all_but_last, number, logits);
    }

private:
    void add(EvalMode which, std::size_t number, const Logits& logits) {
        auto result = result_of(logits.values, out_.labels);
        result.seed = options_.seeds[number];
        result.seconds = logits.seconds;
        result.saturated_share = logits.saturated_share;
        const std::scoped_lock lock(mutex_);
        auto& mode = *std::ranges::find(out_.modes, which, &ModeResult::mode);
        mode.cores = logits.cores;
        mode.seeds[number] = std::move(result);
    }

    bool draws_omega() const {
        return !options_.saved_omega && model_.config.attention != ModelAttention::exact;
    }
    std::vector<Matrix<float>> omega(std::uint64_t seed) const {
        if (!draws_omega()) return model_.omega;
        std::vector<Matrix<float>> all;
        for (std::uint64_t layer = 0; layer < static_cast<std::uint64_t>(model_.config.layers); ++layer) {
            const OmegaDraw draw{.seed = seed, .layer = layer};
            all.push_back(options_.omega_law == OmegaLaw::poisson
                              ? poisson_omega(model_.config, draw)
                              : draw_omega(model_.config, draw, out_.truncated_omega));
        }
        return all;
    }

    // Without a draw of Ω all seeds have the same logits.
    Logits digital(const graph::Graph& graph, std::uint64_t seed) {
        if (draws_omega()) return tester_.digital(graph, seed);
        std::call_once(digital_done_, [&] { digital_ = tester_.digital(graph, seed); });
        return digital_;
    }

    const Performer& model_;
    const Tester& tester_;
    const EvaluateOptions& options_;
    std::mutex mutex_;  // of out_.modes
    Evaluation& out_;
    std::once_flag digital_done_;
    Logits digital_;
};

// Queries, keys and values of one example (1 x heads x tokens x size each), head by head.
void copy_heads(const std::vector<Tensor>& parts, std::span<float> to) {
    const auto heads = static_cast<std::size_t>(parts[0].shape[1]);
    const auto size = to.size() / (heads * parts.size());
    for (std::size_t h = 0; h < heads; ++h) {
        for (std::size_t p = 0; p < parts.size(); ++p)
            std::ranges::copy(parts[p].values<float>().subspan(h * size, size),
                              to.begin() + static_cast<std::ptrdiff_t>((h * parts.size() + p) * size));
    }
}

bool is_right(const Evaluation& e, const SeedEvaluation& s, std::size_t example) {
    return s.predicted[example] == e.labels[example];
}

}  // namespace

Evaluation evaluate(const Performer& model, const EvaluationData& data, const EvaluateOptions& options,
                    const Exec& exec) {
    check_options(model, options, exec);
    check_data(model, data.test);
    const bool chip = std::ranges::any_of(options.modes, [](EvalMode m) { return m != EvalMode::fp32; });
    if (chip) check_data(model, data.calibration);
    Evaluation out{.classes = static_cast<std::size_t>(model.config.classes),
                   .truncated_omega = (chip || options.truncated_omega) && !options.saved_omega &&
                                      options.omega_law == OmegaLaw::gaussian};
    for (const auto& e : data.test.examples) {
        out.labels.push_back(e.label);
        out.tokens += data.test.lengths[e.first];
        if (model.config.documents == 2) out.tokens += data.test.lengths[e.second];
    }
    for (const auto mode : options.modes)
        out.modes.push_back({.mode = mode, .seeds = std::vector<SeedEvaluation>(options.seeds.size())});
    const Tester tester(model, data, options, exec);
    SeedRuns runs(model, tester, options, out);
    auto side_by_side = exec;
    side_by_side.threads = static_cast<int>(seeds_at_once(options, exec));
    parallel_for(side_by_side, options.seeds.size(), [&](std::size_t number) { runs.run(number); });
    for (auto& mode : out.modes) {
        for (const auto& s : mode.seeds)
            mode.saturated_share += s.saturated_share / static_cast<double>(mode.seeds.size());
    }
    return out;
}

Summary accuracy_of(const Evaluation& evaluation, const ModeResult& result) {
    std::vector<double> values;
    for (const auto& s : result.seeds) values.push_back(accuracy(evaluation.labels, s.predicted));
    return summarize(std::move(values));
}

Summary loss_of(const ModeResult& result) {
    std::vector<double> values;
    for (const auto& s : result.seeds) values.push_back(s.loss);
    return summarize(std::move(values));
}

Matrix<std::uint64_t> confusion_of(const Evaluation& evaluation, const ModeResult& result) {
    Matrix<std::uint64_t> counts(evaluation.classes, evaluation.classes);
    for (const auto& s : result.seeds) {
        for (std::size_t i = 0; i < evaluation.labels.size(); ++i)
            ++counts(static_cast<std::size_t>(evaluation.labels[i]),
                     static_cast<std::size_t>(s.predicted[i]));
    }
    return counts;
}

PairedDifference paired_difference(const Evaluation& evaluation, const ModeResult& result,
                                   const ModeResult& base) {
    const auto n = evaluation.labels.size();
    std::vector<double> by_seed(result.seeds.size());
    std::vector<double> by_example(n);
    for (std::size_t s = 0; s < by_seed.size(); ++s) {
        for (std::size_t i = 0; i < n; ++i) {
            const int d = static_cast<int>(is_right(evaluation, result.seeds[s], i)) -
                          static_cast<int>(is_right(evaluation, base.seeds[s], i));
            by_seed[s] += d / static_cast<double>(n);
            by_example[i] += d / static_cast<double>(by_seed.size());
        }
    }
    return {summarize(std::move(by_seed)), summarize(std::move(by_example)).error()};
}

graph::Tensor last_layer_qkv(const Performer& model, const LraData& data, std::size_t count,
                             const Exec& exec) {
    check_data(model, data);
    auto graph = graph_of(model, model.omega);
    graph.outputs.clear();
    for (const auto* part : {"q", "k", "v"})
        graph.outputs.push_back(graph::find_value(graph, last_heads(model.config, part)).value());
    const auto batch = unpadded(model.config, data, count);
    const auto n = static_cast<std::int64_t>(batch.examples.size());
    const auto tokens = static_cast<std::int64_t>(batch.tokens);
    Tensor out(graph::DType::f32, {n * model.config.heads, 3, tokens, head_size(model.config)});
    const auto per_example = out.values<float>().size() / batch.examples.size();
    const std::string label = "queries, keys and values";
    BatchRunner runner(graph, {}, label);
    Progress progress(exec, label, batch.examples.size());
    for (std::size_t i = 0; i < batch.examples.size(); ++i) {
        const auto inputs = inputs_of(model.config, data, {batch.tokens, {batch.examples[i]}});
        const auto parts = runner.run(inputs, nullptr, without_progress(exec));
        copy_heads(parts, out.values<float>().subspan(i * per_example, per_example));
        progress.update(i + 1);
    }
    return out;
}

}  // namespace imka
