// Operators that select elements by index: gather, scatter, one-hot, top k, ...
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "imka/graph/copy.hpp"
#include "imka/graph/operator.hpp"

namespace imka::graph {
namespace {

using Ints = std::vector<std::int64_t>;

std::size_t checked_index(const Node& node, std::int64_t index, std::int64_t size) {
    if (index < -size || index >= size)
        fail_node(node, fmt::format("index {} is out of range for size {}", index, size));
    return static_cast<std::size_t>(index < 0 ? index + size : index);
}

void check_index_type(const Inference& i, std::size_t input) {
    if (i.type(input) != DType::i64 && i.type(input) != DType::i32)
        fail_node(i.node, fmt::format("indices must be i32 or i64, not {}", to_string(i.type(input))));
}

void infer_gather(Inference& i) {
    check_index_type(i, 1);
    if (!i.ranked(0) || !i.ranked(1)) return i.set(0, i.type(0), std::nullopt);
    const auto& data = i.dims(0);
    const auto axis = axis_of(i.node, int_attribute(i.node, "axis", 0), data.size());
    Dims dims(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(axis));
    dims.insert(dims.end(), i.dims(1).begin(), i.dims(1).end());
    dims.insert(dims.end(), data.begin() + static_cast<std::ptrdiff_t>(axis) + 1, data.end());
    i.set(0, i.type(0), std::move(dims));
}

void run_gather(const Operands& o) {
    const auto& in = o.in(0);
    const auto axis = axis_of(o.node, int_attribute(o.node, "axis", 0), in.shape.size());
    const auto a = around(in.shape, axis);
    const auto indices = to_ints(o.in(1));
    const std::size_t bytes = a.inner * byte_size(in.type);
    for (std::size_t outer = 0; outer < a.outer; ++outer) {
        for (std::size_t k = 0; k < indices.size(); ++k) {
            const auto index = checked_index(o.node, indices[k], in.shape[axis]);
            if (bytes > 0)
                std::memcpy(o.out(0).data + (outer * indices.size() + k) * bytes,
                            in.data + (outer * a.axis + index) * bytes, bytes);
        }
    }
}

void check_same_rank(const Inference& i, std::size_t a, std::size_t b) {
    if (i.ranked(a) && i.ranked(b) && i.dims(a).size() != i.dims(b).size())
        fail_node(i.node, fmt::format("inputs {} and {} have different numbers of axes: {} and {}", a, b,
                                      i.dims(a).size(), i.dims(b).size()));
}

void check_elements_fit(const Inference& i, std::size_t indices, std::size_t axis) {
    if (!i.ranked(0) || !i.ranked(indices)) return;
    for (std::size_t k = 0; k < i.dims(0).size(); ++k) {
        const auto& data = i.dims(0)[k];
        const auto& index = i.dims(indices)[k];
        if (k != axis && data.known() && index.known() && index.size > data.size)
            fail_node(i.node, fmt::format("indices have size {} along axis {}, but the input has size {}",
                                          index.size, k, data.size));
    }
}

void infer_gather_elements(Inference& i) {
    check_index_type(i, 1);
    check_same_rank(i, 0, 1);
    if (i.ranked(0))
        check_elements_fit(i, 1, axis_of(i.node, int_attribute(i.node, "axis", 0), i.dims(0).size()));
    i.set(0, i.type(0), i.inputs[1].type->dims);
}

// Calls body(k, offset): element k of the indices selects the element of the tensor `shape` at this offset.
template <class Body>
void for_elements(const Node& node, const Shape& shape, const TensorView& indices, const Body& body) {
    const auto axis = axis_of(node, int_attribute(node, "axis", 0), shape.size());
    const auto strides = strides_of(shape);
    const auto values = to_ints(indices);
    for (std::size_t k = 0; k < values.size(); ++k) {
        std::size_t rest = k;
        std::size_t offset = 0;
        for (std::size_t a = shape.size(); a-- > 0;) {
            const auto size = static_cast<std::size_t>(indices.shape[a]);
            const auto at = a == axis ? checked_index(node, values[k], shape[a]) : rest % size;
            offset += at * static_cast<std::size_t>(strides[a]);
            rest /= size;
        }
        body(k, offset);
    }
}

void run_gather_elements(const Operands& o) {
    const std::size_t bytes = byte_size(o.in(0).type);
    for_elements(o.node, o.in(0).shape, o.in(1), [&](std::size_t k, std::size_t offset) {
        std::memcpy(o.out(0).data + k * bytes, o.in(0).data + offset * bytes, bytes);
    });
}

enum class Reduction { none, add, mul, min, max };

Reduction reduction_of(const Node& node) {
    constexpr std::string_view kNames[] = {"none", "add", "mul", "min", "max"};
    const auto text = text_attribute(node, "reduction", "none");
    const auto found = std::ranges::find(kNames, text);
    if (found == std::end(kNames)) fail_node(node, fmt::format("unknown reduction {}", in_quotes(text)));
    return static_cast<Reduction>(found - std::begin(kNames));
}

template <class T>
T reduced(Reduction reduction, T old, T update) {
    const auto a = widened(old);
    const auto b = widened(update);
    switch (reduction) {
        case Reduction::add:
            return converted<T>(add_wrapped(a, b));
        case Reduction::mul:
            return converted<T>(mul_wrapped(a, b));
        case Reduction::min:
            return b < a ? update : old;
        case Reduction::max:
            return b > a ? update : old;
        case Reduction::none:
            break;
    }
    return update;
}

void infer_scatter_elements(Inference& i) {
    check_index_type(i, 1);
    check_same_type(i, 0, 2);
    check_same_rank(i, 0, 1);
    check_same_rank(i, 1, 2);
    (void)reduction_of(i.node);
    if (i.ranked(0))
        check_elements_fit(i, 1, axis_of(i.node, int_attribute(i.node, "axis", 0), i.dims(0).size()));
    if (i.ranked(1) && i.ranked(2)) {
        for (std::size_t a = 0; a < i.dims(1).size(); ++a) (void)same_dim(i.node, i.dims(1)[a], i.dims(2)[a]);
    }
    infer_same(i);
}

void run_scatter_elements(const Operands& o) {
    const auto reduction = reduction_of(o.node);
    if (o.in(0).bytes() > 0) std::memcpy(o.out(0).data, o.in(0).data, o.in(0).bytes());
    visit_dtype(o.in(0).type, [&](auto zero) {
        using T = decltype(zero);
        const auto out = o.out(0).template values<T>();
        const auto updates = o.in(2).template values<T>();
        for_elements(o.node, o.in(0).shape, o.in(1), [&](std::size_t k, std::size_t offset) {
            out[offset] = reduced(reduction, out[offset], updates[k]);
        });
    });
}

// Index tuples of GatherND and ScatterND: the last axis of the indices.
std::size_t tuple_length(const Inference& i, std::size_t batch) {
    const auto& indices = i.dims(1);
    if (indices.empty() || !indices.back().known())
        fail_node(i.node, "the size of the last axis of the indices must be known");
    const auto n = indices.back().size;
    if (n < 1 || static_cast<std::size_t>(n) + batch > i.dims(0).size())
        fail_node(i.node, fmt::format("index tuples have {} elements, but the input has {} axes to index", n,
                                      i.dims(0).size() - batch));
    return static_cast<std::size_t>(n);
}

std::size_t batch_axes(const Node& node, std::size_t rank_of_indices) {
    const auto batch = int_attribute(node, "batch_dims", 0);
    if (batch < 0 || static_cast<std::size_t>(batch) >= rank_of_indices)
        fail_node(node, fmt::format("batch_dims {} is out of range", batch));
    return static_cast<std::size_t>(batch);
}

void infer_gather_nd(Inference& i) {
    check_index_type(i, 1);
    if (!i.ranked(0) || !i.ranked(1) || i.dims(1).empty() || !i.dims(1).back().known())
        return i.set(0, i.type(0), std::nullopt);
    const auto batch = batch_axes(i.node, i.dims(1).size());
    if (batch >= i.dims(0).size()) fail_node(i.node, fmt::format("batch_dims {} is out of range", batch));
    const auto n = tuple_length(i, batch);
    Dims dims(i.dims(1).begin(), i.dims(1).end() - 1);
    for (std::size_t a = 0; a < batch; ++a) dims[a] = same_dim(i.node, dims[a], i.dims(0)[a]);
    dims.insert(dims.end(), i.dims(0).begin() + static_cast<std::ptrdiff_t>(batch + n), i.dims(0).end());
    i.set(0, i.type(0), std::move(dims));
}

// Calls body(k, offset) for every tuple k; `offset` is the position of the block that the tuple selects, in
// elements.
template <class Body>
void for_tuples(const Operands& o, std::size_t batch, const Body& body) {
    const auto& data = o.in(0).shape;
    const auto strides = strides_of(data);
    const auto& shape = o.in(1).shape;
    const auto n = static_cast<std::size_t>(shape.back());
    const auto indices = to_ints(o.in(1));
    const std::size_t tuples = indices.size() / n;
    std::size_t batches = 1;
    for (std::size_t a = 0; a < batch; ++a) batches *= static_cast<std::size_t>(shape[a]);
    for (std::size_t k = 0; k < tuples; ++k) {
        std::size_t offset = 0;
        if (batch > 0) offset = k / (tuples / batches) * static_cast<std::size_t>(strides[batch - 1]);
        for (std::size_t t = 0; t < n; ++t) {
            offset += checked_index(o.node, indices[k * n + t], data[batch + t]) *
                      static_cast<std::size_t>(strides[batch + t]);
        }
        body(k, offset);
    }
}

std::size_t block_length(const Shape& data, std::size_t first_axis) {
    std::size_t length = 1;
    for (std::size_t a = first_axis; a < data.size(); ++a) length *= static_cast<std::size_t>(data[a]);
    return length;
}

void run_gather_nd(const Operands& o) {
    const auto batch = batch_axes(o.node, o.in(1).shape.size());
    const std::size_t bytes =
        block_length(o.in(0).shape, batch + static_cast<std::size_t>(o.in(1).shape.back())) *
        byte_size(o.in(0).type);
    if (bytes == 0) return;
    for_tuples(o, batch, [&](std::size_t k, std::size_t offset) {
        std::memcpy(o.out(0).data + k * bytes, o.in(0).data + offset * byte_size(o.in(0).type), bytes);
    });
}

void infer_scatter_nd(Inference& i) {
    check_index_type(i, 1);
    check_same_type(i, 0, 2);
    (void)reduction_of(i.node);
    if (i.ranked(0) && i.ranked(1) && i.ranked(2) && !i.dims(1).empty() && i.dims(1).back().known()) {
        const auto n = tuple_length(i, 0);
        Dims dims(i.dims(1).begin(), i.dims(1).end() - 1);
        dims.insert(dims.end(), i.dims(0).begin() + static_cast<std::ptrdiff_t>(n), i.dims(0).end());
        if (dims.size() != i.dims(2).size()) fail_node(i.node, "the updates have the wrong number of axes");
        for (std::size_t a = 0; a < dims.size(); ++a) (void)same_dim(i.node, dims[a], i.dims(2)[a]);
    }
    infer_same(i);
}

void run_scatter_nd(const Operands& o) {
    const auto reduction = reduction_of(o.node);
    const std::size_t block = block_length(o.in(0).shape, static_cast<std::size_t>(o.in(1).shape.back()));
    if (o.in(0).bytes() > 0) std::memcpy(o.out(0).data, o.in(0).data, o.in(0).bytes());
    visit_dtype(o.in(0).type, [&](auto zero) {
        using T = decltype(zero);
        const auto out = o.out(0).template values<T>();
        const auto updates = o.in(2).template values<T>();
        for_tuples(o, 0, [&](std::size_t k, std::size_t offset) {
            for (std::size_t e = 0; e < block; ++e)
                out[offset + e] = reduced(reduction, out[offset + e], updates[k * block + e]);
        });
    });
}

void infer_one_hot(Inference& i) {
    std::optional<Dims> dims;
    if (i.ranked(0)) {
        dims = i.dims(0);
        const auto axis = axis_of(i.node, int_attribute(i.node, "axis", -1), dims->size() + 1);
        Dim depth;
        if (i.inputs[1].value != nullptr) {
            const double size = to_number(*i.inputs[1].value);
            if (!(size >= 0 && size < 1e9)) fail_node(i.node, fmt::format("depth {} is out of range", size));
            depth.size = static_cast<std::int64_t>(size);
        }
        dims->insert(dims->begin() + static_cast<std::ptrdiff_t>(axis), depth);
    }
    if (i.ranked(2) && (i.dims(2).size() != 1 || (i.dims(2)[0].known() && i.dims(2)[0].size != 2)))
        fail_node(i.node, "values must have 2 elements: off and on");
    i.set(0, i.type(2), std::move(dims));
}

void run_one_hot(const Operands& o) {
    const auto& out = o.out(0);
    const auto axis = axis_of(o.node, int_attribute(o.node, "axis", -1), out.shape.size());
    const auto a = around(out.shape, axis);
    const auto depth = static_cast<std::int64_t>(a.axis);
    visit_dtype(out.type, [&](auto zero) {
        using T = decltype(zero);
        const auto values = o.in(2).template values<T>();
        std::ranges::fill(out.template values<T>(), values[0]);
        visit_dtype(o.in(0).type, [&](auto index_zero) {
            const auto indices = o.in(0).template values<decltype(index_zero)>();
            for (std::size_t k = 0; k < indices.size(); ++k) {
                auto index = converted<std::int64_t>(indices[k]);
                if (index < 0) index += depth;
                if (index < 0 || index >= depth) continue;  // such rows keep the off value
                const std::size_t outer = k / a.inner;
                const std::size_t at =
                    (outer * a.axis + static_cast<std::size_t>(index)) * a.inner + k % a.inner;
                out.template values<T>()[at] = values[1];
            }
        });
    });
}

std::optional<std::size_t> compress_axis(const Node& node, std::size_t rank) {
    if (!has_attribute(node, "axis")) return std::nullopt;
    return axis_of(node, int_attribute(node, "axis", 0), rank);
}

void infer_compress(Inference& i) {
    if (i.type(1) != DType::bool_) fail_node(i.node, "the condition must be bool");
    if (!i.ranked(0)) return i.set(0, i.type(0), std::nullopt);
    const auto axis = compress_axis(i.node, i.dims(0).size());
    Dim count;
    if (const auto condition = i.ints(1)) {
        auto length = condition->size();
        if (const auto shape = known_shape(*i.inputs[0].type)) {
            const auto most = axis ? static_cast<std::size_t>((*shape)[*axis]) : element_count(*shape);
            length = std::min(length, most);
        }
        count.size = std::accumulate(
            condition->begin(), condition->begin() + static_cast<std::ptrdiff_t>(length), std::int64_t{0});
    }
    if (!axis) return i.set(0, i.type(0), Dims{count});
    Dims dims = i.dims(0);
    dims[*axis] = count;
    i.set(0, i.type(0), std::move(dims));
}

void run_compress(const Operands& o) {
    const auto& in = o.in(0);
    const auto axis = compress_axis(o.node, in.shape.size());
    const auto a = axis ? around(in.shape, *axis) : AroundAxis{1, in.count(), 1};
    const auto condition = o.in(1).values<bool>();
    const std::size_t bytes = a.inner * byte_size(in.type);
    std::byte* to = o.out(0).data;
    for (std::size_t outer = 0; outer < a.outer; ++outer) {
        for (std::size_t k = 0; k < std::min(a.axis, condition.size()); ++k) {
            if (!condition[k] || bytes == 0) continue;
            std::memcpy(to, in.data + (outer * a.axis + k) * bytes, bytes);
            to += bytes;
        }
    }
}

std::vector<std::size_t> nonzero_of(const TensorView& t) {
    std::vector<std::size_t> found;
    visit_dtype(t.type, [&](auto zero) {
        const auto values = t.values<decltype(zero)>();
        for (std::size_t k = 0; k < values.size(); ++k) {
            if (widened(values[k]) != 0) found.push_back(k);
        }
    });
    return found;
}

void infer_nonzero(Inference& i) {
    Dims dims(2);
    if (i.ranked(0)) dims[0] = {static_cast<std::int64_t>(i.dims(0).size())};
    if (i.inputs[0].value != nullptr)
        dims[1] = {static_cast<std::int64_t>(nonzero_of(*i.inputs[0].value).size())};
    i.set(0, DType::i64, std::move(dims));
}

void run_nonzero(const Operands& o) {
    const auto found = nonzero_of(o.in(0));
    const auto& shape = o.in(0).shape;
    const auto strides = strides_of(shape);
    const auto out = o.out(0).values<std::int64_t>();
    for (std::size_t a = 0; a < shape.size(); ++a) {
        for (std::size_t k = 0; k < found.size(); ++k)
            out[a * found.size() + k] = static_cast<std::int64_t>(found[k]) / strides[a] % shape[a];
    }
}

void infer_top_k(Inference& i) {
    std::optional<Dims> dims = i.inputs[0].type->dims;
    const auto k = i.has(1) ? i.ints(1) : Ints{int_attribute(i.node, "k", 0)};
    if (dims) {
        auto& dim = (*dims)[axis_of(i.node, int_attribute(i.node, "axis", -1), dims->size())];
        if (k && (k->size() != 1 || k->front() < 0 || (dim.known() && k->front() > dim.size)))
            fail_node(i.node, "k must be one number, at most the size of the axis");
        dim = k ? Dim{k->front()} : Dim{};
    }
    i.set(0, i.type(0), dims);
    i.set(1, DType::i64, dims);
}

void run_top_k(const Operands& o) {
    const auto& in = o.in(0);
    const auto axis = axis_of(o.node, int_attribute(o.node, "axis", -1), in.shape.size());
    const auto a = around(in.shape, axis);
    const bool largest = int_attribute(o.node, "largest", 1) != 0;
    const auto k = around((o.wants(0) ? o.out(0) : o.out(1)).shape, axis).axis;
    visit_dtype(in.type, [&](auto zero) {
        using T = decltype(zero);
        const auto values = in.template values<T>();
        std::vector<std::size_t> order(a.axis);
        for (std::size_t row = 0; row < a.outer * a.inner; ++row) {
            const std::size_t first = row / a.inner * a.axis * a.inner + row % a.inner;
            const auto value = [&](std::size_t e) { return widened(values[first + e * a.inner]); };
            std::iota(order.begin(), order.end(), 0);
            std::ranges::stable_sort(order, [&](std::size_t x, std::size_t y) {
                return largest ? value(x) > value(y) : value(x) < value(y);
            });
            for (std::size_t e = 0; e < k; ++e) {
                const std::size_t to = (row / a.inner * k + e) * a.inner + row % a.inner;
                if (o.wants(0)) o.out(0).template values<T>()[to] = values[first + order[e] * a.inner];
                if (o.wants(1))
                    o.out(1).template values<std::int64_t>()[to] = static_cast<std::int64_t>(order[e]);
            }
        }
    });
}

// The first lengths[b] steps of each sequence b, reversed.
void infer_reverse_sequence(Inference& i) {
    if (i.ranked(0) && i.dims(0).size() < 2) fail_node(i.node, "the input must have at least 2 axes");
    const auto time = int_attribute(i.node, "time_axis", 0);
    const auto batch = int_attribute(i.node, "batch_axis", 1);
    if (time + batch != 1 || time * batch != 0)
        fail_node(i.node, "one of time_axis and batch_axis must be 0, the other 1");
    infer_same(i);
}

void run_reverse_sequence(const Operands& o) {
    const auto& shape = o.in(0).shape;
    const bool time_first = int_attribute(o.node, "time_axis", 0) == 0;
    const auto steps = static_cast<std::size_t>(shape[time_first ? 0 : 1]);
    const auto batch = static_cast<std::size_t>(shape[time_first ? 1 : 0]);
    const auto lengths = to_ints(o.in(1));
    if (lengths.size() != batch) fail_node(o.node, "expected one length per sequence");
    const std::size_t bytes = block_length(shape, 2) * byte_size(o.in(0).type);
    const auto at = [&](std::size_t b, std::size_t t) {
        return (time_first ? t * batch + b : b * steps + t) * bytes;
    };
    for (std::size_t b = 0; b < batch && bytes > 0; ++b) {
        if (lengths[b] < 0 || lengths[b] > static_cast<std::int64_t>(steps))
            fail_node(o.node, fmt::format("length {} is out of range", lengths[b]));
        const auto length = static_cast<std::size_t>(lengths[b]);
        for (std::size_t t = 0; t < steps; ++t)
            std::memcpy(o.out(0).data + at(b, t), o.in(0).data + at(b, t < length ? length - 1 - t : t),
                        bytes);
    }
}

void infer_trilu(Inference& i) {
    if (i.ranked(0) && i.dims(0).size() < 2) fail_node(i.node, "the input must have at least 2 axes");
    if (const auto k = i.ints(1); k && k->size() != 1) fail_node(i.node, "k must be one number");
    infer_same(i);
}

void run_trilu(const Operands& o) {
    const auto& shape = o.in(0).shape;
    const bool upper = int_attribute(o.node, "upper", 1) != 0;
    const auto rows = shape[shape.size() - 2];
    const auto cols = shape.back();
    const auto k = std::clamp(o.has(1) ? to_ints(o.in(1)).front() : 0, -rows - 1, cols + 1);
    const auto bytes = static_cast<std::int64_t>(byte_size(o.in(0).type));
    if (o.in(0).count() == 0) return;
    std::memset(o.out(0).data, 0, o.out(0).bytes());
    const auto matrices = static_cast<std::int64_t>(o.in(0).count()) / (rows * cols);
    for (std::int64_t r = 0; r < matrices * rows; ++r) {
        const auto diagonal = std::clamp<std::int64_t>(r % rows + k, -1, cols);  // column of the diagonal
        const auto first = upper ? std::max<std::int64_t>(diagonal, 0) : 0;
        const auto last = upper ? cols : std::min<std::int64_t>(diagonal + 1, cols);
        const auto at = (r * cols + first) * bytes;
        if (last > first)
            std::memcpy(o.out(0).data + at, o.in(0).data + at,
                        static_cast<std::size_t>((last - first) * bytes));
    }
}

}  // namespace

std::span<const Operator> gather_operators() {
    static const Operator rows[] = {
        {"Gather", 1, 2, 2, infer_gather, run_gather},
        {"GatherElements", 11, 2, 2, infer_gather_elements, run_gather_elements},
        {"GatherND", 11, 2, 2, infer_gather_nd, run_gather_nd},
        {"ScatterElements", 11, 3, 3, infer_scatter_elements, run_scatter_elements},
        {"ScatterND", 11, 3, 3, infer_scatter_nd, run_scatter_nd},
        {"OneHot", 9, 3, 3, infer_one_hot, run_one_hot},
        {"Compress", 9, 2, 2, infer_compress, run_compress},
        {"NonZero", 9, 1, 1, infer_nonzero, run_nonzero},
        {"TopK", 1, 1, 1, infer_top_k, run_top_k},
        {"TopK", 10, 2, 2, infer_top_k, run_top_k},
        {"ReverseSequence", 10, 2, 2, infer_reverse_sequence, run_reverse_sequence},
        {"Trilu", 14, 1, 2, infer_trilu, run_trilu},
    };
    return rows;
}

}  // namespace imka::graph
