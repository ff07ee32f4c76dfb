#include "imka/train/torch/batches.hpp"

#include <algorithm>

#include "imka/base/random.hpp"
#include "imka/chip/build.hpp"

namespace imka {
namespace {

template <class T>
torch::Tensor longs(const std::vector<T>& values, const torch::Device& device) {
    return torch::tensor(std::vector<std::int64_t>(values.begin(), values.end()), torch::kLong).to(device);
}

}  // namespace

ResidentData::ResidentData(const LraData& data, const torch::Device& device) {
    const auto rows = static_cast<std::int64_t>(data.tokens.rows());
    const auto cols = static_cast<std::int64_t>(data.tokens.cols());
    tokens_ = torch::empty({rows, cols}, torch::kByte);
    std::copy_n(data.tokens.data(), rows * cols, tokens_.data_ptr<std::uint8_t>());
    tokens_ = tokens_.to(device);
    lengths_ = longs(data.lengths, device);
    std::vector<std::int64_t> first;
    std::vector<std::int64_t> second;
    std::vector<std::int64_t> labels;
    for (const auto& e : data.examples) {
        first.push_back(e.first);
        second.push_back(e.second);
        labels.push_back(e.label);
    }
    first_ = longs(first, device);
    second_ = longs(second, device);
    labels_ = longs(labels, device);
    full_ = std::ranges::all_of(data.lengths, [&](auto n) { return n == data.tokens.cols(); });
    pairs_ = lra_task(data.task).documents == 2;
}

Batch ResidentData::batch(const torch::Tensor& indices) const {
    auto documents = first_.index_select(0, indices);
    if (pairs_) documents = torch::cat({documents, second_.index_select(0, indices)});
    return {.tokens = tokens_.index_select(0, documents),
            .lengths = full_ ? torch::Tensor() : lengths_.index_select(0, documents),
            .labels = labels_.index_select(0, indices)};
}

std::vector<std::int64_t> BatchOrder::step(std::int64_t step) {
    const auto batch = std::min(batch_, examples_);
    const auto per_epoch = examples_ / batch;
    if (step / per_epoch != epoch_) {
        epoch_ = step / per_epoch;
        order_ = permutation(derived_seed(seed_, static_cast<std::uint32_t>(epoch_)), Stream::training_order,
                             static_cast<std::uint32_t>(examples_));
    }
    const auto start = order_.begin() + step % per_epoch * batch;
    return {start, start + batch};
}

}  // namespace imka
