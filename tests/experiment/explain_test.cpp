// Causes of the Gram error of a run.
#include "imka/experiment/explain.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace imka {
namespace {

RunConfig small_run() {
    RunConfig config{.dataset = "ringnorm"};
    config.features.log_ratio = 3.0;
    config.backend.name = "hermes-published";
    config.chip.projection.calibration_inputs = 100;
    config.gram_rows = 40;
    config.seeds = {2};
    return config;
}

double gram_error(const RunConfig& config, const Dataset& data) {
    return run_seeds("gram", config, data, {}).values.at("gram_error").mean;
}

TEST(Explain, FullErrorEqualsTheErrorOfTheRun) {
    const auto data = load_dataset("ringnorm", {.train_rows = 300, .test_rows = 60}, Exec{});
    auto config = small_run();
    const auto found = attribute_gram_error(config, data, {});
    EXPECT_EQ(std::sqrt(found.errors.at(0).full), gram_error(config, data));
    // Without any non-ideality only the error of the features is left.
    config.features.truncation = 3.0;
    config.backend.name = "fp32";
    EXPECT_NEAR(std::sqrt(found.errors.at(0).none), gram_error(config, data), 1e-4);
}

TEST(Explain, NothingIsClippedWithoutClipping) {
    const auto data = load_dataset("ringnorm", {.train_rows = 300, .test_rows = 60}, Exec{});
    auto config = small_run();
    config.chip.projection.input_alpha = 0.5;
    const auto found = attribute_gram_error(config, data, {});
    const auto clipping = std::ranges::find_if(
        found.items, [](const Attribution& a) { return a.item->name == "input_clipping"; });
    ASSERT_NE(clipping, found.items.end());
    EXPECT_GT(clipping->saved.at(0), 0.5);
    // The switch widens the range to all projected rows.
    EXPECT_LT(found.errors.at(0).none, 0.5 * found.errors.at(0).full);
}

}  // namespace
}  // namespace imka
