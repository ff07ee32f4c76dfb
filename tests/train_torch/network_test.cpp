// The network of training: gradients against finite differences, attention against the library's own.
#include "imka/train/torch/network.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "imka/attention/attention.hpp"
#include "imka/base/random.hpp"
#include "imka/train/torch/analog.hpp"
#include "small_batch.hpp"

namespace imka {
namespace {

using torch::Tensor;

TrainRecipe small(LraTask task = LraTask::tiny) {
    TrainRecipe recipe{.task = task};
    recipe.model = {.vocabulary = 5,
                    .length = 9,
                    .classes = 4,
                    .layers = 2,
                    .width = 8,
                    .hidden = 6,
                    .heads = 2,
                    .classifier_hidden = 5,
                    .n_directions = 11};
    recipe.train.dropout = 0.0;
    return recipe;
}

double loss_of(Network& network, const Batch& batch, bool training) {
    return torch::nn::functional::cross_entropy(network.forward(batch, training), batch.labels)
        .item<double>();
}

// Compares the gradient of every parameter with central differences in a few random directions.
void expect_right_gradients(const TrainRecipe& recipe) {
    const InDouble guard;
    torch::manual_seed(5);
    Network network(recipe, initial_performer(recipe.model, "tiny", 3), torch::kCPU);
    const auto batch = some_batch(recipe.model, 3);
    auto& parameters = network.parameters();
    parameters.clear_gradients();
    torch::nn::functional::cross_entropy(network.forward(batch, false), batch.labels).backward();
    const torch::NoGradGuard no_gradients;
    auto names = std::vector<std::string>{};
    for (const auto& s : parameter_shapes(recipe.model)) names.push_back(s.name);
    for (const auto& name : names) {
        auto values = parameters[name].detach();
        const auto direction = torch::randn_like(values);
        const double slope = (parameters[name].grad() * direction).sum().item<double>();
        const double h = 1e-7;  // small enough to cross no kink of relu
        values.add_(direction, h);
        const double above = loss_of(network, batch, false);
        values.add_(direction, -2.0 * h);
        const double below = loss_of(network, batch, false);
        values.add_(direction, h);
        EXPECT_NEAR((above - below) / (2.0 * h), slope, 1e-6 * (1.0 + std::abs(slope))) << name;
    }
}

TEST(Network, HasTheGradientsOfFiniteDifferences) {
    expect_right_gradients(small());
}
TEST(Network, HasRightGradientsWithTiedLayersAndPreNorm) {
    auto recipe = small();
    recipe.model.tied = true;
    recipe.model.norm = NormOrder::pre;
    recipe.model.activation = Activation::silu;
    recipe.model.qkv_bias = false;
    expect_right_gradients(recipe);
}
TEST(Network, HasRightGradientsWithPixelsAndReluAttention) {
    auto recipe = small();
    recipe.model.embedding = Embedding::affine;
    recipe.model.attention = ModelAttention::relu;
    expect_right_gradients(recipe);
}
TEST(Network, HasRightGradientsWithPairsAndExactAttention) {
    auto recipe = small();
    recipe.model.documents = 2;
    recipe.model.attention = ModelAttention::exact;
    recipe.model.classifier_activation = Activation::silu;
    expect_right_gradients(recipe);
}

TEST(Network, CutsTheGradientOfTheProjection) {
    auto recipe = small();
    recipe.train.cut_gradient = true;
    torch::manual_seed(5);
    Network network(recipe, initial_performer(recipe.model, "tiny", 3), torch::kCPU);
    const auto batch = some_batch(recipe.model, 3);
    torch::nn::functional::cross_entropy(network.forward(batch, true), batch.labels).backward();
    // The factor exp(-|q|²/2) cancels, so queries learn nothing; keys do.
    EXPECT_LT(network.parameters()["layer0.q.weight"].grad().abs().max().item<float>(), 1e-7F);
    EXPECT_GT(network.parameters()["layer0.k.weight"].grad().abs().max().item<float>(), 1e-5F);
}

TEST(Network, IgnoresWhatIsBehindTheEndOfADocument) {
    const auto recipe = small();
    torch::manual_seed(5);
    Network network(recipe, initial_performer(recipe.model, "tiny", 3), torch::kCPU);
    auto batch = some_batch(recipe.model, 3);
    const auto before = network.forward(batch, false);
    const auto mask = torch::arange(batch.tokens.size(1)).unsqueeze(0) >= batch.lengths.unsqueeze(1);
    ASSERT_TRUE(mask.any().item<bool>());
    batch.tokens = torch::where(mask, 3 - batch.tokens, batch.tokens);
    EXPECT_TRUE(torch::equal(network.forward(batch, false), before));
}

// The library's attention of one sequence.
Matrix<float> library_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& omega,
                                const std::vector<std::uint8_t>& mask, ops::AttentionForm form) {
    const auto heads = static_cast<std::size_t>(q.size(0));
    const auto length = static_cast<std::size_t>(q.size(1));
    const auto size = static_cast<std::size_t>(q.size(2));
    const HeadsShape shape{.heads = heads, .length = length, .size = size};
    const KernelAttention attention({.form = form,
                                     .n_directions = omega.size(0),
                                     .kernel_epsilon = form == ops::AttentionForm::relu ? 1e-6 : 0.0},
                                    to_matrix(omega));
    const auto flat = [&](const Tensor& t) { return to_matrix(t.reshape({-1, t.size(2)})); };
    const auto qm = flat(q);
    const auto km = flat(k);
    const auto vm = flat(v);
    Matrix<float> out(heads * length, size);
    attention.run({.q = heads_first(qm.data(), shape),
                   .k = heads_first(km.data(), shape),
                   .v = heads_first(vm.data(), shape),
                   .key_mask = mask},
                  {}, {}, heads_first(out.data(), shape));
    return out;
}

TEST(Attention, IsThatOfTheLibrary) {
    torch::manual_seed(1);
    const auto q = torch::randn({2, 13, 8}) * 1.5;
    const auto k = torch::randn({2, 13, 8}) * 1.5;
    const auto v = torch::randn({2, 13, 8});
    const auto omega = torch::randn({24, 8});
    std::vector<std::uint8_t> keep(13, 1);
    keep[12] = keep[11] = 0;
    const auto mask = torch::arange(13).unsqueeze(0) < 11;
    for (const auto kind : {ModelAttention::favor, ModelAttention::relu}) {
        const auto y =
            kernel_attention(q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), mask, omega, {.kind = kind});
        const auto ours = to_matrix(y[0].reshape({-1, 8}));
        const auto theirs = library_attention(
            q, k, v, omega, keep,
            kind == ModelAttention::relu ? ops::AttentionForm::relu : ops::AttentionForm::positive);
        for (std::size_t i = 0; i < ours.values().size(); ++i)
            EXPECT_NEAR(ours.values()[i], theirs.values()[i], 2e-5) << i;
    }
}

TEST(Analog, QuantisesToTheLevelsOfTheRange) {
    const auto x = torch::linspace(-1.0, 1.0, 401);
    const auto range = torch::full({1}, 0.5);
    const auto y = quantised(x.clamp(-0.5, 0.5), range, 4);
    EXPECT_LE((y * 8.0 - torch::round(y * 8.0)).abs().max().item<float>(), 1e-5F);
    EXPECT_EQ(y.abs().max().item<float>(), 0.5F);
}

TEST(Analog, PullsTheRangeWhereClippedInputsAskForIt) {
    const HardwareConfig config{.range_decay = 0.5, .range_inside = 0.95};
    const auto x = torch::tensor({-3.0F, -1.0F, 0.5F, 4.0F}).requires_grad_(true);
    const auto range = torch::full({1}, 2.0).requires_grad_(true);
    const auto y = clipped(x, range, config);
    EXPECT_TRUE(torch::equal(y.detach(), torch::tensor({-2.0F, -1.0F, 0.5F, 2.0F})));
    (y * torch::tensor({5.0F, 1.0F, 1.0F, -3.0F})).sum().backward();
    EXPECT_TRUE(torch::equal(x.grad(), torch::tensor({0.0F, 1.0F, 1.0F, 0.0F})));
    // range * (min(0, -3) - max(0, 5)); only half of the inputs are inside, so there is no decay.
    EXPECT_FLOAT_EQ(range.grad().item<float>(), 2.0F * (-3.0F - 5.0F));
    const auto inner = torch::full({40}, 0.1).requires_grad_(true);
    range.mutable_grad().zero_();
    clipped(inner, range, config).sum().backward();
    EXPECT_FLOAT_EQ(range.grad().item<float>(), 0.5F * 2.0F);
}

TEST(Analog, HasTheNoiseOfItsSettings) {
    torch::manual_seed(3);
    HardwareConfig config{.weight_noise = WeightNoise::sample,
                          .weight_noise_size = 0.12,
                          .output_noise = 0.0,
                          .input_levels = 0};
    const auto weight = torch::full({50, 40}, 0.5);
    const auto x = torch::ones({200, 3, 40});
    const auto range = torch::full({1}, 2.0);
    auto y = analog_product(x, weight, range, {config});
    // 40 weights with noise of 0.12 * 0.5 each, shared by the three rows of an example.
    EXPECT_NEAR(y.std().item<double>(), 0.06 * std::sqrt(40.0), 0.006);
    EXPECT_LE((y.select(1, 0) - y.select(1, 2)).abs().max().item<float>(), 1e-5F);
    config.weight_noise_size = 0.0;
    config.output_noise = 0.1;
    y = analog_product(x, weight, range, {config});
    EXPECT_NEAR(y.std().item<double>(), 0.1 * 2.0 * 0.5, 0.002);
}

TEST(AdamW, TakesTheStepsOfLibTorch) {
    const auto recipe = small();
    const auto start = initial_performer(recipe.model, "tiny", 3);
    Parameters ours(start, {}, torch::kCPU);
    TrainConfig config{.steps = 10,
                       .lr = 0.01,
                       .schedule = RateSchedule::constant,
                       .warmup = 0,
                       .weight_decay = 0.3,
                       .clip_norm = 1.0};
    AdamW adam(ours, config);
    auto theirs = ours.values().clone().requires_grad_(true);
    torch::optim::AdamW peer({theirs}, torch::optim::AdamWOptions(config.lr)
                                           .betas({config.beta1, config.beta2})
                                           .eps(config.adam_epsilon)
                                           .weight_decay(config.weight_decay));
    torch::manual_seed(8);
    for (std::int64_t step = 0; step < 10; ++step) {
        const auto g = torch::randn_like(theirs) * (step % 2 == 0 ? 1.0 : 1e-3);
        ours.gradients().detach().copy_(g);
        adam.set_step(step);
        adam.update();
        theirs.mutable_grad() = g.clone();
        torch::nn::utils::clip_grad_norm_({theirs}, config.clip_norm);
        peer.step();
    }
    EXPECT_LT((ours.values() - theirs).abs().max().item<float>(), 2e-6F);
}

}  // namespace
}  // namespace imka
