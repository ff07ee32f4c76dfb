// Every seed of the chip file fuzzer gives a chip that multiplies, or an imka::Error.
#include <gtest/gtest.h>

#include "../../fuzz/feed_chip_file.hpp"
#include "support/fuzz_seeds.hpp"

namespace imka {
namespace {

TEST(ChipFileFuzzSeeds, GiveChipsOrOurErrors) {
    int chips = 0;
    feed_seeds("chip_file", [&](std::string_view bytes) { chips += fuzz::feed_chip_file(bytes) ? 1 : 0; });
    EXPECT_GE(chips, 4) << "the seeds no longer get past the reader";
}

}  // namespace
}  // namespace imka
