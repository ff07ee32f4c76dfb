// Walsh-Hadamard transform, in place and unscaled:
//   out[k] = sum over j of (-1)^popcount(j & k) in[j]          (natural, or Sylvester, order)
// Applied twice it multiplies by n; divided by sqrt(n) it is orthonormal and its own inverse.
//
// Domain: n a power of two (including 1); otherwise Error{bad_usage}.
// Accuracy: every output is a balanced tree of log2(n) levels of additions, so its error is at most
// log2(n) u sum |in[j]| with u = 2^-24 (float) or 2^-53 (double); exact if all partial sums are integers
// below 1/u. Same bits on every machine: every instruction set adds and subtracts values 1, 2, 4, ..., n/2
// apart, in this order. A NaN makes every output NaN; an infinity makes every output infinite, two may give
// NaN. Cost: n log2(n) additions, no memory. Float uses vectors and several levels per pass over memory, in
// blocks that stay in cache; double is a plain loop for exact integers.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "imka/base/matrix.hpp"

namespace imka {

void fwht(std::span<float> values);
void fwht(std::span<double> values);

// Transforms each row, with the same bits as fwht of that row. Contiguous rows (stride = cols) shorter than a
// few vectors share vectors, which is faster than one call per row.
void fwht_rows(MatrixView<float> rows);

// Products with matrices made of diagonals and Walsh-Hadamard transforms, without forming them. A block of n
// rows is
//   diag(scale) H diag(third) H diag(second) H diag(first),       n a power of two.
// Its first d columns are used; stacked blocks are cut to m rows.
//
// Domain: factors +-2^k (signs, and powers of two against overflow), scale any finite number. Nothing
// overflows as long as first, second, third keep H diag(..) from growing and the result fits in a float.
// Accuracy: a level of a transform is sqrt(2) times an orthogonal matrix and rounds every value once, so
// three transforms of L = log2(n) levels and the scale give an error of at most ((1 + u)^(3L + 1) - 1) |row|
// |x| in an output, u = 2^-24, where |row| is the norm of all n entries of its row. Bits: the first and the
// third transform add values 1, 2, ..., n/2 apart in this order, the second in reverse order (so that passes
// over memory merge). Same bits on every machine; the bits of a row depend only on that row. A NaN or
// infinity in x makes the outputs of its row NaN or infinite. Aliasing: x and u must not overlap. Cost: 3 n
// log2(n) additions per block and row; scratch of a few rows of x.

struct SignHadamard {
    std::size_t d = 0;  // inputs; 1 <= d <= n
    std::size_t n = 0;  // rows of a block, a power of two
    std::size_t m = 0;  // outputs
    // Diagonals of all blocks, concatenated; padded_outputs(n, m) values each. Values after the m-th row do
    // not affect any output.
    std::vector<float> first, second, third, scale;
};

// m rounded up to whole blocks, or for small blocks to whole groups of blocks.
std::size_t padded_outputs(std::size_t n, std::size_t m);

// u = x Ωᵀ; x is rows x d, u is rows x m.
void project(const SignHadamard& matrix, MatrixView<const float> x, MatrixView<float> u);

}  // namespace imka
