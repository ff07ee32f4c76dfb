// Products of a matrix on a chip, every core by the literal simulator: slow, for checks of the fast one.
#pragma once

#include <cstdint>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/chip/chip_matrix.hpp"

namespace imka {

struct LiteralProducts {
    Matrix<float> y;
    std::uint64_t conversions = 0;
    std::uint64_t saturated = 0;
};

// As chip_products (chip/execute.hpp) in distribution: tiles, copies and numbers of products are the same.
// Needs a programmed chip. About 12 ms a product of a full core.
LiteralProducts literal_chip_products(const ChipMatrix& chip, MatrixView<const float> x,
                                      const ProductIds& ids, const Exec& exec);

}  // namespace imka
