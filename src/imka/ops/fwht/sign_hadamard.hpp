// Products with matrices made of diagonals and Walsh-Hadamard transforms, without forming them. A block of n
// rows is
//   diag(scale) H diag(third) H diag(second) H diag(first),       n a power of two,
// its first d columns count, and blocks under each other are cut to m rows.
//
// Domain: factors +-2^k (signs, and powers of two against overflow), scale any finite number. Nothing
// overflows while first, second, third keep H diag(..) from growing and the result is a float. Accuracy: a
// level of a transform is sqrt(2) times an orthogonal matrix and rounds every value once, so three transforms
// of L = log2(n) levels and the scale give an error of at most ((1 + u)^(3L + 1) - 1) |row| |x| in an output,
// u = 2^-24, |row| the length of all n entries of its row and |x| of the input. Bits: the first and the third
// transform add neighbours 1, 2, ..., n/2 apart in this order, the second in the opposite order (so that
// passes over memory melt into one). Same bits on every machine; a row's bits depend on that row alone. NaN:
// a NaN or infinity in x makes the outputs of its row NaN or infinite. Aliasing: x and u do not overlap.
// Cost: 3 n log2(n) additions a block and row; scratch of a few rows of x.
#pragma once

#include <cstddef>
#include <vector>

#include "imka/base/matrix.hpp"

namespace imka {

struct SignHadamard {
    std::size_t d = 0;  // inputs; 1 <= d <= n
    std::size_t n = 0;  // rows of a block, a power of two
    std::size_t m = 0;  // outputs
    // Diagonals of all blocks one after another; padded_outputs(n, m) values each. Values beyond the m-th
    // block row are not used for any output.
    std::vector<float> first, second, third, scale;
};

// m rounded up to whole blocks, and small blocks to whole groups of blocks that are made together.
std::size_t padded_outputs(std::size_t n, std::size_t m);

// u = x Ωᵀ for rows of x: x is any x d, u any x m.
void project(const SignHadamard& matrix, MatrixView<const float> x, MatrixView<float> u);

}  // namespace imka
