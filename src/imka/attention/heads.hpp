// Queries, keys and values of several heads, in either of the two usual layouts.
#pragma once

#include <cassert>
#include <cstddef>
#include <type_traits>

#include "imka/base/matrix.hpp"

namespace imka {

// heads x length x size. Does not own memory.
template <class T>
class HeadsView {
public:
    HeadsView() = default;
    HeadsView(MatrixView<T> first, std::size_t heads, std::size_t head_stride)
        : first_(first), heads_(heads), head_stride_(head_stride) {}
    // One head.
    HeadsView(MatrixView<T> head) : HeadsView(head, 1, 0) {}
    // A view of mutable values is also a view of constant ones.
    template <class U>
    requires(std::is_same_v<const U, T>) HeadsView(const HeadsView<U>& other)
        : HeadsView(other.heads() > 0 ? other.head(0) : MatrixView<U>(), other.heads(), other.head_stride()) {
    }

    std::size_t heads() const { return heads_; }
    std::size_t length() const { return first_.rows(); }
    std::size_t size() const { return first_.cols(); }  // per head
    std::size_t head_stride() const { return head_stride_; }
    MatrixView<T> head(std::size_t h) const {
        assert(h < heads_);
        return {first_.data() + h * head_stride_, first_.rows(), first_.cols(), first_.stride()};
    }

private:
    MatrixView<T> first_;
    std::size_t heads_ = 0;
    std::size_t head_stride_ = 0;
};

struct HeadsShape {
    std::size_t heads = 0;
    std::size_t length = 0;
    std::size_t size = 0;
};
// One head after another: (heads, length, size).
template <class T>
HeadsView<T> heads_first(T* data, const HeadsShape& s) {
    return {MatrixView<T>(data, s.length, s.size), s.heads, s.length * s.size};
}
// One token after another, each with all heads: (length, heads * size).
template <class T>
HeadsView<T> tokens_first(T* data, const HeadsShape& s) {
    return {MatrixView<T>(data, s.length, s.size, s.heads * s.size), s.heads, s.size};
}

}  // namespace imka
