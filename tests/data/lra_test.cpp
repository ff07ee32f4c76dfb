// Generated tasks of Long Range Arena: rules, law, independence of threads and of the other examples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <string>

#include "imka/base/sha256.hpp"
#include "imka/data/lra/listops.hpp"
#include "imka/data/lra/show.hpp"
#include "imka/data/lra/task.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

LraData generated(LraTask task, std::size_t examples, LraPart part = LraPart::train, std::uint64_t seed = 0) {
    return load_lra(task, part, {.seed = seed, .examples = examples}, {});
}

// Value of an expression from its text, with a stack.
int value_of(std::span<const std::uint8_t> tokens) {
    struct Open {
        std::string_view op;
        std::vector<int> values;
    };
    std::vector<Open> stack = {{}};
    for (const auto token : tokens) {
        const auto text = listops::token_text(token);
        if (text.size() > 1) {
            stack.push_back({.op = text.substr(1), .values = {}});
            continue;
        }
        if (text != "]") {
            stack.back().values.push_back(text[0] - '0');
            continue;
        }
        auto v = stack.back().values;
        const auto op = stack.back().op;
        std::sort(v.begin(), v.end());
        const auto n = v.size();
        stack.pop_back();
        if (op == "MIN") stack.back().values.push_back(v.front());
        if (op == "MAX") stack.back().values.push_back(v.back());
        if (op == "MED") stack.back().values.push_back(n % 2 == 1 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2);
        if (op == "SM") stack.back().values.push_back(std::accumulate(v.begin(), v.end(), 0) % 10);
    }
    return stack.size() == 1 && stack[0].values.size() == 1 ? stack[0].values[0] : -1;
}

// Depth of the deepest operator; 1 for the root.
int depth_of(std::span<const std::uint8_t> tokens) {
    int depth = 0;
    int most = 0;
    for (const auto token : tokens) {
        if (token < listops::kClose) most = std::max(most, ++depth);
        if (token == listops::kClose) --depth;
    }
    return most;
}

TEST(LraTasks, InfoIsInTheOrderOfTheNames) {
    for (std::size_t i = 0; i < lra_tasks().size(); ++i)
        EXPECT_EQ(static_cast<std::size_t>(lra_tasks()[i].task), i);
    EXPECT_EQ(lra_tasks().size(), std::size(EnumNames<LraTask>::values));
}

TEST(LraTasks, GeneratedExamplesAreTheSameForAnyThreadsAndAnyNumber) {
    for (const auto task : {LraTask::listops, LraTask::pathfinder32, LraTask::tiny}) {
        const LraSource source{.seed = 3, .examples = 40};
        const auto one = load_lra(task, LraPart::valid, source, {.threads = 1});
        const auto three = load_lra(task, LraPart::valid, source, {.threads = 3});
        EXPECT_TRUE(one.tokens == three.tokens);
        EXPECT_EQ(one.lengths, three.lengths);
        const auto fewer = generated(task, 7, LraPart::valid, 3);
        for (std::size_t i = 0; i < 7; ++i) {
            EXPECT_TRUE(std::ranges::equal(fewer.tokens.row(i), one.tokens.row(i)));
            EXPECT_EQ(fewer.examples[i].label, one.examples[i].label);
        }
    }
}

TEST(LraTasks, PartsAndSeedsDiffer) {
    for (const auto task : {LraTask::listops, LraTask::pathfinder32, LraTask::tiny}) {
        std::set<std::string> seen;
        for (const auto part : {LraPart::train, LraPart::valid, LraPart::test}) {
            for (const std::uint64_t seed : {0U, 1U}) {
                const auto data = generated(task, 30, part, seed);
                for (std::size_t i = 0; i < 30; ++i) {
                    const auto row = data.tokens.row(i);
                    EXPECT_TRUE(seen.emplace(row.begin(), row.end()).second);
                }
            }
        }
    }
}

// The bytes of the generators are fixed: trained models refer to a task and a seed.
TEST(LraTasks, GeneratorsHaveFixedBits) {
    const auto hash = [](LraTask task) {
        const auto data = generated(task, 50);
        std::string bytes(data.tokens.values().begin(), data.tokens.values().end());
        for (const auto& example : data.examples) bytes += static_cast<char>(example.label);
        return sha256_hex(bytes);
    };
    EXPECT_EQ(hash(LraTask::listops), "61532156e1bd3eae47d5f62117cfaad3c5a600fee8e545c83e37ed365c533096");
    EXPECT_EQ(hash(LraTask::pathfinder32),
              "5c88f7d981a68993c24c0dec596c271aa09d23c2b0ff29445058b6fe43fea73c");
    EXPECT_EQ(hash(LraTask::tiny), "4616676599649a2da436f064af11615f7492e67cac4baa789147da8e137cde15");
}

TEST(LraTasks, DefaultSizesOfTiny) {
    EXPECT_EQ(load_lra(LraTask::tiny, LraPart::train, {}, {}).examples.size(), 2000U);
    EXPECT_EQ(load_lra(LraTask::tiny, LraPart::test, {}, {}).examples.size(), 500U);
}

TEST(LraTasks, BadNumbersOfExamples) {
    EXPECT_THAT(error_of([] { generated(LraTask::tiny, 0); }), HasSubstr("bad_config: expected at least 1"));
    EXPECT_THAT(error_of([] { generated(LraTask::tiny, std::size_t{1} << 40U); }),
                HasSubstr("at most 2^32 - 1 examples"));
}

TEST(LraTasks, CancelStopsAGenerator) {
    const std::atomic<bool> cancel = true;
    EXPECT_THAT(error_of([&] { load_lra(LraTask::listops, LraPart::train, {}, {.cancel = &cancel}); }),
                HasSubstr("interrupted"));
}

TEST(Tiny, LabelIsTheMostFrequentSymbol) {
    const auto data = generated(LraTask::tiny, 2000);
    std::array<int, 4> labels{};
    for (std::size_t i = 0; i < 2000; ++i) {
        const auto tokens = document_tokens(data, data.examples[i].first);
        ASSERT_GE(tokens.size(), 32U);
        ASSERT_LE(tokens.size(), 64U);
        std::array<std::ptrdiff_t, 4> counts{};
        for (std::uint8_t s = 0; s < 4; ++s) counts.at(s) = std::ranges::count(tokens, s);
        for (std::uint8_t s = 0; s < 4; ++s) {
            if (s == data.examples[i].label) continue;
            ASSERT_LT(counts.at(s), counts.at(data.examples[i].label));
        }
        ++labels.at(data.examples[i].label);
    }
    // 2,000 fair draws of 4 classes: standard deviation 19.4.
    for (const int n : labels) EXPECT_NEAR(n, 500, 5 * 19.4);
}

TEST(ListOps, LabelIsTheValueAndTheFormIsLra) {
    const auto data = generated(LraTask::listops, 300);
    for (const auto& example : data.examples) {
        const auto tokens = document_tokens(data, example.first);
        ASSERT_GT(tokens.size(), 500U);
        ASSERT_LT(tokens.size(), 2000U);
        ASSERT_EQ(value_of(tokens), example.label);
        ASSERT_LE(depth_of(tokens), 9);  // a node at depth 10 is a digit
        const auto rest = data.tokens.row(example.first).subspan(tokens.size());
        ASSERT_TRUE(std::ranges::all_of(rest, [](auto v) { return v == 0; }));
    }
}

// Published statistics of LRA's script, from 14,000 expressions; here 4,000.
TEST(ListOps, LengthsAndClassesHaveTheLawOfLra) {
    const std::size_t n = 4000;
    const auto data = generated(LraTask::listops, n, LraPart::test, 5);
    constexpr std::array<double, 10> kShares = {.174, .088, .074, .086, .089, .090, .071, .072, .086, .170};
    const auto s = lra_statistics(data);
    for (std::size_t c = 0; c < 10; ++c) {
        const double share = static_cast<double>(s.class_counts[c]) / static_cast<double>(n);
        const double error = std::sqrt(kShares.at(c) * (1 - kShares.at(c)) * (1.0 / n + 1.0 / 14'000));
        EXPECT_NEAR(share, kShares.at(c), 5 * error + 0.0005) << c;
    }
    // Standard deviation of a length about 400; the published means of two runs are 1033 and 1051.
    EXPECT_NEAR(s.mean_length, 1042, 5 * 400 * std::sqrt(1.0 / n + 1.0 / 14'000));
    EXPECT_GE(s.lengths[0], 501U);
    EXPECT_LE(s.lengths[2], 1999U);
    std::array<int, 4> roots{};
    int min_is_zero = 0;
    for (const auto& example : data.examples) {
        const auto root = document_tokens(data, example.first)[0];
        ++roots.at(root);
        min_is_zero += root == 0 && example.label == 0 ? 1 : 0;
    }
    for (const int r : roots) EXPECT_NEAR(r, 1000, 5 * 27.4);
    EXPECT_NEAR(static_cast<double>(min_is_zero) / roots[0], 0.57, 5 * 0.0157 + 0.005);
}

TEST(ListOps, ValuesOfOperators) {
    using listops::operator_value;
    const std::vector<std::uint8_t> v = {7, 2, 9, 4};
    EXPECT_EQ(operator_value(0, v), 2);
    EXPECT_EQ(operator_value(1, v), 9);
    EXPECT_EQ(operator_value(2, v), 5);  // (4 + 7) / 2 truncated
    EXPECT_EQ(operator_value(3, v), 2);  // 22 modulo 10
}

TEST(ListOps, TreeShowsTheValueOfEveryOperator) {
    // [MAX 2 [MIN 8 3 ] 1 ]
    const std::vector<std::uint8_t> tokens = {1, 7, 0, 13, 8, 4, 6, 4};
    EXPECT_EQ(listops::expression_text(tokens), "[MAX 2 [MIN 8 3 ] 1 ]");
    EXPECT_EQ(document_text(LraTask::listops, tokens), "[MAX = 3\n  2\n  [MIN = 3\n    8 3\n  1\n");
}

TEST(ListOps, TokensThatAreNoExpressionAreErrors) {
    const auto tree = [](std::vector<std::uint8_t> tokens) {
        return error_of([&] { listops::expression_tree(tokens); });
    };
    EXPECT_THAT(tree({}), HasSubstr("not complete"));
    EXPECT_THAT(tree({0, 5}), HasSubstr("not complete"));
    EXPECT_THAT(tree({0, 4}), HasSubstr("without arguments"));
    EXPECT_THAT(tree({4}), HasSubstr("expected an operator or a digit"));
    EXPECT_THAT(tree({5, 5}), HasSubstr("after the end"));
    EXPECT_THAT(tree({200}), HasSubstr("expected an operator or a digit"));
    EXPECT_THAT(tree({0, 200, 4}), HasSubstr("expected an operator or a digit"));
    EXPECT_THAT(tree(std::vector<std::uint8_t>(5000, 0)), HasSubstr("nested too deeply"));
}

TEST(LraShow, PicturesAndFiles) {
    std::vector<std::uint8_t> pixels(1024);
    pixels[0] = 255;
    const auto text = document_text(LraTask::cifar10, pixels);
    EXPECT_EQ(text.size(), 32U * 65U);
    EXPECT_TRUE(text.starts_with("@@  "));
    EXPECT_EQ(pgm_bytes(pixels).substr(0, 14), std::string("P5\n32 32\n255\n\xff"));
    EXPECT_EQ(pgm_bytes(pixels).size(), 13U + 1024U);
    const std::vector<std::uint8_t> bytes = {'a', 0x1b, 0xff};
    EXPECT_EQ(document_text(LraTask::imdb, bytes), "a\\u001b\\u00ff\n");
}

TEST(LraShow, StatisticsOfPixels) {
    LraData data{.task = LraTask::cifar10};
    data.tokens = Matrix<std::uint8_t>(2, 1024);
    std::ranges::fill(data.tokens.row(1), std::uint8_t{200});
    data.lengths = {1024, 1024};
    data.examples = {{.first = 0, .second = 0, .label = 3}, {.first = 1, .second = 1, .label = 9}};
    const auto s = lra_statistics(data);
    EXPECT_EQ(s.class_counts[3], 1U);
    EXPECT_EQ(s.class_counts[9], 1U);
    EXPECT_DOUBLE_EQ(s.pixels->mean, 100.0);
    EXPECT_DOUBLE_EQ(s.pixels->standard_deviation, 100.0);
    EXPECT_DOUBLE_EQ(s.pixels->share_of_zeros, 0.5);
    EXPECT_DOUBLE_EQ(s.pixels->share_from_128, 0.5);
}

}  // namespace
}  // namespace imka
