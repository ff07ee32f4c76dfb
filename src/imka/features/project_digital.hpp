// Projection by matrix product in float32.
#pragma once

#include "imka/features/projector.hpp"

namespace imka {

class DigitalProjector : public Projector {
public:
    explicit DigitalProjector(Matrix<float> omega) : omega_(std::move(omega)) {}
    std::size_t inputs() const override { return omega_.cols(); }
    std::size_t outputs() const override { return omega_.rows(); }
    void project(MatrixView<const float> x, const ProductIds& ids, const Exec& exec,
                 MatrixView<float> u) const override;

private:
    Matrix<float> omega_;  // m x d
};

}  // namespace imka
