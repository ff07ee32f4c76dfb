#include "imka/experiment/file_map.hpp"

#include <utility>

#include "imka/features/choose_projector.hpp"

namespace imka {

RunMap file_map(const FileMapJob& job, const Exec& exec) {
    const auto& run = job.config.chip;
    if (!job.config.backend.is_chip())
        return {.map = FeatureMap(job.recipe, choose_projector(job.recipe.omega, job.omega, exec)),
                .chip = {}};
    const auto chip = resolve_chip(job.config.backend, run);
    const auto seeds = test_seeds(run, job.config.seeds.front());
    const auto inputs =
        sample_rows(job.rows, static_cast<std::size_t>(run.projection.calibration_inputs), seeds.chip, exec);
    auto placed = chip_feature_map(
        job.recipe,
        {.chip = chip, .omega = job.omega, .inputs = inputs.view(), .config = run.projection, .seeds = seeds},
        exec);
    const auto info = chip_info(chip, run, placed);
    return {.map = std::move(placed.map), .chip = info};
}

std::uint64_t map_file(const FeatureMap& map, const RowSource& source, const Exec& exec, NpyWriter& out) {
    std::uint64_t rows = 0;
    for_each_block(source, exec, [&](RowBlock& block) {
        Matrix<float> z(block.x.rows(), map.features());
        map.transform(block.x.view(), block.first_row, exec, z.view());
        out.append(std::as_const(z).view());
        rows += z.rows();
    });
    return rows;
}

}  // namespace imka
