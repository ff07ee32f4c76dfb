#include "imka/features/project_digital.hpp"

#include "imka/linalg/gemm.hpp"

namespace imka {

void DigitalProjector::project(MatrixView<const float> x, const ProductIds& /*ids*/, const Exec& exec,
                               MatrixView<float> u) const {
    gemm_nt_rows(x, omega_.view(), exec, u);
}

}  // namespace imka
