#include "imka/cuda/resident.hpp"

#include <cassert>
#include <functional>

namespace imka::cuda {

std::ptrdiff_t offset_within(MatrixView<const float> whole, MatrixView<const float> view) {
    if (view.cols() != whole.cols() || view.stride() != view.cols() || view.cols() == 0) return -1;
    const std::less_equal<> no_later{};
    const float* end = whole.data() + whole.rows() * whole.cols();
    if (!no_later(whole.data(), view.data()) || !no_later(view.data(), end)) return -1;
    const std::ptrdiff_t offset = view.data() - whole.data();
    if (view.rows() * view.cols() > static_cast<std::size_t>(end - view.data())) return -1;
    return offset % static_cast<std::ptrdiff_t>(whole.cols()) == 0 ? offset : -1;
}

ResidentRows::ResidentRows(const std::vector<MatrixView<const float>>& matrices, int gpu) : gpu_(gpu) {
    for (const auto& host : matrices) {
        assert(host.stride() == host.cols());
        parts_.push_back({host, Buffer<float>(gpu, host.rows() * host.cols(), MemorySource::pooled)});
        parts_.back().copy.upload({host.data(), host.rows() * host.cols()});
    }
}

const float* ResidentRows::find(MatrixView<const float> rows, int gpu) const {
    if (gpu != gpu_) return nullptr;
    for (const auto& part : parts_) {
        const auto offset = offset_within(part.host, rows);
        if (offset >= 0) return part.copy.data() + offset;
    }
    return nullptr;
}

const float* find_resident(const Exec& exec, MatrixView<const float> rows) {
    if (exec.resident == nullptr || exec.device.kind != DeviceKind::cuda) return nullptr;
    return exec.resident->find(rows, exec.device.number);
}

}  // namespace imka::cuda
