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

// Rows [z, 1, y] side by side: features, the one of the intercept, targets. Their products ZᵀZ, Zᵀ1, Zᵀy are
// then one matrix.
class RidgeRows {
public:
    RidgeRows(std::size_t rows, std::size_t features, std::size_t outputs);

    MatrixView<float> z(std::size_t first, std::size_t count);
    std::span<float> y(std::size_t row);
    MatrixView<const float> view(std::size_t first, std::size_t count) const;

private:
    std::size_t features_;
    std::size_t width_;
    Matrix<float> values_;  // rows start at whole cache lines
};

// Sums of products of rows [z, 1, y] over fixed tiles of rows: within a tile in float by BLAS, over tiles in
// double in a fixed order. Neither the batches in which rows arrive nor the threads change a bit. The
// rounding of a tile's sums is that of a float product of kRowsPerTile terms; a row's own contribution is
// never lost, however many rows there are.
class RidgeAccumulator {
public:
    static constexpr std::size_t kRowsPerTile = 1024;

    RidgeAccumulator(std::size_t features, std::size_t outputs);

    // Rows as RidgeRows holds them. Whole tiles are read where they are; a rest is copied.
    void add(MatrixView<const float> rows, const Exec& exec);
    std::uint64_t rows() const { return rows_; }

    // Error{bad_data} without rows; Error{numeric} when the system is not positive definite.
    RidgeWeights solve(const RidgeConfig& config, const Exec& exec);

private:
    std::size_t width() const { return features_ + 1 + outputs_; }
    // Whole tiles, the last of them possibly short.
    void add_tiles(MatrixView<const float> rows, const Exec& exec);

    std::size_t features_;
    std::size_t outputs_;
    std::uint64_t rows_ = 0;
    std::size_t buffered_ = 0;
    Matrix<float> buffer_;
    std::uint64_t tiles_ = 0;
    std::vector<Matrix<double>>
        lanes_;  // upper triangles of [Z, 1, Y]ᵀ[Z, 1, Y]; tile t is in lane t mod count
};

// out = z w + intercept, in double. A row's bits do not depend on its batch.
void ridge_predict(const RidgeWeights& weights, MatrixView<const float> z, const Exec& exec,
                   MatrixView<double> out);

}  // namespace imka
