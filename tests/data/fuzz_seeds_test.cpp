// Replays the seeds of the reader fuzzers: each gives a value or an imka::Error.
#include <gtest/gtest.h>

#include "../../fuzz/feed.hpp"
#include "support/fuzz_seeds.hpp"

namespace imka {
namespace {

TEST(FuzzSeeds, GiveOnlyOurErrors) {
    feed_seeds("libsvm", fuzz::feed_libsvm);
    feed_seeds("arff", fuzz::feed_arff);
    feed_seeds("csv", fuzz::feed_csv);
    feed_seeds("npy", fuzz::feed_npy);
    feed_seeds("safetensors", fuzz::feed_safetensors);
    feed_seeds("config", fuzz::feed_config);
}

}  // namespace
}  // namespace imka
