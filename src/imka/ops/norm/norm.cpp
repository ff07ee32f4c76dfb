#include "imka/ops/norm/norm.hpp"

#include <fmt/format.h>

#include "imka/base/error.hpp"
#include "imka/cuda/gpu.hpp"
#include "imka/ops/norm/pointwise.hpp"
#include "imka/ops/norm/rows.hpp"

namespace imka::ops {
namespace {

constexpr std::int64_t kMostWidth = 2048;

void require(bool ok, const char* what, double value, const char* expected) {
    if (!ok) {
        fail(ErrorCode::bad_config,
             fmt::format("token operations: {} is {}; expected {}", what, value, expected));
    }
}

void validate(const TokenRows& r, std::int64_t most_width) {
    constexpr std::int64_t kMost = std::int64_t{1} << 31;
    const auto number = [](std::int64_t n) { return static_cast<double>(n); };
    require(r.documents > 0 && r.documents < kMost, "documents", number(r.documents), "1 or more");
    require(r.tokens > 0 && r.tokens < kMost / r.documents, "tokens", number(r.tokens),
            "1 or more, less than 2^31 / documents");
    require(r.width > 0 && r.width % 8 == 0 && r.width <= most_width, "width", number(r.width),
            most_width == rows::kMostNormWidth ? "a multiple of 8 up to 256" : "a multiple of 8 up to 2048");
}
void validate(const TokenRows& r, const Dropout& d) {
    validate(r, rows::kMostNormWidth);
    require(d.share >= 0.0F && d.share < 1.0F, "share of dropout", d.share, "0 or more, less than 1");
}

}  // namespace

std::size_t column_workspace(const TokenRows& rows) {
    validate(rows, kMostWidth);
    return std::size_t{rows::kBlocks} * rows::kMostKinds * static_cast<std::size_t>(rows.width);
}

void residual_norm(const TokenRows& rows, const ResidualInputs& inputs, void* stream,
                   const ResidualOutputs& outputs) {
    validate(rows, inputs.dropout);
    rows::start(rows, inputs, stream, outputs);
}
void residual_norm_backward(const TokenRows& rows, const ResidualInputs& inputs, void* stream,
                            const ResidualGradients& gradients) {
    validate(rows, inputs.dropout);
    rows::start(rows, inputs, stream, gradients);
}
void embedding_norm(const TokenRows& rows, const EmbeddingInputs& inputs, void* stream,
                    const EmbeddingOutputs& outputs) {
    validate(rows, inputs.dropout);
    rows::start(rows, inputs, stream, outputs);
}
void embedding_norm_backward(const TokenRows& rows, const EmbeddingInputs& inputs, void* stream,
                             const EmbeddingGradients& gradients) {
    validate(rows, inputs.dropout);
    rows::start(rows, inputs, stream, gradients);
}

void bias_activation(const TokenRows& rows, const ActivationInputs& inputs, void* stream, void* y) {
    validate(rows, kMostWidth);
    rows::start(rows, inputs, stream, y);
}
void bias_activation_backward(const TokenRows& rows, const ActivationInputs& inputs, void* stream,
                              const ActivationGradients& gradients) {
    validate(rows, kMostWidth);
    rows::start(rows, inputs, stream, gradients);
}
void column_sums(const TokenRows& rows, const void* x, void* stream, const ColumnSums& outputs) {
    validate(rows, kMostWidth);
    rows::start_sums(rows, x, stream, outputs);
}
void document_means(const TokenRows& rows, const void* x, void* stream, float* means) {
    validate(rows, kMostWidth);
    rows::start_means(rows, x, stream, means);
}
void document_means_backward(const TokenRows& rows, const float* dmeans, void* stream, void* dx) {
    validate(rows, kMostWidth);
    rows::start_means_backward(rows, dmeans, stream, dx);
}

#if !IMKA_HAVE_CUDA
namespace rows {
void start(const TokenRows&, const ResidualInputs&, void*, const ResidualOutputs&) {
    cuda::require_gpu(0);
}
void start(const TokenRows&, const ResidualInputs&, void*, const ResidualGradients&) {
    cuda::require_gpu(0);
}
void start(const TokenRows&, const EmbeddingInputs&, void*, const EmbeddingOutputs&) {
    cuda::require_gpu(0);
}
void start(const TokenRows&, const EmbeddingInputs&, void*, const EmbeddingGradients&) {
    cuda::require_gpu(0);
}
void start(const TokenRows&, const ActivationInputs&, void*, void*) {
    cuda::require_gpu(0);
}
void start(const TokenRows&, const ActivationInputs&, void*, const ActivationGradients&) {
    cuda::require_gpu(0);
}
void start_sums(const TokenRows&, const void*, void*, const ColumnSums&) {
    cuda::require_gpu(0);
}
void start_means(const TokenRows&, const void*, void*, float*) {
    cuda::require_gpu(0);
}
void start_means_backward(const TokenRows&, const float*, void*, void*) {
    cuda::require_gpu(0);
}
}  // namespace rows
#endif

}  // namespace imka::ops
