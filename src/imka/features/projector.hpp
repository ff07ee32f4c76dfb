// The seam between a feature map and what multiplies by Ω: a processor or a chip.
#pragma once

#include <cstddef>
#include <cstdint>

#include "imka/base/matrix.hpp"

namespace imka {

class Projector {
public:
    virtual ~Projector() = default;
    virtual std::size_t inputs() const = 0;   // d
    virtual std::size_t outputs() const = 0;  // m
    // u = x Ωᵀ for a tile of exactly kTileRows rows (linalg/gemm.hpp). first_row numbers the tile's first row
    // in the caller's stream of inputs: noise, where there is any, is a function of it. Called from many
    // threads at once.
    virtual void project(MatrixView<const float> x, std::uint64_t first_row, MatrixView<float> u) const = 0;
};

}  // namespace imka
