// Every seed of the ONNX fuzzer gives a graph that runs, or an imka::Error.
#include <gtest/gtest.h>

#include "../../fuzz/feed_onnx.hpp"
#include "support/fuzz_seeds.hpp"
#include "support/onnx.hpp"

namespace imka {
namespace {

TEST(OnnxFuzzSeeds, GiveGraphsOrOurErrors) {
    IMKA_NEED_ONNX();
    int graphs = 0;
    feed_seeds("onnx", [&](std::string_view bytes) { graphs += fuzz::feed_onnx(bytes) ? 1 : 0; });
    EXPECT_GE(graphs, 8) << "the seeds no longer get past the reader";
}

}  // namespace
}  // namespace imka
