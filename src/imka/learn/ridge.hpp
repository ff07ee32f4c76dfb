// Ridge regression over rows that stream by: w = (XᵀX + αI)⁻¹ Xᵀ Y in memory of the order of D², not of the
// rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "imka/base/config.hpp"
#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"

namespace imka {

// penalized: a column of ones like any other (as in the published runs). free: a column of ones without
// penalty.
enum class Intercept { penalized, free, none };
template <>
struct EnumNames<Intercept> {
    static constexpr std::string_view what = "intercept";
    static constexpr std::string_view values[] = {"penalized", "free", "none"};
};

struct RidgeConfig {
    double alpha = 0.5;  // penalty on squared weights; >= 0
    Intercept intercept = Intercept::penalized;
};

Fields fields(RidgeConfig& config);

struct RidgeWeights {
    Matrix<double> w;               // D x outputs
    std::vector<double> intercept;  // one an output; zero without an intercept
};

// Sums of products of z and [1, y] over fixed tiles of rows: within a tile in float by BLAS, over tiles in
// double in their order. Neither the batches in which rows arrive nor the threads change a bit. The rounding
// of a tile's sums is that of a float product of kRowsPerTile terms; a row's own contribution is never lost,
// however many rows there are.
class RidgeAccumulator {
public:
    static constexpr std::size_t kRowsPerTile = 512;

    RidgeAccumulator(std::size_t features, std::size_t outputs);

    // Rows of z (features) and y (outputs) belong together. Whole tiles are read where they are; a rest is
    // copied.
    void add(MatrixView<const float> z, MatrixView<const float> y, const Exec& exec);
    std::uint64_t rows() const { return rows_; }

    // Error{bad_data} without rows; Error{numeric} when the system is not positive definite.
    RidgeWeights solve(const RidgeConfig& config, const Exec& exec);

private:
    void add_tile(MatrixView<const float> z, MatrixView<const float> y, const Exec& exec);

    std::size_t features_;
    std::size_t outputs_;
    std::uint64_t rows_ = 0;
    std::size_t buffered_ = 0;
    Matrix<float> z_buffer_;
    Matrix<float> y_buffer_;
    Matrix<double> zz_;  // upper triangle of ZᵀZ
    Matrix<double> zy_;  // Zᵀ[1, Y]
    std::vector<double> y_sums_;
};

// out = z w + intercept, in double. A row's bits do not depend on its batch.
void ridge_predict(const RidgeWeights& weights, MatrixView<const float> z, const Exec& exec,
                   MatrixView<double> out);

}  // namespace imka
