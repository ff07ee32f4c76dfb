#include "imka/graph/products.hpp"

#include <algorithm>
#include <vector>

#include "imka/base/parallel.hpp"
#include "imka/linalg/gemm.hpp"

namespace imka::graph {
namespace {

// Rows [first, first + count) of pair p.
struct Part {
    std::size_t pair;
    std::size_t first;
    std::size_t count;
};

void multiply_part(const ProductBatch& batch, const Part& part, const float* a, const float* b, float* c) {
    const auto [rows, inner, cols] = batch.sizes;
    a += (batch.a_index[part.pair] * rows + part.first) * inner;
    b += batch.b_index[part.pair] * inner * cols;
    c += (part.pair * rows + part.first) * cols;
    gemm_nn({a, part.count, inner}, {b, inner, cols}, {c, part.count, cols});
}

template <class T>
void multiply_part(const ProductBatch& batch, const Part& part, const T* a, const T* b, T* c) {
    const auto [rows, inner, cols] = batch.sizes;
    a += (batch.a_index[part.pair] * rows + part.first) * inner;
    b += batch.b_index[part.pair] * inner * cols;
    c += (part.pair * rows + part.first) * cols;
    std::vector<Wide<T>> sums(cols);
    for (std::size_t r = 0; r < part.count; ++r) {
        std::ranges::fill(sums, Wide<T>{0});
        for (std::size_t k = 0; k < inner; ++k) {
            const auto x = widened(a[r * inner + k]);
            for (std::size_t j = 0; j < cols; ++j)
                sums[j] = add_wrapped(sums[j], mul_wrapped(x, widened(b[k * cols + j])));
        }
        for (std::size_t j = 0; j < cols; ++j) c[r * cols + j] = converted<T>(sums[j]);
    }
}

}  // namespace

void multiply(const ProductBatch& batch, const TensorView& a, const TensorView& b, const Exec& exec,
              const MutableTensorView& c) {
    const std::size_t rows = batch.sizes.rows;
    const std::size_t inner = batch.sizes.inner;
    const std::size_t cols = batch.sizes.cols;
    if (rows == 0 || cols == 0) return;
    if (inner == 0) {
        std::fill_n(c.data, c.bytes(), std::byte{0});
        return;
    }
    const std::size_t tiles = (rows + kTileRows - 1) / kTileRows;
    const std::size_t pairs = batch.a_index.size();
    visit_dtype(a.type, [&](auto zero) {
        using T = decltype(zero);
        const auto run = [&](std::size_t k) {
            const std::size_t first = k % tiles * kTileRows;
            multiply_part(batch, Part{k / tiles, first, std::min(kTileRows, rows - first)},
                          reinterpret_cast<const T*>(a.data), reinterpret_cast<const T*>(b.data),
                          reinterpret_cast<T*>(c.data));
        };
        // Threads cost more than a small product.
        constexpr std::size_t kLeastWork = std::size_t{1} << 20U;
        if (pairs * rows * inner * cols < kLeastWork) {
            for (std::size_t k = 0; k < pairs * tiles; ++k) run(k);
        } else {
            parallel_for(exec, pairs * tiles, run);
        }
    });
}

}  // namespace imka::graph
