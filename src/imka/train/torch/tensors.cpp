#include "imka/train/torch/tensors.hpp"

#include <algorithm>

namespace imka {

torch::Tensor to_tensor(MatrixView<const float> m) {
    auto t = torch::empty({static_cast<std::int64_t>(m.rows()), static_cast<std::int64_t>(m.cols())},
                          torch::kFloat);
    for (std::size_t r = 0; r < m.rows(); ++r)
        std::ranges::copy(m.row(r), t.data_ptr<float>() + r * m.cols());
    return t;
}

Matrix<float> to_matrix(const torch::Tensor& t) {
    const auto host = t.detach().to(torch::kCPU, torch::kFloat).contiguous();
    const auto rows = host.dim() > 1 ? host.size(0) : 1;
    Matrix<float> m(static_cast<std::size_t>(rows),
                    static_cast<std::size_t>(host.numel() / std::max<std::int64_t>(rows, 1)));
    std::copy_n(host.data_ptr<float>(), host.numel(), m.data());
    return m;
}

void send(const torch::Tensor& from, torch::Tensor& to) {
    // From ordinary memory a copy would wait for the GPU.
    to.copy_(to.is_cuda() ? from.pin_memory() : from, true);
}

}  // namespace imka
