// Every seed of the ONNX fuzzer gives a graph that runs, or an imka::Error.
#include <gtest/gtest.h>

#include "../../fuzz/feed_onnx.hpp"
#include "support/fuzz_seeds.hpp"

namespace imka {
namespace {

TEST(OnnxFuzzSeeds, GiveGraphsOrOurErrors) {
    if (!graph::has_onnx()) GTEST_SKIP() << "built without ONNX";
    int graphs = 0;
    feed_seeds("onnx", [&](std::string_view bytes) { graphs += fuzz::feed_onnx(bytes) ? 1 : 0; });
    EXPECT_GE(graphs, 8) << "the seeds no longer get past the reader";
}

}  // namespace
}  // namespace imka
