#include "imka/features/choose_projector.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/features/gpu_feature_map.hpp"
#include "imka/linalg/gemm.hpp"
#include "imka/omega/samplers.hpp"
#include "imka/ops/fwht/fwht.hpp"

namespace imka {
namespace {

void write(std::span<const double> signs, double factor, std::size_t at, std::vector<float>& out) {
    for (std::size_t j = 0; j < signs.size(); ++j) out[at + j] = static_cast<float>(factor * signs[j]);
}

// H D1 H D2 H D3 (standard: D3 comes first) or D1 H D2 H D3 H (measured: D1 is part of the scale). The
// transforms multiply lengths by n^(3/2); dividing by powers of two in between keeps values close to the
// result.
void add_block(const OmegaRecipe& recipe, std::size_t b, SignHadamard& matrix) {
    const std::size_t n = matrix.n;
    const auto signs = sorf_signs(recipe, b);
    const auto diagonal = [&](std::size_t k) { return std::span(signs).subspan((k - 1) * n, n); };
    const bool measured = recipe.convention == Convention::measured;
    const int levels = std::countr_zero(n);
    const double half = std::ldexp(1.0, -levels / 2);
    const double rest = std::ldexp(1.0, levels / 2 - levels);
    if (!measured) write(diagonal(3), 1.0, b * n, matrix.first);
    write(diagonal(measured ? 3 : 2), half, b * n, matrix.second);
    write(diagonal(measured ? 2 : 1), rest, b * n, matrix.third);
    const std::size_t end = std::min(matrix.m, (b + 1) * n);
    for (std::size_t i = b * n; i < end; ++i) {
        const double sign = measured ? diagonal(1)[i - b * n] : 1.0;
        matrix.scale[i] = static_cast<float>(sign * sorf_scale(recipe, i));
    }
}

bool prefers_structured(const OmegaRecipe& recipe) {
    const auto cost = projection_cost(recipe);
    return cost.dense >= kLeastGain * cost.structured;
}

// Number of outputs of the transforms (m of them are kept), and of levels of one transform.
struct Structure {
    double outputs;
    double levels;
};
Structure structure_of(const OmegaRecipe& recipe) {
    const std::size_t n = sorf_block_rows(recipe);
    return {static_cast<double>(padded_outputs(n, static_cast<std::size_t>(recipe.m))),
            static_cast<double>(std::countr_zero(n))};
}

class GpuDigital final : public GpuProjector {
public:
    GpuDigital(int gpu, MatrixView<const float> omega) : omega_(gpu, omega) {}
    void features(const ops::GpuFeatureJob& job, const ProductIds&, const Exec&) const override {
        omega_.features(job);
    }

private:
    ops::DenseOnGpu omega_;
};

class GpuSorf final : public GpuProjector {
public:
    GpuSorf(int gpu, const SignHadamard& matrix) : matrix_(gpu, matrix) {}
    void features(const ops::GpuFeatureJob& job, const ProductIds&, const Exec&) const override {
        matrix_.features(job);
    }

private:
    ops::TransformsOnGpu matrix_;
};

// The matrix that the transforms multiply by: its columns are the projections of unit vectors.
Matrix<float> dense_matrix(const SignHadamard& matrix) {
    check_fits_memory(static_cast<double>(matrix.d), static_cast<double>(matrix.m), 2 * sizeof(float),
                      "the matrix of directions");
    Matrix<float> unit(1, matrix.d);
    Matrix<float> column(1, matrix.m);
    Matrix<float> omega(matrix.m, matrix.d);
    for (std::size_t c = 0; c < matrix.d; ++c) {
        unit(0, c) = 1.0F;
        project(matrix, unit, column);
        unit(0, c) = 0.0F;
        for (std::size_t r = 0; r < matrix.m; ++r) omega(r, c) = column(0, r);
    }
    return omega;
}

// cost = fixed + slope x, each point weighted by 1 / cost²: sums of the normal equations.
class LineFit {
public:
    void add(double x, double cost) {
        const double weight = 1.0 / (cost * cost);
        w_ += weight;
        wx_ += weight * x;
        wxx_ += weight * x * x;
        wy_ += weight * cost;
        wxy_ += weight * x * cost;
    }
    double slope() const { return (w_ * wxy_ - wx_ * wy_) / (w_ * wxx_ - wx_ * wx_); }
    double fixed() const { return (wy_ - slope() * wx_) / w_; }

private:
    double w_ = 0.0, wx_ = 0.0, wxx_ = 0.0, wy_ = 0.0, wxy_ = 0.0;
};

}  // namespace

void DigitalProjector::project(MatrixView<const float> x, const ProductIds& /*ids*/, const Exec& exec,
                               MatrixView<float> u) const {
    gemm_rows(x, omega_, exec, u);
}

std::unique_ptr<const GpuProjector> DigitalProjector::on_gpu(int gpu) const {
    Matrix<float> omega(outputs(), inputs());
    for (std::size_t r = 0; r < omega.rows(); ++r) {
        for (std::size_t c = 0; c < omega.cols(); ++c) omega(r, c) = omega_(c, r);
    }
    return std::make_unique<GpuDigital>(gpu, omega.view());
}

std::unique_ptr<const GpuProjector> SorfProjector::on_gpu(int gpu) const {
    if (matrix_.n <= ops::TransformsOnGpu::kLargestBlock) return std::make_unique<GpuSorf>(gpu, matrix_);
    return std::make_unique<GpuDigital>(gpu, dense_matrix(matrix_).view());
}

bool has_sorf_structure(const OmegaRecipe& recipe) {
    return recipe.sampler == Sampler::sorf &&
           (recipe.truncation == 0.0 || recipe.convention == Convention::measured);
}

SorfProjector::SorfProjector(const OmegaRecipe& recipe, const Exec& exec) {
    validate(recipe);
    if (!has_sorf_structure(recipe)) {
        fail(
            ErrorCode::bad_config,
            "projection by transforms needs the sampler sorf, without truncation in the standard convention");
    }
    const auto m = static_cast<std::size_t>(recipe.m);
    const std::size_t n = sorf_block_rows(recipe);
    const std::size_t size = padded_outputs(n, m);
    check_fits_memory(4.0, static_cast<double>(size), sizeof(float), "the diagonals of the transforms");
    matrix_ = {.d = static_cast<std::size_t>(recipe.d),
               .n = n,
               .m = m,
               .first = std::vector<float>(size, 1.0F),
               .second = std::vector<float>(size),
               .third = std::vector<float>(size),
               .scale = std::vector<float>(size)};
    parallel_for(exec, (m + n - 1) / n, [&](std::size_t b) { add_block(recipe, b, matrix_); });
}

void SorfProjector::project(MatrixView<const float> x, const ProductIds& /*ids*/, const Exec& exec,
                            MatrixView<float> u) const {
    constexpr std::size_t kRows = 256;  // per task
    parallel_for(exec, (x.rows() + kRows - 1) / kRows, [&](std::size_t t) {
        const std::size_t count = std::min(kRows, x.rows() - t * kRows);
        imka::project(matrix_, x.slice_rows(t * kRows, count), u.slice_rows(t * kRows, count));
    });
}

ProjectionCost projection_cost(const OmegaRecipe& recipe, const ProjectionConstants& c) {
    const auto d = static_cast<double>(recipe.d);
    const double dense = static_cast<double>(recipe.m) * (c.dense_fixed + c.dense_input * d);
    if (!has_sorf_structure(recipe)) return {dense, std::numeric_limits<double>::infinity()};
    const auto structure = structure_of(recipe);
    return {dense, structure.outputs * (c.structured_fixed + c.structured_level * structure.levels)};
}

ProjectionConstants fit_projection_constants(std::span<const ProjectionTiming> timings) {
    LineFit dense;
    LineFit structured;
    for (const auto& t : timings) {
        const auto structure = structure_of(t.recipe);
        dense.add(static_cast<double>(t.recipe.d), t.cost.dense / static_cast<double>(t.recipe.m));
        structured.add(structure.levels, t.cost.structured / structure.outputs);
    }
    return {.dense_fixed = dense.fixed(),
            .dense_input = dense.slope(),
            .structured_fixed = structured.fixed(),
            .structured_level = structured.slope()};
}

std::unique_ptr<const Projector> choose_projector(const OmegaRecipe& recipe, const Exec& exec) {
    validate(recipe);
    if (prefers_structured(recipe)) return std::make_unique<SorfProjector>(recipe, exec);
    return std::make_unique<DigitalProjector>(sample(recipe, exec));
}

std::unique_ptr<const Projector> choose_projector(const OmegaRecipe& recipe, const Matrix<float>& omega,
                                                  const Exec& exec) {
    validate(recipe);
    if (prefers_structured(recipe) && omega == sample(recipe, exec))
        return std::make_unique<SorfProjector>(recipe, exec);
    return std::make_unique<DigitalProjector>(omega);
}

}  // namespace imka
