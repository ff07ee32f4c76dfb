// Interface between a feature map and the hardware that multiplies by Ω: a processor or a chip.
#pragma once

#include <cstddef>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/chip/region.hpp"

namespace imka {

class Projector {
public:
    virtual ~Projector() = default;
    virtual std::size_t inputs() const = 0;   // d
    virtual std::size_t outputs() const = 0;  // m
    // u = x Ωᵀ for any number of rows. ids identify the noise of each row, if any: row r is number ids.first
    // + r in the caller's stream. The bits of a row do not depend on its batch. Thread-safe.
    virtual void project(MatrixView<const float> x, const ProductIds& ids, const Exec& exec,
                         MatrixView<float> u) const = 0;
};

}  // namespace imka
