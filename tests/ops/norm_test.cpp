// Shapes that the passes over tokens refuse. Their results are tested with LibTorch (tests/train_torch).
#include "imka/ops/norm/norm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "imka/cuda/gpu.hpp"
#include "imka/ops/norm/pointwise.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

TEST(TokenPasses, RefuseOtherShapes) {
    const ops::TokenRows good{.documents = 3, .tokens = 5, .width = 64};
    EXPECT_GE(column_workspace(good), 4U * 64U);
    const auto refused = [&](auto change, const std::string& message) {
        auto rows = good;
        ops::ResidualInputs in;
        change(rows, in);
        EXPECT_THAT(error_of([&] { ops::residual_norm(rows, in, nullptr, {}); }),
                    HasSubstr("bad_config: token operations: " + message));
    };
    refused([](auto& r, auto&) { r.documents = 0; }, "documents is 0; expected 1 or more");
    refused([](auto& r, auto&) { r.tokens = std::int64_t{1} << 31; }, "tokens is 2147483648");
    refused([](auto& r, auto&) { r.width = 60; }, "width is 60; expected a multiple of 8 up to 256");
    refused([](auto& r, auto&) { r.width = 264; }, "width is 264");
    refused([](auto&, auto& in) { in.dropout.share = 1.0F; }, "share of dropout is 1");
    auto wide = good;
    wide.width = 2056;
    EXPECT_THAT(error_of([&] { ops::bias_activation(wide, {}, nullptr, nullptr); }),
                HasSubstr("width is 2056; expected a multiple of 8 up to 2048"));
}

TEST(TokenPasses, SayThatTheBuildHasNoCuda) {
    if (cuda::is_compiled()) GTEST_SKIP() << "built with CUDA";
    const ops::TokenRows rows{.documents = 3, .tokens = 5, .width = 64};
    EXPECT_THAT(error_of([&] { ops::residual_norm(rows, {}, nullptr, {}); }), HasSubstr("missing_part"));
    EXPECT_THAT(error_of([&] { ops::document_means(rows, nullptr, nullptr, nullptr); }),
                HasSubstr("missing_part"));
}

}  // namespace
}  // namespace imka
