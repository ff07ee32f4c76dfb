// Runs of attention: inputs, errors against a direct computation, chips, sampled queries, times.
#include "imka/experiment/attention_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/experiment/record.hpp"
#include "imka/experiment/spec.hpp"
#include "imka/experiment/sweep.hpp"
#include "imka/io/npy.hpp"
#include "support/error.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

RunConfig small_attention_run() {
    auto config = attention_defaults();
    config.attention->source.length = 50;
    config.attention->source.head_dim = 8;
    config.attention->features.n_directions = 24;
    config.seeds = {0, 1};
    return config;
}

RunResult result_of(const RunConfig& config, const Exec& exec = {}) {
    return run_seeds("attention", config, load_attention(attention_source(config)), exec);
}

double value_of(const RunConfig& config, const std::string& name) {
    return result_of(config).values.at(name).mean;
}

// softmax(Q Kᵀ / sqrt(d)), or the same with the positive features of Ω, in double.
std::vector<std::vector<double>> direct_matrix(const AttentionSequence& s, const Matrix<float>* omega) {
    const auto d = static_cast<double>(s.q.cols());
    const auto dot = [](auto a, auto b) {
        double sum = 0.0;
        for (std::size_t i = 0; i < a.size(); ++i)
            sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
        return sum;
    };
    const double scale = std::pow(d, -0.25);
    std::vector<std::vector<double>> rows(s.q.rows(), std::vector<double>(s.k.rows()));
    for (std::size_t i = 0; i < rows.size(); ++i) {
        double sum = 0.0;
        for (std::size_t j = 0; j < s.k.rows(); ++j) {
            double v = 0.0;
            if (omega == nullptr) v = std::exp(dot(s.q.row(i), s.k.row(j)) / std::sqrt(d));
            for (std::size_t m = 0; omega != nullptr && m < omega->rows(); ++m) {
                const double u = scale * (dot(s.q.row(i), omega->row(m)) + dot(s.k.row(j), omega->row(m)));
                const double norms = dot(s.q.row(i), s.q.row(i)) + dot(s.k.row(j), s.k.row(j));
                v += std::cosh(u) * std::exp(-norms / (2.0 * std::sqrt(d)));
            }
            rows[i][j] = v;
            sum += v;
        }
        for (auto& v : rows[i]) v /= sum;
    }
    return rows;
}

struct DirectErrors {
    double matrix = 0.0;
    double output = 0.0;
    double mse = 0.0;
    double trivial = 0.0;
};
DirectErrors direct_errors(const AttentionSequence& s, const Matrix<float>& omega) {
    const auto exact = direct_matrix(s, nullptr);
    const auto kernel = direct_matrix(s, &omega);
    double matrix[2] = {0.0, 0.0};
    double output[2] = {0.0, 0.0};
    for (std::size_t i = 0; i < exact.size(); ++i) {
        for (std::size_t j = 0; j < exact[i].size(); ++j) {
            matrix[0] += std::pow(exact[i][j] - kernel[i][j], 2);
            matrix[1] += std::pow(exact[i][j], 2);
        }
        for (std::size_t c = 0; c < s.v.cols(); ++c) {
            double a = 0.0;
            double b = 0.0;
            for (std::size_t j = 0; j < exact[i].size(); ++j) {
                a += exact[i][j] * static_cast<double>(s.v(j, c));
                b += kernel[i][j] * static_cast<double>(s.v(j, c));
            }
            output[0] += (a - b) * (a - b);
            output[1] += a * a;
        }
    }
    const auto values = static_cast<double>(s.q.rows() * s.v.cols());
    return {.matrix = std::sqrt(matrix[0] / matrix[1]),
            .output = std::sqrt(output[0] / output[1]),
            .mse = output[0] / values,
            .trivial = output[1] / values};
}

TEST(AttentionRuns, MatchADirectComputation) {
    const auto config = small_attention_run();
    const auto data = load_attention(attention_source(config));
    const auto result = run_seeds("attention", config, data, {});
    for (std::size_t i = 0; i < 2; ++i) {
        const auto omega = sample(omega_recipe(config.attention->features, 8, {.seed = config.seeds[i]}));
        const auto expected = direct_errors(data.sequences.front(), omega);
        const auto near = [&](const char* name, double value) {
            EXPECT_NEAR(result.values.at(name).values[i], value, 1e-4 * value) << name;
        };
        near("output_error", expected.output);
        near("output_mse", expected.mse);
        near("trivial_mse", expected.trivial);
        near("matrix_error", expected.matrix);
    }
    EXPECT_EQ(result.sizes.m, 24);
    EXPECT_EQ(result.sizes.features, 48);
}

TEST(AttentionRuns, DoNotDependOnThreads) {
    for (const auto* backend : {"fp32", "hermes"}) {
        auto config = small_attention_run();
        config.backend.name = backend;
        config.attention->source.heads = 2;
        const auto one = result_of(config, {.threads = 1});
        const auto many = result_of(config, {.threads = 5});
        for (const auto& [name, value] : one.values)
            EXPECT_EQ(value.values, many.values.at(name).values) << name;
    }
}

TEST(AttentionRuns, OnAnIdealChipAgreeWithFp32) {
    auto config = small_attention_run();
    config.attention->features.truncation = 3.0;
    const auto digital = result_of(config);
    config.backend.name = "ideal";
    const auto chip = result_of(config);
    EXPECT_NEAR(chip.values.at("output_error").mean, digital.values.at("output_error").mean,
                0.05 * digital.values.at("output_error").mean);
    EXPECT_NE(chip.values.at("output_error").mean, digital.values.at("output_error").mean);
    ASSERT_TRUE(chip.chip);
    EXPECT_EQ(chip.chip->cores, 1U);
}

TEST(AttentionRuns, CountWhatTheChipDoes) {
    auto config = small_attention_run();
    config.backend.name = "hermes";
    const auto result = result_of(config);
    ASSERT_TRUE(result.offload);
    std::uint64_t products = 0;
    for (const auto n : result.offload->trace.core_products) products += n;
    EXPECT_EQ(products, 100U) << "50 queries and 50 keys";
    EXPECT_EQ(result.offload->chip, 2.0 * 8 * 24 * 100);
    EXPECT_EQ(result.offload->digital, (48 + 16) * 100 + 2.0 * 48 * 9 * 100 + 8 * 50);
    EXPECT_FALSE(result_of(small_attention_run()).offload);
}

TEST(AttentionRuns, OfSampledQueriesAgreeWithThoseOfAll) {
    for (const bool causal : {false, true}) {
        auto config = small_attention_run();
        config.attention->source.causal = causal;
        const auto all = load_attention(attention_source(config));
        config.attention->source.query_rows = 20;
        const auto some = load_attention(attention_source(config));
        ASSERT_EQ(some.positions.size(), 20U);
        const auto a = exact_outputs(config, all, {});
        const auto b = exact_outputs(config, some, {});
        for (std::size_t i = 0; i < 20; ++i) {
            for (std::size_t c = 0; c < 8; ++c)
                EXPECT_NEAR(b[0](i, c), a[0](some.positions[i], c), 1e-5) << causal;
        }
        EXPECT_LT(value_of(config, "output_error"), 1.0);
    }
}

TEST(AttentionRuns, DrawOmegaAnewBetweenSequences) {
    auto config = small_attention_run();
    config.seeds = {3};
    config.attention->source.sequences = 2;
    const double kept = value_of(config, "output_error");
    config.attention->features.feature_redraw_interval = 1;
    const double redrawn = value_of(config, "output_error");
    EXPECT_NE(kept, redrawn);
    config.attention->features.feature_redraw_interval = 2;
    EXPECT_EQ(value_of(config, "output_error"), kept);
}

// The published figure has ω of length 1 / sqrt(m/d).
TEST(AttentionRuns, SlipsOfThePublishedFigureShrinkOmega) {
    auto config = small_attention_run();
    config.attention->features.norms = Norms::sqrt;
    config.seeds = {0};
    const double right = value_of(config, "output_mse");
    config.attention->published_slips = true;
    const auto data = load_attention(attention_source(config));
    auto omega = sample(omega_recipe(config.attention->features, 8, {.seed = 0}));
    for (auto& v : omega.values()) v /= std::sqrt(24.0F);
    const double slipped = value_of(config, "output_mse");
    EXPECT_NEAR(slipped, direct_errors(data.sequences.front(), omega).mse, 1e-4 * slipped);
    EXPECT_GT(std::abs(slipped - right), 0.1 * right);
    config.attention->features.norms = Norms::chi;
    EXPECT_THAT(error_of([&] { validate(config); }), HasSubstr("norms sqrt"));
    config.attention->features.sampler = Sampler::rff;
    EXPECT_THAT(error_of([&] { validate(config); }), HasSubstr("no effect"));
}

TEST(AttentionRuns, RefuseWhatCannotRun) {
    auto config = small_attention_run();
    config.dataset = "ringnorm";
    EXPECT_THAT(error_of([&] { validate(config); }), HasSubstr("neither normal, text nor a file"));
    config = small_attention_run();
    config.protocol = Protocol::measured;
    config.attention->features.kernel_epsilon = 0.1;
    EXPECT_THAT(error_of([&] { validate(config); }), HasSubstr("kernel_epsilon"));
    config = small_attention_run();
    config.attention->source.length = 1'000'000'000;
    config.attention->source.head_dim = 8192;
    EXPECT_THAT(error_of([&] { validate(config); }), HasSubstr("GB"));
    config = small_attention_run();
    EXPECT_THAT(
        error_of([&] { run_seeds("attention_time", config, load_attention(attention_source(config)), {}); }),
        HasSubstr("query_rows"));
}

TEST(AttentionSettings, LeaveOtherKindsAlone) {
    const auto usual = settings_text(RunConfig{});
    EXPECT_FALSE(usual.contains("length"));
    EXPECT_EQ(usual.at("dataset"), "ringnorm");
    const auto attention = settings_text(attention_defaults());
    EXPECT_EQ(attention.at("dataset"), "normal");
    EXPECT_FALSE(attention.contains("alpha"));
    EXPECT_FALSE(attention.contains("fit_on"));
    EXPECT_FALSE(attention.contains("read_seconds")) << "of a chip";
    EXPECT_EQ(run_key("attention", attention, "x"), run_key("attention", {}, "x"));
}

TEST(AttentionSettings, AreThoseOfTheKindInExperiments) {
    const auto read = [](const char* text) { return parse_experiment(text, "e.yaml"); };
    EXPECT_THAT(error_of([&] { read("name: e\nkind: attention\ngrid: {alpha: [1, 2]}\n"); }),
                HasSubstr("alpha"));
    EXPECT_THAT(error_of([&] { read("name: e\ngrid: {length: [1, 2]}\n"); }), HasSubstr("length"));
    const auto points = expand(read("name: e\nkind: attention\ngrid: {length: [10, 20]}\n"));
    EXPECT_EQ(points[1].config.attention->source.length, 20);
}

TEST(AttentionSweeps, RecordErrorsAndTimes) {
    const TempDir dir;
    const auto sweep = [&](const std::string& kind, const std::string& more) {
        const auto experiment =
            parse_experiment("name: e\nkind: " + kind + "\nbase: {head_dim: 4, n_directions: 8" + more +
                                 "}\ngrid: {length: [10, 20], seeds: 0..1}\n",
                             "e.yaml");
        const auto folder = dir.path() / kind;
        const auto plan = plan_sweep(experiment, {}, {});
        EXPECT_EQ(plan.data.size(), 2U);
        (void)run_sweep(plan, {.output = folder}, {});
        return read_records(folder).records;
    };
    const auto errors = sweep("attention", "");
    ASSERT_EQ(errors.size(), 4U);
    for (const auto& r : errors) {
        EXPECT_EQ(r.error, "");
        EXPECT_GT(r.results.at("output_mse"), 0.0);
        EXPECT_EQ(r.results.at("m"), 8.0);
    }
    const auto times = sweep("attention_time", ", query_rows: 0");
    ASSERT_EQ(times.size(), 4U);
    for (const auto& r : times) EXPECT_GT(r.results.at("kernel_seconds"), 0.0) << r.error;
}

// The files of docs/attention.md.

NpyArray array_of(const std::vector<std::uint64_t>& shape, const std::vector<float>& values) {
    NpyArray array{.type = "f4", .shape = shape, .bytes = std::vector<char>(values.size() * sizeof(float))};
    std::memcpy(array.bytes.data(), values.data(), array.bytes.size());
    return array;
}

TEST(AttentionFiles, HoldQueriesKeysAndValuesOfSequences) {
    const TempDir dir;
    const auto path = (dir.path() / "qkv.npy").string();
    std::vector<float> values(360);  // 12 x 3 x 5 x 2
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    write_npy_array(path, array_of({12, 3, 5, 2}, values));
    auto data = load_attention({.dataset = path});
    EXPECT_EQ(data.sequences.size(), 10U) << "the first 10";
    EXPECT_EQ(data.length, 5U);
    EXPECT_EQ(data.sequences[1].q(0, 0), 30.0F);
    EXPECT_EQ(data.sequences[1].k(0, 1), 41.0F);
    EXPECT_EQ(data.sequences[1].v(4, 1), 59.0F);
    data = load_attention({.dataset = path, .length = 3, .sequences = 12});
    EXPECT_EQ(data.sequences[11].k(0, 0), 11 * 30.0F + 10.0F) << "a shorter length cuts every sequence";
    EXPECT_EQ(data.sequences[11].k.rows(), 3U);
    EXPECT_THAT(error_of([&] { load_attention({.dataset = path, .length = 6}); }), HasSubstr("length: 6"));
    EXPECT_THAT(error_of([&] { load_attention({.dataset = path, .head_dim = 4}); }),
                HasSubstr("head_dim: 4"));
    EXPECT_THAT(error_of([&] { load_attention({.dataset = path, .sequences = 13}); }),
                HasSubstr("sequences: 13"));
    EXPECT_THAT(error_of([&] { load_attention({.dataset = path, .heads = 2}); }), HasSubstr("heads"));
}

TEST(AttentionFiles, WithOtherShapesOrValuesAreRefused) {
    const TempDir dir;
    const auto path = (dir.path() / "qkv.npy").string();
    write_npy_array(path, array_of({2, 2, 5, 2}, std::vector<float>(40)));
    EXPECT_THAT(error_of([&] { load_attention({.dataset = path}); }), HasSubstr("expected (N, 3, L, d)"));
    std::vector<float> values(30, 1.0F);
    values[7] = NAN;
    write_npy_array(path, array_of({3, 5, 2}, values));
    EXPECT_THAT(error_of([&] { load_attention({.dataset = path}); }), HasSubstr("value 7 is not finite"));
}

TEST(AttentionText, HasPeaksOnTheDiagonalAndRepeatedTokens) {
    const auto data = load_attention({.dataset = "text", .length = 400, .head_dim = 64});
    std::vector<std::size_t> rows(400);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = i;
    const auto p = exact_attention_rows(data.inputs(0), 0, rows, {});
    double diagonal = 0.0;
    double near = 0.0;
    for (std::size_t i = 10; i < 390; ++i) {
        diagonal += static_cast<double>(p(i, i)) / 380.0;
        near += static_cast<double>(p(i, i + 3)) / 380.0;
    }
    EXPECT_GT(diagonal, 2.0 / 400.0);
    EXPECT_GT(near, 1.1 / 400.0) << "near positions weigh more than the mean";
}

TEST(AttentionPictures, ShowExactDigitalAndChipAttention) {
    auto config = small_attention_run();
    config.backend.name = "hermes";
    const auto picture = attention_picture(config, 30, {});
    EXPECT_THAT(picture.names, testing::ElementsAre("exact", "FP32", "hermes"));
    for (const auto& m : picture.matrices) EXPECT_EQ(m.rows(), 30U);
    EXPECT_NE(picture.matrices[1], picture.matrices[2]);
}

}  // namespace
}  // namespace imka
