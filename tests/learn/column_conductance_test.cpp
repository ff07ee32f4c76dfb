// Column conductances against one conductance for all columns, on real inputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "imka/chip/programmed_chip.hpp"
#include "imka/chip/simulate/emulator.hpp"
#include "imka/chip/spec/chip.hpp"
#include "imka/data/dataset.hpp"
#include "imka/learn/ridge_model.hpp"
#include "support/data_dir.hpp"

namespace imka {
namespace {

const Exec kExec{.threads = 2};

// Relative error of products of the rows after those of the calibration, and the share of saturated
// conversions.
struct Outcome {
    double error = 0.0;
    double saturated = 0.0;
};

Outcome measure(Plan plan, MatrixView<const float> test, std::uint64_t seed) {
    const auto weights = plan.matrices[0].weights;
    const auto chip =
        with_calibrated_outputs(program(std::move(plan), seed, {}, kExec), OutputFit::applied, kExec);
    FastEmulator emulator(chip, kExec);
    const auto products = execute(emulator, 0, test, {.seed = seed + 100}, kExec);
    const auto exact = exact_products(test, weights.view());
    double difference = 0.0;
    double norm = 0.0;
    for (std::size_t i = 0; i < exact.values().size(); ++i) {
        difference += std::pow(products.y.values()[i] - exact.values()[i], 2.0);
        norm += std::pow(exact.values()[i], 2.0);
    }
    return {std::sqrt(difference / norm),
            static_cast<double>(products.trace.saturated) / static_cast<double>(products.trace.conversions)};
}

// The weights of a classifier of letters and the features that it gets.
TEST(ColumnConductances, LowerTheErrorOnRealInputs) {
    IMKA_NEED_REAL_DATA(folder);
    const auto data = load_dataset("letter", {.data_dir = folder}, kExec);
    const FeatureRecipe recipe{.omega = {.kernel = Kernel::arccos1, .d = 16, .m = 256, .seed = 1}};
    const auto model = fit_classifier(RidgeFit{.recipe = recipe}, data, kExec);
    const auto z = FeatureMap(recipe, kExec).transform(data.train.x.view().slice_rows(0, 3000), kExec);
    Matrix<float> weights(model.weights.w.rows(), model.weights.w.cols());
    std::ranges::transform(model.weights.w.values(), weights.values().begin(),
                           [](double v) { return static_cast<float>(v); });
    const auto chip = chip_preset("hermes");
    const auto calibration = z.view().slice_rows(0, 2000);
    const auto test = z.view().slice_rows(2000, 1000);
    double columns = 0.0;
    double most = 0.0;
    double least = 0.0;
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
        const auto with = [&](bool own) {
            return calibrated(place(chip, weights),
                              {.sample = calibration, .config = {.columns = own}, .seed = seed}, kExec);
        };
        auto plan = with(true);
        const auto own = measure(plan, test, seed);
        columns += own.error;
        EXPECT_EQ(measure(plan, calibration, seed).saturated, 0.0) << "calibration inputs";
        most += measure(with(false), test, seed).error;
        // The largest conductance at which no column saturates.
        auto& us = plan.scales[0].column_us;
        std::ranges::fill(us, std::ranges::min(us));
        least += measure(std::move(plan), test, seed).error;
    }
    RecordProperty("columns", std::to_string(columns / 4));
    RecordProperty("g_max", std::to_string(most / 4));
    RecordProperty("least", std::to_string(least / 4));
    EXPECT_LT(columns, most) << "all columns at g_max";
    EXPECT_LT(columns, least) << "all columns at the least of the column conductances";
}

}  // namespace
}  // namespace imka
