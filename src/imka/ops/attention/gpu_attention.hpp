// Attention on a GPU: kernelised with given projections, exact, and rows of both matrices. Tensors are
// sequences x heads x tokens x components, without gaps; pointers are to memory of the current GPU. Calls
// start kernels on the thread's default stream and return. The bits of a result depend on its sequence only
// and are the same in every run.
//
// Accuracy: products and sums over blocks of keys in float, sums over blocks in double; exponentials within 2
// ULP, cos and sin as in ops/epilogue. Ignored keys may hold anything.
#pragma once

#include <cstddef>
#include <cstdint>

#include "imka/ops/attention/form.hpp"

namespace imka::ops {

// Error code of kernels: the smallest code wins. No error: all bits set.
using GpuStatus = unsigned long long;
inline constexpr GpuStatus kNoGpuError = ~GpuStatus{0};

// Sizes of the heads. Query heads are a multiple of the key heads.
struct GpuHeadSizes {
    std::int64_t sequences = 1;
    int heads = 1;
    int key_heads = 1;
    int queries = 0;
    int keys = 0;
    int value_size = 0;
    bool causal = false;                     // query i uses keys 0 .. i; as many queries as keys
    const std::uint8_t* key_mask = nullptr;  // sequences x keys; none: all are used
};

// Features of projections: form, epsilon and norms of keys as in ops/attention/head.hpp.
struct GpuKernelAttention {
    GpuHeadSizes size;
    AttentionForm form = AttentionForm::positive;
    int directions = 0;
    float epsilon = 0.0F;
    const float* query_projections = nullptr;
    const float* key_projections = nullptr;
    const float* values = nullptr;
    const float* keys = nullptr;  // for their norms; none if norm_exponent is 0
    int key_size = 0;
    float norm_exponent = 0.0F;  // features of a key are multiplied by exp(norm_exponent |key|²)
    float* y = nullptr;
    void* scratch = nullptr;
    GpuStatus* status = nullptr;
    GpuStatus code = 0;  // plus the row of y whose normaliser is 0 or not finite
};
std::size_t kernel_attention_scratch_bytes(const GpuKernelAttention& work);
void start_kernel_attention(const GpuKernelAttention& work);

// Rows of the matrix of one head of one sequence: out(i, j) for query rows[i] of `head` and key j. Pointers
// of `attention` are those of the sequence; its scratch, y and values are not used.
struct GpuAttentionRows {
    int head = 0;
    const int* rows = nullptr;
    int count = 0;
    float* out = nullptr;  // count x keys
    void* scratch = nullptr;
};
std::size_t kernel_rows_scratch_bytes(const GpuKernelAttention& attention, const GpuAttentionRows& rows);
void start_kernel_rows(const GpuKernelAttention& attention, const GpuAttentionRows& rows);

// softmax(scale q kᵀ) v without the matrix of scores.
struct GpuExactAttention {
    GpuHeadSizes size;
    const float* q = nullptr;
    const float* k = nullptr;
    const float* v = nullptr;
    int key_size = 0;  // d
    float scale = 1.0F;
    const int* rows = nullptr;  // only these queries of each head, increasing; none: all
    int row_count = 0;
    float* y = nullptr;
    GpuStatus* status = nullptr;
    GpuStatus code = 0;  // plus the row of y whose scores are too large for float
};
void start_exact_attention(const GpuExactAttention& work);
// As start_kernel_rows; needs no scratch.
void start_exact_rows(const GpuExactAttention& attention, const GpuAttentionRows& rows);

// Per part of two arrays of `count` values: Σ a² and Σ (a - b)², in double.
inline constexpr int kDifferenceParts = 512;
struct GpuDifference {
    const float* a = nullptr;
    const float* b = nullptr;
    std::int64_t count = 0;
    double* sums = nullptr;  // kDifferenceParts x 2
};
void start_difference(const GpuDifference& work);

}  // namespace imka::ops
