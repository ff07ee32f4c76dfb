// Copies between two tensors with any strides: transpose, slice, concatenate, expand, tile.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/parallel.hpp"
#include "imka/graph/tensor.hpp"

namespace imka::graph {

// Element i of the shape goes from `from + from_strides . i` to `to + to_strides . i`; strides in elements. A
// stride of `from` may be negative or 0; elements of `to` are distinct.
struct StridedCopy {
    Shape shape;
    std::vector<std::int64_t> from_strides;
    std::vector<std::int64_t> to_strides;
};
// `from` and `to` point to the first element.
void copy_strided(const StridedCopy& copy, std::size_t element_bytes, const Exec& exec, const std::byte* from,
                  std::byte* to);

// Axis i of the result is axis order[i] of the input.
void transpose(const TensorView& in, const std::vector<std::size_t>& order, const Exec& exec,
               const MutableTensorView& out);
// Repeats sizes of 1, and adds axes at the front.
void expand(const TensorView& in, const Exec& exec, const MutableTensorView& out);

// A tensor as rows of `inner` elements around an axis: outer x axis x inner.
struct AroundAxis {
    std::size_t outer = 1;
    std::size_t axis = 1;
    std::size_t inner = 1;
};
AroundAxis around(const Shape& shape, std::size_t axis);

// Calls body(first, count) for parts of [0, count) of about `grain` each, in parallel. Parts do not depend on
// the number of threads.
template <class Body>
void for_parts(const Exec& exec, std::size_t count, std::size_t grain, const Body& body) {
    if (count == 0) return;
    const std::size_t part = std::max<std::size_t>(grain, 1);
    const std::size_t parts = (count + part - 1) / part;
    if (parts == 1) return body(std::size_t{0}, count);
    parallel_for(exec, parts, [&](std::size_t p) { body(p * part, std::min(part, count - p * part)); });
}

}  // namespace imka::graph
