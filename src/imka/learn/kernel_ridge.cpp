#include "imka/learn/kernel_ridge.hpp"

#include <algorithm>
#include <cassert>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/linalg/factor.hpp"

namespace imka {

KernelRidge fit_kernel_ridge(const KernelRidgeConfig& config, MatrixView<const float> x,
                             MatrixView<const float> y, const Exec& exec) {
    assert(x.rows() == y.rows());
    if (x.rows() == 0) fail(ErrorCode::bad_data, "a kernel ridge fit needs at least one row");
    const auto n = static_cast<double>(x.rows());
    check_fits_memory(n, n, sizeof(double), "the Gram matrix");
    Matrix<double> gram(x.rows(), x.rows());
    exact_gram(config.kernel, config.gamma, x, x, exec, gram.view());
    KernelRidge model{
        .config = config, .x = Matrix<float>(x.rows(), x.cols()), .dual = Matrix<double>(x.rows(), y.cols())};
    for (std::size_t i = 0; i < x.rows(); ++i) {
        gram(i, i) += config.alpha;
        std::ranges::copy(x.row(i), model.x.row(i).begin());
        std::ranges::copy(y.row(i), model.dual.row(i).begin());
    }
    solve_positive_definite(gram.view(), model.dual.view(), "the kernel ridge system", exec);
    return model;
}

void predict(const KernelRidge& model, MatrixView<const float> x, const Exec& exec, MatrixView<double> out) {
    assert(out.rows() == x.rows() && out.cols() == model.dual.cols());
    const Exec one{.threads = 1, .progress = nullptr, .log = nullptr, .cancel = exec.cancel};
    parallel_for(exec, x.rows(), [&](std::size_t i) {
        Matrix<double> k(1, model.x.rows());
        exact_gram(model.config.kernel, model.config.gamma, x.slice_rows(i, 1), model.x.view(), one,
                   k.view());
        for (std::size_t o = 0; o < out.cols(); ++o) {
            double sum = 0.0;
            for (std::size_t j = 0; j < k.cols(); ++j) sum += k(0, j) * model.dual(j, o);
            out(i, o) = sum;
        }
    });
}

}  // namespace imka
