// Our copy of OpenBLAS; for linalg/*.cpp only.
#pragma once

namespace imka {

// Keeps the copy at one thread a call. Every function that calls BLAS or LAPACK calls this first.
void use_one_blas_thread();

}  // namespace imka
