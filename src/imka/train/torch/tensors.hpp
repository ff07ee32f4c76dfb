// Between imka's matrices and tensors of LibTorch.
#pragma once

#include <torch/torch.h>

#include <span>

#include "imka/base/matrix.hpp"

namespace imka {

// On the processor, with a copy of the values.
torch::Tensor to_tensor(MatrixView<const float> m);
// Rank 1 is one row.
Matrix<float> to_matrix(const torch::Tensor& t);

// Runs a block without recording gradients.
template <class F>
auto without_gradients(F&& f) {
    const torch::NoGradGuard guard;
    return f();
}

}  // namespace imka
