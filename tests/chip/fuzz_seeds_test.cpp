// Every seed of the chip file fuzzer gives a chip that multiplies, or an imka::Error.
#include <gtest/gtest.h>

#include "../../fuzz/feed_chip.hpp"
#include "support/fuzz_seeds.hpp"

namespace imka {
namespace {

TEST(ChipFuzzSeeds, GiveChipsOrOurErrors) {
    int chips = 0;
    feed_seeds("chip", [&](std::string_view bytes) { chips += fuzz::feed_chip(bytes) ? 1 : 0; });
    EXPECT_GE(chips, 2) << "the seeds no longer get past the reader";
}

}  // namespace
}  // namespace imka
