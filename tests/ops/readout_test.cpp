// Steps, counts and outputs have the same bits as the plain loops on every instruction set.
#include "imka/ops/readout/readout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

#include "imka/base/random.hpp"
#include "support/readout_reference.hpp"
#include "support/targets.hpp"

namespace imka::ops {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr std::size_t kSize = 1003;

std::vector<float> normals(std::uint64_t seed, float scale) {
    std::vector<float> out(kSize);
    fill_normal(seed, Stream::test, 0, out);
    for (auto& v : out) v *= scale;
    return out;
}

std::vector<float> squares(std::uint64_t seed, float scale) {
    auto out = normals(seed, scale);
    for (auto& v : out) v *= v;
    return out;
}

// Sizes around the lane counts, at an unaligned address; also checks that nothing is written beyond the end.
template <class Run, class Reference>
void expect_same_bits(const Run& run, const Reference& reference) {
    for_each_instruction_set([&] {
        for (const std::size_t size : {0U, 1U, 3U, 4U, 7U, 8U, 15U, 16U, 17U, 31U, 33U, 1002U}) {
            std::vector<float> got(size + 1, 7.0F);
            std::vector<float> expected(size + 1, 7.0F);
            const auto a = run(size, std::span(got).first(size));
            const auto b = reference(size, std::span(expected).first(size));
            ASSERT_EQ(a, b) << size;
            ASSERT_EQ(0, std::memcmp(got.data(), expected.data(), got.size() * sizeof(float))) << size;
        }
    });
}

// All members, for comparison.
std::vector<double> values(const StepSums& s) {
    return {s.finite ? 1.0 : 0.0, s.positive, s.negative, s.positive_squares, s.negative_squares};
}

TEST(Readout, StepsAreThoseOfTheReference) {
    auto x = normals(1, 0.5F);
    for (std::size_t i = 0; i < 200; ++i)
        x[i] = (static_cast<float>(i) - 100.5F) / 127.0F;  // close to halves
    for (const int levels : {1, 7, 127, 32767}) {
        for (const double range : {1.0, 0.73}) {
            for (const auto rounding : {StepRounding::nearest, StepRounding::truncate}) {
                const StepScale scale{.range = range, .levels = levels, .rounding = rounding};
                expect_same_bits(
                    [&](std::size_t n, std::span<float> out) {
                        return values(quantize_row(scale, std::span(x).subspan(1, n), out));
                    },
                    [&](std::size_t n, std::span<float> out) {
                        return values(reference::quantize_row(scale, std::span(x).subspan(1, n), out));
                    });
            }
        }
    }
    std::vector<float> steps(kSize);
    reference::quantize_row({}, x, steps);
    EXPECT_GT(std::set<float>(steps.begin(), steps.end()).size(), 200U);
}

TEST(Readout, InputsThatAreNotFiniteAreReported) {
    for_each_instruction_set([] {
        for (const float bad : {kInf, -kInf, std::nanf("")}) {
            for (const std::size_t at : {0U, 20U, 36U}) {
                std::vector<float> x(37, 0.5F);
                std::vector<float> steps(37);
                EXPECT_TRUE(quantize_row({}, x, steps).finite);
                x[at] = bad;
                EXPECT_FALSE(quantize_row({}, x, steps).finite) << bad << " " << at;
            }
        }
    });
}

TEST(Readout, CountsAreThoseOfTheReference) {
    const auto charge = normals(1, 60.0F);
    const auto variance = squares(2, 3.0F);
    const auto offset = normals(3, 2.0F);
    const auto z = normals(4, 1.0F);
    const auto negative = normals(5, 0.3F);
    const auto comparator = normals(6, 1.0F);
    std::size_t saturated = 0;
    for (const auto rounding : {CountRounding::none, CountRounding::round, CountRounding::floor}) {
        for (const float most : {40.0F, kInf}) {
            for (const int has : {0, 1, 2, 3, 4, 7}) {  // bits: variance, normals, comparator
                const Counter counter{.rounding = rounding,
                                      .most = most,
                                      .noise_variance = 0.3F,
                                      .weight = -0.75F,
                                      .polarity_error = 20.0F};
                const auto row = [&](std::size_t n) {
                    return ChargeRow{.charge = std::span(charge).subspan(1, n),
                                     .variance = std::span(variance).subspan(1, (has & 1) != 0 ? n : 0),
                                     .offset = std::span(offset).subspan(1, n),
                                     .normals = std::span(z).subspan(1, (has & 2) != 0 ? n : 0),
                                     .comparator = std::span(comparator).subspan(1, (has & 4) != 0 ? n : 0)};
                };
                expect_same_bits(
                    [&](std::size_t n, std::span<float> out) { return add_counts(counter, row(n), out); },
                    [&](std::size_t n, std::span<float> out) {
                        const auto count = reference::add_counts(counter, row(n), out);
                        saturated += count;
                        return count;
                    });
                for (const bool gains : {false, true}) {
                    const auto gain = [&](std::size_t n) {
                        return std::span(negative).subspan(1, gains ? n : 0);
                    };
                    expect_same_bits(
                        [&](std::size_t n, std::span<float> out) {
                            return add_signed_counts(counter, row(n), gain(n), out);
                        },
                        [&](std::size_t n, std::span<float> out) {
                            return reference::add_signed_counts(counter, row(n), gain(n), out);
                        });
                }
            }
        }
    }
    EXPECT_GT(saturated, 1000U);
}

TEST(Readout, OutputsAreThoseOfTheReference) {
    auto counts = normals(1, 300.0F);
    for (std::size_t i = 0; i < 300; ++i) counts[i] *= std::pow(2.0F, static_cast<float>(i % 40) - 30.0F);
    auto scale = normals(2, 0.3F);
    auto offset = normals(3, 2.0F);
    for (std::size_t i = 0; i < 300; ++i) offset[i] = 0.0F;  // so that small results stay small
    const auto factor = normals(4, 1.0F);
    for (auto& v : scale) v = static_cast<float>(to_half(v));
    for (auto& v : offset) v = static_cast<float>(to_half(v));
    auto limit = normals(5, 40.0F);
    for (auto& v : limit) v = std::abs(v) + 0.5F;
    enum class Limit { none, clip, soft };
    std::size_t limited = 0;
    for (const auto& [half, floor] : {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
        for (const float most : {127.0F, 1.0F, kInf}) {
            for (const auto kind : {Limit::none, Limit::clip, Limit::soft}) {
                const auto affine = [&, half = half, floor = floor](std::size_t n) {
                    return AffineRow{.scale = std::span(scale).subspan(1, n),
                                     .offset = std::span(offset).subspan(1, n),
                                     .factor = std::span(factor).subspan(1, n),
                                     .limit = std::span(limit).subspan(1, kind == Limit::none ? 0 : n),
                                     .soft_limit = kind == Limit::soft,
                                     .half = half,
                                     .most = most,
                                     .floor = floor};
                };
                expect_same_bits(
                    [&](std::size_t n, std::span<float> out) {
                        const auto count = affine_row(affine(n), std::span(counts).subspan(1, n), out);
                        limited += count;
                        return count;
                    },
                    [&](std::size_t n, std::span<float> out) {
                        return reference::affine_row(affine(n), std::span(counts).subspan(1, n), out);
                    });
            }
        }
    }
    EXPECT_GT(limited, 1000U);
}

// Values of the IEEE format, computed by hand.
TEST(Readout, HalfPrecisionFollowsTheStandard) {
    EXPECT_EQ(to_half(1.0 + 0x1p-11), 1.0) << "halves to even";
    EXPECT_EQ(to_half(1.0 + 3 * 0x1p-11), 1.0 + 0x1p-9);
    EXPECT_EQ(to_half(1.0 + 0x1p-11 + 0x1p-40), 1.0 + 0x1p-10) << "one rounding";
    EXPECT_EQ(to_half(65519.0), 65504.0);
    EXPECT_EQ(to_half(65520.0), kInf);
    EXPECT_EQ(to_half(-0x1p-24), -0x1p-24);
    EXPECT_EQ(to_half(0x1p-25), 0.0);
    EXPECT_EQ(to_half(3 * 0x1p-26), 0x1p-24);
}

}  // namespace
}  // namespace imka::ops
