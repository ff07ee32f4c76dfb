#include "imka/learn/ridge_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <functional>
#include <set>
#include <string_view>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/base/team.hpp"
#include "imka/cuda/linear_algebra.hpp"
#include "imka/cuda/resident.hpp"
#include "imka/features/choose_projector.hpp"
#include "imka/features/gpu_feature_map.hpp"
#include "imka/io/text.hpp"
#include "imka/learn/ridge_gpu.hpp"
#include "imka/metrics/metrics.hpp"

namespace imka {
namespace {

// Tiles of features in memory at a time: one per lane, which reads it in place.
constexpr std::size_t kFitTiles = 8;
// Few enough that the features stay in cache.
constexpr std::size_t kPredictRows = 2048;
constexpr std::size_t kRowsOnGpu = std::size_t{1} << 27U;  // values of x on a GPU at a time

FeatureMap map_of(const RidgeModel& model) {
    return {model.recipe, choose_projector(model.recipe.omega, model.omega)};
}

using FillTargets = std::function<void(std::size_t row, std::span<float> out)>;

// Rows and their targets.
struct FitRows {
    MatrixView<const float> x;
    std::size_t outputs = 0;
    const FillTargets& targets;
};

void add_rows(const FitRows& rows, const SeededMap& seeded, const Exec& exec, RidgeAccumulator& sums) {
    const auto& map = *seeded.map;
    const auto& x = rows.x;
    constexpr std::size_t kTile = RidgeAccumulator::kRowsPerTile;
    const std::size_t tiles = (x.rows() + kTile - 1) / kTile;
    // In one process a block is contiguous rows; in a team it is gathered from every n-th tile.
    const std::size_t run = sums.tile_stride() == 1 ? kFitTiles : 1;
    RidgeRows block(std::min(kFitTiles * kTile, x.rows()), map.features(), rows.outputs);
    Progress progress(exec, "fit", x.rows());
    std::size_t filled = 0;
    for (std::size_t tile = sums.first_tile(); tile < tiles; tile += run * sums.tile_stride()) {
        const std::size_t first = tile * kTile;
        const std::size_t count = std::min(run * kTile, x.rows() - first);
        map.transform(x.slice_rows(first, count), {seeded.seed, first}, exec, block.z(filled, count));
        for (std::size_t r = 0; r < count; ++r) rows.targets(first + r, block.y(filled + r));
        filled += count;
        if (filled == kFitTiles * kTile || tile + run * sums.tile_stride() >= tiles) {
            sums.add(block.view(0, filled), exec);
            filled = 0;
        }
        progress.update(first + count);
    }
}

// Whether the GPU also computes the sums and solves the system, and not only the features.
bool sums_on_gpu(std::size_t features, std::size_t rows, const Exec& exec) {
    if (exec.device.kind != DeviceKind::cuda || exec.team != nullptr) return false;
    if (ridge_solver(features, rows) == Solver::dual) return false;
    const auto obstacle = cuda::linear_algebra_obstacle();
    if (!obstacle.empty())
        note(exec, fmt::format("the sums of the fit are computed on the processor: {}", obstacle));
    return obstacle.empty();
}

void add_rows_on_gpu(const FitRows& rows, const SeededMap& seeded, const Exec& exec, GpuRidgeSums& sums) {
    const int gpu = exec.device.number;
    const auto& map = seeded.map->on_gpu(gpu);
    const std::size_t blocks =
        std::max<std::size_t>(1, kRowsOnGpu / (std::max(map.inputs(), rows.outputs) * GpuRidgeSums::kRows));
    const std::size_t most = std::min(blocks * GpuRidgeSums::kRows, rows.x.rows());
    const float* there = cuda::find_resident(exec, rows.x);
    cuda::Buffer<float> x(gpu, there == nullptr ? most * map.inputs() : 0, cuda::MemorySource::pooled);
    Matrix<float> targets(most, rows.outputs);
    Progress progress(exec, "fit", rows.x.rows());
    for (std::size_t first = 0; first < rows.x.rows(); first += most) {
        const std::size_t count = std::min(most, rows.x.rows() - first);
        if (there == nullptr) x.upload_rows(rows.x.slice_rows(first, count));
        for (std::size_t r = 0; r < count; ++r) rows.targets(first + r, targets.row(r));
        sums.add(map, there == nullptr ? x.data() : there + first * map.inputs(),
                 std::as_const(targets).view().slice_rows(0, count), {seeded.seed, first}, exec);
        check_cancelled(exec);
        progress.update(first + count);
    }
}

// Adds the rows of every map, or of the recipe's map if there are none.
RidgeWeights solve(const RidgeModel& model, const RidgeConfig& ridge, std::span<const SeededMap> maps,
                   const FitRows& rows, const Exec& exec, auto& sums, const auto& add) {
    if (maps.empty()) {
        const auto own = map_of(model);
        add(rows, SeededMap{.map = &own}, exec, sums);
    }
    for (const auto& map : maps) add(rows, map, exec, sums);
    return sums.solve(ridge, exec);
}

// No maps: uses the map of the recipe.
RidgeModel fit(const RidgeFit& config, std::span<const SeededMap> maps, const FitRows& rows,
               const Exec& exec) {
    validate(config.recipe);
    if (maps.size() > 1 && exec.team != nullptr)
        fail(ErrorCode::bad_usage, "a fit on several chips must run in one process; start it without mpirun");
    const auto features = static_cast<std::size_t>(config.recipe.omega.m) *
                          functions_per_direction(config.recipe.omega.kernel, config.recipe.form);
    const std::size_t total = rows.x.rows() * std::max<std::size_t>(1, maps.size());
    RidgeModel model{.recipe = config.recipe,
                     .omega = {},
                     .ridge = config.ridge,
                     .targets = config.targets,
                     .classes = {},
                     .standardization = {},
                     .weights = {}};
    RidgeConfig ridge = config.ridge;
    if (!maps.empty()) ridge.alpha *= static_cast<double>(maps.size());
    // Sums come first, because they check the memory.
    if (sums_on_gpu(features, total, exec)) {
        GpuRidgeSums sums(features, rows.outputs, exec.device.number);
        model.omega = sample(config.recipe.omega, exec);
        model.weights = solve(model, ridge, maps, rows, exec, sums, add_rows_on_gpu);
        return model;
    }
    RidgeAccumulator sums(features, rows.outputs, exec.team, total);
    model.omega = sample(config.recipe.omega, exec);
    model.solver = sums.solver();
    model.weights = solve(model, ridge, maps, rows, exec, sums, add_rows);
    return model;
}

void check_classes(const std::vector<std::int32_t>& y, const std::vector<std::string>& classes) {
    check_class_names(classes);
    if (classes.size() < 2) fail(ErrorCode::bad_data, "a classifier needs rows of at least two classes");
    std::vector<std::size_t> counts(classes.size());
    for (const auto c : y) ++counts.at(static_cast<std::size_t>(c));
    for (std::size_t c = 0; c < classes.size(); ++c) {
        if (counts[c] == 0)
            fail(ErrorCode::bad_data, fmt::format("class '{}' has no row in the training part", classes[c]));
    }
}

// On entry every rank has the values of its own rows and zeros elsewhere; afterwards every rank has all
// values.
void share_rows(const Team& team, std::vector<double>& values) {
    if (team.rank() > 0) {
        team.send(0, values);
    } else {
        std::vector<double> other(values.size());
        for (std::size_t from = 1; from < team.size(); ++from) {
            team.receive(from, other);
            for (std::size_t i = 0; i < values.size(); ++i) values[i] += other[i];
        }
    }
    broadcast(team, values);
}

}  // namespace

void check_class_names(const std::vector<std::string>& classes) {
    std::set<std::string_view> names;
    for (const auto& name : classes) {
        if (!names.insert(name).second)
            fail(ErrorCode::bad_data, fmt::format("duplicate class {}", in_quotes(name)));
    }
}

RidgeModel fit_classifier(const RidgeFit& config, MatrixView<const float> x,
                          const std::vector<std::int32_t>& y, const std::vector<std::string>& classes,
                          const Exec& exec) {
    return fit_classifier(config, {}, x, y, classes, exec);
}

RidgeModel fit_classifier(const RidgeFit& config, std::span<const SeededMap> maps, MatrixView<const float> x,
                          const std::vector<std::int32_t>& y, const std::vector<std::string>& classes,
                          const Exec& exec) {
    assert(x.rows() == y.size());
    check_classes(y, classes);
    const float off = config.targets == Targets::plus_minus ? -1.0F : 0.0F;
    const std::size_t outputs = classes.size() == 2 ? 1 : classes.size();
    const FillTargets targets = [&](std::size_t row, std::span<float> out) {
        std::fill(out.begin(), out.end(), off);
        const auto c = static_cast<std::size_t>(y[row]);
        if (outputs > 1) out[c] = 1.0F;
        if (outputs == 1 && c == 1) out[0] = 1.0F;
    };
    auto model = fit(config, maps, {.x = x, .outputs = outputs, .targets = targets}, exec);
    model.classes = classes;
    return model;
}

RidgeModel fit_classifier(RidgeFit config, const Dataset& data, const Exec& exec) {
    auto& d = config.recipe.omega.d;
    if (d == 0) d = static_cast<std::int64_t>(data.train.x.cols());
    auto model = fit_classifier(config, data.train.x, data.train.y, data.classes, exec);
    if (data.standardization) model.standardization = *data.standardization;
    return model;
}

RidgeModel fit_regressor(const RidgeFit& config, MatrixView<const float> x, MatrixView<const float> y,
                         const Exec& exec) {
    return fit_regressor(config, {}, x, y, exec);
}

RidgeModel fit_regressor(const RidgeFit& config, std::span<const SeededMap> maps, MatrixView<const float> x,
                         MatrixView<const float> y, const Exec& exec) {
    assert(x.rows() == y.rows());
    const FillTargets targets = [&](std::size_t row, std::span<float> out) {
        std::ranges::copy(y.row(row), out.begin());
    };
    return fit(config, maps, {.x = x, .outputs = y.cols(), .targets = targets}, exec);
}

RidgePredictor::RidgePredictor(const RidgeModel& model) : RidgePredictor(model, map_of(model)) {}

RidgePredictor::RidgePredictor(const RidgeModel& model, FeatureMap map, std::uint64_t product_seed)
    : weights_(model.weights), targets_(model.targets), map_(std::move(map)), product_seed_(product_seed) {
    assert(map_.features() == model.weights.w.rows());
}

void RidgePredictor::scores(MatrixView<const float> x, std::uint64_t first_row, const Exec& exec,
                            MatrixView<double> out) const {
    if (exec.device.kind == DeviceKind::cuda) {
        predict_on_gpu(weights_, map_.on_gpu(exec.device.number), x, {product_seed_, first_row}, exec, out);
    } else {
        predict(x, first_row, exec, out);
    }
    for (std::size_t r = 0; r < x.rows(); ++r) {
        if (!std::ranges::all_of(out.row(r), [](double v) { return std::isfinite(v); }))
            fail(ErrorCode::bad_data,
                 fmt::format("row {}: the prediction is not finite; its values are too large",
                             first_row + r + 1));
    }
}

void RidgePredictor::predict(MatrixView<const float> x, std::uint64_t first_row, const Exec& exec,
                             MatrixView<double> out) const {
    Progress progress(exec, "predict", x.rows());
    Matrix<float> block(std::min(kPredictRows, x.rows()), map_.features());
    for (std::size_t first = 0; first < x.rows(); first += kPredictRows) {
        const std::size_t count = std::min(kPredictRows, x.rows() - first);
        const auto z = block.view().slice_rows(0, count);
        map_.transform(x.slice_rows(first, count), {product_seed_, first_row + first}, exec, z);
        ridge_predict(weights_, z, exec, out.slice_rows(first, count));
        progress.update(first + count);
    }
}

std::vector<std::int32_t> RidgePredictor::classify(MatrixView<const float> x, std::uint64_t first_row,
                                                   const Exec& exec) const {
    Matrix<double> s(x.rows(), outputs());
    scores(x, first_row, exec, s.view());
    const double threshold = targets_ == Targets::plus_minus ? 0.0 : 0.5;
    std::vector<std::int32_t> y(x.rows());
    for (std::size_t r = 0; r < y.size(); ++r) {
        const auto row = s.row(r);
        const bool two = row.size() == 1;
        // A tie goes to the first class.
        y[r] = two ? static_cast<std::int32_t>(row[0] > threshold)
                   : static_cast<std::int32_t>(std::ranges::max_element(row) - row.begin());
    }
    return y;
}

double accuracy(const RidgePredictor& predictor, const Part& part, const Exec& exec) {
    const auto [first, count] = my_rows(exec.team, part.y.size());
    const auto y = predictor.classify(part.x.view().slice_rows(first, count), first, exec);
    auto right = static_cast<double>(count_right(std::span(part.y).subspan(first, count), y));
    if (exec.team != nullptr) right = sum_over(*exec.team, right);
    return right / static_cast<double>(part.y.size());
}

SquaredErrors squared_errors(const RidgePredictor& predictor, const Part& part, const Exec& exec) {
    assert(predictor.outputs() == 1);
    const auto [first, count] = my_rows(exec.team, part.target.size());
    std::vector<double> predicted(part.target.size());
    const MatrixView<double> mine(predicted.data() + first, count, 1);
    predictor.scores(part.x.view().slice_rows(first, count), first, exec, mine);
    if (exec.team != nullptr) share_rows(*exec.team, predicted);
    SquaredErrors errors;
    for (std::size_t r = 0; r < predicted.size(); ++r) errors.add(part.target[r], predicted[r]);
    return errors;
}

RidgePredictor on_chip(const RidgeModel& model, const ChipTarget& target, MatrixView<const float> inputs,
                       const Exec& exec) {
    constexpr std::uint32_t kTestProducts = 0;  // same bits as `imka ridge --backend`
    const auto seed = target.seed.value_or(model.recipe.omega.seed);
    auto on = chip_feature_map(
        model.recipe,
        {.chip = target.chip, .omega = model.omega, .inputs = inputs, .config = target.build, .seed = seed},
        exec);
    return {model, std::move(on.map), derived_seed(seed, kTestProducts)};
}

}  // namespace imka
