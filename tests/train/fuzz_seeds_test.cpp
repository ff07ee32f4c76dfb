// Every seed of the fuzzers of trained models and recipes gives a model or recipe, or an imka::Error.
#include <gtest/gtest.h>

#include "../../fuzz/feed_performer.hpp"
#include "support/fuzz_seeds.hpp"

namespace imka {
namespace {

TEST(TrainFuzzSeeds, GiveModelsOrOurErrors) {
    int models = 0;
    feed_seeds("performer", [&](std::string_view bytes) { models += fuzz::feed_performer(bytes) ? 1 : 0; });
    EXPECT_GE(models, 1) << "the seeds no longer get past the reader";
}

TEST(TrainFuzzSeeds, GiveRecipesOrOurErrors) {
    int recipes = 0;
    feed_seeds("recipe", [&](std::string_view bytes) { recipes += fuzz::feed_recipe(bytes) ? 1 : 0; });
    EXPECT_GE(recipes, 3) << "the seeds no longer get past the reader";
}

}  // namespace
}  // namespace imka
