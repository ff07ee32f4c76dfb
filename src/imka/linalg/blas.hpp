// The statically linked OpenBLAS; for linalg/*.cpp only.
#pragma once

namespace imka {

// Every function that calls BLAS or LAPACK holds a BlasCall; such functions must not call each other. Limits
// a call to one thread, and makes sure that OpenBLAS has memory for its buffer: without memory, OpenBLAS
// retries forever. Error{io} if there is none.
class BlasCall {
public:
    BlasCall();
    ~BlasCall();
    BlasCall(const BlasCall&) = delete;
    BlasCall& operator=(const BlasCall&) = delete;
};

}  // namespace imka
