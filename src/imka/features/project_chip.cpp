#include "imka/features/project_chip.hpp"

#include <algorithm>

#include "imka/chip/simulate/emulator.hpp"

namespace imka {
namespace {

std::unique_ptr<ChipProjector> make_projector(BuiltChip built, const Exec& exec) {
    return std::make_unique<ChipProjector>(
        std::make_unique<FastEmulator>(built.chip, exec), 0,
        ChipOutputs{.factors = std::move(built.factors), .lost_rows = built.lost_rows});
}

}  // namespace

void ChipProjector::project(MatrixView<const float> x, const ProductIds& ids, const Exec& exec,
                            MatrixView<float> u) const {
    record(exec, driver_->multiply(matrix_, x, ids, exec, u));
    const auto& [factors, lost] = outputs_;
    for (std::size_t r = 0; r < u.rows(); ++r) {
        if (lost > 0 && (ids.first + r) % lost == lost - 1) std::ranges::fill(u.row(r), 0.0F);
        for (std::size_t c = 0; c < factors.size(); ++c) u(r, c) *= factors[c];
    }
}

ChipProjection chip_projection(const ProjectionJob& job, const Exec& exec) {
    auto built = build_chip(job, exec);
    const auto state = state_of(built.chip);
    const auto cores = core_count(built.chip.plan);
    return {.projector = make_projector(std::move(built), exec), .state = state, .cores = cores};
}

std::unique_ptr<const Projector> make_chip_projector(const ProjectionJob& job, const Exec& exec) {
    return chip_projection(job, exec).projector;
}

ChipMap chip_feature_map(const FeatureRecipe& recipe, ProjectionJob job, const Exec& exec) {
    const auto& omega = recipe.omega;
    const auto law = kernel_row(omega.kernel).feature_law(omega.gamma, static_cast<std::size_t>(omega.d));
    job.input_scale = law.input_scale;
    auto placed = chip_projection(job, exec);
    return {
        .map = FeatureMap(recipe, std::move(placed.projector)), .state = placed.state, .cores = placed.cores};
}

}  // namespace imka
