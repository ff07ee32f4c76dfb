// Loops over the elements of tensors of any type: blocks are widened to one of four types (tensor.hpp) unless
// they already have it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/graph/copy.hpp"
#include "imka/graph/operator.hpp"

namespace imka::graph {

inline constexpr std::size_t kBlock = 512;       // elements widened at a time
inline constexpr std::size_t kPart = 1U << 15U;  // elements per parallel part

// Elements first, first + 1, ... as type C: in place where the tensor has this type, else in `buffer`.
template <class C>
const C* load_block(const TensorView& t, std::size_t first, std::size_t count,
                    std::array<C, kBlock>& buffer) {
    if (dtype_of<C>() == t.type) return reinterpret_cast<const C*>(t.data) + first;
    visit_dtype(t.type, [&](auto zero) {
        using T = decltype(zero);
        const auto* values = reinterpret_cast<const T*>(t.data) + first;
        for (std::size_t i = 0; i < count; ++i) buffer[i] = converted<C>(values[i]);
    });
    return buffer.data();
}

template <class C>
void store_block(const std::array<C, kBlock>& buffer, std::size_t first, std::size_t count,
                 const MutableTensorView& t) {
    visit_dtype(t.type, [&](auto zero) {
        using T = decltype(zero);
        auto* values = reinterpret_cast<T*>(t.data) + first;
        for (std::size_t i = 0; i < count; ++i) values[i] = converted<T>(buffer[i]);
    });
}

// Location of the elements of a broadcast input for one run of output elements.
struct BroadcastRun {
    std::size_t offset;  // of the first element
    bool repeated;       // one element for the whole run
};

// An output as runs of equal length, such that along a run every input is either contiguous or one element.
class Broadcast {
public:
    Broadcast(const Shape& out, const std::vector<const TensorView*>& inputs);
    std::size_t runs() const { return runs_; }
    std::size_t run_length() const { return length_; }
    BroadcastRun input(std::size_t k, std::size_t run) const;

private:
    std::vector<std::size_t> outer_;                 // sizes of the axes that number the runs
    std::vector<std::vector<std::size_t>> strides_;  // per input; of the outer axes
    std::vector<bool> repeated_;
    std::size_t runs_ = 1;
    std::size_t length_ = 1;
};

// Calls body(std::size_t out, std::size_t count, const std::vector<BroadcastRun>& inputs) in parallel for
// blocks of at most kPart elements; `out` is the offset of the block in the output.
template <class Body>
void for_blocks(const Broadcast& b, std::size_t inputs, const Exec& exec, const Body& body) {
    const std::size_t length = b.run_length();
    if (length == 0 || b.runs() == 0) return;
    const std::size_t per_run = (length + kPart - 1) / kPart;
    const std::size_t grain = std::max<std::size_t>(1, kPart / length);
    for_parts(exec, b.runs() * per_run, grain, [&](std::size_t first, std::size_t count) {
        std::vector<BroadcastRun> at(inputs);
        for (std::size_t p = first; p < first + count; ++p) {
            const std::size_t run = p / per_run;
            const std::size_t begin = p % per_run * kPart;
            for (std::size_t k = 0; k < inputs; ++k) {
                at[k] = b.input(k, run);
                if (!at[k].repeated) at[k].offset += begin;
            }
            body(run * length + begin, std::min(kPart, length - begin), at);
        }
    });
}

}  // namespace imka::graph
