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

#include <span>

#include "imka/base/matrix.hpp"

namespace imka {

void fwht(std::span<float> values);
void fwht(std::span<double> values);

// Transforms each row, with the same bits as fwht of that row. Contiguous rows (stride = cols) shorter than a
// few vectors share vectors, which is faster than one call per row.
void fwht_rows(MatrixView<float> rows);

}  // namespace imka
