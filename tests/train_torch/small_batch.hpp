// Helpers for the tests of training: random batches, and arithmetic in double.
#pragma once

#include <cstdint>

#include "imka/train/torch/network.hpp"
#include "imka/train/torch/tensors.hpp"

namespace imka {

// Makes double the default type during its lifetime, for finite differences.
struct InDouble {
    InDouble() { torch::set_default_dtype(caffe2::TypeMeta::Make<double>()); }
    ~InDouble() { torch::set_default_dtype(caffe2::TypeMeta::Make<float>()); }
};

// Random tokens and labels; documents of text have different lengths.
inline Batch some_batch(const PerformerConfig& model, std::int64_t examples) {
    Batch batch;
    batch.tokens = torch::randint(0, 4, {examples * model.documents, model.length}, torch::kByte);
    if (model.embedding == Embedding::affine) {
        batch.tokens = batch.tokens * 60;
    } else {
        batch.lengths = torch::randint(3, model.length + 1, {examples * model.documents}, torch::kLong);
    }
    batch.labels = torch::randint(0, model.classes, {examples}, torch::kLong);
    return batch;
}

}  // namespace imka
