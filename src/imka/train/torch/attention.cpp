// Attention from LibTorch operations, with gradients.
#include <cmath>
#include <limits>

#include "imka/train/torch/network.hpp"

namespace imka {
namespace {

using torch::Tensor;

constexpr float kNoKey = -std::numeric_limits<float>::infinity();

// Batch x heads x tokens x 1; undefined without a mask.
Tensor key_column(const Tensor& mask) {
    return mask.defined() ? mask.unsqueeze(1).unsqueeze(-1) : mask;
}

Tensor both_signs(const Tensor& u, const Tensor& shift) {
    return torch::cat({(u + shift).exp(), (shift - u).exp()}, -1);
}

// Factors of a query's features cancel: |x|²/2 is left out, the largest exponent is subtracted.
Tensor favor_of_queries(const Tensor& u) {
    return both_signs(u, -u.detach().abs().amax(-1, true));
}

// A factor of all keys of a sequence cancels: the largest exponent is subtracted.
Tensor favor_of_keys(const Tensor& u, const Tensor& x, const Tensor& keep) {
    auto shift = -0.5 * x.square().sum(-1, true);
    auto most = (u.detach().abs().amax(-1, true) + shift.detach());
    if (keep.defined()) most = most.masked_fill(keep.logical_not(), kNoKey);
    shift = shift - most.amax(-2, true);
    if (keep.defined()) shift = shift.masked_fill(keep.logical_not(), kNoKey);
    return both_signs(u, shift);
}

Tensor relu_of_keys(const Tensor& u, const Tensor& keep) {
    auto features = u.relu() + kReluEpsilon;
    return keep.defined() ? features * keep.to(features.dtype()) : features;
}

}  // namespace

Tensor kernel_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                        const Tensor& omega, const FeatureAttention& how) {
    const double scale = std::pow(static_cast<double>(q.size(-1)), -0.25);
    const auto keep = key_column(mask);
    const auto projected = [&](const Tensor& input) {
        const auto x = how.cut ? input.detach() : input;
        if (how.hardware == nullptr) return torch::matmul(x, omega.t());
        return analog_product(x, omega, (3.0 * x.detach().std()).view({1}), *how.hardware);
    };
    const auto x_q = q * scale;
    const auto x_k = k * scale;
    const auto u_q = projected(x_q);
    const auto u_k = projected(x_k);
    const bool relu = how.kind == ModelAttention::relu;
    const auto z_q = relu ? u_q.relu() + kReluEpsilon : favor_of_queries(u_q);
    const auto z_k = relu ? relu_of_keys(u_k, keep) : favor_of_keys(u_k, x_k, keep);
    const auto sums = torch::matmul(z_k.transpose(-1, -2), v);
    const auto normaliser = torch::matmul(z_q, z_k.sum(-2).unsqueeze(-1));
    return torch::matmul(z_q, sums) / normaliser;
}

Tensor exact_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) {
    auto scores = torch::matmul(q, k.transpose(-1, -2)) / std::sqrt(static_cast<double>(q.size(-1)));
    if (mask.defined()) scores = scores.masked_fill(mask.logical_not().unsqueeze(1).unsqueeze(1), kNoKey);
    return torch::matmul(torch::softmax(scores, -1), v);
}

}  // namespace imka
