#include "imka/attention/kernel_worker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "imka/base/error.hpp"

namespace imka {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Beyond this difference of exponents within a causal block, features of its first keys would be lost.
constexpr double kMostSpread = 60.0;

std::size_t group_of(const AttentionInputs& inputs) {
    return inputs.q.heads() / inputs.k.heads();
}

std::span<const std::uint8_t> mask_of(const AttentionInputs& inputs, const HeadRange& range) {
    if (inputs.key_mask.empty()) return {};
    return inputs.key_mask.subspan(range.begin, range.end - range.begin);
}

template <class T>
MatrixView<T> rows_of(const HeadsView<T>& x, const HeadRange& range) {
    return x.head(range.head).slice_rows(range.begin, range.end - range.begin);
}

// Calls body(part) for parts of `rows` rows.
template <class Body>
void for_blocks(const HeadRange& range, std::size_t rows, const Body& body) {
    for (std::size_t r = range.begin; r < range.end; r += rows)
        body(HeadRange{range.head, r, std::min(range.end, r + rows)});
}

}  // namespace

void check_normaliser(std::size_t wrong, std::size_t count, std::size_t head, std::size_t first) {
    if (wrong == count) return;
    fail(ErrorCode::numeric,
         fmt::format(
             "attention: the normaliser of query {} of head {} is 0 or not finite: no key has a feature "
             "in common with it; use kernel_epsilon > 0 or smaller inputs",
             first + wrong, head));
}

KernelRun::KernelRun(const KernelAttention& attention, const AttentionOptions& options)
    : projector_(attention.projector_.get()), product_seed_(options.product_seed) {
    const double scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(attention.inputs())));
    rule_ = {.features = {attention.config_.form, attention.outputs(),
                          static_cast<float>(attention.config_.kernel_epsilon)},
             .input_scale = std::sqrt(scale)};
    if (projects()) return;
    directions_ = ops::directions_of(attention.omega_, rule_.input_scale);
    rule_.directions = &directions_;
}

void KernelRun::project(MatrixView<const float> x, std::uint64_t first, const Exec& exec,
                        MatrixView<float> u) const {
    Matrix<float> scaled(x.rows(), x.cols());
    for (std::size_t r = 0; r < x.rows(); ++r) {
        // Ignored keys may hold anything.
        for (std::size_t c = 0; c < x.cols(); ++c)
            scaled(r, c) = std::isfinite(x(r, c)) ? static_cast<float>(rule_.input_scale * x(r, c)) : 0.0F;
    }
    projector_->project(scaled, {product_seed_, first}, exec, u);
}

KernelWorker::KernelWorker(const KernelRun& run, const Exec& exec)
    : run_(run), exec_(without_progress(exec)) {
    exec_.threads = 1;
}

ops::HeadRows KernelWorker::projected(MatrixView<const float> x, std::uint64_t first, Matrix<float>& u) {
    if (!run_.projects()) return {x, {}};
    u = Matrix<float>(x.rows(), run_.rule().features.directions);
    run_.project(x, first, exec_, u);
    return {x, u};
}

ops::HeadRows KernelWorker::query_rows(const AttentionInputs& inputs, const HeadRange& range) {
    return projected(rows_of(inputs.q, range), range.head * inputs.q.length() + range.begin,
                     query_projections_);
}

ops::HeadRows KernelWorker::key_rows(const AttentionInputs& inputs, const HeadRange& range) {
    const std::uint64_t queries = inputs.q.heads() * inputs.q.length();
    return projected(rows_of(inputs.k, range), queries + range.head * inputs.k.length() + range.begin,
                     key_projections_);
}

const ops::KeyBlock& KernelWorker::keys(const AttentionInputs& inputs, const HeadRange& range) {
    ops::make_key_block(run_.rule(), key_rows(inputs, range), rows_of(inputs.v, range),
                        mask_of(inputs, range), keys_);
    return keys_;
}

const ops::QueryBlock& KernelWorker::queries(const AttentionInputs& inputs, const HeadRange& range) {
    ops::make_query_block(run_.rule(), query_rows(inputs, range), queries_);
    return queries_;
}

void KernelWorker::add_keys(const AttentionInputs& inputs, const HeadRange& range, ops::KeySums& sums) {
    for_blocks(range, ops::kAttentionRows, [&](const HeadRange& block) { sums.add(keys(inputs, block)); });
}

void KernelWorker::attend(const AttentionInputs& inputs, const HeadRange& range,
                          const ops::PreparedKeys& keys, const HeadsView<float>& out) {
    for_blocks(range, ops::kAttentionRows, [&](const HeadRange& block) {
        const auto rows = rows_of(out, block);
        const std::size_t wrong = output_.attend(queries(inputs, block), keys, rows);
        check_normaliser(wrong, rows.rows(), block.head, block.begin);
    });
}

void KernelWorker::attend_causal(const AttentionInputs& inputs, const HeadRange& range, ops::KeySums sums,
                                 const HeadsView<float>& out) {
    const std::size_t group = group_of(inputs);
    for_blocks(range, ops::kCausalRows, [&](const HeadRange& block) {
        (void)keys(inputs, block);
        earlier_.prepare_prefix(sums);
        const bool apart = spread(sums) > kMostSpread;
        for (std::size_t head = range.head * group; head < (range.head + 1) * group; ++head) {
            const HeadRange here{head, block.begin, block.end};
            const auto rows = rows_of(out, here);
            if (apart) {
                attend_one_by_one(inputs, here, sums, rows);
                continue;
            }
            const std::size_t wrong =
                output_.attend_causal(run_.rule(), queries(inputs, here), keys_, earlier_, rows);
            check_normaliser(wrong, rows.rows(), head, block.begin);
        }
        sums.add(keys_);
    });
}

// Largest exponent of the block less that of its first key and everything before.
double KernelWorker::spread(const ops::KeySums& sums) const {
    double first = sums.keys() > 0 ? earlier_.exponent() : -kInfinity;
    for (std::size_t j = 0; j < keys_.values.rows() && first == -kInfinity; ++j) first = keys_.maxima[j];
    return first == -kInfinity ? 0.0 : keys_.exponent - first;
}

void KernelWorker::attend_one_by_one(const AttentionInputs& inputs, const HeadRange& range, ops::KeySums sums,
                                     MatrixView<float> out) {
    const HeadRange key_range{range.head / group_of(inputs), range.begin, range.end};
    const auto keys = key_rows(inputs, key_range);
    const auto queries = query_rows(inputs, range);
    const auto values = rows_of(inputs.v, key_range);
    const auto mask = mask_of(inputs, range);
    const auto one = [](const ops::HeadRows& rows, std::size_t r) -> ops::HeadRows {
        return {rows.x.slice_rows(r, 1), rows.u.rows() > 0 ? rows.u.slice_rows(r, 1) : rows.u};
    };
    for (std::size_t r = 0; r < out.rows(); ++r) {
        if (mask.empty() || mask[r] != 0) sums.add_key(run_.rule(), one(keys, r), values.row(r));
        const bool right = sums.attend(run_.rule(), one(queries, r), out.row(r));
        check_normaliser(right ? 1 : 0, 1, range.head, range.begin + r);
    }
}

}  // namespace imka
