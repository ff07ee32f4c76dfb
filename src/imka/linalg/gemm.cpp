#include "imka/linalg/gemm.hpp"

#include <cblas.h>
#include <cassert>

#include "imka/linalg/blas.hpp"

namespace imka {
namespace {

blasint as_blas(std::size_t n) {
    return static_cast<blasint>(n);
}

}  // namespace

void gemm_nt(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c) {
    assert(a.cols() == b.cols() && c.rows() == a.rows() && c.cols() == b.rows());
    const BlasCall call;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, as_blas(a.rows()), as_blas(b.rows()),
                as_blas(a.cols()), 1.0F, a.data(), as_blas(a.stride()), b.data(), as_blas(b.stride()), 0.0F,
                c.data(), as_blas(c.stride()));
}

void gemm_nt(MatrixView<const double> a, MatrixView<const double> b, MatrixView<double> c) {
    assert(a.cols() == b.cols() && c.rows() == a.rows() && c.cols() == b.rows());
    const BlasCall call;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, as_blas(a.rows()), as_blas(b.rows()),
                as_blas(a.cols()), 1.0, a.data(), as_blas(a.stride()), b.data(), as_blas(b.stride()), 0.0,
                c.data(), as_blas(c.stride()));
}

void gemm_tn(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c) {
    assert(a.rows() == b.rows() && c.rows() == a.cols() && c.cols() == b.cols());
    const BlasCall call;
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, as_blas(a.cols()), as_blas(b.cols()),
                as_blas(a.rows()), 1.0F, a.data(), as_blas(a.stride()), b.data(), as_blas(b.stride()), 0.0F,
                c.data(), as_blas(c.stride()));
}

void syrk_tn(MatrixView<const float> a, MatrixView<float> c) {
    assert(c.rows() == a.cols() && c.cols() == a.cols());
    const BlasCall call;
    cblas_ssyrk(CblasRowMajor, CblasUpper, CblasTrans, as_blas(a.cols()), as_blas(a.rows()), 1.0F, a.data(),
                as_blas(a.stride()), 0.0F, c.data(), as_blas(c.stride()));
}

std::string blas_description() {
    return std::string(openblas_get_config()) + ", core " + openblas_get_corename();
}

}  // namespace imka
