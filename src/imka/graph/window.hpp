// Windows that slide over the spatial axes of convolutions and pools: sizes, pads, positions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "imka/graph/operator.hpp"

namespace imka::graph {

// One spatial axis.
struct WindowAxis {
    std::int64_t in = 0;
    std::int64_t out = 0;
    std::int64_t kernel = 1;
    std::int64_t stride = 1;
    std::int64_t dilation = 1;
    std::int64_t before = 0;  // pads
    std::int64_t after = 0;
};

// The attributes strides, dilations, pads, auto_pad and ceil_mode for inputs of these spatial sizes. Sizes
// that are not known give an unknown output size. Error{bad_data} if a window does not fit.
std::vector<WindowAxis> window_axes(const Node& node, const Dims& spatial,
                                    const std::vector<std::int64_t>& kernel);

// Output sizes of the axes.
Dims window_dims(const std::vector<WindowAxis>& axes);

// Input elements of one window: their offsets within a channel, and which elements of the kernel they meet.
class WindowPositions {
public:
    explicit WindowPositions(std::vector<WindowAxis> axes);
    std::size_t outputs() const { return outputs_; }  // number of windows
    std::size_t inputs() const { return inputs_; }    // elements of a channel
    std::size_t taps() const { return taps_; }        // elements of the kernel

    struct Tap {
        std::size_t kernel;
        std::size_t input;
    };
    // The taps of window `position` that are inside the input.
    void taps_at(std::size_t position, std::vector<Tap>& taps) const;
    // Number of kernel elements inside the input or its pads: the divisor of an average that counts pads.
    std::size_t padded_count(std::size_t position) const;

private:
    std::vector<WindowAxis> axes_;
    std::size_t outputs_ = 1;
    std::size_t inputs_ = 1;
    std::size_t taps_ = 1;
};

}  // namespace imka::graph
