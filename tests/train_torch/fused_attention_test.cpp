// Fused attention on a GPU against LibTorch's operations: values and gradients.
#include "imka/train/torch/fused_attention.hpp"

#include <gtest/gtest.h>

#include "imka/train/torch/network.hpp"

namespace imka {
namespace {

using torch::Tensor;

struct Result {
    Tensor y;
    Tensor gradient;  // of qkv
};

Tensor heads_of(const Tensor& part, std::int64_t heads) {
    return part.reshape({part.size(0), part.size(1), heads, -1}).transpose(1, 2);
}

Result plain(const Tensor& start, const Tensor& omega, const Tensor& mask, const Tensor& dy,
             const FusedChoice& choice) {
    auto qkv = start.to(torch::kDouble).detach().requires_grad_(true);
    const auto parts = qkv.chunk(3, -1);
    auto y = kernel_attention(heads_of(parts[0], choice.heads), heads_of(parts[1], choice.heads),
                              heads_of(parts[2], choice.heads), mask, omega.to(torch::kDouble),
                              {.kind = choice.kind, .cut = choice.cut});
    y = y.transpose(1, 2).reshape(dy.sizes()) * mask.unsqueeze(-1);
    y.backward(dy.to(torch::kDouble));
    return {y.detach(), qkv.grad()};
}

Result fused(const Tensor& start, const Tensor& omega, const Tensor& lengths, const Tensor& dy,
             const FusedChoice& choice) {
    auto qkv = start.detach().requires_grad_(true);
    const auto y = fused_attention(qkv, omega, lengths, choice);
    y.backward(dy);
    return {y.detach(), qkv.grad()};
}

double relative(const Tensor& a, const Tensor& b) {
    return ((a.to(torch::kDouble) - b).norm() / b.norm()).item<double>();
}

TEST(FusedAttention, HasTheValuesAndGradientsOfLibTorch) {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
    torch::manual_seed(4);
    for (const auto kind : {ModelAttention::favor, ModelAttention::relu}) {
        for (const bool cut : {false, true}) {
            const FusedChoice choice{kind, 2, kReluEpsilon, cut};
            const auto start = torch::randn({3, 300, 3 * 64}, torch::kCUDA);
            const auto omega = torch::randn({128, 32}, torch::kCUDA);
            const auto lengths = torch::tensor({300, 17, 131}, torch::kInt).to(torch::kCUDA);
            const auto mask = torch::arange(300, lengths.options()).unsqueeze(0) < lengths.unsqueeze(1);
            const auto dy = torch::randn({3, 300, 64}, torch::kCUDA) * mask.unsqueeze(-1);
            const auto expected = plain(start, omega, mask, dy, choice);
            const auto in_float = fused(start, omega, lengths, dy, choice);
            EXPECT_LT(relative(in_float.y, expected.y), 1e-3);
            EXPECT_LT(relative(in_float.gradient, expected.gradient), 3e-3);
            const auto half =
                fused(start.to(torch::kBFloat16), omega, lengths, dy.to(torch::kBFloat16), choice);
            EXPECT_LT(relative(half.y, expected.y), 3e-2);
            EXPECT_LT(relative(half.gradient, expected.gradient), 1e-1);
        }
    }
}

}  // namespace
}  // namespace imka
