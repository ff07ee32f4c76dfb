// Walsh-Hadamard transform, in place and without scale:
//   out[k] = sum over j of (-1)^popcount(j & k) in[j]          (natural, or Sylvester, order)
// Applied twice it multiplies by n; divided by sqrt(n) it is orthonormal and its own inverse.
//
// Domain: n a power of two (1 included); anything else is Error{bad_usage}.
// Accuracy: every output is a balanced tree of log2(n) levels of additions, so its error is at most
// log2(n) u sum |in[j]| with u = 2^-24 (float) or 2^-53 (double); exact where all partial sums are integers
// below 1/u. Same bits on every machine: whatever the instructions, neighbours 1, 2, 4, ..., n/2 apart are
// added and subtracted in this order. NaN: one NaN in makes every output NaN. An infinity makes every output
// infinite, two may make NaN. Cost: n log2(n) additions, no memory. Float in vectors, several levels for each
// pass over memory, in blocks that stay in cache; double is a plain loop for exact integers.
#pragma once

#include <span>

#include "imka/base/matrix.hpp"

namespace imka {

void fwht(std::span<float> values);
void fwht(std::span<double> values);

// Every row by itself, with the bits of fwht of that row. Rows that touch (stride = cols) and are shorter
// than a few vectors share them, which is faster than one by one.
void fwht_rows(MatrixView<float> rows);

}  // namespace imka
