#include "imka/ops/attention/fused.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "imka/base/error.hpp"
#include "imka/cuda/gpu.hpp"
#include "imka/ops/attention/fused_work.hpp"

namespace imka::ops {
namespace {

constexpr std::int64_t kBlocks = 264;  // that a large GPU runs at the same time
constexpr std::int64_t kLeastSplit = 256;
constexpr std::size_t kAlignment = 256;

void require(bool ok, const char* what, std::int64_t value, const char* expected) {
    if (!ok) {
        fail(ErrorCode::bad_config,
             fmt::format("fused attention: {} is {}; expected {}", what, value, expected));
    }
}

void validate(const FusedAttention& s) {
    if (s.form != AttentionForm::positive && s.form != AttentionForm::relu) {
        fail(ErrorCode::bad_config,
             fmt::format("fused attention: form '{}'; expected positive or relu", to_string(s.form)));
    }
    const auto width = s.heads * s.head_size;
    constexpr std::int64_t kMost = 1 << 30;
    require(s.batch > 0 && s.batch < kMost, "batch", s.batch, "1 or more");
    require(s.tokens > 0 && s.tokens < kMost, "tokens", s.tokens, "1 or more");
    require(s.heads > 0 && s.heads < kMost / s.batch, "heads", s.heads, "1 or more, at most 2^30 / batch");
    require(s.head_size == 16 || s.head_size == 32 || s.head_size == 64, "head_size", s.head_size,
            "16, 32 or 64");
    require(s.directions > 0 && s.directions <= 256 && s.directions % 16 == 0, "directions", s.directions,
            "a multiple of 16 up to 256");
    require(s.stride >= width && s.stride % 8 == 0, "stride", s.stride,
            "a multiple of 8, heads x head_size or more");
    require(s.out_stride >= width && s.out_stride % 8 == 0, "out_stride", s.out_stride,
            "a multiple of 8, heads x head_size or more");
}

// Areas of one allocation, one after the other. With a null base, only counts.
class Areas {
public:
    explicit Areas(void* base) : base_(static_cast<char*>(base)) {}
    template <class T>
    T* take(std::size_t count) {
        auto* at = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
        used_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
        return at;
    }
    std::size_t used() const { return used_; }

private:
    char* base_;
    std::size_t used_ = 0;
};

struct Sizes {
    std::size_t all_heads;  // of all sequences
    std::size_t features;
    std::size_t splits;
    std::size_t row;      // bytes of a row of features, all parts
    std::size_t element;  // bytes
};
Sizes sizes(const FusedAttention& s) {
    const auto all_heads = s.batch * s.heads;
    const auto splits = std::max<std::int64_t>(1, std::min(kBlocks / all_heads, s.tokens / kLeastSplit));
    const bool single = s.type == FusedType::float32;
    return {.all_heads = static_cast<std::size_t>(all_heads),
            .features = attention_form(s.form).per_direction * static_cast<std::size_t>(s.directions),
            .splits = static_cast<std::size_t>(splits),
            .row = static_cast<std::size_t>(s.head_size + 8) * (single ? 4U : 2U),
            .element = single ? 4U : 2U};
}

std::size_t lay_saved(const FusedAttention& s, void* base, FusedWork& work) {
    const auto n = sizes(s);
    Areas areas(base);
    work.omega = areas.take<char>(static_cast<std::size_t>(s.directions) * n.row);
    work.bound = areas.take<float>(1);
    work.sums = areas.take<char>(n.all_heads * n.features * n.row);
    work.heads = areas.take<float>(n.all_heads * static_cast<std::size_t>(s.head_size + 4));
    work.inverses = areas.take<float>(n.all_heads * static_cast<std::size_t>(s.tokens));
    work.deviations =
        areas.take<char>(n.all_heads * static_cast<std::size_t>(s.tokens * s.head_size) * n.element);
    return areas.used();
}

std::size_t lay_workspace(const FusedAttention& s, void* base, FusedWork& work) {
    const auto n = sizes(s);
    Areas areas(base);
    const auto partial = n.features * static_cast<std::size_t>(s.head_size + 1) + 4;
    work.partials = areas.take<float>(n.all_heads * n.splits * partial);
    work.gradient_sums = areas.take<char>(n.all_heads * n.features * n.row);
    return areas.used();
}

FusedWork make_work(const FusedAttention& s, const FusedInputs& inputs) {
    validate(s);
    const auto n = sizes(s);
    FusedWork work;
    work.in = inputs;
    work.stride = s.stride;
    work.out_stride = s.out_stride;
    work.batch = static_cast<int>(s.batch);
    work.tokens = static_cast<int>(s.tokens);
    work.heads_per_token = static_cast<int>(s.heads);
    work.directions = static_cast<int>(s.directions);
    work.features = static_cast<int>(n.features);
    work.splits = static_cast<int>(n.splits);
    work.epsilon = s.epsilon;
    work.cut_gradient = s.cut_gradient;
    return work;
}

}  // namespace

std::size_t fused_saved_bytes(const FusedAttention& shape) {
    validate(shape);
    FusedWork work;
    return lay_saved(shape, nullptr, work);
}

std::size_t fused_workspace_bytes(const FusedAttention& shape) {
    validate(shape);
    FusedWork work;
    return lay_workspace(shape, nullptr, work);
}

void fused_forward(const FusedAttention& shape, const FusedInputs& inputs, void* stream,
                   const FusedOutputs& outputs) {
    auto work = make_work(shape, inputs);
    lay_saved(shape, outputs.saved, work);
    lay_workspace(shape, outputs.workspace, work);
    work.y = outputs.y;
    start_fused_forward(shape, work, stream);
}

void fused_backward(const FusedAttention& shape, const FusedInputs& inputs, void* stream,
                    const FusedGradients& gradients) {
    auto work = make_work(shape, inputs);
    // The kernels of the backward pass only read this memory.
    lay_saved(shape, const_cast<void*>(gradients.saved),
              work);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    lay_workspace(shape, gradients.workspace, work);
    work.dy = gradients.dy;
    work.dq = gradients.dq;
    work.dk = gradients.dk;
    work.dv = gradients.dv;
    start_fused_backward(shape, work, stream);
}

#if !IMKA_HAVE_CUDA
void start_fused_forward(const FusedAttention&, const FusedWork&, void*) {
    cuda::require_gpu(0);
}
void start_fused_backward(const FusedAttention&, const FusedWork&, void*) {
    cuda::require_gpu(0);
}
#endif

}  // namespace imka::ops
