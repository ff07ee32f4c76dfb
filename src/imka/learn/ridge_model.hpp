// Ridge on random features: classifier (binary or one-vs-rest) and regressor, with everything needed for
// prediction, in one file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/data/dataset.hpp"
#include "imka/features/feature_map.hpp"
#include "imka/features/project_chip.hpp"
#include "imka/learn/ridge.hpp"
#include "imka/metrics/metrics.hpp"

namespace imka {

// Targets for "not this class" and "this class" in the fit; the decision threshold is halfway between them.
enum class Targets { plus_minus, zero_one };
template <>
struct EnumNames<Targets> {
    static constexpr std::string_view what = "targets";
    static constexpr std::string_view values[] = {"plus_minus", "zero_one"};
};

struct RidgeModel {
    FeatureRecipe recipe;
    Matrix<float> omega;  // Ω as used; a model does not depend on how it was drawn
    RidgeConfig ridge;
    Targets targets = Targets::plus_minus;
    std::vector<std::string> classes;  // empty: regression
    Standardization standardization;   // of raw inputs; empty mean: none
    RidgeWeights weights;
    Solver solver = Solver::primal;  // of the fit; not in the file
};

// Error{bad_data} if a name occurs twice.
void check_class_names(const std::vector<std::string>& classes);

struct RidgeFit {
    FeatureRecipe recipe;
    RidgeConfig ridge;
    Targets targets = Targets::plus_minus;
};

// Processes rows in blocks; only the features of one block are in memory. Two classes need one output, more
// classes one output each. Error{bad_data} if a class has no rows.
RidgeModel fit_classifier(const RidgeFit& fit, MatrixView<const float> x, const std::vector<std::int32_t>& y,
                          const std::vector<std::string>& classes, const Exec& exec);
// On the training part. A recipe with d = 0 takes d from the data.
RidgeModel fit_classifier(RidgeFit fit, const Dataset& data, const Exec& exec = {});
// The same with the features of the given maps, for example of chips, instead of the recipe's map: every row
// passes through each map, and the penalty is multiplied by their number, so that the weights minimise the
// mean loss over maps. Error{bad_usage} for several maps in a team.
RidgeModel fit_classifier(const RidgeFit& fit, std::span<const SeededMap> maps, MatrixView<const float> x,
                          const std::vector<std::int32_t>& y, const std::vector<std::string>& classes,
                          const Exec& exec);
// One output per column of y.
RidgeModel fit_regressor(const RidgeFit& fit, MatrixView<const float> x, MatrixView<const float> y,
                         const Exec& exec);
RidgeModel fit_regressor(const RidgeFit& fit, std::span<const SeededMap> maps, MatrixView<const float> x,
                         MatrixView<const float> y, const Exec& exec);

// Predicts with a model. Copies what it needs, so the model need not outlive it.
class RidgePredictor {
public:
    explicit RidgePredictor(const RidgeModel& model);
    // Uses another map, for example the same Ω on a chip, and the seed of its products.
    RidgePredictor(const RidgeModel& model, FeatureMap map, std::uint64_t product_seed = 0);
    // x must be standardised like the training rows. Row r of x is number first_row + r in the caller's
    // stream, which selects the noise of a chip.
    void scores(MatrixView<const float> x, std::uint64_t first_row, const Exec& exec,
                MatrixView<double> out) const;
    std::vector<std::int32_t> classify(MatrixView<const float> x, std::uint64_t first_row,
                                       const Exec& exec) const;
    std::vector<std::int32_t> classify(MatrixView<const float> x, const Exec& exec = {}) const {
        return classify(x, 0, exec);
    }
    std::size_t outputs() const { return weights_.w.cols(); }
    // Refers to this predictor.
    SeededMap feature_map() const& { return {&map_, product_seed_}; }
    SeededMap feature_map() const&& = delete;

private:
    // On the processor.
    void predict(MatrixView<const float> x, std::uint64_t first_row, const Exec& exec,
                 MatrixView<double> out) const;

    RidgeWeights weights_;
    Targets targets_;
    FeatureMap map_;
    std::uint64_t product_seed_;
};

// Fraction of the rows of `part` that are classified correctly.
double accuracy(const RidgePredictor& predictor, const Part& part, const Exec& exec = {});

// Errors of the predicted numbers of `part`, for a regressor with one output. The same bits for any team.
SquaredErrors squared_errors(const RidgePredictor& predictor, const Part& part, const Exec& exec = {});

// An emulated chip and how the model is mapped to it.
struct ChipTarget {
    ChipSpec chip;  // chip_preset("hermes"), load_chip("my.yaml")
    BuildConfig build = {};
    std::optional<std::uint64_t> seed;  // of the devices and the noise; absent: the seed of the features
};

// The model with its projection on a chip, calibrated on `inputs` (for example the training rows).
RidgePredictor on_chip(const RidgeModel& model, const ChipTarget& target, MatrixView<const float> inputs,
                       const Exec& exec = {});

// One safetensors file (docs/formats.md).
void save_model(const std::filesystem::path& path, const RidgeModel& model);
RidgeModel load_model(const std::filesystem::path& path);

}  // namespace imka
