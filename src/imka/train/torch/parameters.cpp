#include "imka/train/torch/parameters.hpp"

#include <cmath>

#include "imka/train/torch/tensors.hpp"

namespace imka {
namespace {

// Shape in LibTorch: vectors have rank 1.
std::vector<std::int64_t> dims_of(const ParameterShape& s) {
    const auto cols = static_cast<std::int64_t>(s.cols);
    if (s.rows == 1) return {cols};
    return {static_cast<std::int64_t>(s.rows), cols};
}

}  // namespace

Parameters::Parameters(const Performer& model, const std::vector<std::string>& ranges,
                       const torch::Device& device) {
    const auto shapes = parameter_shapes(model.config);
    const auto own = static_cast<std::int64_t>(parameter_count(model.config));
    const auto count = own + static_cast<std::int64_t>(ranges.size());
    values_ = torch::zeros({count}, device);
    gradients_ = torch::zeros({count}, device);
    decays_ = torch::ones({count}, device);
    decays_.slice(0, own).zero_();
    std::int64_t at = 0;
    const auto place = [&](const std::string& name, const torch::Tensor& start,
                           const std::vector<std::int64_t>& dims) {
        const auto end = at + start.numel();
        auto leaf = values_.slice(0, at, end).view(dims).detach();
        leaf.copy_(start.view(dims));
        leaf.requires_grad_(true);
        leaf.mutable_grad() = gradients_.slice(0, at, end).view(dims);
        by_name_.emplace(name, leaf);
        at = end;
    };
    for (const auto& s : shapes) place(s.name, to_tensor(model.weights.at(s.name)), dims_of(s));
    for (const auto& name : ranges) {
        const auto known = model.input_ranges.find(name);
        const float start = known == model.input_ranges.end() ? 1.0F : known->second;
        place("range." + name, torch::full({1}, start), {1});
    }
}

void Parameters::store(Performer& model) const {
    for (const auto& s : parameter_shapes(model.config))
        model.weights[s.name] = to_matrix(by_name_.at(s.name));
    for (const auto& [name, value] : by_name_) {
        if (name.starts_with("range.")) model.input_ranges[name.substr(6)] = to_matrix(value)(0, 0);
    }
}

void Parameters::exchange(torch::Tensor& other) {
    const torch::NoGradGuard guard;
    const auto before = values_.clone();
    values_.copy_(other);
    other.copy_(before);
}

AdamW::AdamW(const Parameters& parameters, const TrainConfig& config)
    : mean(torch::zeros_like(parameters.values())),
      square(torch::zeros_like(parameters.values())),
      parameters_(parameters),
      config_(config),
      rates_(torch::zeros({4}, parameters.values().device())),
      norm_(torch::zeros({}, parameters.values().device())) {
    if (config.average > 0.0) average = parameters.values().clone();
}

void AdamW::set_step(std::int64_t step) {
    const auto t = static_cast<double>(step + 1);
    const std::array rates{static_cast<float>(learning_rate(config_, step)),
                           static_cast<float>(1.0 / (1.0 - std::pow(config_.beta1, t))),
                           static_cast<float>(1.0 / (1.0 - std::pow(config_.beta2, t))),
                           // The first steps count equally, so the initial weights are soon forgotten.
                           static_cast<float>(std::max(1.0 - config_.average, 1.0 / t))};
    send(torch::tensor(std::vector<float>(rates.begin(), rates.end())), rates_);
}

void AdamW::update() {
    const torch::NoGradGuard guard;
    auto g = parameters_.gradients();
    // Input ranges, which have no weight decay, do not count: the gradient of their own decay is not small.
    norm_.copy_((g * parameters_.decays()).norm());
    if (config_.clip_norm > 0.0) g = g * (config_.clip_norm / (norm_ + 1e-6)).clamp_max(1.0);
    mean.mul_(config_.beta1).add_(g, 1.0 - config_.beta1);
    square.mul_(config_.beta2).addcmul_(g, g, 1.0 - config_.beta2);
    const auto rate = rates_[0];
    auto values = parameters_.values();
    values.mul_(1.0 - rate * config_.weight_decay * parameters_.decays());
    values.sub_(rate * (mean * rates_[1]) / ((square * rates_[2]).sqrt() + config_.adam_epsilon));
}

void AdamW::update_average() {
    if (!average.defined()) return;
    const torch::NoGradGuard guard;
    average.add_((parameters_.values() - average) * rates_[3]);
}

}  // namespace imka
