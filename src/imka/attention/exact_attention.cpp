// Checks of the inputs, and exact attention.
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "imka/attention/attention.hpp"
#include "imka/attention/gpu_attention.hpp"
#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/linalg/gemm.hpp"
#include "imka/ops/activation/activation.hpp"
#include "imka/ops/attention/head.hpp"

namespace imka {
namespace {

constexpr std::size_t kQueriesPerTask = 1024;

void check_shapes(const AttentionInputs& x, const AttentionOptions& options) {
    const auto& [q, k, v, mask] = x;
    const auto wrong = [](const std::string& what) { fail(ErrorCode::bad_data, "attention: " + what); };
    if (q.heads() == 0 || q.length() == 0 || q.size() == 0 || k.length() == 0 || v.size() == 0)
        wrong("expected at least one head, token and component");
    if (k.size() != q.size())
        wrong(fmt::format("queries have {} components and keys {}", q.size(), k.size()));
    if (v.heads() != k.heads() || v.length() != k.length())
        wrong(fmt::format("expected as many values as keys; keys are {} x {}, values {} x {}", k.heads(),
                          k.length(), v.heads(), v.length()));
    if (k.heads() == 0 || q.heads() % k.heads() != 0)
        wrong(fmt::format("{} heads of queries cannot share {} heads of keys; expected a multiple", q.heads(),
                          k.heads()));
    if (!mask.empty() && mask.size() != k.length())
        wrong(fmt::format("the key mask has {} values for {} keys", mask.size(), k.length()));
    if (options.causal && q.length() != k.length())
        wrong(fmt::format("causal attention needs equal numbers of queries and keys; got {} and {}",
                          q.length(), k.length()));
}

Fields fields(AttentionOptions& o) {
    return {field("scale", o.scale, range::positive("of the scores"))};
}

void check_finite(const HeadsView<const float>& x, std::span<const std::uint8_t> mask, const char* what) {
    for (std::size_t h = 0; h < x.heads(); ++h) {
        const auto head = x.head(h);
        for (std::size_t r = 0; r < head.rows(); ++r) {
            if (!mask.empty() && mask[r] == 0) continue;
            if (std::ranges::all_of(head.row(r), [](float e) { return std::isfinite(e); })) continue;
            fail(ErrorCode::bad_data, fmt::format("attention: {} {} of head {} is not finite", what, r, h));
        }
    }
}

double scale_of(const AttentionOptions& options, std::size_t d) {
    return options.scale.value_or(1.0 / std::sqrt(static_cast<double>(d)));
}

void exact_on_gpu(const AttentionInputs& inputs, const AttentionOptions& options, int gpu,
                  HeadsView<float> out) {
    const GpuSequence sequence(inputs, options, gpu);
    const cuda::Buffer<float> y(gpu, sequence.queries() * inputs.v.size(), cuda::MemorySource::pooled);
    exact_attention(sequence, {}, y.data());
    download_heads(y, out);
}

}  // namespace

void validate(const AttentionInputs& inputs, const AttentionOptions& options) {
    check_shapes(inputs, options);
    auto copy = options;
    if (options.scale) check_ranges(fields(copy));  // a state checks every token
    check_finite(inputs.q, {}, "query");
    check_finite(inputs.k, inputs.key_mask, "key");
    check_finite(inputs.v, inputs.key_mask, "value");
}

void exact_attention(const AttentionInputs& inputs, const AttentionOptions& options, const Exec& exec,
                     HeadsView<float> out) {
    if (exec.device.kind == DeviceKind::cuda) return exact_on_gpu(inputs, options, exec.device.number, out);
    validate(inputs, options);
    const std::size_t key_heads = inputs.k.heads();
    const std::size_t group = inputs.q.heads() / key_heads;
    std::vector<ops::ExactKeys> keys(key_heads);
    parallel_for(exec, key_heads, [&](std::size_t h) {
        keys[h] = ops::exact_keys(inputs.k.head(h), inputs.v.head(h), inputs.key_mask,
                                  scale_of(options, inputs.q.size()));
    });
    const std::size_t length = inputs.q.length();
    const std::size_t parts = (length + kQueriesPerTask - 1) / kQueriesPerTask;
    parallel_for_workers(exec, inputs.q.heads() * parts, [&]() -> Worker {
        return [&, output = ops::ExactOutput()](std::size_t task) mutable {
            const std::size_t head = task / parts;
            const std::size_t begin = task % parts * kQueriesPerTask;
            for (std::size_t r = begin; r < std::min(length, begin + kQueriesPerTask);
                 r += ops::kAttentionRows) {
                const std::size_t n = std::min(ops::kAttentionRows, length - r);
                const std::size_t wrong =
                    output.attend({inputs.q.head(head).slice_rows(r, n), options.causal, r},
                                  keys[head / group], out.head(head).slice_rows(r, n));
                if (wrong < n)
                    fail(ErrorCode::numeric,
                         fmt::format("attention: the scores of query {} of head {} are too large for float",
                                     r + wrong, head));
            }
        };
    });
}

Matrix<float> exact_attention_rows(const AttentionInputs& inputs, std::size_t head,
                                   std::span<const std::size_t> rows, const AttentionOptions& options) {
    validate(inputs, options);
    assert(inputs.k.heads() > 0);
    const auto q = inputs.q.head(head);
    const auto k = inputs.k.head(head / (inputs.q.heads() / inputs.k.heads()));
    Matrix<float> scaled(rows.size(), q.cols());
    for (std::size_t i = 0; i < rows.size(); ++i) {
        for (std::size_t c = 0; c < q.cols(); ++c)
            scaled(i, c) = static_cast<float>(scale_of(options, q.cols()) * q(rows[i], c));
    }
    Matrix<float> keys = copy_of(k);  // ignored keys may hold anything
    for (std::size_t j = 0; j < inputs.key_mask.size(); ++j) {
        if (inputs.key_mask[j] == 0) std::ranges::fill(keys.row(j), 0.0F);
    }
    Matrix<float> out(rows.size(), k.rows());
    gemm_nt(scaled, keys, out);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto row = out.row(i);
        bool any = false;
        for (std::size_t j = 0; j < row.size(); ++j) {
            const bool used =
                (!options.causal || j <= rows[i]) && (inputs.key_mask.empty() || inputs.key_mask[j] != 0);
            any = any || used;
            if (!used) row[j] = -std::numeric_limits<float>::infinity();
        }
        if (any)
            ops::softmax(row, row);
        else
            std::ranges::fill(row, 0.0F);
    }
    return out;
}

}  // namespace imka
