// Walsh-Hadamard transform, in place and without scale:
//   out[k] = sum over j of (-1)^popcount(j & k) in[j]          (natural, or Sylvester, order)
// Applied twice it multiplies by n; divided by sqrt(n) it is orthonormal and its own inverse.
//
// Domain: values.size() a power of two (1 included); anything else is Error{bad_usage}.
// Accuracy: every output is a balanced tree of log2(n) levels of additions, so its error is at most
// log2(n) u sum |in[j]| with u = 2^-24 (float) or 2^-53 (double); exact where all partial sums are integers
// below 1/u. Same bits on every machine.
// NaN: one NaN in makes every output NaN. An infinity makes every output infinite, two may make NaN.
// Cost: n log2(n) additions, no memory.
#pragma once

#include <span>

namespace imka {

void fwht(std::span<float> values);
void fwht(std::span<double> values);

}  // namespace imka
