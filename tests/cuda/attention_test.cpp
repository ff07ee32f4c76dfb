// Attention on a GPU compared with the processor.
#include "imka/attention/attention.hpp"
#include "cuda/devices.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "imka/attention/gpu_attention.hpp"
#include "imka/base/random.hpp"
#include "imka/cuda/gpu.hpp"
#include "imka/experiment/attention_run.hpp"
#include "imka/features/choose_projector.hpp"
#include "imka/features/project_chip.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const BuildConfig kBuild;

struct Shape {
    std::size_t heads = 1;
    std::size_t key_heads = 1;
    std::size_t queries = 1;
    std::size_t keys = 1;
    std::size_t d = 1;
    std::size_t value_size = 1;
    bool causal = false;
    bool masked = false;
};

std::string name_of(const Shape& s) {
    return fmt::format("{}_of_{}_heads_{}x{}_d{}_v{}{}{}", s.heads, s.key_heads, s.queries, s.keys, s.d,
                       s.value_size, s.causal ? "_causal" : "", s.masked ? "_masked" : "");
}

Matrix<float> normals(std::size_t rows, std::size_t cols, std::uint64_t seed, float scale) {
    Matrix<float> x(rows, cols);
    fill_normal(seed, Stream::test, 0, x.values());
    for (auto& v : x.values()) v *= scale;
    return x;
}

// A sequence. If masked, the first two keys and every third one are ignored, and hold NaN and infinity.
struct Sequence {
    explicit Sequence(const Shape& s, float scale = 0.7F)
        : shape(s),
          q(normals(s.heads * s.queries, s.d, 1, scale)),
          k(normals(s.key_heads * s.keys, s.d, 2, scale)),
          v(normals(s.key_heads * s.keys, s.value_size, 3, 1.0F)),
          out(s.heads * s.queries, s.value_size) {
        if (!s.masked) return;
        mask.assign(s.keys, 1);
        for (std::size_t j = 0; j < s.keys; ++j) {
            if (j > 1 && j % 3 != 0) continue;
            mask[j] = 0;
            for (std::size_t h = 0; h < s.key_heads; ++h) {
                k(h * s.keys + j, 0) = std::numeric_limits<float>::quiet_NaN();
                v(h * s.keys + j, 0) = std::numeric_limits<float>::infinity();
            }
        }
    }
    AttentionInputs inputs() const {
        return {heads_first(q.data(), {shape.heads, shape.queries, shape.d}),
                heads_first(k.data(), {shape.key_heads, shape.keys, shape.d}),
                heads_first(v.data(), {shape.key_heads, shape.keys, shape.value_size}), mask};
    }
    AttentionOptions options() const { return {.causal = shape.causal, .product_seed = 9}; }
    HeadsView<float> output() {
        return heads_first(out.data(), {shape.heads, shape.queries, shape.value_size});
    }

    Shape shape;
    Matrix<float> q;
    Matrix<float> k;
    Matrix<float> v;
    Matrix<float> out;
    std::vector<std::uint8_t> mask;
};

// Largest difference, relative to the largest value.
double difference(std::span<const float> expected, std::span<const float> got) {
    EXPECT_EQ(expected.size(), got.size());
    double most = 0.0;
    double scale = 0.0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(std::isfinite(got[i])) << i;
        most = std::max(most, std::abs(double{expected[i]} - double{got[i]}));
        scale = std::max(scale, std::abs(double{expected[i]}));
    }
    return scale > 0.0 ? most / scale : most;
}

// |expected - got| / |expected|
double relative_error(std::span<const float> expected, std::span<const float> got) {
    double squares = 0.0;
    double errors = 0.0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        squares += std::pow(double{expected[i]}, 2);
        errors += std::pow(double{expected[i]} - double{got[i]}, 2);
    }
    return std::sqrt(errors / squares);
}

std::vector<Shape> shapes() {
    std::vector<Shape> list;
    const std::vector<Shape> sizes = {
        {},
        {2, 1, 130, 70, 5, 3},
        {3, 3, 65, 65, 1, 33},
        {2, 2, 200, 200, 64, 64},
        {4, 2, 257, 257, 33, 130},
        {1, 1, 3, 1500, 48, 65},
        {2, 1, 640, 640, 16, 16},
    };
    for (auto s : sizes) {
        for (const bool causal : {false, true}) {
            for (const bool masked : {false, true}) {
                if (causal && s.queries != s.keys) continue;
                s.causal = causal;
                s.masked = masked;
                list.push_back(s);
            }
        }
    }
    return list;
}

class GpuAttentionShapes : public testing::TestWithParam<Shape> {
protected:
    void SetUp() override {
        if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    }
};

TEST_P(GpuAttentionShapes, ExactAgreesWithTheProcessor) {
    Sequence cpu(GetParam());
    Sequence gpu(GetParam());
    for (const double scale : {0.25, 4.0}) {
        auto options = cpu.options();
        options.scale = scale;
        exact_attention(cpu.inputs(), options, kCpu, cpu.output());
        exact_attention(gpu.inputs(), options, kGpu, gpu.output());
        EXPECT_LE(difference(cpu.out.values(), gpu.out.values()), 1e-5) << scale;
    }
}

TEST_P(GpuAttentionShapes, AllFormsAgreeWithTheProcessor) {
    for (const auto& form : ops::attention_forms()) {
        for (const std::int64_t m : {1, 37, 150}) {
            // With few directions, cosines add up to normalisers near 0.
            const bool signs = !form.positive;
            if (signs && m < 100) continue;
            for (const double epsilon : {0.0, 0.01}) {
                if (signs && epsilon > 0.0) continue;
                // With few directions or dimensions, rectified projections may have nothing in common.
                if (form.form == ops::AttentionForm::relu && epsilon == 0.0 && (m < 100 || GetParam().d < 5))
                    continue;
                const AttentionConfig config{.form = form.form, .n_directions = m, .kernel_epsilon = epsilon};
                const KernelAttention attention(
                    config,
                    sample(omega_recipe(config, static_cast<std::int64_t>(GetParam().d), {.seed = 4})));
                Sequence cpu(GetParam(), signs ? 0.3F : 0.7F);
                Sequence gpu(GetParam(), signs ? 0.3F : 0.7F);
                attention.run(cpu.inputs(), cpu.options(), kCpu, cpu.output());
                attention.run(gpu.inputs(), gpu.options(), kGpu, gpu.output());
                EXPECT_LE(difference(cpu.out.values(), gpu.out.values()), signs ? 2e-4 : 5e-5)
                    << to_string(form.form) << " m " << m << " epsilon " << epsilon;
            }
        }
    }
}

TEST_P(GpuAttentionShapes, RowsAgreeWithTheProcessor) {
    const auto& s = GetParam();
    const Sequence sequence(s);
    const std::vector<std::size_t> rows = {0, s.queries / 2, s.queries - 1};
    for (const auto form : {ops::AttentionForm::positive, ops::AttentionForm::elu}) {
        const AttentionConfig config{.form = form, .n_directions = 70, .kernel_epsilon = 1e-3};
        const KernelAttention attention(
            config, sample(omega_recipe(config, static_cast<std::int64_t>(s.d), {.seed = 4})));
        for (std::size_t head = 0; head < s.heads; ++head) {
            const auto expected = attention.rows(sequence.inputs(), head, rows, sequence.options(), kCpu);
            const auto got = attention.rows(sequence.inputs(), head, rows, sequence.options(), kGpu);
            EXPECT_LE(difference(expected.values(), got.values()), 5e-5) << to_string(form);
        }
    }
    const GpuSequence there(sequence.inputs(), sequence.options(), 0);
    const cuda::Buffer<float> out(0, rows.size() * s.keys);
    exact_attention_rows(there, {.head = s.heads - 1, .rows = rows, .out = out.data()});
    Matrix<float> got(rows.size(), s.keys);
    out.download(got.values());
    const auto expected = exact_attention_rows(sequence.inputs(), s.heads - 1, rows, sequence.options());
    EXPECT_LE(difference(expected.values(), got.values()), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuAttentionShapes, testing::ValuesIn(shapes()),
                         [](const auto& tested) { return name_of(tested.param); });

class GpuAttentionTest : public testing::Test {
protected:
    void SetUp() override {
        if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    }
};

KernelAttention attention_of(std::int64_t d, std::int64_t m) {
    const AttentionConfig config{.n_directions = m};
    return {config, sample(omega_recipe(config, d, {.seed = 4}))};
}

// Exponents of keys differ by hundreds within a chunk of a causal sequence.
TEST_F(GpuAttentionTest, OfFarExponentsAgreesWithTheProcessor) {
    for (const bool causal : {false, true}) {
        Sequence cpu({.heads = 2,
                      .key_heads = 1,
                      .queries = 300,
                      .keys = 300,
                      .d = 16,
                      .value_size = 20,
                      .causal = causal});
        for (std::size_t r = 0; r < cpu.k.rows(); r += 7) {
            for (auto& v : cpu.k.row(r)) v *= 12.0F;
        }
        Sequence gpu = cpu;
        for (const double epsilon : {0.0, 1e-3}) {
            const AttentionConfig config{
                .form = ops::AttentionForm::exp, .n_directions = 40, .kernel_epsilon = epsilon};
            const KernelAttention attention(config, sample(omega_recipe(config, 16, {.seed = 4})));
            attention.run(cpu.inputs(), cpu.options(), kCpu, cpu.output());
            attention.run(gpu.inputs(), gpu.options(), kGpu, gpu.output());
            EXPECT_LE(difference(cpu.out.values(), gpu.out.values()), 3e-4) << causal << " " << epsilon;
        }
    }
}

TEST_F(GpuAttentionTest, ByTransformsAgreesWithTheProcessor) {
    const AttentionConfig config{.sampler = Sampler::sorf, .n_directions = 300};
    const auto recipe = omega_recipe(config, 64, {.seed = 4});
    const KernelAttention attention(config, std::make_unique<SorfProjector>(recipe));
    Sequence cpu({2, 2, 100, 100, 64, 64});
    Sequence gpu = cpu;
    attention.run(cpu.inputs(), cpu.options(), kCpu, cpu.output());
    attention.run(gpu.inputs(), gpu.options(), kGpu, gpu.output());
    EXPECT_LE(difference(cpu.out.values(), gpu.out.values()), 1e-5);
}

TEST_F(GpuAttentionTest, HasTheSameBitsInEveryRunThreadAndLayout) {
    const auto attention = attention_of(32, 100);
    for (const bool causal : {false, true}) {
        Sequence s({.heads = 4,
                    .key_heads = 4,
                    .queries = 700,
                    .keys = 700,
                    .d = 32,
                    .value_size = 32,
                    .causal = causal});
        attention.run(s.inputs(), s.options(), kGpu, s.output());
        const auto expected = s.out;
        std::vector<int> wrong(4, 0);
        {
            std::vector<std::jthread> threads;
            for (auto& count : wrong) {
                threads.emplace_back([&] {
                    auto own = s;
                    for (int i = 0; i < 3; ++i) {
                        std::ranges::fill(own.out.values(), 0.0F);
                        attention.run(own.inputs(), own.options(), kGpu, own.output());
                        count += own.out == expected ? 0 : 1;
                    }
                });
            }
        }
        EXPECT_EQ(wrong, std::vector<int>(4, 0));
        // One token after another.
        const HeadsShape shape{4, 700, 32};
        const auto by_token = [&](const Matrix<float>& x) {
            Matrix<float> to(700, 128);
            for (std::size_t r = 0; r < x.rows(); ++r)
                std::ranges::copy(x.row(r),
                                  to.row(r % 700).begin() + static_cast<std::ptrdiff_t>(r / 700 * 32));
            return to;
        };
        const auto q = by_token(s.q);
        const auto k = by_token(s.k);
        const auto v = by_token(s.v);
        Matrix<float> out(700, 128);
        attention.run(
            {tokens_first(q.data(), shape), tokens_first(k.data(), shape), tokens_first(v.data(), shape)},
            s.options(), kGpu, tokens_first(out.data(), shape));
        EXPECT_EQ(out, by_token(expected));
    }
}

TEST_F(GpuAttentionTest, OnAChipIsThatOfTheProcessor) {
    Sequence cpu({.heads = 2, .key_heads = 1, .queries = 200, .keys = 150, .d = 64, .value_size = 64});
    Sequence gpu = cpu;
    const AttentionConfig config{.sampler = Sampler::sorf, .n_directions = 255};
    const auto omega = sample(omega_recipe(config, 64, {.seed = 4}, true));
    for (const auto* name : {"hermes", "ideal"}) {
        const auto chip = chip_preset(name);
        const auto on = [&](const Exec& exec, Sequence& s, Trace& trace) {
            Exec counted = exec;
            counted.trace = &trace;
            const KernelAttention attention(config, chip_projection({.chip = chip,
                                                                     .omega = omega,
                                                                     .inputs = s.q.view(),
                                                                     .config = kBuild,
                                                                     .seed = 5,
                                                                     .input_scale = std::pow(64.0, -0.25)},
                                                                    exec)
                                                        .projector);
            attention.run(s.inputs(), s.options(), counted, s.output());
        };
        Trace expected;
        Trace got;
        on(kCpu, cpu, expected);
        on(kGpu, gpu, got);
        // A few projections differ by one step of a core.
        EXPECT_LE(relative_error(cpu.out.values(), gpu.out.values()), 5e-3) << name;
        EXPECT_EQ(got.core_products, expected.core_products) << name;
    }
}

TEST_F(GpuAttentionTest, ErrorsAreThoseOfTheProcessor) {
    const AttentionConfig config{.form = ops::AttentionForm::relu, .n_directions = 3};
    Matrix<float> omega(3, 2);
    std::ranges::fill(omega.values(), 1.0F);
    const KernelAttention relu(config, omega);
    Sequence s({.heads = 2, .key_heads = 2, .queries = 5, .keys = 5, .d = 2, .value_size = 4});
    for (auto& v : s.q.values()) v = std::abs(v);
    for (auto& v : s.k.values()) v = std::abs(v);
    for (auto& v : s.q.row(8)) v = -1.0F;
    const auto run = [&](const Exec& exec) {
        return error_of([&] { relu.run(s.inputs(), s.options(), exec, s.output()); });
    };
    EXPECT_THAT(run(kCpu), HasSubstr("query 3 of head 1"));
    EXPECT_EQ(run(kGpu), run(kCpu));
    const std::vector<std::size_t> rows = {1, 3};
    EXPECT_EQ(error_of([&] { relu.rows(s.inputs(), 1, rows, s.options(), kGpu); }), run(kCpu));
    for (auto& v : s.q.row(6)) v = 1e30F;
    for (auto& v : s.k.row(7)) v = 1e30F;
    const auto exact = [&](const Exec& exec) {
        return error_of([&] { exact_attention(s.inputs(), s.options(), exec, s.output()); });
    };
    EXPECT_THAT(exact(kCpu), HasSubstr("query 1 of head 1"));
    EXPECT_EQ(exact(kGpu), exact(kCpu));
    s.q(2, 0) = std::numeric_limits<float>::infinity();
    EXPECT_EQ(exact(kGpu), "bad_data: attention: query 2 of head 0 is not finite");
    EXPECT_EQ(run(kGpu), "bad_data: attention: query 2 of head 0 is not finite");
    s = Sequence(s.shape);
    s.out = Matrix<float>(3, 4);
    EXPECT_THAT(error_of([&] {
                    relu.run(s.inputs(), s.options(), kGpu, heads_first(s.out.data(), {1, 3, 4}));
                }),
                HasSubstr("the output is 1 x 3 x 4"));
}

TEST_F(GpuAttentionTest, ByAProjectorOfTheProcessorIsRefused) {
    const auto omega = normals(8, 4, 7, 1.0F);
    const auto rows = normals(50, 4, 8, 1.0F);
    const auto chip = chip_preset("hermes");
    const KernelAttention attention(
        {.n_directions = 8},
        make_chip_projector({.chip = chip, .omega = omega, .inputs = rows.view(), .config = kBuild}, kCpu));
    Sequence s({.queries = 5, .keys = 5, .d = 4, .value_size = 4});
    EXPECT_EQ(error_of([&] { attention.run(s.inputs(), s.options(), kGpu, s.output()); }),
              "bad_config: this projection does not support GPUs; use the device cpu");
}

// Runs, started as in a sweep.
TEST_F(GpuAttentionTest, RunsOfSweepsHaveTheErrorsOfTheProcessor) {
    auto config = attention_defaults();
    config.seeds = {0, 1};
    config.attention->features.n_directions = 63;
    auto& source = config.attention->source;
    source.dataset = "text";
    source.length = 500;
    source.head_dim = 32;
    source.heads = 2;
    source.sequences = 2;
    for (const bool causal : {false, true}) {
        for (const std::int64_t queries : {0, 40}) {
            for (const auto* backend : {"fp32", "hermes"}) {
                source.causal = causal;
                source.query_rows = queries;
                config.backend.name = backend;
                const auto data = load_attention(attention_source(config));
                const auto cpu = run_seeds("attention", config, data, kCpu);
                const auto gpu = run_seeds("attention", config, data, kGpu);
                for (const auto* name : {"output_mse", "output_error", "matrix_error", "trivial_mse"})
                    EXPECT_NEAR(gpu.values.at(name).mean / cpu.values.at(name).mean, 1.0, 1e-3)
                        << name << " " << backend << " " << causal << " " << queries;
                const auto again = run_seeds("attention", config, data, kGpu);
                EXPECT_EQ(again.values.at("output_mse").mean, gpu.values.at("output_mse").mean);
                EXPECT_EQ(again.values.at("matrix_error").mean, gpu.values.at("matrix_error").mean);
            }
        }
    }
}

TEST(GpuAttentionErrors, WithoutTheGpuSayWhatToDo) {
    const Exec none{.device = {DeviceKind::cuda, 77}};
    const auto attention = attention_of(4, 8);
    Sequence s({.queries = 5, .keys = 5, .d = 4, .value_size = 4});
    const std::vector<std::size_t> rows = {0};
    for (const auto& error : {
             error_of([&] { attention.run(s.inputs(), {}, none, s.output()); }),
             error_of([&] { attention.rows(s.inputs(), 0, rows, {}, none); }),
             error_of([&] { exact_attention(s.inputs(), {}, none, s.output()); }),
         })
        EXPECT_THAT(error, StartsWith("missing_part: ")) << error;
}

}  // namespace
}  // namespace imka
