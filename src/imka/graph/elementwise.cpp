#include "imka/graph/elementwise.hpp"

namespace imka::graph {

Broadcast::Broadcast(const Shape& out, const std::vector<const TensorView*>& inputs)
    : strides_(inputs.size()), repeated_(inputs.size()) {
    const std::size_t rank = out.size();
    // Stride of each input along each output axis; 0 where it is broadcast.
    std::vector<std::vector<std::size_t>> all(inputs.size(), std::vector<std::size_t>(rank, 0));
    for (std::size_t k = 0; k < inputs.size(); ++k) {
        const auto& shape = inputs[k]->shape;
        const auto strides = strides_of(shape);
        for (std::size_t i = 0; i < shape.size(); ++i) {
            if (shape[i] != 1) all[k][rank - shape.size() + i] = static_cast<std::size_t>(strides[i]);
        }
    }
    // Trailing axes join the run while every input stays contiguous or one element.
    std::size_t axis = rank;
    bool started = false;
    while (axis > 0) {
        const auto size = static_cast<std::size_t>(out[axis - 1]);
        if (size != 1) {
            bool fits = true;
            for (std::size_t k = 0; k < inputs.size(); ++k) {
                const auto stride = all[k][axis - 1];
                if (!started) {
                    repeated_[k] = stride == 0;
                } else {
                    fits = fits && (repeated_[k] ? stride == 0 : stride == length_);
                }
            }
            if (!fits) break;
            started = true;
            length_ *= size;
        }
        --axis;
    }
    if (!started) repeated_.assign(inputs.size(), true);
    for (std::size_t i = 0; i < axis; ++i) {
        outer_.push_back(static_cast<std::size_t>(out[i]));
        runs_ *= outer_.back();
        for (std::size_t k = 0; k < inputs.size(); ++k) strides_[k].push_back(all[k][i]);
    }
}

BroadcastRun Broadcast::input(std::size_t k, std::size_t run) const {
    std::size_t offset = 0;
    for (std::size_t i = outer_.size(); i-- > 0;) {
        offset += run % outer_[i] * strides_[k][i];
        run /= outer_[i];
    }
    return {offset, repeated_[k]};
}

}  // namespace imka::graph
