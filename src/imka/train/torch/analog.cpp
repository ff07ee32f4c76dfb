#include "imka/train/torch/analog.hpp"

#include "imka/train/torch/chip_product.hpp"

namespace imka {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Clip : torch::autograd::Function<Clip> {
    static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& range, double decay,
                          double inside) {
        context->save_for_backward({x, range});
        context->saved_data["decay"] = decay;
        context->saved_data["inside"] = inside;
        return torch::min(torch::max(x, -range), range);
    }
    static variable_list backward(AutogradContext* context, const variable_list& outputs) {
        const auto saved = context->get_saved_variables();
        const auto& x = saved[0];
        const auto& range = saved[1];
        const auto& g = outputs[0];
        const auto above = x >= range;
        const auto below = x <= -range;
        const auto zero = torch::zeros({}, g.options());
        const auto outside = torch::logical_or(above, below);
        auto pull =
            torch::where(above, g.clamp_max(0), zero).sum() - torch::where(below, g.clamp_min(0), zero).sum();
        const auto share = 1.0 - outside.to(g.dtype()).mean();
        const auto shrinks = (share > context->saved_data["inside"].toDouble()).to(g.dtype());
        pull = range * pull + context->saved_data["decay"].toDouble() * range * shrinks;
        return {g.masked_fill(outside, 0.0), pull.view_as(range), Tensor(), Tensor()};
    }
};

// One weight matrix per example, or one for the batch.
Tensor noisy_weights(const Tensor& weight, std::int64_t batch, const HardwareConfig& config) {
    const auto size = config.weight_noise_size * weight.detach().abs().max();
    if (config.weight_noise == WeightNoise::batch) return weight + size * torch::randn_like(weight);
    return weight + size * torch::randn({batch, weight.size(0), weight.size(1)}, weight.options());
}

Tensor gaussian_product(const Tensor& inputs, const Tensor& weight, const Tensor& range,
                        const HardwareConfig& config) {
    const auto w = noisy_weights(weight, inputs.size(0), config);
    const auto y = torch::matmul(inputs, w.transpose(-1, -2));
    if (config.output_noise <= 0.0) return y;
    const auto size = config.output_noise * range.detach() * weight.detach().abs().max();
    return y + size * torch::randn_like(y);
}

}  // namespace

Tensor clipped(const Tensor& x, const Tensor& range, const HardwareConfig& config) {
    return Clip::apply(x, range, config.range_decay, config.range_inside);
}

Tensor quantised(const Tensor& x, const Tensor& range, std::int64_t levels) {
    if (levels == 0) return x;
    const auto step = range.detach() / static_cast<double>(levels);
    return x + (torch::round(x.detach() / step) * step - x.detach());
}

Tensor analog_product(const Tensor& x, const Tensor& weight, const Tensor& range,
                      const AnalogHardware& hardware) {
    const auto& config = hardware.config;
    const auto inputs = clipped(x, range, config).reshape({x.size(0), -1, x.size(-1)});
    auto dims = x.sizes().vec();
    dims.back() = weight.size(0);
    const auto y = hardware.chip ? chip_product(inputs, weight, range, {*hardware.chip, config.weight_noise})
                                 : gaussian_product(quantised(inputs, range, config.input_levels), weight,
                                                    range, config);
    return y.view(dims);
}

}  // namespace imka
