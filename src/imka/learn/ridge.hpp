// Ridge regression over streamed rows: w = (ZᵀZ + αI)⁻¹ Zᵀ Y. Memory is O(D²) and does not depend on the
// number of rows. With fewer rows than features the dual form w = Zᵀ (ZZᵀ + αI)⁻¹ Y is cheaper.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "imka/base/config.hpp"
#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/base/team.hpp"

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

// The system that a fit solves: D x D (primal) or rows x rows (dual).
enum class Solver { primal, dual };
template <>
struct EnumNames<Solver> {
    static constexpr std::string_view what = "solver";
    static constexpr std::string_view values[] = {"primal", "dual"};
};

// The cheaper one: the dual for up to about 0.75 rows per feature.
Solver ridge_solver(std::size_t features, std::size_t rows);

struct RidgeWeights {
    Matrix<double> w;               // D x outputs
    std::vector<double> intercept;  // one per output; zero without an intercept
};

// Rows [z, 1, y]: features, 1 for the intercept, targets. The products ZᵀZ, Zᵀ1, Zᵀy are then one matrix.
class RidgeRows {
public:
    RidgeRows(std::size_t rows, std::size_t features, std::size_t outputs);

    MatrixView<float> z(std::size_t first, std::size_t count);
    std::span<float> y(std::size_t row);
    MatrixView<const float> view(std::size_t first, std::size_t count) const;

private:
    std::size_t features_;
    std::size_t width_;
    Matrix<float> values_;  // rows are aligned to cache lines
};

// Sums of products of rows [z, 1, y] over fixed tiles of rows: within a tile in float, over tiles in
// double in a fixed order. The bits do not depend on batches or threads. Sums within a tile have the rounding
// error of a float product of kRowsPerTile terms, for any number of rows.
//
// Tile t belongs to lane t mod the number of lanes, which depends only on the width; each lane has its own
// sums, which are added in a fixed tree at the end. Members of a team take whole lanes, so the bits do not
// depend on their number either: 1, 2, 4 ... members work, up to the number of lanes; any further members
// wait for the weights.
//
// If the number of rows is known, there is no team, and the dual is cheaper, the rows are kept in double and
// the dual system is solved instead. Both give the same weights up to rounding. Without a penalty the dual
// gives the interpolating weights of least norm, if the rows are independent.
class RidgeAccumulator {
public:
    static constexpr std::size_t kRowsPerTile = 1024;

    // `rows`: how many will be added; 0: unknown. Error{bad_config} beyond this machine's memory.
    RidgeAccumulator(std::size_t features, std::size_t outputs, const Team* team = nullptr,
                     std::size_t rows = 0);

    // Memory of the sums, or of the rows, and of the solver's copy.
    static double memory_bytes(std::size_t features, std::size_t outputs, std::size_t rows = 0);
    Solver solver() const { return solver_; }

    // The tiles to add here, in order: first_tile(), first_tile() + tile_stride(), ... For a member without
    // work, first_tile() is after the last row.
    std::size_t first_tile() const;
    std::size_t tile_stride() const { return workers_; }

    // Rows as stored by RidgeRows. Whole tiles are read in place; the remainder is copied.
    void add(MatrixView<const float> rows, const Exec& exec);

    // The weights, the same on all members of the team. Error{bad_data} without rows; Error{numeric} if the
    // system is not positive definite.
    RidgeWeights solve(const RidgeConfig& config, const Exec& exec);

private:
    std::size_t width() const { return features_ + 1 + outputs_; }
    // Adds all lanes, including those of the team: member 0 then has all products.
    void join_lanes(const Exec& exec);
    RidgeWeights solve_joined(const RidgeConfig& config, const Exec& exec);
    RidgeWeights solve_dual(const RidgeConfig& config, const Exec& exec);
    // Whole tiles; the last may be shorter.
    void add_tiles(MatrixView<const float> rows, const Exec& exec);

    std::size_t features_;
    std::size_t outputs_;
    const Team* team_;
    Solver solver_ = Solver::primal;
    std::size_t workers_ = 1;  // members of the team that add rows
    std::size_t buffered_ = 0;
    Matrix<float> buffer_;
    std::size_t kept_rows_ = 0;
    Matrix<double> kept_;  // dual: rows [z, 1, y]
    std::uint64_t tiles_ = 0;
    std::vector<Matrix<double>>
        lanes_;  // upper triangles of [Z, 1, Y]ᵀ[Z, 1, Y]; tile t is in lane t mod count
};

// out = z w + intercept, in double. The bits of a row do not depend on its batch.
void ridge_predict(const RidgeWeights& weights, MatrixView<const float> z, const Exec& exec,
                   MatrixView<double> out);

}  // namespace imka
