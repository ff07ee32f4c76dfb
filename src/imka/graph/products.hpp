// Matrix products of tensors, on tiles of fixed height.
#pragma once

#include <cstddef>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/graph/tensor.hpp"

namespace imka::graph {

// Sizes of c = a b for one matrix: a is rows x inner, b is inner x cols.
struct ProductSizes {
    std::size_t rows = 0;
    std::size_t inner = 0;
    std::size_t cols = 0;
};

// Products of many pairs of matrices: pair p multiplies matrix a_index[p] of a with matrix b_index[p] of b
// into matrix p of c. Elements of any type; f32 as in linalg/gemm.hpp, others in their wide type.
struct ProductBatch {
    ProductSizes sizes;
    std::vector<std::size_t> a_index;
    std::vector<std::size_t> b_index;
};
void multiply(const ProductBatch& batch, const TensorView& a, const TensorView& b, const Exec& exec,
              const MutableTensorView& c);

}  // namespace imka::graph
