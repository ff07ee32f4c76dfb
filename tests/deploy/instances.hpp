// Generated packing problems for bins of 256 x 256, of four kinds of rectangles:
//   layers   (40 %) tiles of layers: channels 8 to 1024, kernels 1 x 1 (70 %) or 3 x 3, cut at multiples of
//   256 matrices (40 %) tiles of matrices whose sides are log-uniform from 1 to 1024, cut at multiples of 256
//   small    (10 %) sides uniform from 1 to 128
//   mixed    (10 %) sides uniform from 1 to 256
// The number of rectangles is log-uniform from 10 to 1,000.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "imka/base/random.hpp"
#include "imka/deploy/pack.hpp"

namespace imka {

inline constexpr PackBin kTestBin{.rows = 256, .cols = 256};

struct Draw {
    std::uint64_t seed = 0;
    std::uint64_t next = 0;
    double real() { return uniform(seed, Stream::test, next++); }
    std::uint32_t between(std::uint32_t least, std::uint32_t most) {
        return least + static_cast<std::uint32_t>(uniform_int(seed, Stream::test, next++, most - least + 1));
    }
    std::uint32_t log_uniform(double most) { return static_cast<std::uint32_t>(std::pow(most, real())); }
};

inline std::vector<PackItem> cut_matrix(std::uint32_t rows, std::uint32_t cols) {
    std::vector<PackItem> items;
    for (std::uint32_t r = 0; r < rows; r += kTestBin.rows) {
        for (std::uint32_t c = 0; c < cols; c += kTestBin.cols)
            items.push_back({std::min(kTestBin.rows, rows - r), std::min(kTestBin.cols, cols - c)});
    }
    return items;
}

inline std::vector<PackItem> random_matrix(int kind, Draw& draw) {
    constexpr std::array<std::uint32_t, 17> kChannels = {8,   16,  24,  32,  48,  64,  96,  128, 160,
                                                         192, 256, 320, 384, 512, 640, 768, 1024};
    if (kind == 0) {
        const auto in = kChannels[draw.between(0, 16)];
        const auto kernel = draw.real() < 0.3 ? 9U : 1U;
        return cut_matrix(kernel * in, kChannels[draw.between(0, 16)]);
    }
    if (kind == 1) {
        const auto rows = draw.log_uniform(1024.0);
        return cut_matrix(rows, draw.log_uniform(1024.0));
    }
    const std::uint32_t most = kind == 2 ? 128 : 256;
    const auto rows = draw.between(1, most);
    return {{rows, draw.between(1, most)}};
}

// 0 to 3, in the order above.
inline int kind_of(std::uint64_t number) {
    const auto share = number % 10;
    return share < 4 ? 0 : (share < 8 ? 1 : static_cast<int>(share) - 6);
}

inline std::vector<PackItem> random_instance(std::uint64_t number) {
    Draw draw{.seed = number};
    const auto count = static_cast<std::size_t>(10.0 * std::pow(100.0, draw.real()));
    std::vector<PackItem> items;
    while (items.size() < count) {
        for (const auto& item : random_matrix(kind_of(number), draw)) {
            if (items.size() < count) items.push_back(item);
        }
    }
    return items;
}

}  // namespace imka
