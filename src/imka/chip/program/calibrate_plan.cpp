#include "imka/chip/program/calibrate_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"

namespace imka {
namespace {

// The second moment of the inputs, if the chip needs it.
Matrix<double> limit_moment(const ProductLimit& limit, const Calibration& calibration) {
    if (limit.deviations == 0.0 || calibration.second_moment.rows() > 0) return calibration.second_moment;
    return second_moment(calibration.sample);
}

// Second moment of the inputs of a tile.
Matrix<double> diagonal_block(const Matrix<double>& moment, const Tile& tile) {
    if (moment.rows() == 0) return {};
    Matrix<double> block(tile.rows, tile.rows);
    for (std::size_t i = 0; i < tile.rows; ++i) {
        for (std::size_t j = 0; j < tile.rows; ++j)
            block(i, j) = moment(tile.first_row + i, tile.first_row + j);
    }
    return block;
}

// The sample of a region. If it is all 0, for example for channels that were never active, it gives no range;
// it is then replaced by unit vectors times the largest input of the matrix.
Matrix<float> inputs_or_units(const Plan& plan, const Region& region) {
    auto inputs = region_inputs(plan, region);
    const auto largest = [](const Matrix<float>& x) {
        float most = 0.0F;
        for (const float v : x.values()) most = std::max(most, std::abs(v));
        return most;
    };
    const float all = largest(plan.matrices[region.matrix].inputs);
    if (all == 0.0F || largest(inputs) > 0.0F) return inputs;
    Matrix<float> units(region.tile.rows, region.tile.rows);
    for (std::size_t r = 0; r < units.rows(); ++r) units(r, r) = all;
    return units;
}

}  // namespace

namespace {

// Draws the calibration inputs of one matrix.
void take_inputs(const Calibration& calibration, Plan& plan) {
    const auto number = calibration.matrix;
    const auto& x = calibration.sample;
    validate(calibration.config);
    if (number >= plan.matrices.size())
        fail(ErrorCode::bad_usage,
             fmt::format("no matrix {}; the plan has {}", number, plan.matrices.size()));
    auto& matrix = plan.matrices[number];
    if (x.cols() != matrix.weights.rows())
        fail(ErrorCode::bad_data, fmt::format("calibration inputs of length {} for weights of {} inputs",
                                              x.cols(), matrix.weights.rows()));
    if (x.rows() == 0) fail(ErrorCode::bad_data, "no calibration inputs");
    matrix.inputs = calibration_inputs(calibration.config, x, calibration.seed);
}

// A tile with the regions that hold it: replicas share the scale of a tile.
struct TileWork {
    std::size_t calibration = 0;
    std::vector<std::size_t> regions;
};
std::vector<TileWork> tiles_of(const Plan& plan, std::span<const Calibration> calibrations) {
    std::vector<TileWork> work;
    for (std::size_t k = 0; k < calibrations.size(); ++k) {
        std::map<Tile, std::vector<std::size_t>> tiles;
        for (std::size_t r = 0; r < plan.regions.size(); ++r) {
            if (plan.regions[r].matrix == calibrations[k].matrix) tiles[plan.regions[r].tile].push_back(r);
        }
        for (auto& [tile, regions] : tiles) work.push_back({k, std::move(regions)});
    }
    return work;
}

}  // namespace

Plan calibrated(Plan plan, std::span<const Calibration> calibrations, const Exec& exec) {
    for (const auto& calibration : calibrations) take_inputs(calibration, plan);
    std::vector<Matrix<double>> moments(calibrations.size());
    parallel_for(exec, moments.size(), [&](std::size_t k) {
        moments[k] = limit_moment(plan.spec.core.affine.limit, calibrations[k]);
    });
    const auto work = tiles_of(plan, calibrations);
    parallel_for(exec, work.size(), [&](std::size_t t) {
        const auto& region = plan.regions[work[t].regions.front()];
        const auto weights = region_weights(plan, region);
        const auto block = diagonal_block(moments[work[t].calibration], region.tile);
        const auto inputs = inputs_or_units(plan, region);
        auto scale = calibrate_scale(plan.spec, weights.view(), inputs.view(),
                                     calibrations[work[t].calibration].config);
        scale.output_limits = product_limits(plan.spec.core.affine.limit, weights.view(), block.view());
        for (double& limit : scale.output_limits) limit /= scale.output_step;
        for (const auto r : work[t].regions) plan.scales[r] = scale;
    });
    return plan;
}

Plan calibrated(Plan plan, const Calibration& calibration, const Exec& exec) {
    return calibrated(std::move(plan), std::span(&calibration, 1), exec);
}

}  // namespace imka
