// Operators that move elements without computing: reshape, transpose, concatenate, slice, pad, ...
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "imka/graph/copy.hpp"
#include "imka/graph/operator.hpp"

namespace imka::graph {
namespace {

using Ints = std::vector<std::int64_t>;

// The product of sizes that are all known.
std::optional<std::int64_t> known_product(const Dims& dims) {
    std::int64_t product = 1;
    for (const auto& dim : dims) {
        if (!dim.known() || __builtin_mul_overflow(product, dim.size, &product)) return std::nullopt;
    }
    return product;
}

// Reshape: 0 keeps a size (unless allowzero), -1 takes what is left.
Dims reshaped(const Inference& i, const Ints& wanted) {
    const bool keep_zero = int_attribute(i.node, "allowzero", 0) != 0;
    Dims dims;
    std::optional<std::size_t> rest;
    for (std::size_t a = 0; a < wanted.size(); ++a) {
        if (wanted[a] < -1) fail_node(i.node, fmt::format("invalid size {} in the shape", wanted[a]));
        if (wanted[a] == -1) {
            if (rest) fail_node(i.node, "more than one size of -1 in the shape");
            rest = a;
            dims.push_back({});
        } else if (wanted[a] == 0 && !keep_zero) {
            if (!i.ranked(0)) {
                dims.push_back({});
            } else if (a >= i.dims(0).size()) {
                fail_node(i.node, "the shape keeps an axis that the input does not have");
            } else {
                dims.push_back(i.dims(0)[a]);
            }
        } else {
            dims.push_back({wanted[a]});
        }
    }
    if (!i.ranked(0)) return dims;
    const auto total = known_product(i.dims(0));
    if (rest) {
        Dims others = dims;
        others[*rest] = {1};
        const auto product = known_product(others);
        if (total && product) {
            if (*product == 0 ? *total != 0 : *total % *product != 0)
                fail_node(i.node,
                          fmt::format("{} elements do not fit the shape {}", *total, to_text(wanted)));
            dims[*rest] = {*product == 0 ? 0 : *total / *product};
        }
    }
    const auto product = known_product(dims);
    if (total && product && *total != *product)
        fail_node(i.node, fmt::format("{} elements do not fit the shape {}", *total, to_text(wanted)));
    return dims;
}

void infer_reshape(Inference& i) {
    const auto wanted = i.ints(1);
    if (wanted) return i.set(0, i.type(0), reshaped(i, *wanted));
    std::optional<Dims> dims;
    if (i.ranked(1) && i.dims(1).size() == 1 && i.dims(1)[0].known() && i.dims(1)[0].size <= 64)
        dims = Dims(static_cast<std::size_t>(std::max<std::int64_t>(i.dims(1)[0].size, 0)));
    i.set(0, i.type(0), std::move(dims));
}

void infer_flatten(Inference& i) {
    if (!i.ranked(0)) return i.set(0, i.type(0), Dims(2));
    const auto rank = static_cast<std::int64_t>(i.dims(0).size());
    auto axis = int_attribute(i.node, "axis", 1);
    if (axis < -rank || axis > rank) fail_node(i.node, fmt::format("axis {} is out of range", axis));
    if (axis < 0) axis += rank;
    const auto split = i.dims(0).begin() + axis;
    const auto merged = [](const Dims& part) {
        if (part.size() == 1) return part[0];
        const auto product = known_product(part);
        return product ? Dim{*product} : Dim{};
    };
    i.set(0, i.type(0), Dims{merged({i.dims(0).begin(), split}), merged({split, i.dims(0).end()})});
}

// Axes as an input (operator set 13) or attribute; nullopt if known only during a run.
std::optional<Ints> axes_of(const Inference& i) {
    return i.has(1) ? i.ints(1) : ints_attribute(i.node, "axes");
}

void infer_squeeze(Inference& i) {
    const auto axes = axes_of(i);
    if (!i.ranked(0) || !axes) return i.set(0, i.type(0), std::nullopt);
    const auto& dims = i.dims(0);
    std::vector<bool> removed(dims.size());
    for (const auto axis : *axes) removed[axis_of(i.node, axis, dims.size())] = true;
    Dims out;
    for (std::size_t a = 0; a < dims.size(); ++a) {
        if (axes->empty()) {
            if (!dims[a].known()) return i.set(0, i.type(0), std::nullopt);
            removed[a] = dims[a].size == 1;
        }
        if (!removed[a]) {
            out.push_back(dims[a]);
        } else if (dims[a].known() && dims[a].size != 1) {
            fail_node(i.node, fmt::format("axis {} has size {}; only axes of size 1 can be removed", a,
                                          dims[a].size));
        }
    }
    i.set(0, i.type(0), std::move(out));
}

void infer_unsqueeze(Inference& i) {
    const auto axes = axes_of(i);
    if (!i.ranked(0) || !axes) return i.set(0, i.type(0), std::nullopt);
    const std::size_t rank = i.dims(0).size() + axes->size();
    std::vector<bool> added(rank);
    for (const auto axis : *axes) {
        const auto a = axis_of(i.node, axis, rank);
        if (added[a]) fail_node(i.node, fmt::format("duplicate axis {}", axis));
        added[a] = true;
    }
    Dims out;
    for (std::size_t a = 0, from = 0; a < rank; ++a) out.push_back(added[a] ? Dim{1} : i.dims(0)[from++]);
    i.set(0, i.type(0), std::move(out));
}

// Inference only: the output is the input, the mask is true everywhere.
void infer_dropout(Inference& i) {
    if (i.has(2) && (i.inputs[2].value == nullptr || to_number(*i.inputs[2].value) != 0) &&
        i.node.opset >= 12) {
        const auto ratio = i.has(1) && i.inputs[1].value != nullptr ? to_number(*i.inputs[1].value) : 0.5;
        if (i.inputs[2].value != nullptr && ratio != 0)
            fail_unsupported(i.node, "training_mode is not supported; export the model for inference");
    }
    infer_same(i);
    i.set(1, DType::bool_, i.inputs[0].type->dims);
}

void run_dropout(const Operands& o) {
    if (o.wants(0) && o.in(0).bytes() > 0) std::memcpy(o.out(0).data, o.in(0).data, o.in(0).bytes());
    if (o.wants(1)) std::ranges::fill(o.out(1).values<bool>(), true);
}

std::vector<std::size_t> order_of(const Node& node, std::size_t rank) {
    std::vector<std::size_t> order(rank);
    const auto perm = ints_attribute(node, "perm");
    if (perm.empty()) {
        for (std::size_t a = 0; a < rank; ++a) order[a] = rank - 1 - a;
        return order;
    }
    std::vector<bool> seen(rank);
    if (perm.size() != rank)
        fail_node(node, fmt::format("perm has {} axes, but the input has {}", perm.size(), rank));
    for (std::size_t a = 0; a < rank; ++a) {
        order[a] = axis_of(node, perm[a], rank);
        if (seen[order[a]]) fail_node(node, fmt::format("duplicate axis {} in perm", perm[a]));
        seen[order[a]] = true;
    }
    return order;
}

void infer_transpose(Inference& i) {
    if (!i.ranked(0)) return i.set(0, i.type(0), std::nullopt);
    Dims dims;
    for (const auto axis : order_of(i.node, i.dims(0).size())) dims.push_back(i.dims(0)[axis]);
    i.set(0, i.type(0), std::move(dims));
}

void run_transpose(const Operands& o) {
    transpose(o.in(0), order_of(o.node, o.in(0).shape.size()), o.exec, o.out(0));
}

void infer_concat(Inference& i) {
    std::optional<Dims> dims;
    for (std::size_t k = 0; k < i.inputs.size(); ++k) {
        if (!i.has(k)) fail_node(i.node, "an input is omitted");
        check_same_type(i, 0, k);
        if (!i.ranked(k)) return i.set(0, i.type(0), std::nullopt);
        if (!dims) {
            dims = i.dims(k);
            (void)axis_of(i.node, int_attribute(i.node, "axis", 0), dims->size());
            continue;
        }
        if (i.dims(k).size() != dims->size())
            fail_node(i.node, fmt::format("inputs have different numbers of axes: {} and {}", dims->size(),
                                          i.dims(k).size()));
        const auto axis = axis_of(i.node, int_attribute(i.node, "axis", 0), dims->size());
        for (std::size_t a = 0; a < dims->size(); ++a) {
            auto& dim = (*dims)[a];
            const auto& other = i.dims(k)[a];
            if (a != axis) {
                dim = same_dim(i.node, dim, other);
            } else {
                dim = dim.known() && other.known() ? Dim{dim.size + other.size} : Dim{};
            }
        }
    }
    i.set(0, i.type(0), std::move(dims));
}

// Copies `in` into a box of `out` (or a box of `in` into `out`, with the roles of the offsets swapped).
struct Box {
    Shape shape;
    std::int64_t from = 0;  // offset, elements
    std::vector<std::int64_t> from_strides = {};
    std::int64_t to = 0;
    std::vector<std::int64_t> to_strides = {};
};

void copy_box(const Box& box, std::size_t bytes, const Exec& exec, const std::byte* from, std::byte* to) {
    if (element_count(box.shape) == 0) return;
    const auto size = static_cast<std::int64_t>(bytes);
    copy_strided({box.shape, box.from_strides, box.to_strides}, bytes, exec, from + box.from * size,
                 to + box.to * size);
}

void run_concat(const Operands& o) {
    const auto& out = o.out(0);
    const auto axis = axis_of(o.node, int_attribute(o.node, "axis", 0), out.shape.size());
    const auto strides = strides_of(out.shape);
    std::int64_t offset = 0;
    for (const auto* in : o.inputs) {
        copy_box({in->shape, 0, strides_of(in->shape), offset, strides}, byte_size(out.type), o.exec,
                 in->data, out.data);
        offset += in->shape[axis] * strides[axis];
    }
}

// Slice of one axis: first element, step and number of elements.
struct AxisSlice {
    std::int64_t first = 0;
    std::int64_t step = 1;
    std::int64_t count = 0;
};

AxisSlice slice_of(const Node& node, std::int64_t size, const AxisSlice& wanted_range) {
    std::int64_t start = wanted_range.first;
    std::int64_t step = wanted_range.step;
    std::int64_t end = wanted_range.count;  // here `count` holds the end of the range
    if (step == 0) fail_node(node, "steps must not be 0");
    if (step == std::numeric_limits<std::int64_t>::min()) step += 1;
    const auto clamp = [&](std::int64_t x) {
        if (x < 0) x += size;
        return step > 0 ? std::clamp<std::int64_t>(x, 0, size) : std::clamp<std::int64_t>(x, -1, size - 1);
    };
    start = clamp(start);
    // The end of a backward slice that includes element 0 is far below -size.
    end = step < 0 && end < -size ? -1 : clamp(end);
    const std::int64_t span = step > 0 ? end - start : start - end;
    const std::int64_t stride = step > 0 ? step : -step;
    const std::int64_t count = span <= 0 ? 0 : 1 + (span - 1) / stride;
    return {start, count > 1 ? step : (step > 0 ? 1 : -1), count};
}

struct SliceInputs {
    Ints starts;
    Ints ends;
    Ints axes;
    Ints steps;
};

template <class GetInts>
SliceInputs slice_inputs(const Node& node, std::size_t inputs, const GetInts& ints) {
    SliceInputs s;
    if (inputs == 1) {  // before operator set 10
        s = {ints_attribute(node, "starts"), ints_attribute(node, "ends"), ints_attribute(node, "axes"), {}};
    } else {
        s.starts = ints(1);
        s.ends = ints(2);
        s.axes = ints(3);
        s.steps = ints(4);
    }
    if (s.axes.empty()) {
        s.axes.resize(s.starts.size());
        std::iota(s.axes.begin(), s.axes.end(), 0);
    }
    if (s.steps.empty()) s.steps.assign(s.starts.size(), 1);
    if (s.ends.size() != s.starts.size() || s.axes.size() != s.starts.size() ||
        s.steps.size() != s.starts.size())
        fail_node(node, "starts, ends, axes and steps have different lengths");
    return s;
}

void infer_slice(Inference& i) {
    bool known = i.ranked(0);
    for (std::size_t k = 1; k < i.inputs.size(); ++k) known = known && (!i.has(k) || i.ints(k));
    if (!known) {
        std::optional<Dims> dims;
        if (i.ranked(0)) dims = Dims(i.dims(0).size());
        return i.set(0, i.type(0), std::move(dims));
    }
    const auto s =
        slice_inputs(i.node, i.inputs.size(), [&](std::size_t k) { return i.ints(k).value_or(Ints{}); });
    Dims dims = i.dims(0);
    for (std::size_t k = 0; k < s.axes.size(); ++k) {
        auto& dim = dims[axis_of(i.node, s.axes[k], dims.size())];
        if (s.steps[k] == 0) fail_node(i.node, "steps must not be 0");
        dim =
            dim.known() ? Dim{slice_of(i.node, dim.size, {s.starts[k], s.steps[k], s.ends[k]}).count} : Dim{};
    }
    i.set(0, i.type(0), std::move(dims));
}

void run_slice(const Operands& o) {
    const auto& in = o.in(0);
    const auto s = slice_inputs(o.node, o.inputs.size(),
                                [&](std::size_t k) { return o.has(k) ? to_ints(o.in(k)) : Ints{}; });
    Box box{o.out(0).shape, 0, strides_of(in.shape), 0, strides_of(o.out(0).shape)};
    for (std::size_t k = 0; k < s.axes.size(); ++k) {
        const auto axis = axis_of(o.node, s.axes[k], in.shape.size());
        const auto slice = slice_of(o.node, in.shape[axis], {s.starts[k], s.steps[k], s.ends[k]});
        box.from += slice.first * box.from_strides[axis];
        box.from_strides[axis] *= slice.step;
    }
    copy_box(box, byte_size(in.type), o.exec, in.data, o.out(0).data);
}

// Sizes of the parts: given, or equal except that the last one may be smaller (operator set 18).
Ints split_sizes(const Node& node, std::optional<Ints> given, std::int64_t size, std::size_t outputs) {
    if (!given) given = ints_attribute(node, "split");
    if (given->empty()) {
        const auto parts = static_cast<std::int64_t>(outputs);
        const std::int64_t part = (size + parts - 1) / parts;
        given->assign(outputs, part);
        given->back() = size - part * (parts - 1);
        if (given->back() < 0 || (node.opset < 18 && given->back() != part))
            fail_node(node, fmt::format("size {} cannot be split into {} equal parts", size, outputs));
    }
    const auto sum =
        std::accumulate(given->begin(), given->end(), std::int64_t{0}, add_wrapped<std::int64_t>);
    if (given->size() != outputs || sum != size || std::ranges::any_of(*given, [](auto s) { return s < 0; }))
        fail_node(node, fmt::format("the split sizes {} do not match size {} and {} outputs", to_text(*given),
                                    size, outputs));
    return *given;
}

void infer_split(Inference& i) {
    const std::size_t parts = i.outputs.size();
    if (parts == 0) fail_node(i.node, "it has no outputs");
    std::optional<Dims> dims = i.inputs[0].type->dims;
    for (std::size_t k = 0; k < parts; ++k) i.set(k, i.type(0), dims);
    if (!dims) return;
    const auto axis = axis_of(i.node, int_attribute(i.node, "axis", 0), dims->size());
    const bool known = (*dims)[axis].known() && (!i.has(1) || i.ints(1));
    Ints sizes(parts, Dim::kUnknown);
    if (known) sizes = split_sizes(i.node, i.ints(1), (*dims)[axis].size, parts);
    for (std::size_t k = 0; k < parts; ++k) (*i.outputs[k].dims)[axis] = {sizes[k]};
}

void run_split(const Operands& o) {
    const auto& in = o.in(0);
    const auto axis = axis_of(o.node, int_attribute(o.node, "axis", 0), in.shape.size());
    const auto strides = strides_of(in.shape);
    std::optional<Ints> given;
    if (o.has(1)) given = to_ints(o.in(1));
    const auto sizes = split_sizes(o.node, given, in.shape[axis], o.outputs.size());
    std::int64_t offset = 0;
    for (std::size_t k = 0; k < sizes.size(); ++k) {
        if (o.wants(k)) {
            const auto& out = o.out(k);
            copy_box({out.shape, offset, strides, 0, strides_of(out.shape)}, byte_size(in.type), o.exec,
                     in.data, out.data);
        }
        offset += sizes[k] * strides[axis];
    }
}

void infer_expand(Inference& i) {
    const auto shape = i.ints(1);
    if (!i.ranked(0) || !shape) return i.set(0, i.type(0), std::nullopt);
    for (const auto size : *shape) {
        if (size < 0) fail_node(i.node, fmt::format("invalid size {} in the shape", size));
    }
    i.set(0, i.type(0), broadcast_dims(i.node, i.dims(0), dims_of(*shape)));
}

void run_expand(const Operands& o) {
    expand(o.in(0), o.exec, o.out(0));
}

void infer_tile(Inference& i) {
    const auto repeats = i.ints(1);
    if (!i.ranked(0)) return i.set(0, i.type(0), std::nullopt);
    Dims dims = i.dims(0);
    if (repeats && repeats->size() != dims.size())
        fail_node(i.node,
                  fmt::format("{} repeats for {} axes; expected one per axis", repeats->size(), dims.size()));
    for (std::size_t a = 0; a < dims.size(); ++a) {
        std::int64_t size = Dim::kUnknown;
        if (repeats && (*repeats)[a] < 0) fail_node(i.node, "repeats must not be negative");
        if (repeats && dims[a].known() && __builtin_mul_overflow(dims[a].size, (*repeats)[a], &size))
            fail_node(i.node, "the output is too large");
        if (!repeats || (*repeats)[a] != 1) dims[a] = {size};
    }
    i.set(0, i.type(0), std::move(dims));
}

void run_tile(const Operands& o) {
    const auto& in = o.in(0);
    const auto from = strides_of(in.shape);
    const auto to = strides_of(o.out(0).shape);
    Box box;
    for (std::size_t a = 0; a < in.shape.size(); ++a) {  // each axis becomes repeats x size
        const auto size = std::max<std::int64_t>(in.shape[a], 1);
        box.shape.insert(box.shape.end(), {o.out(0).shape[a] / size, in.shape[a]});
        box.from_strides.insert(box.from_strides.end(), {0, from[a]});
        box.to_strides.insert(box.to_strides.end(), {to[a] * in.shape[a], to[a]});
    }
    copy_box(box, byte_size(in.type), o.exec, in.data, o.out(0).data);
}

// Pads before and after each axis.
struct Pads {
    Ints before;
    Ints after;
};

Pads pads_of(const Node& node, const Ints& pads, const std::optional<Ints>& axes, std::size_t rank) {
    Pads p{Ints(rank, 0), Ints(rank, 0)};
    const std::size_t n = axes ? axes->size() : rank;
    if (pads.size() != 2 * n)
        fail_node(node, fmt::format("{} pads for {} axes; expected two per axis", pads.size(), n));
    for (std::size_t k = 0; k < n; ++k) {
        const auto a = axes ? axis_of(node, (*axes)[k], rank) : k;
        p.before[a] = pads[k];
        p.after[a] = pads[n + k];
    }
    return p;
}

void infer_pad(Inference& i) {
    std::optional<Ints> pads = i.has(1) ? i.ints(1) : ints_attribute(i.node, "pads");
    if (!i.ranked(0)) return i.set(0, i.type(0), std::nullopt);
    Dims dims(i.dims(0).size());
    if (pads && (!i.has(3) || i.ints(3))) {
        const auto p = pads_of(i.node, *pads, i.ints(3), dims.size());
        for (std::size_t a = 0; a < dims.size(); ++a) {
            constexpr std::int64_t kMost = std::int64_t{1} << 40U;
            for (const auto pad : {p.before[a], p.after[a]}) {
                if (pad > kMost || pad < -kMost) fail_node(i.node, "a pad is too large");
            }
            if (!i.dims(0)[a].known()) continue;
            dims[a] = {i.dims(0)[a].size + p.before[a] + p.after[a]};
            if (dims[a].size < 0) fail_node(i.node, "negative pads remove more than the input has");
        }
    }
    i.set(0, i.type(0), std::move(dims));
}

// The index of the input element at position `at` of a padded axis.
std::int64_t padded_index(const Node& node, std::string_view mode, std::int64_t at, std::int64_t size) {
    if (at >= 0 && at < size) return at;
    if (size == 0) fail_node(node, "an empty axis can only be padded with a constant");
    if (mode == "edge") return at < 0 ? 0 : size - 1;
    if (mode == "wrap") return (at % size + size) % size;
    if (size == 1) return 0;
    const std::int64_t period = 2 * (size - 1);  // reflect
    const std::int64_t p = (at % period + period) % period;
    return p < size ? p : period - p;
}

template <class T>
void pad_by_index(const Operands& o, std::string_view mode, const Pads& pads) {
    const auto& in = o.in(0);
    const auto& out = o.out(0);
    const auto strides = strides_of(in.shape);
    std::vector<Ints> offsets(in.shape.size());  // of input elements, by axis
    for (std::size_t a = 0; a < in.shape.size(); ++a) {
        for (std::int64_t at = 0; at < out.shape[a]; ++at)
            offsets[a].push_back(padded_index(o.node, mode, at - pads.before[a], in.shape[a]) * strides[a]);
    }
    const auto* from = reinterpret_cast<const T*>(in.data);
    auto* to = reinterpret_cast<T*>(out.data);
    for_parts(o.exec, out.count(), std::size_t{1} << 15U, [&](std::size_t first, std::size_t count) {
        for (std::size_t k = first; k < first + count; ++k) {
            std::int64_t at = 0;
            std::size_t rest = k;
            for (std::size_t a = offsets.size(); a-- > 0;) {
                at += offsets[a][rest % offsets[a].size()];
                rest /= offsets[a].size();
            }
            to[k] = from[at];
        }
    });
}

void pad_constant(const Operands& o, const Pads& pads) {
    const auto& in = o.in(0);
    const auto& out = o.out(0);
    visit_dtype(out.type, [&](auto zero) {
        using T = decltype(zero);
        T value{};
        if (o.has(2)) {
            if (o.in(2).type != out.type || o.in(2).count() != 1)
                fail_node(o.node, "the constant must be one element of the input's type");
            value = o.in(2).template values<T>()[0];
        } else if (has_attribute(o.node, "value")) {
            value = converted<T>(float_attribute(o.node, "value", 0));
        }
        std::ranges::fill(out.template values<T>(), value);
    });
    Box box{in.shape, 0, strides_of(in.shape), 0, strides_of(out.shape)};
    for (std::size_t a = 0; a < in.shape.size(); ++a) {
        const std::int64_t cut_before = std::max<std::int64_t>(0, -pads.before[a]);
        const std::int64_t cut_after = std::max<std::int64_t>(0, -pads.after[a]);
        box.shape[a] = std::max<std::int64_t>(0, in.shape[a] - cut_before - cut_after);
        box.from += cut_before * box.from_strides[a];
        box.to += std::max<std::int64_t>(0, pads.before[a]) * box.to_strides[a];
    }
    copy_box(box, byte_size(in.type), o.exec, in.data, out.data);
}

void run_pad(const Operands& o) {
    const auto mode = text_attribute(o.node, "mode", "constant");
    std::optional<Ints> axes;
    if (o.has(3)) axes = to_ints(o.in(3));
    const auto pads = pads_of(o.node, o.has(1) ? to_ints(o.in(1)) : ints_attribute(o.node, "pads"), axes,
                              o.in(0).shape.size());
    if (mode == "constant") return pad_constant(o, pads);
    if (mode != "edge" && mode != "reflect" && mode != "wrap")
        fail_node(o.node,
                  fmt::format("mode must be constant, edge, reflect or wrap, not {}", in_quotes(mode)));
    switch (byte_size(o.in(0).type)) {
        case 8:
            return pad_by_index<std::uint64_t>(o, mode, pads);
        case 4:
            return pad_by_index<std::uint32_t>(o, mode, pads);
        case 2:
            return pad_by_index<std::uint16_t>(o, mode, pads);
        default:
            return pad_by_index<std::uint8_t>(o, mode, pads);
    }
}

// First and last axis of Shape.
std::pair<std::int64_t, std::int64_t> shape_range(const Node& node, std::size_t rank) {
    const auto n = static_cast<std::int64_t>(rank);
    const auto clamp = [n](std::int64_t x) { return std::clamp<std::int64_t>(x < 0 ? x + n : x, 0, n); };
    const auto first = clamp(int_attribute(node, "start", 0));
    return {first, std::max(first, clamp(int_attribute(node, "end", n)))};
}

void infer_shape(Inference& i) {
    if (!i.ranked(0)) return i.set(0, DType::i64, Dims(1));
    const auto [first, last] = shape_range(i.node, i.dims(0).size());
    i.set(0, DType::i64, Dims{{last - first}});
}

void run_shape(const Operands& o) {
    const auto first = shape_range(o.node, o.in(0).shape.size()).first;
    std::copy_n(o.in(0).shape.begin() + first, o.out(0).count(), o.out(0).values<std::int64_t>().begin());
}

void infer_size(Inference& i) {
    i.set(0, DType::i64, Dims{});
}

void run_size(const Operands& o) {
    o.out(0).values<std::int64_t>()[0] = static_cast<std::int64_t>(o.in(0).count());
}

std::int64_t block_size(const Node& node) {
    const auto block = int_attribute(node, "blocksize", 0);
    if (block < 1 || block > (1 << 15))
        fail_node(node, fmt::format("blocksize must be positive, not {}", block));
    return block;
}

template <bool kToSpace>
void infer_blocks(Inference& i) {
    const auto block = block_size(i.node);
    if (!i.ranked(0)) return i.set(0, i.type(0), Dims(4));
    Dims dims = i.dims(0);
    if (dims.size() != 4) fail_node(i.node, "the input must have 4 axes");
    const auto divide = [&](Dim& dim, std::int64_t by) {
        if (dim.known() && dim.size % by != 0)
            fail_node(i.node, fmt::format("size {} is not a multiple of {}", dim.size, by));
        dim = dim.known() ? Dim{dim.size / by} : Dim{};
    };
    const auto multiply = [](Dim& dim, std::int64_t by) {
        dim = dim.known() ? Dim{mul_wrapped(dim.size, by)} : Dim{};
    };
    if (kToSpace) {
        divide(dims[1], block * block);
        multiply(dims[2], block);
        multiply(dims[3], block);
    } else {
        multiply(dims[1], block * block);
        divide(dims[2], block);
        divide(dims[3], block);
    }
    i.set(0, i.type(0), std::move(dims));
}

// A reshape, a transpose and a reshape.
void move_blocks(const Operands& o, const Shape& from, const std::vector<std::size_t>& order) {
    Shape to;
    for (const auto a : order) to.push_back(from[a]);
    transpose({o.in(0).type, from, o.in(0).data}, order, o.exec, {o.out(0).type, to, o.out(0).data});
}

void run_depth_to_space(const Operands& o) {
    const auto b = block_size(o.node);
    const auto& s = o.in(0).shape;
    if (text_attribute(o.node, "mode", "DCR") == "CRD")
        return move_blocks(o, {s[0], s[1] / (b * b), b, b, s[2], s[3]}, {0, 1, 4, 2, 5, 3});
    move_blocks(o, {s[0], b, b, s[1] / (b * b), s[2], s[3]}, {0, 3, 4, 1, 5, 2});
}

void run_space_to_depth(const Operands& o) {
    const auto b = block_size(o.node);
    const auto& s = o.in(0).shape;
    move_blocks(o, {s[0], s[1], s[2] / b, b, s[3] / b, b}, {0, 3, 5, 1, 2, 4});
}

}  // namespace

std::span<const Operator> shape_operators() {
    static const Operator rows[] = {
        {"Identity", 1, 1, 1, infer_same, nullptr},
        {"Reshape", 5, 2, 2, infer_reshape, nullptr},
        {"Flatten", 1, 1, 1, infer_flatten, nullptr},
        {"Squeeze", 1, 1, 1, infer_squeeze, nullptr},
        {"Squeeze", 13, 1, 2, infer_squeeze, nullptr},
        {"Unsqueeze", 1, 1, 1, infer_unsqueeze, nullptr},
        {"Unsqueeze", 13, 2, 2, infer_unsqueeze, nullptr},
        {"Dropout", 7, 1, 3, infer_dropout, run_dropout},
        {"Transpose", 1, 1, 1, infer_transpose, run_transpose},
        {"Concat", 4, 1, kAnyNumber, infer_concat, run_concat},
        {"Slice", 1, 1, 1, infer_slice, run_slice},
        {"Slice", 10, 3, 5, infer_slice, run_slice},
        {"Split", 2, 1, 1, infer_split, run_split},
        {"Split", 13, 1, 2, infer_split, run_split},
        {"Expand", 8, 2, 2, infer_expand, run_expand},
        {"Tile", 6, 2, 2, infer_tile, run_tile},
        {"Pad", 2, 1, 1, infer_pad, run_pad},
        {"Pad", 11, 2, 4, infer_pad, run_pad},
        {"Shape", 1, 1, 1, infer_shape, run_shape},
        {"Size", 1, 1, 1, infer_size, run_size},
        {"DepthToSpace", 1, 1, 1, infer_blocks<true>, run_depth_to_space},
        {"SpaceToDepth", 1, 1, 1, infer_blocks<false>, run_space_to_depth},
    };
    return rows;
}

}  // namespace imka::graph
