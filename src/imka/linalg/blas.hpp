// The statically linked OpenBLAS; for linalg/*.cpp only.
#pragma once

namespace imka {

// Sets one thread per call. Every function that calls BLAS or LAPACK calls this first.
void use_one_blas_thread();

}  // namespace imka
