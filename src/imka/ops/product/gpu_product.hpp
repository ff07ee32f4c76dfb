// Matrix products in float on a GPU, batch by batch. Every result is one sum in the order of the inner index,
// so its bits do not depend on how many rows are multiplied. Pointers are to memory of the current GPU; calls
// start kernels on the thread's default stream and return.
#pragma once

#include <cstdint>

namespace imka::ops {

// c = a b for `batch` pairs of matrices. b is inner x cols, or cols x inner if transposed.
struct GpuProduct {
    const float* a = nullptr;
    const float* b = nullptr;
    float* c = nullptr;
    std::int64_t rows = 0;
    std::int64_t inner = 0;
    std::int64_t cols = 0;
    std::int64_t batch = 1;
    std::int64_t a_stride = 0;  // elements from one matrix to the next
    std::int64_t b_stride = 0;
    bool transposed = false;
    const int* a_rows = nullptr;  // which rows of a; none: the first ones
};
void start_products(const GpuProduct& product);

}  // namespace imka::ops
