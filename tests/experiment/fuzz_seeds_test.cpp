// Every seed of the experiment and record fuzzers gives a value or an imka::Error.
#include <gtest/gtest.h>

#include "../../fuzz/feed_experiment.hpp"
#include "support/fuzz_seeds.hpp"

namespace imka {
namespace {

TEST(FuzzSeeds, GiveOnlyOurErrors) {
    feed_seeds("experiment", fuzz::feed_experiment);
    feed_seeds("record", fuzz::feed_record);
}

}  // namespace
}  // namespace imka
