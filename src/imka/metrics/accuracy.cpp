#include "imka/metrics/accuracy.hpp"

#include <cassert>
#include <cstddef>

namespace imka {

std::size_t count_right(std::span<const std::int32_t> truth, std::span<const std::int32_t> predicted) {
    assert(truth.size() == predicted.size());
    std::size_t right = 0;
    for (std::size_t i = 0; i < truth.size(); ++i) right += truth[i] == predicted[i] ? 1 : 0;
    return right;
}

double accuracy(std::span<const std::int32_t> truth, std::span<const std::int32_t> predicted) {
    assert(!truth.empty());
    return static_cast<double>(count_right(truth, predicted)) / static_cast<double>(truth.size());
}

}  // namespace imka
