// Errors of deployed models, with chips that a GPU emulates.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "cuda/devices.hpp"
#include "deploy/models.hpp"
#include "imka/cuda/gpu.hpp"
#include "imka/deploy/model_error.hpp"

namespace imka {
namespace {

DeployedModel deployed_network() {
    const auto spec = chip_preset("hermes");
    const auto graph = small_network();
    return deploy(place_model(graph, spec, {}), spec, {}, inputs_of(graph, 300, 11), 7, kCpu);
}

// A few results differ by one step.
TEST(CudaModelError, AgreesWithTheProcessor) {
    if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    const auto model = deployed_network();
    const auto inputs = inputs_of(model.graph, 40, 12);
    const std::vector<std::uint64_t> seeds{0, 1};
    const auto expected = model_error(model, inputs, seeds, kCpu);
    const auto error = model_error(model, inputs, seeds, kGpu);
    const auto expect_near = [](const Summary& a, const Summary& b) {
        EXPECT_NEAR(a.mean, b.mean, 0.01 * b.mean);
    };
    expect_near(error.total, expected.total);
    ASSERT_EQ(error.matrices.size(), expected.matrices.size());
    for (std::size_t k = 0; k < error.matrices.size(); ++k) {
        expect_near(error.matrices[k].own, expected.matrices[k].own);
        expect_near(error.matrices[k].accumulated, expected.matrices[k].accumulated);
        expect_near(error.matrices[k].alone, expected.matrices[k].alone);
    }
}

TEST(CudaModelError, CausesAreThoseOfTheProcessor) {
    if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    const auto model = deployed_network();
    const auto inputs = inputs_of(model.graph, 40, 12);
    const std::vector<std::uint64_t> seeds{0};
    const auto expected = attribute_model_error(model, inputs, seeds, kCpu);
    const auto causes = attribute_model_error(model, inputs, seeds, kGpu);
    ASSERT_EQ(causes.items.size(), expected.items.size());
    for (std::size_t i = 0; i < causes.items.size(); ++i)
        EXPECT_EQ(causes.items[i].saved, expected.items[i].saved);
}

}  // namespace
}  // namespace imka
