// Kernels of norm.hpp and pointwise.hpp; shapes are already checked.
#pragma once

#include "imka/ops/norm/norm.hpp"
#include "imka/ops/norm/pointwise.hpp"

namespace imka::ops::rows {

inline constexpr int kMostNormWidth = 256;
inline constexpr unsigned kBlocks = 528;  // at most; each has a row of partial sums
inline constexpr int kMostKinds = 4;      // of sums in a pass

void start(const TokenRows& rows, const ResidualInputs& in, void* stream, const ResidualOutputs& out);
void start(const TokenRows& rows, const ResidualInputs& in, void* stream, const ResidualGradients& out);
void start(const TokenRows& rows, const EmbeddingInputs& in, void* stream, const EmbeddingOutputs& out);
void start(const TokenRows& rows, const EmbeddingInputs& in, void* stream, const EmbeddingGradients& out);
void start(const TokenRows& rows, const ActivationInputs& in, void* stream, void* y);
void start(const TokenRows& rows, const ActivationInputs& in, void* stream, const ActivationGradients& out);
void start_sums(const TokenRows& rows, const void* x, void* stream, const ColumnSums& out);
void start_means(const TokenRows& rows, const void* x, void* stream, float* means);
void start_means_backward(const TokenRows& rows, const float* dmeans, void* stream, void* dx);

}  // namespace imka::ops::rows
