// Attention on a GPU. A sequence is copied there once; projections, outputs and matrices stay there. Calls
// wait for their results. Thread-safe; every thread has its own stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "imka/attention/attention.hpp"
#include "imka/cuda/memory.hpp"
#include "imka/features/gpu_feature_map.hpp"
#include "imka/ops/attention/gpu_attention.hpp"

namespace imka {

// One sequence in the memory of a GPU, with its attention options.
class GpuSequence {
public:
    // Same errors as validate(inputs, options); Error{missing_part} without the GPU or its memory.
    GpuSequence(const AttentionInputs& inputs, const AttentionOptions& options, int gpu);

    int gpu() const { return gpu_; }
    const ops::GpuHeadSizes& size() const { return size_; }
    std::size_t d() const { return d_; }
    double scale() const { return scale_; }
    const float* q() const { return q_.data(); }
    const float* k() const { return k_.data(); }
    const float* v() const { return v_.data(); }
    std::size_t queries() const;  // of all heads
    std::size_t keys() const;     // of all heads

private:
    int gpu_;
    ops::GpuHeadSizes size_;
    std::size_t d_;
    double scale_;
    cuda::Buffer<float> q_;
    cuda::Buffer<float> k_;
    cuda::Buffer<float> v_;
    cuda::Buffer<std::uint8_t> mask_;
};

// out, on the GPU: heads x queries x size of a value. rows: the queries of each head to compute, in
// increasing order; empty: all.
void exact_attention(const GpuSequence& sequence, std::span<const std::size_t> rows, float* out);

// Rows of the matrix of one head.
struct GpuMatrixRows {
    std::size_t head = 0;
    std::span<const std::size_t> rows;
    float* out = nullptr;  // on the GPU: rows x keys
};
void exact_attention_rows(const GpuSequence& sequence, const GpuMatrixRows& rows);

// Kernelised attention with the Ω or the projector of a KernelAttention, which must outlive this object.
class GpuAttention {
public:
    // Same errors as require_gpu_projector.
    GpuAttention(const AttentionConfig& config, const Projector& projector, int gpu);

    // Projections of all queries and keys of a sequence.
    struct Projected {
        cuda::Buffer<float> queries;
        cuda::Buffer<float> keys;
    };
    Projected project(const GpuSequence& sequence, std::uint64_t product_seed, const Exec& exec) const;
    // out, on the GPU: heads x queries x size of a value. Error{numeric} as KernelAttention::run.
    void attend(const GpuSequence& sequence, const Projected& projected, float* out) const;
    void rows(const GpuSequence& sequence, const Projected& projected, const GpuMatrixRows& rows) const;

private:
    ops::GpuKernelAttention work(const GpuSequence& sequence, const Projected& projected) const;

    AttentionConfig config_;
    int gpu_;
    std::size_t m_;
    std::unique_ptr<const GpuProjector> projector_;
};

// Sums over the values of two arrays on the GPU.
struct SquaredDifference {
    double squares = 0.0;  // Σ a²
    double errors = 0.0;   // Σ (a - b)²
};
SquaredDifference squared_difference(int gpu, const float* a, const float* b, std::size_t count);

// Copies from memory of the GPU, where the heads follow each other without gaps, to a view.
void download_heads(const cuda::Buffer<float>& from, HeadsView<float> to);

}  // namespace imka
