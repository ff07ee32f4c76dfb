#include "imka/metrics/kernel_error.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/linalg/gemm.hpp"

namespace imka {

double gram_error(MatrixView<const double> exact, MatrixView<const float> z, const Exec& exec) {
    assert(exact.rows() == z.rows() && exact.cols() == z.rows());
    Matrix<double> wide(z.rows(), z.cols());
    for (std::size_t r = 0; r < z.rows(); ++r) std::ranges::copy(z.row(r), wide.row(r).begin());
    const std::size_t tiles = (z.rows() + kTileRows - 1) / kTileRows;
    std::vector<double> difference(tiles);
    std::vector<double> size(tiles);
    parallel_for(exec, tiles, [&](std::size_t t) {
        const std::size_t first = t * kTileRows;
        const std::size_t count = std::min(kTileRows, z.rows() - first);
        Matrix<double> product(count, z.rows());
        const auto all = std::as_const(wide).view();
        gemm_nt(all.slice_rows(first, count), all, product.view());
        for (std::size_t r = 0; r < count; ++r) {
            for (std::size_t c = 0; c < z.rows(); ++c) {
                const double k = exact(first + r, c);
                difference[t] += (k - product(r, c)) * (k - product(r, c));
                size[t] += k * k;
            }
        }
    });
    const double norm2 = tree_sum(size);
    if (!(norm2 > 0.0))
        fail(ErrorCode::numeric, "the exact Gram matrix is zero, so the relative error is undefined");
    return std::sqrt(tree_sum(difference) / norm2);
}

}  // namespace imka
