#include "imka/experiment/explain.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "imka/chip/program/calibrate.hpp"
#include "imka/features/project_chip.hpp"

namespace imka {
namespace {

// The calibration rows of the chip, then the test rows of the Gram matrix.
Matrix<float> projected_rows(const RunConfig& config, const Dataset& data, std::uint64_t chip_seed,
                             std::size_t test_rows) {
    const CalibrationConfig calibration{
        .inputs = static_cast<std::size_t>(config.chip.projection.calibration_inputs)};
    auto out = calibration_inputs(calibration, data.train.x.view(), chip_seed);
    const auto first = out.rows();
    out.resize_rows(first + test_rows);
    for (std::size_t r = 0; r < test_rows; ++r)
        std::ranges::copy(data.test.x.row(r), out.row(first + r).begin());
    return out;
}

// Nothing is clipped: the range covers every projected row.
BuildConfig with_whole_range(BuildConfig build, std::size_t rows) {
    build.input_alpha.reset();
    build.input_range = InputRangeRule::max;
    build.calibration_inputs = static_cast<std::int64_t>(rows);
    return build;
}

}  // namespace

ChipSettings chip_settings(const RunConfig& config) {
    return {.spec = resolve_chip(config.backend, config.chip)};
}

ErrorAttribution attribute_gram_error(const RunConfig& config, const Dataset& data, const Exec& exec) {
    const Exec one{.threads = 1};
    const auto settings = chip_settings(config);
    const auto exact = reference_gram(config, data, exec);
    const auto& build = config.chip.projection;
    std::vector<CaseErrors> errors;
    for (const auto seed : config.seeds) {
        const auto recipe = feature_recipe(config, data, seed);
        const auto omega = sample(recipe.omega, exec);
        const auto seeds = test_seeds(config.chip, seed);
        const auto all = projected_rows(config, data, seeds.chip, exact.rows());
        const auto whole = with_whole_range(build, all.rows());
        const auto squared_error = [&](const ChipSettings& tried) {
            const auto on_chip =
                chip_feature_map(recipe,
                                 {.chip = tried.spec,
                                  .omega = omega,
                                  .inputs = tried.whole_range ? all.view() : data.train.x.view(),
                                  .config = tried.whole_range ? whole : build,
                                  .seed = seeds.chip},
                                 one);
            const double error = measure_gram_error(config, data, exact,
                                                    std::array{SeededMap{&on_chip.map, seeds.products}}, one);
            return error * error;
        };
        errors.push_back(measure_cases(settings, squared_error, exec));
    }
    return attribute_error(settings, std::move(errors));
}

}  // namespace imka
