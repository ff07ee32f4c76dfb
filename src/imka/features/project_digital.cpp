#include "imka/features/project_digital.hpp"

#include <cassert>

#include "imka/linalg/gemm.hpp"

namespace imka {

void DigitalProjector::project(MatrixView<const float> x, std::uint64_t /*first_row*/,
                               MatrixView<float> u) const {
    assert(x.rows() == kTileRows);
    gemm_nt(x, omega_.view(), u);
}

}  // namespace imka
