#include "imka/data/split.hpp"

#include <fmt/format.h>

#include <limits>

#include "imka/base/error.hpp"
#include "imka/base/random.hpp"

namespace imka {

Split random_halves(std::uint64_t rows, std::uint64_t seed) {
    if (rows < 2) fail(ErrorCode::bad_data, fmt::format("cannot split {} row(s) into two parts", rows));
    if (rows > std::numeric_limits<std::uint32_t>::max())
        fail(ErrorCode::bad_data, fmt::format("cannot split {} rows; the maximum is 2^32 - 1", rows));
    const auto order = permutation(seed, Stream::split, static_cast<std::uint32_t>(rows));
    const auto middle = order.begin() + static_cast<std::ptrdiff_t>(rows / 2);
    return {.train = {order.begin(), middle}, .test = {middle, order.end()}};
}

}  // namespace imka
