// Exact kernel ridge regression, for small sets and as a reference: α = (K + λI)⁻¹ Y, f(x) = Σ αᵢ k(x, xᵢ).
#pragma once

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/kernel/kernel.hpp"

namespace imka {

struct KernelRidgeConfig {
    Kernel kernel = Kernel::rbf;
    double gamma = 0.05;
    double alpha = 0.5;  // penalty λ; >= 0
};

struct KernelRidge {
    KernelRidgeConfig config;
    Matrix<float> x;      // training rows
    Matrix<double> dual;  // α, one column per output
};

// Memory grows with the square and time with the cube of the rows. Error{bad_config} beyond this machine's
// memory.
KernelRidge fit_kernel_ridge(const KernelRidgeConfig& config, MatrixView<const float> x,
                             MatrixView<const float> y, const Exec& exec);
void predict(const KernelRidge& model, MatrixView<const float> x, const Exec& exec, MatrixView<double> out);

}  // namespace imka
