// The statically linked OpenBLAS; for linalg/*.cpp only.
#pragma once

namespace imka {

// Every function that calls BLAS or LAPACK holds one, and none calls another that does. Sets one thread per
// call, and makes sure that OpenBLAS has memory for its buffer: without it, OpenBLAS retries forever.
// Error{io} if there is none.
class BlasCall {
public:
    BlasCall();
    ~BlasCall();
    BlasCall(const BlasCall&) = delete;
    BlasCall& operator=(const BlasCall&) = delete;
};

}  // namespace imka
