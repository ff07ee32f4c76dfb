// Kernelised attention, rows of its matrix, and its state for one token at a time.
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "imka/attention/attention.hpp"
#include "imka/attention/gpu_attention.hpp"
#include "imka/attention/kernel_run.hpp"
#include "imka/base/error.hpp"
#include "imka/features/choose_projector.hpp"

namespace imka {
namespace {

void check_size(const KernelAttention& attention, std::size_t d) {
    if (d == attention.inputs()) return;
    fail(ErrorCode::bad_data, fmt::format("attention: queries have {} components, but the directions have {}",
                                          d, attention.inputs()));
}

void check_output(const AttentionInputs& inputs, const HeadsView<float>& out) {
    if (out.heads() == inputs.q.heads() && out.length() == inputs.q.length() && out.size() == inputs.v.size())
        return;
    fail(ErrorCode::bad_data,
         fmt::format("attention: the output is {} x {} x {}; expected {} x {} x {}", out.heads(),
                     out.length(), out.size(), inputs.q.heads(), inputs.q.length(), inputs.v.size()));
}

void run_on_gpu(const GpuAttention& attention, const AttentionInputs& inputs, const AttentionOptions& options,
                const Exec& exec, HeadsView<float> out) {
    const int gpu = exec.device.number;
    const GpuSequence sequence(inputs, options, gpu);
    check_output(inputs, out);
    const cuda::Buffer<float> y(gpu, sequence.queries() * inputs.v.size(), cuda::MemorySource::pooled);
    attention.attend(sequence, attention.project(sequence, options.product_seed, exec), y.data());
    download_heads(y, out);
}

}  // namespace

struct KernelAttention::GpuCopies {
    std::mutex mutex;
    std::map<int, GpuAttention> attentions;
};

KernelAttention::KernelAttention(const AttentionConfig& config, Matrix<float> omega)
    : config_(config), omega_(std::move(omega)), gpu_copies_(std::make_unique<GpuCopies>()) {
    validate(config_);
    if (omega_.rows() == 0 || omega_.cols() == 0)
        fail(ErrorCode::bad_data, "attention: expected at least one direction");
    if (!std::ranges::all_of(omega_.values(), [](float w) { return std::isfinite(w); }))
        fail(ErrorCode::bad_data, "attention: the directions are not finite");
}

KernelAttention::KernelAttention(const AttentionConfig& config, std::unique_ptr<const Projector> projector)
    : config_(config), projector_(std::move(projector)), gpu_copies_(std::make_unique<GpuCopies>()) {
    validate(config_);
}

KernelAttention::~KernelAttention() = default;
KernelAttention::KernelAttention(KernelAttention&& other) noexcept = default;
KernelAttention& KernelAttention::operator=(KernelAttention&& other) noexcept = default;

const GpuAttention& KernelAttention::on_gpu(int gpu) const {
    const std::scoped_lock lock(gpu_copies_->mutex);
    auto& copies = gpu_copies_->attentions;
    if (const auto found = copies.find(gpu); found != copies.end()) return found->second;
    if (projector_) return copies.try_emplace(gpu, config_, *projector_, gpu).first->second;
    return copies.try_emplace(gpu, config_, DigitalProjector(omega_), gpu).first->second;
}

std::size_t KernelAttention::inputs() const {
    return projector_ ? projector_->inputs() : omega_.cols();
}
std::size_t KernelAttention::outputs() const {
    return projector_ ? projector_->outputs() : omega_.rows();
}
std::size_t KernelAttention::features() const {
    return ops::attention_form(config_.form).per_direction * outputs();
}

void KernelAttention::run(const AttentionInputs& inputs, const AttentionOptions& options, const Exec& exec,
                          HeadsView<float> out) const {
    run(std::span(&inputs, 1), options, exec, std::span(&out, 1));
}

void KernelAttention::run(std::span<const AttentionInputs> inputs, const AttentionOptions& options,
                          const Exec& exec, std::span<const HeadsView<float>> out) const {
    if (inputs.size() != out.size()) fail(ErrorCode::bad_data, "attention: expected one output per sequence");
    const bool on_processor = exec.device.kind == DeviceKind::cpu;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        check_size(*this, inputs[i].q.size());
        if (!on_processor) {
            run_on_gpu(on_gpu(exec.device.number), inputs[i], options, exec, out[i]);
            continue;
        }
        validate(inputs[i], options);
        check_output(inputs[i], out[i]);
    }
    if (!on_processor) return;
    const KernelRun run(*this, options, exec);
    std::vector<SequenceRows> sources;
    for (std::size_t i = 0; i < inputs.size(); ++i) sources.emplace_back(run, inputs[i], out[i]);
    std::vector<ops::HeadSequence> sequences;
    sequences.reserve(sources.size());
    for (const auto& source : sources) sequences.push_back(source.sequence());
    ops::kernel_heads(sequences, {run.rule(), options.causal}, exec);
}

namespace {

// Scores of one query: φ(q)ᵀφ(k) on the scale of each block of keys.
struct RawRows {
    Matrix<float> scores;            // rows x keys
    std::vector<double> exponents;   // of the scores of each key
    std::vector<double> maxima;      // exponent of the largest feature of each key; -infinity if ignored
    std::vector<double> query_sums;  // Σ φ(q)
};

// Scores of the queries with one block of keys.
void add_scores(const std::vector<ops::QueryBlock>& queries, const ops::KeyBlock& block, std::size_t first,
                RawRows& out) {
    const std::size_t n = block.values.rows();
    ops::Panels scores(1, n);
    for (std::size_t i = 0; i < queries.size(); ++i) {
        ops::multiply(queries[i].features, block.features, scores);
        for (std::size_t j = 0; j < n; ++j) out.scores(i, first + j) = scores(0, j);
    }
    out.exponents.insert(out.exponents.end(), n, block.exponent);
    out.maxima.insert(out.maxima.end(), block.maxima.begin(),
                      block.maxima.begin() + static_cast<std::ptrdiff_t>(n));
}

RawRows raw_rows(const KernelRun& run, const AttentionInputs& inputs, std::size_t head,
                 std::span<const std::size_t> rows) {
    const SequenceRows source(run, inputs);
    const std::size_t keys = inputs.k.length();
    const std::size_t key_head = head / (inputs.q.heads() / inputs.k.heads());
    RawRows out{.scores = Matrix<float>(rows.size(), keys), .exponents = {}, .maxima = {}, .query_sums = {}};
    std::vector<ops::QueryBlock> queries(rows.size());
    Matrix<float> u;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        ops::make_query_block(run.rule(), source.queries({head, rows[i], rows[i] + 1}, u), queries[i]);
        const auto& z = queries[i].features;
        double sum = 0.0;
        for (std::size_t f = 0; f < z.cols(); ++f) sum += z(0, f);
        out.query_sums.push_back(sum);
    }
    ops::KeyBlock block;
    for (std::size_t first = 0; first < keys; first += ops::kAttentionRows) {
        const ops::HeadRange range{key_head, first, std::min(keys, first + ops::kAttentionRows)};
        const auto mask =
            inputs.key_mask.empty() ? inputs.key_mask : inputs.key_mask.subspan(first, range.end - first);
        ops::make_key_block(run.rule(), source.keys(range, u), source.values(range), mask, block);
        add_scores(queries, block, first, out);
    }
    return out;
}

// Divides the scores of row i by their sum; only keys before `end` count. Returns false if the sum is 0 or
// not finite.
bool normalise_row(double epsilon, std::size_t end, std::size_t i, RawRows& raw) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const auto row = raw.scores.row(i);
    double most = -infinity;
    double exponent = -infinity;
    for (std::size_t j = 0; j < end; ++j) {
        most = std::max(most, raw.maxima[j]);
        if (raw.maxima[j] != -infinity) exponent = std::max(exponent, raw.exponents[j]);
    }
    std::vector<double> scores(row.size());
    double sum = 0.0;
    for (std::size_t j = 0; j < end; ++j) {
        if (raw.maxima[j] == -infinity) continue;
        scores[j] = row[j] * std::exp(raw.exponents[j] - exponent) +
                    epsilon * std::exp(most - exponent) * raw.query_sums[i];
        sum += scores[j];
    }
    for (std::size_t j = 0; j < row.size(); ++j)
        row[j] = most == -infinity ? 0.0F : static_cast<float>(scores[j] / sum);
    return most == -infinity || (sum != 0.0 && std::isfinite(sum));
}

Matrix<float> rows_on_gpu(const GpuAttention& attention, const AttentionInputs& inputs,
                          const AttentionOptions& options, GpuMatrixRows rows, const Exec& exec) {
    const int gpu = exec.device.number;
    const GpuSequence sequence(inputs, options, gpu);
    Matrix<float> out(rows.rows.size(), inputs.k.length());
    const cuda::Buffer<float> there(gpu, out.values().size(), cuda::MemorySource::pooled);
    rows.out = there.data();
    attention.rows(sequence, attention.project(sequence, options.product_seed, exec), rows);
    there.download(out.values());
    return out;
}

}  // namespace

Matrix<float> KernelAttention::rows(const AttentionInputs& inputs, std::size_t head,
                                    std::span<const std::size_t> rows, const AttentionOptions& options,
                                    const Exec& exec) const {
    check_size(*this, inputs.q.size());
    if (exec.device.kind == DeviceKind::cuda)
        return rows_on_gpu(on_gpu(exec.device.number), inputs, options, {.head = head, .rows = rows}, exec);
    validate(inputs, options);
    auto raw = raw_rows(KernelRun(*this, options, exec), inputs, head, rows);
    const bool late = ops::attention_form(config_.form).exponential;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::size_t end = options.causal ? rows[i] + 1 : inputs.k.length();
        if (!normalise_row(late ? config_.kernel_epsilon : 0.0, end, i, raw))
            ops::fail_normaliser(head, rows[i]);
    }
    return std::move(raw.scores);
}

struct AttentionState::Sums {
    Sums(const KernelAttention& attention, const Shape& s, const AttentionOptions& options)
        : run(attention, options, {}),
          shape(s),
          d(attention.inputs()),
          heads(s.key_heads, ops::KeySums(run.rule().features, s.value_size)) {}

    // Projection `at` of the token.
    ops::HeadRows row(MatrixView<const float> x, std::size_t head, std::size_t at) {
        return run.rows(x.slice_rows(head, 1), tokens * (shape.heads + shape.key_heads) + at, projections);
    }

    KernelRun run;
    Shape shape;
    std::size_t d;
    std::vector<ops::KeySums> heads;
    std::uint64_t tokens = 0;
    Matrix<float> projections;  // scratch
};

AttentionState::AttentionState(const KernelAttention& attention, const Shape& shape,
                               const AttentionOptions& options) {
    if (shape.heads == 0 || shape.key_heads == 0 || shape.heads % shape.key_heads != 0 ||
        shape.value_size == 0)
        fail(ErrorCode::bad_config,
             fmt::format("attention: {} heads of queries cannot share {} heads of keys with {} values each",
                         shape.heads, shape.key_heads, shape.value_size));
    sums_ = std::make_unique<Sums>(attention, shape, options);
}
AttentionState::~AttentionState() = default;
AttentionState::AttentionState(AttentionState&&) noexcept = default;
AttentionState& AttentionState::operator=(AttentionState&&) noexcept = default;

void AttentionState::append(MatrixView<const float> q, MatrixView<const float> k, MatrixView<const float> v,
                            MatrixView<float> out) {
    auto& s = *sums_;
    const HeadsView<const float> queries(q.slice_rows(0, q.rows() > 0 ? 1 : 0), q.rows(), q.stride());
    const HeadsView<const float> keys(k.slice_rows(0, k.rows() > 0 ? 1 : 0), k.rows(), k.stride());
    const HeadsView<const float> values(v.slice_rows(0, v.rows() > 0 ? 1 : 0), v.rows(), v.stride());
    const AttentionInputs token{queries, keys, values};
    validate(token, {.causal = true});
    if (q.rows() != s.shape.heads || k.rows() != s.shape.key_heads || q.cols() != s.d ||
        v.cols() != s.shape.value_size || out.rows() != q.rows() || out.cols() != v.cols())
        fail(ErrorCode::bad_data, "attention: the token does not have the heads and sizes of this state");
    for (std::size_t h = 0; h < k.rows(); ++h)
        s.heads[h].add_key(s.run.rule(), s.row(k, h, q.rows() + h), v.row(h));
    assert(k.rows() > 0);  // as checked above
    const std::size_t group = q.rows() / k.rows();
    for (std::size_t h = 0; h < q.rows(); ++h) {
        if (!s.heads[h / group].attend(s.run.rule(), s.row(q, h, h), out.row(h)))
            ops::fail_normaliser(h, s.tokens);
    }
    ++s.tokens;
}

std::uint64_t AttentionState::tokens() const {
    return sums_->tokens;
}

std::size_t AttentionState::bytes() const {
    std::size_t sum = 0;
    for (const auto& h : sums_->heads) sum += h.bytes();
    return sum;
}

}  // namespace imka
