// The imka program: verbs that follow the flow of data. Exit codes: 0 success, 1 a check failed, 2 bad usage,
// 3 bad input data or a file that cannot be read or written, 4 a missing optional part, 130 interrupted.
#include <cstdlib>

#include "program.hpp"

namespace {

// OpenBLAS starts its threads when it is loaded, and ends the program if they cannot start. We call it with
// one thread only, so it needs no others; this function runs before OpenBLAS starts.
__attribute__((constructor(101))) void start_no_blas_threads() {
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
}

}  // namespace

int main(int argc, char** argv) {
    return imka::app::run_program(argc, argv);
}
