// Every seed of the fuzzer of files of programmed chips gives a chip that multiplies or an imka::Error.
#include <gtest/gtest.h>

#include "../../fuzz/feed_chip_matrix.hpp"
#include "support/fuzz_seeds.hpp"

namespace imka {
namespace {

TEST(ChipMatrixFuzzSeeds, GiveChipsOrOurErrors) {
    int chips = 0;
    feed_seeds("chip_matrix",
               [&](std::string_view bytes) { chips += fuzz::feed_chip_matrix(bytes) ? 1 : 0; });
    EXPECT_GE(chips, 4) << "the seeds no longer get past the reader";
}

}  // namespace
}  // namespace imka
