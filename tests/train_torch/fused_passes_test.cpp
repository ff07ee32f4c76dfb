// Fused passes over tokens on a GPU against LibTorch's operations in double: values and gradients.
#include "imka/train/torch/fused_passes.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "imka/base/random.hpp"
#include "imka/train/torch/captured.hpp"
#include "imka/train/torch/network.hpp"
#include "small_batch.hpp"

namespace imka {
namespace {

using torch::Tensor;

constexpr std::uint64_t kSeed = 0x123456789ABCDEFULL;
constexpr double kEpsilon = 1e-5;

double relative_error(const Tensor& a, const Tensor& b) {
    const auto x = a.to(torch::kCPU, torch::kDouble);
    const auto y = b.to(torch::kCPU, torch::kDouble);
    return ((x - y).norm() / (y.norm() + 1e-12)).item<double>();
}

Tensor seed_tensor(std::uint64_t seed) {
    return torch::full({1}, static_cast<std::int64_t>(seed), torch::kLong).to(torch::kCUDA);
}

// The factors of dropout, computed on the processor with imka's own generator.
Tensor factors(const Tensor& like, double share, std::int64_t position) {
    auto out = torch::ones(like.sizes(), torch::kDouble);
    const auto least = static_cast<std::uint32_t>(std::lround(65536.0 * share));
    const auto stream = static_cast<Stream>(kDropoutStream + static_cast<std::uint32_t>(position));
    for (std::int64_t i = 0; share > 0.0 && i < out.numel(); ++i) {
        const auto word = random_bits(kSeed, stream, static_cast<std::uint64_t>(i) / 2);
        const auto bits = i % 2 == 0 ? word & 0xffffU : word >> 16U;
        out.data_ptr<double>()[i] = bits < least ? 0.0 : 65536.0 / (65536.0 - least);
    }
    return out.to(torch::kCUDA);
}

struct PassCase {
    torch::ScalarType type = torch::kFloat;
    std::int64_t width = 64;
    std::int64_t tokens = 37;
    std::vector<int> lengths = {};  // empty: no padding
    double dropout = 0.0;

    std::string text() const {
        return std::string(type == torch::kFloat ? "float" : "bfloat16") + ", width " +
               std::to_string(width) + ", dropout " + std::to_string(dropout) +
               (lengths.empty() ? "" : ", lengths");
    }
    double tolerance() const { return type == torch::kFloat ? 1e-5 : 6e-3; }
    std::int64_t documents() const { return lengths.empty() ? 3 : static_cast<std::int64_t>(lengths.size()); }
    // Random elements, rounded to the type.
    Tensor random(double shift = 0.0) const {
        return (torch::randn({documents(), tokens, width}, torch::kCUDA) + shift).to(type);
    }
    Tensor vector(double shift = 0.0) const { return torch::randn({width}, torch::kCUDA) * 0.3 + shift; }
    Tensor lengths_tensor() const {
        return lengths.empty() ? Tensor() : torch::tensor(lengths, torch::kInt).to(torch::kCUDA);
    }
    // documents x tokens x 1
    Tensor mask() const {
        if (lengths.empty())
            return torch::ones({documents(), tokens, 1},
                               torch::TensorOptions(torch::kDouble).device(torch::kCUDA));
        const auto positions = torch::arange(tokens, torch::TensorOptions(torch::kInt).device(torch::kCUDA));
        return (positions.unsqueeze(0) < lengths_tensor().unsqueeze(1)).unsqueeze(-1).to(torch::kDouble);
    }
    TokenDropout dropout_part(std::int64_t position) const { return {dropout, seed_tensor(kSeed), position}; }
};

std::vector<PassCase> cases() {
    std::vector<PassCase> all;
    for (const auto type : {torch::kFloat, torch::kBFloat16}) {
        for (const std::int64_t width : {64, 128, 256, 24, 200}) {
            all.push_back({.type = type, .width = width});
            all.push_back({.type = type, .width = width, .lengths = {37, 0, 5, 36}, .dropout = 0.3});
        }
        // More rows than the blocks process at the same time.
        all.push_back({.type = type, .tokens = 9001, .lengths = {9001, 17, 4096}, .dropout = 0.1});
    }
    return all;
}

// Inputs that require gradients, as given or in double.
std::vector<Tensor> leaves(const std::vector<Tensor>& from, bool in_double) {
    std::vector<Tensor> out;
    for (const auto& t : from)
        out.push_back((in_double ? t.to(torch::kDouble) : t.clone()).detach().requires_grad_(true));
    return out;
}
using Results = std::vector<Tensor>;
using Pass = std::function<Results(const std::vector<Tensor>& leaves)>;

// Results and gradients of `run` and of `reference` in double; both return tensors to be weighted by `dy`.
void expect_same(const PassCase& c, const std::vector<Tensor>& start, const std::vector<Tensor>& dy,
                 const Pass& run, const Pass& reference) {
    SCOPED_TRACE(c.text());
    const auto ours = leaves(start, false);
    const auto theirs = leaves(start, true);
    const auto y = run(ours);
    const auto expected = reference(theirs);
    std::vector<Tensor> d;
    for (std::size_t i = 0; i < y.size(); ++i) {
        EXPECT_LT(relative_error(y[i].detach(), expected[i].detach()), c.tolerance()) << "result " << i;
        d.push_back(dy[i].to(y[i].scalar_type()));
    }
    std::vector<Tensor> exact_d;
    for (const auto& t : d) exact_d.push_back(t.to(torch::kDouble));
    torch::autograd::backward(y, d);
    torch::autograd::backward(expected, exact_d);
    for (std::size_t i = 0; i < ours.size(); ++i)
        EXPECT_LT(relative_error(ours[i].grad(), theirs[i].grad()), 3.0 * c.tolerance()) << "gradient " << i;
}

class FusedPasses : public testing::Test {
protected:
    void SetUp() override {
        if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
        torch::manual_seed(7);
    }
};

TEST_F(FusedPasses, ResidualNormIsThatOfLibTorch) {
    for (const auto& c : cases()) {
        for (const bool keep_sum : {false, true}) {
            const auto mask = c.mask();
            const auto drop = factors(c.random(), c.dropout, 3);
            const Pass run = [&](const auto& in) -> Results {
                const auto out = fused_residual_norm(
                    in[0], {.f = in[1], .bias = in[2], .dropout = c.dropout_part(3), .keep_sum = keep_sum},
                    {in[3], in[4], kEpsilon}, c.lengths_tensor());
                return keep_sum ? Results{out.y, out.sum} : Results{out.y};
            };
            const Pass reference = [&](const auto& in) -> Results {
                const auto sum = (in[0] + drop * (in[1] + in[2])) * mask;
                const auto y = torch::layer_norm(sum, {c.width}, in[3], in[4], kEpsilon) * mask;
                return keep_sum ? Results{y, sum} : Results{y};
            };
            expect_same(c, {c.random(0.5), c.random(), c.vector(), c.vector(1.0), c.vector()},
                        {c.random(), c.random()}, run, reference);
        }
    }
}

TEST_F(FusedPasses, NormWithoutAResidualIsThatOfLibTorch) {
    const PassCase c{.lengths = {3, 37}};
    expect_same(
        c, {c.random(), c.vector(1.0), c.vector()}, {c.random()},
        [&](const auto& in) -> Results {
            return {fused_residual_norm(in[0], {}, {in[1], in[2], kEpsilon}, c.lengths_tensor()).y};
        },
        [&](const auto& in) -> Results {
            return {torch::layer_norm(in[0], {c.width}, in[1], in[2], kEpsilon) * c.mask()};
        });
}

TEST_F(FusedPasses, EmbeddingIsThatOfLibTorch) {
    for (const auto& c : cases()) {
        const auto tokens = torch::randint(0, 19, {c.documents(), c.tokens},
                                           torch::TensorOptions(torch::kByte).device(torch::kCUDA));
        const auto positions = torch::randn({c.tokens, c.width}, torch::kCUDA);
        const auto drop = factors(c.random(), c.dropout, 0);
        const auto finish = [&](const Tensor& e, const Tensor& weight, const Tensor& bias) -> Results {
            return {torch::layer_norm(e * 3.0 + positions, {c.width}, weight, bias, kEpsilon) * drop *
                    c.mask()};
        };
        EmbeddingPart part{
            .positions = positions, .scale = 3.0, .dropout = c.dropout_part(0), .type = c.type};
        expect_same(
            c, {torch::randn({21, c.width}, torch::kCUDA), c.vector(1.0), c.vector()}, {c.random()},
            [&](const auto& in) -> Results {
                part.weight = in[0];
                return {fused_embedding(tokens, part, {in[1], in[2], kEpsilon}, c.lengths_tensor())};
            },
            [&](const auto& in) {
                return finish(torch::embedding(in[0], tokens.to(torch::kLong) + 1), in[1], in[2]);
            });
        part.table = false;
        part.pixel_mean = 0.02;
        part.pixel_std = 0.03;
        expect_same(
            c, {c.vector(), c.vector(), c.vector(1.0), c.vector()}, {c.random()},
            [&](const auto& in) -> Results {
                part.weight = in[0];
                part.bias = in[1];
                return {fused_embedding(tokens, part, {in[2], in[3], kEpsilon}, c.lengths_tensor())};
            },
            [&](const auto& in) {
                const auto x = (tokens.to(torch::kDouble) / 255.0 - 0.02) / 0.03;
                return finish(x.unsqueeze(-1) * in[0] + in[1], in[2], in[3]);
            });
    }
}

TEST_F(FusedPasses, ActivationsAreThoseOfLibTorch) {
    const std::map<Activation, std::function<Tensor(const Tensor&)>> known = {
        {Activation::gelu, [](const Tensor& x) { return torch::gelu(x); }},
        {Activation::silu, [](const Tensor& x) { return torch::silu(x); }},
        {Activation::relu, [](const Tensor& x) { return torch::relu(x); }}};
    for (const auto& [activation, function] : known) {
        for (auto c : cases()) {
            c.width *= 2;
            expect_same(
                c, {c.random(), c.vector()}, {c.random()},
                [&](const auto& in) -> Results {
                    return {fused_activation(in[0], in[1], activation, c.lengths_tensor())};
                },
                [&](const auto& in) -> Results { return {function(in[0] + in[1]) * c.mask()}; });
        }
    }
}

TEST_F(FusedPasses, ForkedProductIsThatOfLibTorch) {
    for (const auto& c : cases()) {
        for (const bool biased : {false, true}) {
            const auto weight = torch::randn({192, c.width}, torch::kCUDA).to(c.type);
            const auto bias = torch::randn({192}, torch::kCUDA);
            // Gradients of padding are 0, as attention makes them.
            const auto dy =
                (torch::randn({c.documents(), c.tokens, 192}, torch::kCUDA) * c.mask()).to(c.type);
            auto start = std::vector<Tensor>{c.random(), weight};
            if (biased) start.push_back(bias);
            expect_same(
                c, start, {dy, c.random()},
                [&](const auto& in) -> Results {
                    const auto out =
                        fused_product(in[0], in[1], biased ? in[2] : Tensor(), c.lengths_tensor());
                    return {out.y, out.x * 2.0};
                },
                [&](const auto& in) -> Results {
                    const auto y = torch::matmul(in[0], in[1].t());
                    return {biased ? y + in[2] : y, in[0] * 2.0};
                });
        }
    }
}

TEST_F(FusedPasses, MeansAreThoseOfLibTorch) {
    for (const auto& c : cases()) {
        const auto count = c.mask().sum(1).clamp_min(1.0);
        expect_same(
            c, {c.random(0.2)}, {torch::randn({c.documents(), c.width}, torch::kCUDA)},
            [&](const auto& in) -> Results { return {fused_means(in[0], c.lengths_tensor())}; },
            [&](const auto& in) -> Results { return {(in[0] * c.mask()).sum(1) / count}; });
    }
}

TEST_F(FusedPasses, TheSameInputsGiveTheSameBits) {
    const PassCase c{.type = torch::kBFloat16, .tokens = 5000, .lengths = {5000, 4999, 3}, .dropout = 0.1};
    const auto start = std::vector<Tensor>{c.random(), c.random(), c.vector(), c.vector(1.0), c.vector()};
    const auto dy = c.random();
    std::vector<Tensor> first;
    for (int round = 0; round < 4; ++round) {
        const auto in = leaves(start, false);
        const auto y = fused_residual_norm(in[0], {.f = in[1], .bias = in[2], .dropout = c.dropout_part(1)},
                                           {in[3], in[4], kEpsilon}, c.lengths_tensor())
                           .y;
        y.backward(dy);
        std::vector<Tensor> all = {y};
        for (const auto& t : in) all.push_back(t.grad());
        if (round == 0) first = all;
        for (std::size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(torch::equal(all[i], first[i])) << i;
    }
}

TEST_F(FusedPasses, ARecordedStepDropsOtherElementsInEveryRun) {
    const PassCase c{.tokens = 2000};
    const auto x = torch::zeros({3, 2000, 64}, torch::kCUDA);
    const auto f = torch::ones({3, 2000, 64}, torch::kCUDA);
    const auto weight = torch::ones({64}, torch::kCUDA);
    auto seed = seed_tensor(0);
    auto sum = torch::zeros_like(x);
    CapturedStep step(
        [&] {
            const torch::NoGradGuard guard;
            sum.copy_(fused_residual_norm(x, {.f = f, .dropout = {0.2, seed, 5}, .keep_sum = true},
                                          {weight, weight, kEpsilon}, {})
                          .sum);
        },
        torch::Device(torch::kCUDA, 0));
    std::vector<Tensor> kept;
    for (std::int64_t run = 0; run < 8; ++run) {
        seed.fill_(run % 7);
        step.run();
        kept.push_back(sum > 0.0);
        // 384,000 elements: a standard deviation is 0.00065.
        EXPECT_NEAR(kept.back().to(torch::kDouble).mean().item<double>(), 0.8, 0.003) << run;
        EXPECT_NEAR(sum.max().item<double>(), 1.25, 1e-4);
    }
    EXPECT_TRUE(torch::equal(kept[0], kept[7]));
    for (int run = 1; run < 7; ++run) {
        const double both = torch::logical_and(kept[0], kept[static_cast<std::size_t>(run)])
                                .to(torch::kDouble)
                                .mean()
                                .item<double>();
        EXPECT_NEAR(both, 0.64, 0.004) << run;  // independent
    }
}

TrainRecipe tiny_recipe() {
    TrainRecipe recipe{.task = LraTask::tiny};
    recipe.model = {.vocabulary = 5,
                    .length = 29,
                    .classes = 4,
                    .layers = 2,
                    .width = 32,
                    .hidden = 48,
                    .heads = 2,
                    .classifier_hidden = 8,
                    .n_directions = 32};
    recipe.train.dropout = 0.0;
    recipe.train.precision = TrainPrecision::fp32;
    return recipe;
}

Batch on_gpu(const Batch& b) {
    return {b.tokens.to(torch::kCUDA), b.lengths.defined() ? b.lengths.to(torch::kCUDA) : Tensor(),
            b.labels.to(torch::kCUDA)};
}

// Loss and gradients of a network on the processor, in floats, and on the GPU.
void expect_same_network(const TrainRecipe& recipe, double tolerance) {
    auto exact = recipe;
    exact.train.precision = TrainPrecision::fp32;
    const auto start = initial_performer(recipe.model, "tiny", 3);
    const auto batch = some_batch(recipe.model, 5);
    std::vector<Tensor> gradients;
    std::vector<double> losses;
    for (const auto& device : {torch::Device(torch::kCPU), torch::Device(torch::kCUDA, 0)}) {
        Network network(device.is_cuda() ? recipe : exact, start, device);
        const auto here = device.is_cuda() ? on_gpu(batch) : batch;
        const auto loss = torch::nn::functional::cross_entropy(network.forward(here, true), here.labels);
        loss.backward();
        losses.push_back(loss.item<double>());
        gradients.push_back(network.parameters().gradients().to(torch::kCPU));
    }
    EXPECT_NEAR(losses[1], losses[0], tolerance);
    EXPECT_LT(relative_error(gradients[1], gradients[0]), 10.0 * tolerance);
}

TEST_F(FusedPasses, NetworksHaveTheLossAndGradientsOfTheProcessor) {
    expect_same_network(tiny_recipe(), 1e-4);
    auto pre = tiny_recipe();
    pre.model.norm = NormOrder::pre;
    pre.model.tied = true;
    pre.model.qkv_bias = false;
    pre.model.activation = Activation::silu;
    expect_same_network(pre, 1e-4);
    auto pixels = tiny_recipe();
    pixels.model.embedding = Embedding::affine;
    pixels.model.attention = ModelAttention::relu;
    expect_same_network(pixels, 1e-4);
    auto pairs = tiny_recipe();
    pairs.model.documents = 2;
    pairs.model.attention = ModelAttention::exact;
    pairs.model.activation = Activation::relu;
    expect_same_network(pairs, 1e-4);
    auto half = tiny_recipe();
    half.train.precision = TrainPrecision::bf16;
    expect_same_network(half, 1e-2);
}

TEST_F(FusedPasses, HardwareAwareNetworksHaveTheGradientsOfTheProcessor) {
    auto recipe = tiny_recipe();
    recipe.hardware = {.weight_noise = WeightNoise::sample,
                       .weight_noise_size = 0.0,
                       .output_noise = 0.0,
                       .input_levels = 0};
    expect_same_network(recipe, 1e-4);
}

}  // namespace
}  // namespace imka
