#include "imka/experiment/explain.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "imka/chip/simulate/execute.hpp"
#include "imka/features/feature_map.hpp"
#include "imka/features/project_chip.hpp"

namespace imka {
namespace {

Matrix<float> scaled_rows(MatrixView<const float> x, std::size_t count, double scale) {
    Matrix<float> out(std::min(count, x.rows()), x.cols());
    for (std::size_t r = 0; r < out.rows(); ++r) {
        for (std::size_t c = 0; c < out.cols(); ++c) out(r, c) = static_cast<float>(scale * double{x(r, c)});
    }
    return out;
}

// Ω of the recipe, and rows of both parts as the projection gets them.
Problem projection_problem(const FeatureRecipe& recipe, const Dataset& data, std::size_t calibration_count,
                           std::size_t test_count) {
    const auto& omega = recipe.omega;
    const auto law = kernel_row(omega.kernel).feature_law(omega.gamma, data.train.x.cols());
    const auto directions = sample(omega, {.threads = 1});
    Problem problem{.seed = omega.seed, .weights = Matrix<float>(directions.cols(), directions.rows())};
    for (std::size_t r = 0; r < directions.rows(); ++r) {
        for (std::size_t c = 0; c < directions.cols(); ++c) problem.weights(c, r) = directions(r, c);
    }
    problem.calibration = scaled_rows(data.train.x.view(), calibration_count, law.input_scale);
    problem.inputs = scaled_rows(data.test.x.view(), test_count, law.input_scale);
    return problem;
}

}  // namespace

ErrorAttribution attribute_gram_error(const RunConfig& config, const Dataset& data,
                                      const GramAttribution& options, const Exec& exec) {
    const Exec one{.threads = 1};
    const auto exact = reference_gram(config, data, exec);
    std::vector<CaseErrors> errors;
    for (const auto seed : config.seeds) {
        const auto recipe = feature_recipe(config, data, seed);
        const auto problem = projection_problem(recipe, data, options.calibration_count, exact.rows());
        const auto squared_error = [&](const ChipSettings& settings) {
            auto build = options.build;
            build.settings = settings;
            auto chip = build_chip(build, problem, one);
            age_and_compensate(chip, options.read, one);
            const FeatureMap map(recipe,
                                 std::make_unique<ChipProjector>(ready(chip, one), product_seed(seed)));
            const double error = measure_gram_error(config, data, exact, map, one);
            return error * error;
        };
        errors.push_back(measure_cases(options.build.settings, squared_error, exec));
    }
    return attribute_error(options.build.settings, std::move(errors));
}

}  // namespace imka
