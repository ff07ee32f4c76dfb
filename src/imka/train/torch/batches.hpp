// The examples of a task on the device of training, and batches of them.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "imka/data/lra/task.hpp"
#include "imka/train/torch/network.hpp"

namespace imka {

class ResidentData {
public:
    // Copies all documents to the device, one byte per token.
    ResidentData(const LraData& data, const torch::Device& device);
    std::int64_t size() const { return labels_.size(0); }
    // indices: i64 on the device.
    Batch batch(const torch::Tensor& indices) const;

private:
    torch::Tensor tokens_, lengths_, first_, second_, labels_;
    bool full_ = true;  // every document has the full length
    bool pairs_ = false;
};

// The examples of step 0, 1, ...: every epoch is a new permutation, cut into whole batches.
class BatchOrder {
public:
    BatchOrder(std::int64_t examples, std::int64_t batch, std::uint64_t seed)
        : examples_(examples), batch_(batch), seed_(seed) {}
    std::vector<std::int64_t> step(std::int64_t step);

private:
    std::int64_t examples_;
    std::int64_t batch_;
    std::uint64_t seed_;
    std::int64_t epoch_ = -1;
    std::vector<std::uint32_t> order_;
};

}  // namespace imka
