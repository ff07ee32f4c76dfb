// Kernels of graph operators: arguments as plain values, pointers to memory of the current GPU. Calls start
// kernels on the default stream and return. The bits of a result depend on its inputs only, not on the number
// of other rows or sequences.
#pragma once

#include <cstddef>
#include <cstdint>

#include "imka/graph/tensor.hpp"

namespace imka::graph::gpu {

// Error code of kernels: the smallest code wins. No error: all bits set.
using Status = unsigned long long;
inline constexpr Status kNoError = ~Status{0};
// Codes are node << kStatusBits | position: the position is an element or row of the node's output.
inline constexpr unsigned kStatusBits = 40;

// Functions of one element of each input.
enum class Function : std::uint8_t {
    copy,
    add,
    sub,
    mul,
    div,
    pow,
    max,
    min,
    equal,
    less,
    greater,
    less_or_equal,
    greater_or_equal,
    relu,
    gelu,
    gelu_tanh,
    sigmoid,
    tanh,
    erf,
    exp,
    log,
    sqrt,
    neg,
    abs,
    reciprocal,
    clip,
    where,  // inputs: bool, then two of any type of 4 bytes
    cast,
    logical_not,
};

inline constexpr int kMostAxes = 6;
inline constexpr int kMostInputs = 3;

// An output without gaps; inputs with any strides, in elements: 0 along axes on which they are repeated. Axes
// are merged where possible.
struct ElementsWork {
    Function function = Function::copy;
    DType from = DType::f32;  // of the inputs
    DType to = DType::f32;
    int inputs = 1;
    int axes = 0;
    std::int64_t sizes[kMostAxes] = {};
    std::int64_t strides[kMostInputs][kMostAxes] = {};
    const void* in[kMostInputs] = {};
    void* out = nullptr;
    std::int64_t count = 0;
    float low = 0.0F;  // of clip
    float high = 0.0F;
};
// False if there is no kernel for these types.
bool start_elements(const ElementsWork& work);

// Layer norm (inputs with scale and bias) or softmax of rows.
struct RowsWork {
    const float* x = nullptr;
    const float* scale = nullptr;
    const float* bias = nullptr;  // may be null
    float* y = nullptr;
    std::int64_t rows = 0;
    int size = 0;
    float epsilon = 0.0F;
};
void start_layer_norm(const RowsWork& work);
void start_softmax(const RowsWork& work);

// Sums over the middle axis of outer x axis x inner, in double, times `factor`.
struct ReduceWork {
    const float* x = nullptr;
    float* y = nullptr;
    std::int64_t outer = 0;
    std::int64_t axis = 0;
    std::int64_t inner = 0;
    double factor = 1.0;
};
void start_reduce(const ReduceWork& work);

// Selects rows of a tensor outer x axis x inner by index; the result is outer x count x inner. Negative
// indices count from the end.
struct GatherWork {
    const float* x = nullptr;
    const void* indices = nullptr;
    DType index_type = DType::i64;  // or i32
    float* y = nullptr;
    std::int64_t outer = 0;
    std::int64_t axis = 0;
    std::int64_t inner = 0;
    std::int64_t count = 0;
    Status* status = nullptr;
    Status code = 0;  // plus the position of the index
};
void start_gather(const GatherWork& work);

}  // namespace imka::graph::gpu
