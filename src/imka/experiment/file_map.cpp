#include "imka/experiment/file_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/features/choose_projector.hpp"

namespace imka {

FeatureRecipe file_recipe(const RunConfig& config, const RowSource& rows, const Exec& exec) {
    InputStatistics statistics{.d = *rows.options.features};
    if (!config.features.gamma.value) {
        InputMoments moments;
        Exec silent = exec;  // the last pass reports
        silent.log = nullptr;
        for_each_block(rows, silent, [&](RowBlock& block) { moments.add(std::as_const(block.x).view()); });
        statistics = moments.statistics();
    }
    const auto recipe = resolve(config.features, feature_use(config), statistics, config.seeds.front());
    validate(recipe);
    return recipe;
}

RunMap file_map(const FileMapJob& job, const Exec& exec) {
    const auto& run = job.config.chip;
    if (!job.config.backend.is_chip())
        return {.map = FeatureMap(job.recipe, choose_projector(job.recipe.omega, job.omega, exec))};
    const auto chip = resolve_chip(job.config.backend, run);
    const auto seeds = test_seeds(run, job.config.seeds.front());
    const auto inputs =
        sample_rows(job.rows, static_cast<std::size_t>(run.projection.calibration_inputs), seeds.chip, exec);
    auto placed = chip_feature_map(job.recipe,
                                   {.chip = chip,
                                    .omega = job.omega,
                                    .inputs = inputs.view(),
                                    .config = run.projection,
                                    .seed = seeds.chip},
                                   exec);
    const auto info = chip_info(chip, run, placed);
    return {.map = std::move(placed.map), .chip = info, .seed = seeds.products};
}

std::uint64_t map_file(const SeededMap& map, const RowSource& source, const Exec& exec, NpyWriter& out) {
    std::uint64_t rows = 0;
    for_each_block(source, exec, [&](RowBlock& block) {
        Matrix<float> z(block.x.rows(), map.map->features());
        map.map->transform(block.x.view(), {map.seed, block.first_row}, exec, z.view());
        const auto values = z.values();
        const auto bad = std::ranges::find_if(values, [](float v) { return !std::isfinite(v); });
        if (bad != values.end())
            fail(
                ErrorCode::bad_data,
                fmt::format("{}: row {}: its features are not finite; the values of the row are too large",
                            source.file.path().string(),
                            block.first_row + static_cast<std::size_t>(bad - values.begin()) / z.cols() + 1));
        out.append(std::as_const(z).view());
        rows += z.rows();
    });
    return rows;
}

}  // namespace imka
