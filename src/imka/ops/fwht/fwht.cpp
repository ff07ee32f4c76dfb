#include "imka/ops/fwht/fwht.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstddef>

#include "imka/base/error.hpp"

namespace imka {
namespace {

// Butterflies of one level: (a, b) -> (a + b, a - b) on halves of `half` neighbours.
template <class T>
void butterflies(std::span<T> values, std::size_t half) {
    for (std::size_t start = 0; start < values.size(); start += 2 * half) {
        T* low = values.data() + start;
        T* high = low + half;
        for (std::size_t j = 0; j < half; ++j) {
            const T a = low[j];
            const T b = high[j];
            low[j] = a + b;
            high[j] = a - b;
        }
    }
}

template <class T>
void transform(std::span<T> values) {
    if (!std::has_single_bit(values.size())) {
        fail(ErrorCode::bad_usage,
             fmt::format("fwht: {} values; the number must be a power of two", values.size()));
    }
    for (std::size_t half = 1; half < values.size(); half *= 2) butterflies(values, half);
}

}  // namespace

void fwht(std::span<float> values) {
    transform(values);
}

void fwht(std::span<double> values) {
    transform(values);
}

}  // namespace imka
