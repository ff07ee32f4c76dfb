// Operators of graphs as plain loops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "imka/graph/copy.hpp"
#include "imka/graph/tensor.hpp"

namespace imka::graph::reference {

inline void copy_strided(const StridedCopy& copy, const float* from, float* to) {
    const std::size_t count = element_count(copy.shape);
    for (std::size_t i = 0; i < count; ++i) {
        std::int64_t at_from = 0;
        std::int64_t at_to = 0;
        std::size_t rest = i;
        for (std::size_t a = copy.shape.size(); a-- > 0;) {
            const auto index = static_cast<std::int64_t>(rest % static_cast<std::size_t>(copy.shape[a]));
            rest /= static_cast<std::size_t>(copy.shape[a]);
            at_from += index * copy.from_strides[a];
            at_to += index * copy.to_strides[a];
        }
        to[at_to] = from[at_from];
    }
}

// c = a b for matrices.
inline std::vector<double> matmul(const Tensor& a, const Tensor& b) {
    const auto n = static_cast<std::size_t>(a.shape[0]);
    const auto k = static_cast<std::size_t>(a.shape[1]);
    const auto m = static_cast<std::size_t>(b.shape[1]);
    std::vector<double> c(n * m);
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < m; ++j) {
            for (std::size_t t = 0; t < k; ++t)
                c[i * m + j] += double{a.values<float>()[i * k + t]} * b.values<float>()[t * m + j];
        }
    }
    return c;
}

struct Conv2d {
    std::int64_t stride = 1;
    std::int64_t dilation = 1;
    std::int64_t pad = 0;
    std::int64_t groups = 1;
};

// x: images x channels x height x width, w: outputs x channels / groups x kernel x kernel.
inline std::vector<double> conv2d(const Tensor& x, const Tensor& w, const Conv2d& c, Shape& shape) {
    const auto size = [&](std::int64_t in, std::int64_t kernel) {
        return (in + 2 * c.pad - (kernel - 1) * c.dilation - 1) / c.stride + 1;
    };
    shape = {x.shape[0], w.shape[0], size(x.shape[2], w.shape[2]), size(x.shape[3], w.shape[3])};
    std::vector<double> y;
    const auto per_group = w.shape[0] / c.groups;
    for (std::int64_t n = 0; n < shape[0]; ++n) {
        for (std::int64_t m = 0; m < shape[1]; ++m) {
            for (std::int64_t r = 0; r < shape[2]; ++r) {
                for (std::int64_t s = 0; s < shape[3]; ++s) {
                    double sum = 0;
                    for (std::int64_t k = 0; k < w.shape[1]; ++k) {
                        for (std::int64_t i = 0; i < w.shape[2]; ++i) {
                            for (std::int64_t j = 0; j < w.shape[3]; ++j) {
                                const auto row = r * c.stride - c.pad + i * c.dilation;
                                const auto col = s * c.stride - c.pad + j * c.dilation;
                                if (row < 0 || col < 0 || row >= x.shape[2] || col >= x.shape[3]) continue;
                                const auto channel = m / per_group * w.shape[1] + k;
                                const auto at =
                                    ((n * x.shape[1] + channel) * x.shape[2] + row) * x.shape[3] + col;
                                const auto weight = ((m * w.shape[1] + k) * w.shape[2] + i) * w.shape[3] + j;
                                sum += double{x.values<float>()[static_cast<std::size_t>(at)]} *
                                       w.values<float>()[static_cast<std::size_t>(weight)];
                            }
                        }
                    }
                    y.push_back(sum);
                }
            }
        }
    }
    return y;
}

}  // namespace imka::graph::reference
