// Applied inputs have the same bits as the plain loop on every instruction set.
#include "imka/ops/readout/applied.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

#include "imka/base/random.hpp"
#include "support/applied_reference.hpp"
#include "support/targets.hpp"

namespace imka::ops {
namespace {

constexpr std::size_t kSize = 1003;

// Also values close to halves and to whole steps, and negative ones that round to 0.
std::vector<float> inputs() {
    std::vector<float> x(kSize);
    fill_normal(1, Stream::test, 0, x);
    for (auto& v : x) v *= 0.5F;
    for (std::size_t i = 0; i < 400; ++i) x[i] = (0.5F * static_cast<float>(i) - 100.0F) / 127.0F;
    return x;
}

TEST(AppliedInputs, AreThoseOfTheReference) {
    const auto x = inputs();
    std::set<float> values;
    for (const int levels : {1, 7, 127, 32767}) {
        for (const double range : {1.0, 0.73}) {
            for (const auto rounding : {StepRounding::nearest, StepRounding::truncate}) {
                const StepScale scale{.range = range, .levels = levels, .rounding = rounding};
                for_each_instruction_set([&] {
                    for (const std::size_t size : {0U, 1U, 3U, 4U, 7U, 8U, 15U, 16U, 17U, 33U, 1002U}) {
                        std::vector<float> got(size + 1, 7.0F);
                        std::vector<float> expected(size + 1, 7.0F);
                        const auto in = std::span(x).subspan(1, size);
                        EXPECT_TRUE(apply_row(scale, in, std::span(got).first(size)));
                        EXPECT_TRUE(reference::apply_row(scale, in, std::span(expected).first(size)));
                        ASSERT_EQ(0, std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)))
                            << size << " " << levels << " " << range;
                        values.insert(expected.begin(), expected.end());
                    }
                });
            }
        }
    }
    EXPECT_GT(values.size(), 500U);
}

TEST(AppliedInputs, ThatAreNotFiniteAreReported) {
    for_each_instruction_set([] {
        constexpr float kInf = std::numeric_limits<float>::infinity();
        for (const float bad : {kInf, -kInf, std::nanf("")}) {
            for (const std::size_t at : {0U, 20U, 36U}) {
                std::vector<float> x(37, 0.5F);
                std::vector<float> out(37);
                EXPECT_TRUE(apply_row({}, x, out));
                x[at] = bad;
                EXPECT_FALSE(apply_row({}, x, out)) << bad << " " << at;
            }
        }
    });
}

}  // namespace
}  // namespace imka::ops
