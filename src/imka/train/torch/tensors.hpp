// Conversion between imka's matrices and LibTorch tensors.
#pragma once

#include <torch/torch.h>

#include <span>

#include "imka/base/matrix.hpp"

namespace imka {

// On the processor, with a copy of the values.
torch::Tensor to_tensor(MatrixView<const float> m);
// Rank 1 is one row.
Matrix<float> to_matrix(const torch::Tensor& t);

// Copies from the processor to a tensor on any device, without waiting for it. A copy to a GPU starts after
// the work that is already queued.
void send(const torch::Tensor& from, torch::Tensor& to);

}  // namespace imka
