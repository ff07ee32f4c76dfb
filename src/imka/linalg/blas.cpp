#include "imka/linalg/blas.hpp"

#include <cblas.h>

namespace imka {

void use_one_blas_thread() {
    static const bool done = [] {
        openblas_set_num_threads(1);
        return true;
    }();
    static_cast<void>(done);
}

}  // namespace imka
