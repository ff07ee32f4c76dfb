// Every seed of the model file fuzzer gives a working model or an imka::Error.
#include <gtest/gtest.h>

#include "../../fuzz/feed_model.hpp"
#include "support/fuzz_seeds.hpp"

namespace imka {
namespace {

TEST(ModelFuzzSeeds, GiveModelsOrOurErrors) {
    int models = 0;
    feed_seeds("model", [&](std::string_view bytes) { models += fuzz::feed_model(bytes) ? 1 : 0; });
    EXPECT_GE(models, 4) << "the seeds no longer get past the reader";
}

}  // namespace
}  // namespace imka
