// Kernelised attention: tasks over heads and ranges of rows, rows of the attention matrix, the state of
// tokens.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "imka/attention/attention.hpp"
#include "imka/attention/kernel_worker.hpp"
#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"

namespace imka {
namespace {

constexpr std::size_t kBlocksPerTask = 8;
// Partial sums per head: at most this many, so that memory does not grow with the number of keys.
constexpr std::size_t kMostParts = 16;
// Tasks of a causal run: enough for many cores, also if there are few heads.
constexpr std::size_t kCausalTasks = 8;

std::size_t divide_up(std::size_t a, std::size_t b) {
    return (a + b - 1) / b;
}

// One head of keys of one sequence.
struct HeadJob {
    const AttentionInputs* inputs;
    const HeadsView<float>* out;
    std::size_t head;
    std::size_t part_rows = 0;  // keys per partial sum
    std::vector<ops::KeySums> parts = {};
    ops::PreparedKeys keys = {};

    HeadRange part(std::size_t p) const {
        return {head, p * part_rows, std::min(inputs->k.length(), (p + 1) * part_rows)};
    }
};

std::vector<HeadJob> jobs_of(std::span<const AttentionInputs> inputs, std::span<const HeadsView<float>> out) {
    std::vector<HeadJob> jobs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        for (std::size_t h = 0; h < inputs[i].k.heads(); ++h)
            jobs.push_back({.inputs = &inputs[i], .out = &out[i], .head = h});
    }
    return jobs;
}

struct Task {
    std::size_t job;
    std::size_t part;
};
// Divides the keys of every job into at most `most_parts` ranges of whole blocks.
std::vector<Task> divide(const ops::FeatureRule& rule, std::size_t block, std::size_t most_parts,
                         std::vector<HeadJob>& jobs) {
    std::vector<Task> tasks;
    for (std::size_t j = 0; j < jobs.size(); ++j) {
        const std::size_t length = jobs[j].inputs->k.length();
        const std::size_t blocks = divide_up(length, block);
        const std::size_t parts = std::clamp<std::size_t>(blocks / kBlocksPerTask, 1, most_parts);
        jobs[j].part_rows = divide_up(blocks, parts) * block;
        jobs[j].parts.assign(divide_up(length, jobs[j].part_rows), {rule, jobs[j].inputs->v.size()});
        for (std::size_t p = 0; p < jobs[j].parts.size(); ++p) tasks.push_back({j, p});
    }
    return tasks;
}

// Calls body(t, worker) for every task t.
template <class Body>
void for_tasks(const KernelRun& run, std::size_t count, const Exec& exec, const Body& body) {
    parallel_for_workers(exec, count, [&]() -> Worker {
        return [&body, worker = KernelWorker(run, exec)](std::size_t t) mutable { body(t, worker); };
    });
}

void sum_parts(const KernelRun& run, std::span<const Task> tasks, const Exec& exec,
               std::vector<HeadJob>& jobs) {
    for_tasks(run, tasks.size(), exec, [&](std::size_t t, KernelWorker& worker) {
        auto& job = jobs[tasks[t].job];
        worker.add_keys(*job.inputs, job.part(tasks[t].part), job.parts[tasks[t].part]);
    });
}

void attend_all(const KernelRun& run, const Exec& exec, const std::vector<HeadJob>& jobs) {
    struct Queries {
        const HeadJob* job;
        HeadRange range;
    };
    std::vector<Queries> list;
    constexpr std::size_t rows = kBlocksPerTask * ops::kAttentionRows;
    for (const auto& job : jobs) {
        const auto& q = job.inputs->q;
        const std::size_t group = q.heads() / job.inputs->k.heads();
        for (std::size_t h = job.head * group; h < (job.head + 1) * group; ++h) {
            for (std::size_t first = 0; first < q.length(); first += rows)
                list.push_back({&job, {h, first, std::min(q.length(), first + rows)}});
        }
    }
    for_tasks(run, list.size(), exec, [&](std::size_t t, KernelWorker& worker) {
        const auto& [job, range] = list[t];
        worker.attend(*job->inputs, range, job->keys, *job->out);
    });
}

void run_all_keys(const KernelRun& run, const Exec& exec, std::vector<HeadJob>& jobs) {
    sum_parts(run, divide(run.rule().features, ops::kAttentionRows, kMostParts, jobs), exec, jobs);
    parallel_for(exec, jobs.size(), [&](std::size_t j) {
        auto& parts = jobs[j].parts;
        for (std::size_t p = 1; p < parts.size(); ++p) parts[0].add(parts[p]);
        jobs[j].keys.prepare(parts[0]);
        parts.clear();
    });
    attend_all(run, exec, jobs);
}

// The sums of all parts but the last of each job, then of everything before each part.
void run_causal(const KernelRun& run, const Exec& exec, std::vector<HeadJob>& jobs) {
    const std::size_t parts = std::max<std::size_t>(1, kCausalTasks / jobs.size());
    const auto tasks = divide(run.rule().features, ops::kCausalRows, parts, jobs);
    std::vector<Task> sums;
    std::ranges::copy_if(tasks, std::back_inserter(sums),
                         [&](const Task& t) { return t.part + 1 < jobs[t.job].parts.size(); });
    sum_parts(run, sums, exec, jobs);
    for (auto& job : jobs) {
        ops::KeySums before(run.rule().features, job.inputs->v.size());
        for (auto& part : job.parts) {
            auto next = before;
            next.add(part);
            part = std::exchange(before, std::move(next));
        }
    }
    for_tasks(run, tasks.size(), exec, [&](std::size_t t, KernelWorker& worker) {
        auto& job = jobs[tasks[t].job];
        const std::size_t part = tasks[t].part;
        worker.attend_causal(*job.inputs, job.part(part), std::move(job.parts[part]), *job.out);
    });
}

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

}  // namespace

KernelAttention::KernelAttention(const AttentionConfig& config, Matrix<float> omega)
    : config_(config), omega_(std::move(omega)) {
    validate(config_);
    if (omega_.rows() == 0 || omega_.cols() == 0)
        fail(ErrorCode::bad_data, "attention: expected at least one direction");
    if (!std::ranges::all_of(omega_.values(), [](float w) { return std::isfinite(w); }))
        fail(ErrorCode::bad_data, "attention: the directions are not finite");
}

KernelAttention::KernelAttention(const AttentionConfig& config, std::unique_ptr<const Projector> projector)
    : config_(config), projector_(std::move(projector)) {
    validate(config_);
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
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        check_size(*this, inputs[i].q.size());
        validate(inputs[i], options);
        check_output(inputs[i], out[i]);
    }
    const KernelRun run(*this, options);
    auto jobs = jobs_of(inputs, out);
    if (jobs.empty()) return;
    options.causal ? run_causal(run, exec, jobs) : run_all_keys(run, exec, jobs);
}

namespace {

// Scores of one query: φ(q)ᵀφ(k) on the scale of each block of keys.
struct RawRows {
    Matrix<float> scores;            // rows x keys
    std::vector<double> exponents;   // of the scores of each key
    std::vector<double> maxima;      // exponent of the largest feature of each key; -infinity if ignored
    std::vector<double> query_sums;  // Σ φ(q)
};

RawRows raw_rows(KernelWorker& worker, const AttentionInputs& inputs, std::size_t head,
                 std::span<const std::size_t> rows) {
    const std::size_t keys = inputs.k.length();
    const std::size_t key_head = head / (inputs.q.heads() / inputs.k.heads());
    RawRows out{.scores = Matrix<float>(rows.size(), keys), .exponents = {}, .maxima = {}, .query_sums = {}};
    std::vector<ops::Panels> queries;
    for (const std::size_t r : rows) {
        queries.push_back(worker.queries(inputs, {head, r, r + 1}).features);
        double sum = 0.0;
        for (std::size_t f = 0; f < queries.back().cols(); ++f) sum += queries.back()(0, f);
        out.query_sums.push_back(sum);
    }
    ops::Panels scores;
    for (std::size_t first = 0; first < keys; first += ops::kAttentionRows) {
        const std::size_t n = std::min(ops::kAttentionRows, keys - first);
        const auto& block = worker.keys(inputs, {key_head, first, first + n});
        scores.reshape(1, n);
        for (std::size_t i = 0; i < rows.size(); ++i) {
            ops::multiply(queries[i], block.features, scores);
            for (std::size_t j = 0; j < n; ++j) out.scores(i, first + j) = scores(0, j);
        }
        out.exponents.insert(out.exponents.end(), n, block.exponent);
        out.maxima.insert(out.maxima.end(), block.maxima.begin(),
                          block.maxima.begin() + static_cast<std::ptrdiff_t>(n));
    }
    return out;
}

// Divides the scores of row i by their sum; only keys before `end` count. false if the sum is 0 or not
// finite.
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

}  // namespace

Matrix<float> KernelAttention::rows(const AttentionInputs& inputs, const AttentionOptions& options,
                                    std::size_t head, std::span<const std::size_t> rows,
                                    const Exec& exec) const {
    check_size(*this, inputs.q.size());
    validate(inputs, options);
    const KernelRun run(*this, options);
    KernelWorker worker(run, exec);
    auto raw = raw_rows(worker, inputs, head, rows);
    const bool late = ops::attention_form(config_.form).exponential;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::size_t end = options.causal ? rows[i] + 1 : inputs.k.length();
        if (!normalise_row(late ? config_.kernel_epsilon : 0.0, end, i, raw))
            check_normaliser(0, 1, head, rows[i]);
    }
    return std::move(raw.scores);
}

struct AttentionState::Sums {
    Sums(const KernelAttention& attention, const Shape& s, const AttentionOptions& options)
        : run(attention, options),
          shape(s),
          d(attention.inputs()),
          heads(s.key_heads, ops::KeySums(run.rule().features, s.value_size)) {}

    KernelRun run;
    Shape shape;
    std::size_t d;
    std::vector<ops::KeySums> heads;
    std::uint64_t tokens = 0;
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
    Matrix<float> projections(q.rows() + k.rows(), s.run.rule().features.directions);
    const auto rows = [&](MatrixView<const float> x, std::size_t h, std::size_t at) -> ops::HeadRows {
        if (!s.run.projects()) return {x.slice_rows(h, 1), {}};
        const auto u = projections.view().slice_rows(at, 1);
        s.run.project(x.slice_rows(h, 1), s.tokens * projections.rows() + at, {.threads = 1}, u);
        return {x.slice_rows(h, 1), u};
    };
    for (std::size_t h = 0; h < k.rows(); ++h)
        s.heads[h].add_key(s.run.rule(), rows(k, h, q.rows() + h), v.row(h));
    const std::size_t group = q.rows() / k.rows();
    for (std::size_t h = 0; h < q.rows(); ++h) {
        const bool right = s.heads[h / group].attend(s.run.rule(), rows(q, h, h), out.row(h));
        check_normaliser(right ? 1 : 0, 1, h, s.tokens);
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
