#include "imka/attention/gpu_attention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/cuda/gpu.hpp"
#include "imka/ops/attention/kernel_heads.hpp"

namespace imka {
namespace {

constexpr auto kPooled = cuda::MemorySource::pooled;

template <class T>
bool has_gaps(const HeadsView<T>& x) {
    return x.head(0).stride() != x.size() || (x.heads() > 1 && x.head_stride() != x.length() * x.size());
}

// Without gaps. Values that are not finite belong to ignored keys and become 0, as for a chip.
cuda::Buffer<float> upload_heads(const HeadsView<const float>& x, bool masked, int gpu) {
    const std::size_t rows = x.heads() * x.length();
    if (!masked && !has_gaps(x)) return {gpu, std::span(x.head(0).data(), rows * x.size()), kPooled};
    Matrix<float> packed(rows, x.size());
    for (std::size_t r = 0; r < rows; ++r)
        std::ranges::transform(x.head(r / x.length()).row(r % x.length()), packed.row(r).begin(),
                               [](float v) { return std::isfinite(v) ? v : 0.0F; });
    return {gpu, packed.values(), kPooled};
}

const AttentionInputs& checked(const AttentionInputs& inputs, const AttentionOptions& options, int gpu) {
    cuda::require_gpu(gpu);
    validate(inputs, options);
    return inputs;
}

std::vector<int> to_ints(std::span<const std::size_t> values) {
    return {values.begin(), values.end()};
}

// The status that kernels report for rows.
class Status {
public:
    explicit Status(int gpu) : place_(gpu, std::vector{ops::kNoGpuError}, kPooled) {}
    ops::GpuStatus* place() const { return place_.data(); }
    // Waits for the kernels. Returns kNoGpuError or the first invalid row.
    ops::GpuStatus wait() const {
        ops::GpuStatus found = ops::kNoGpuError;
        place_.download({&found, 1});
        return found;
    }

private:
    cuda::Buffer<ops::GpuStatus> place_;
};

ops::GpuExactAttention exact_work(const GpuSequence& s) {
    return {.size = s.size(),
            .q = s.q(),
            .k = s.k(),
            .v = s.v(),
            .key_size = static_cast<int>(s.d()),
            .scale = static_cast<float>(s.scale())};
}

ops::GpuAttentionRows rows_work(const GpuMatrixRows& rows, const cuda::Buffer<int>& numbers) {
    return {.head = static_cast<int>(rows.head),
            .rows = numbers.data(),
            .count = static_cast<int>(rows.rows.size()),
            .out = rows.out};
}

}  // namespace

GpuSequence::GpuSequence(const AttentionInputs& inputs, const AttentionOptions& options, int gpu)
    : gpu_(gpu),
      d_(checked(inputs, options, gpu).q.size()),
      scale_(options.scale.value_or(1.0 / std::sqrt(static_cast<double>(d_)))),
      q_(upload_heads(inputs.q, false, gpu)),
      k_(upload_heads(inputs.k, !inputs.key_mask.empty(), gpu)),
      v_(upload_heads(inputs.v, !inputs.key_mask.empty(), gpu)),
      mask_(gpu, inputs.key_mask, kPooled) {
    size_ = {.heads = static_cast<int>(inputs.q.heads()),
             .key_heads = static_cast<int>(inputs.k.heads()),
             .queries = static_cast<int>(inputs.q.length()),
             .keys = static_cast<int>(inputs.k.length()),
             .value_size = static_cast<int>(inputs.v.size()),
             .causal = options.causal,
             .key_mask = mask_.data()};
}

std::size_t GpuSequence::queries() const {
    return static_cast<std::size_t>(size_.heads) * static_cast<std::size_t>(size_.queries);
}
std::size_t GpuSequence::keys() const {
    return static_cast<std::size_t>(size_.key_heads) * static_cast<std::size_t>(size_.keys);
}

void exact_attention(const GpuSequence& sequence, std::span<const std::size_t> rows, float* out) {
    cuda::select_gpu(sequence.gpu());
    const Status status(sequence.gpu());
    const cuda::Buffer<int> numbers(sequence.gpu(), to_ints(rows), kPooled);
    auto work = exact_work(sequence);
    work.rows = numbers.data();
    work.row_count = static_cast<int>(rows.size());
    work.y = out;
    work.status = status.place();
    ops::start_exact_attention(work);
    const auto wrong = status.wait();
    if (wrong == ops::kNoGpuError) return;
    const std::size_t count = rows.empty() ? static_cast<std::size_t>(work.size.queries) : rows.size();
    const std::size_t query = rows.empty() ? wrong % count : rows[wrong % count];
    fail(ErrorCode::numeric,
         fmt::format("attention: the scores of query {} of head {} are too large for float", query,
                     wrong / count));
}

void exact_attention_rows(const GpuSequence& sequence, const GpuMatrixRows& rows) {
    cuda::select_gpu(sequence.gpu());
    const cuda::Buffer<int> numbers(sequence.gpu(), to_ints(rows.rows), kPooled);
    ops::start_exact_rows(exact_work(sequence), rows_work(rows, numbers));
    cuda::wait();
}

GpuAttention::GpuAttention(const AttentionConfig& config, const Projector& projector, int gpu)
    : config_(config),
      gpu_(gpu),
      m_(projector.outputs()),
      projector_(require_gpu_projector(projector, gpu)) {}

GpuAttention::Projected GpuAttention::project(const GpuSequence& sequence, std::uint64_t product_seed,
                                              const Exec& exec) const {
    assert(sequence.gpu() == gpu_);
    cuda::select_gpu(gpu_);
    const FiniteCheck check(gpu_);  // the inputs are finite
    Projected out{.queries = {gpu_, sequence.queries() * m_, kPooled},
                  .keys = {gpu_, sequence.keys() * m_, kPooled}};
    ops::GpuFeatureJob job{.x = sequence.q(),
                           .z = out.queries.data(),
                           .rows = sequence.queries(),
                           .stride = m_,
                           .row = {.function = ops::FeatureFunction::identity},
                           .input_scale = static_cast<float>(std::sqrt(sequence.scale())),
                           .not_finite = check.place()};
    projector_->features(job, {product_seed, 0}, exec);
    job.x = sequence.k();
    job.z = out.keys.data();
    job.rows = sequence.keys();
    projector_->features(job, {product_seed, sequence.queries()}, exec);
    return out;
}

ops::GpuKernelAttention GpuAttention::work(const GpuSequence& sequence, const Projected& projected) const {
    const auto& form = ops::attention_form(config_.form);
    return {.size = sequence.size(),
            .form = config_.form,
            .directions = static_cast<int>(m_),
            .epsilon = static_cast<float>(config_.kernel_epsilon),
            .query_projections = projected.queries.data(),
            .key_projections = projected.keys.data(),
            .values = sequence.v(),
            .keys = sequence.k(),
            .key_size = static_cast<int>(sequence.d()),
            .norm_exponent = static_cast<float>(form.norm_exponent * sequence.scale())};
}

namespace {

void check_normalisers(const Status& status, const GpuSequence& sequence) {
    const auto wrong = status.wait();
    if (wrong == ops::kNoGpuError) return;
    const auto queries = static_cast<std::size_t>(sequence.size().queries);
    ops::fail_normaliser(wrong / queries, wrong % queries);
}

}  // namespace

void GpuAttention::attend(const GpuSequence& sequence, const Projected& projected, float* out) const {
    cuda::select_gpu(gpu_);
    const Status status(gpu_);
    auto attention = work(sequence, projected);
    attention.y = out;
    attention.status = status.place();
    const cuda::Memory scratch(gpu_, ops::kernel_attention_scratch_bytes(attention), kPooled);
    attention.scratch = scratch.data();
    ops::start_kernel_attention(attention);
    check_normalisers(status, sequence);
}

void GpuAttention::rows(const GpuSequence& sequence, const Projected& projected,
                        const GpuMatrixRows& rows) const {
    cuda::select_gpu(gpu_);
    const Status status(gpu_);
    const cuda::Buffer<int> numbers(gpu_, to_ints(rows.rows), kPooled);
    auto attention = work(sequence, projected);
    attention.status = status.place();
    auto some = rows_work(rows, numbers);
    const cuda::Memory scratch(gpu_, ops::kernel_rows_scratch_bytes(attention, some), kPooled);
    some.scratch = scratch.data();
    ops::start_kernel_rows(attention, some);
    check_normalisers(status, sequence);
}

SquaredDifference squared_difference(int gpu, const float* a, const float* b, std::size_t count) {
    cuda::select_gpu(gpu);
    std::vector<double> parts(std::size_t{2} * ops::kDifferenceParts);
    const cuda::Buffer<double> sums(gpu, parts.size(), kPooled);
    ops::start_difference({.a = a, .b = b, .count = static_cast<std::int64_t>(count), .sums = sums.data()});
    sums.download(parts);
    SquaredDifference out;
    for (std::size_t i = 0; i < parts.size(); i += 2) {
        out.squares += parts[i];
        out.errors += parts[i + 1];
    }
    return out;
}

void download_heads(const cuda::Buffer<float>& from, HeadsView<float> to) {
    const std::size_t rows = to.heads() * to.length();
    if (!has_gaps(to)) return from.download(std::span(to.head(0).data(), rows * to.size()));
    Matrix<float> packed(rows, to.size());
    from.download(packed.values());
    for (std::size_t r = 0; r < rows; ++r)
        std::ranges::copy(packed.row(r), to.head(r / to.length()).row(r % to.length()).begin());
}

}  // namespace imka
