// Operators along axes: reductions, arg max, softmax, cumulative sums.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "imka/graph/copy.hpp"
#include "imka/graph/elementwise.hpp"
#include "imka/graph/operator.hpp"
#include "imka/ops/activation/activation.hpp"

namespace imka::graph {
namespace {

// Axes to reduce: from the input `axes` if the operator has it, else from the attribute; nullopt if they are
// known only during a run.
struct ReducedAxes {
    std::optional<std::vector<bool>> reduced = {};  // by axis
    bool nothing = false;                           // no axes, which here means no reduction
};

ReducedAxes reduced_axes(const Node& node, std::optional<std::vector<std::int64_t>> axes, std::size_t rank) {
    ReducedAxes r;
    if (!axes) axes = ints_attribute(node, "axes");
    r.nothing = axes->empty() && int_attribute(node, "noop_with_empty_axes", 0) != 0;
    r.reduced.emplace(rank, axes->empty() && !r.nothing);
    for (const auto axis : *axes) (*r.reduced)[axis_of(node, axis, rank)] = true;
    return r;
}

void infer_reduce(Inference& i) {
    if (!i.ranked(0) || (i.has(1) && !i.ints(1))) {
        std::optional<Dims> dims;
        if (i.ranked(0) && int_attribute(i.node, "keepdims", 1) != 0) dims = Dims(i.dims(0).size());
        return i.set(0, i.type(0), std::move(dims));
    }
    const bool keep = int_attribute(i.node, "keepdims", 1) != 0;
    const auto axes = reduced_axes(i.node, i.ints(1), i.dims(0).size());
    Dims dims;
    for (std::size_t a = 0; a < i.dims(0).size(); ++a) {
        if (!(*axes.reduced)[a]) {
            dims.push_back(i.dims(0)[a]);
        } else if (keep) {
            dims.push_back({1});
        }
    }
    i.set(0, i.type(0), std::move(dims));
}

// The input with the chosen axes last, as a matrix; a copy unless they are last already.
struct Rows {
    Tensor copy;
    TensorView view;
    std::size_t rows = 1;
    std::size_t cols = 1;
    std::vector<std::size_t> order;  // of the axes
};

Rows with_axes_last(const TensorView& in, const std::vector<bool>& last, const Exec& exec) {
    Rows r;
    for (const bool chosen : {false, true}) {
        for (std::size_t a = 0; a < in.shape.size(); ++a) {
            if (last[a] != chosen) continue;
            r.order.push_back(a);
            (chosen ? r.cols : r.rows) *= static_cast<std::size_t>(in.shape[a]);
        }
    }
    r.view = in;
    if (std::ranges::is_sorted(r.order)) return r;
    Shape shape;
    for (const auto a : r.order) shape.push_back(in.shape[a]);
    r.copy = Tensor(in.type, shape);
    transpose(in, r.order, exec, r.copy.view());
    r.view = std::as_const(r.copy).view();
    return r;
}

// Rows of a tensor of any type as double or int64.
template <class C, class Body>
void for_rows(const Rows& r, const Exec& exec, const Body& body) {
    const std::size_t grain = kPart / std::max<std::size_t>(r.cols, 1) + 1;
    for_parts(exec, r.rows, grain, [&](std::size_t first, std::size_t count) {
        std::vector<C> row(r.cols);
        for (std::size_t k = first; k < first + count; ++k) {
            visit_dtype(r.view.type, [&](auto zero) {
                const auto* values = reinterpret_cast<const decltype(zero)*>(r.view.data) + k * r.cols;
                for (std::size_t c = 0; c < r.cols; ++c) row[c] = converted<C>(values[c]);
            });
            body(k, std::span<C>(row));
        }
    });
}

template <class C>
using Reduce = C (*)(std::span<const C>);

template <class C>
C sum_of(std::span<const C> x) {
    return std::accumulate(x.begin(), x.end(), C{0}, add_wrapped<C>);
}
template <class C>
C mean_of(std::span<const C> x) {
    return x.empty() ? C{0} : static_cast<C>(sum_of(x) / static_cast<C>(x.size()));
}
template <class C>
C product_of(std::span<const C> x) {
    return std::accumulate(x.begin(), x.end(), C{1}, mul_wrapped<C>);
}
template <class C>
C max_of(std::span<const C> x) {
    C most = std::numeric_limits<C>::has_infinity ? -std::numeric_limits<C>::infinity()
                                                  : std::numeric_limits<C>::lowest();
    for (const C v : x) most = is_nan(v) || v > most ? v : most;
    return most;
}
template <class C>
C min_of(std::span<const C> x) {
    C least = std::numeric_limits<C>::has_infinity ? std::numeric_limits<C>::infinity()
                                                   : std::numeric_limits<C>::max();
    for (const C v : x) least = is_nan(v) || v < least ? v : least;
    return least;
}
template <class C>
C l1_of(std::span<const C> x) {
    C sum = 0;
    for (const C v : x) sum = add_wrapped(sum, v < 0 ? sub_wrapped(C{0}, v) : v);
    return sum;
}
template <class C>
C sum_square_of(std::span<const C> x) {
    C sum = 0;
    for (const C v : x) sum = add_wrapped(sum, mul_wrapped(v, v));
    return sum;
}
template <class C>
C l2_of(std::span<const C> x) {
    return converted<C>(std::sqrt(static_cast<double>(sum_square_of(x))));
}
template <class C>
C log_sum_of(std::span<const C> x) {
    return converted<C>(std::log(static_cast<double>(sum_of(x))));
}
template <class C>
C log_sum_exp_of(std::span<const C> x) {
    if (x.empty()) return converted<C>(-std::numeric_limits<double>::infinity());
    const auto most = static_cast<double>(max_of(x));
    if (std::isinf(most)) return converted<C>(most);
    double sum = 0;
    for (const C v : x) sum += std::exp(static_cast<double>(v) - most);
    return converted<C>(most + std::log(sum));
}

template <Reduce<double> F, Reduce<std::int64_t> I>
void run_reduce(const Operands& o) {
    std::optional<std::vector<std::int64_t>> given;
    if (o.has(1)) given = to_ints(o.in(1));
    const auto axes = reduced_axes(o.node, given, o.in(0).shape.size());
    const auto rows = with_axes_last(o.in(0), *axes.reduced, o.exec);
    const auto reduce = [&](auto f, auto zero) {
        using C = decltype(zero);
        for_rows<C>(rows, o.exec, [&](std::size_t k, std::span<const C> row) {
            visit_dtype(o.out(0).type, [&](auto z) {
                reinterpret_cast<decltype(z)*>(o.out(0).data)[k] = converted<decltype(z)>(f(row));
            });
        });
    };
    is_float(o.in(0).type) ? reduce(F, double{}) : reduce(I, std::int64_t{});
}

// Index of the largest or smallest element; the first or the last of equal ones.
void infer_arg(Inference& i) {
    std::optional<Dims> dims;
    if (i.ranked(0)) {
        dims = i.dims(0);
        const auto axis = axis_of(i.node, int_attribute(i.node, "axis", 0), dims->size());
        if (int_attribute(i.node, "keepdims", 1) != 0) {
            (*dims)[axis] = {1};
        } else {
            dims->erase(dims->begin() + static_cast<std::ptrdiff_t>(axis));
        }
    }
    i.set(0, DType::i64, std::move(dims));
}

template <bool kLargest>
void run_arg(const Operands& o) {
    const std::size_t rank = o.in(0).shape.size();
    std::vector<bool> chosen(rank);
    chosen[axis_of(o.node, int_attribute(o.node, "axis", 0), rank)] = true;
    const bool last = int_attribute(o.node, "select_last_index", 0) != 0;
    const auto out = o.out(0).values<std::int64_t>();
    for_rows<double>(with_axes_last(o.in(0), chosen, o.exec), o.exec,
                     [&](std::size_t k, std::span<const double> row) {
                         std::size_t best = 0;
                         for (std::size_t c = 1; c < row.size(); ++c) {
                             const bool better = kLargest ? row[c] > row[best] : row[c] < row[best];
                             if (better || (last && row[c] == row[best])) best = c;
                         }
                         out[k] = static_cast<std::int64_t>(best);
                     });
}

// Applies a function that keeps the length of a row. The chosen axes are moved to the end, and back
// afterwards.
template <class C, class F>
void map_rows(const TensorView& in, const std::vector<bool>& last, const Exec& exec,
              const MutableTensorView& out, const F& f) {
    const auto rows = with_axes_last(in, last, exec);
    const bool moved = !rows.copy.bytes.empty();
    Tensor result = moved ? Tensor(out.type, rows.view.shape) : Tensor();
    std::byte* to = moved ? result.bytes.data() : out.data;
    for_rows<C>(rows, exec, [&](std::size_t k, std::span<C> row) {
        f(row);
        visit_dtype(out.type, [&](auto zero) {
            auto* values = reinterpret_cast<decltype(zero)*>(to) + k * rows.cols;
            for (std::size_t c = 0; c < row.size(); ++c) values[c] = converted<decltype(zero)>(row[c]);
        });
    });
    if (!moved) return;
    std::vector<std::size_t> back(rows.order.size());
    for (std::size_t a = 0; a < back.size(); ++a) back[rows.order[a]] = a;
    transpose(std::as_const(result).view(), back, exec, out);
}

// Since operator set 13 one axis; before, all axes from `axis` on as one.
std::vector<bool> softmax_axes(const Node& node, std::size_t rank) {
    std::vector<bool> last(rank);
    const bool one = node.opset >= 13;
    const auto axis = axis_of(node, int_attribute(node, "axis", one ? -1 : 1), rank);
    for (std::size_t a = axis; a < rank; ++a) last[a] = a == axis || !one;
    return last;
}

void infer_softmax(Inference& i) {
    if (i.ranked(0)) (void)softmax_axes(i.node, i.dims(0).size());
    infer_same(i);
}

void log_softmax_row(std::span<float> row) {
    const float most = max_of(std::span<const float>(row));
    double sum = 0;
    for (const float v : row) sum += std::exp(v - most);
    const auto log_sum = static_cast<float>(std::log(sum));
    for (auto& v : row) v = v - most - log_sum;
}

void hardmax_row(std::span<float> row) {
    const auto best = std::ranges::max_element(row) - row.begin();
    std::ranges::fill(row, 0.0F);
    if (!row.empty()) row[static_cast<std::size_t>(best)] = 1.0F;
}

template <void (*F)(std::span<float>)>
void run_softmax(const Operands& o) {
    map_rows<float>(o.in(0), softmax_axes(o.node, o.in(0).shape.size()), o.exec, o.out(0), F);
}

void softmax_row(std::span<float> row) {
    ops::softmax(row, row);
}

// Rows of floats that are contiguous need no copy.
void run_plain_softmax(const Operands& o) {
    const auto axes = softmax_axes(o.node, o.in(0).shape.size());
    const bool trailing = std::ranges::is_sorted(axes);
    if (o.in(0).type != DType::f32 || !trailing) return run_softmax<softmax_row>(o);
    const auto first = std::ranges::find(axes, true) - axes.begin();
    const auto a = around(o.in(0).shape, static_cast<std::size_t>(first));
    const std::size_t size = a.axis * a.inner;
    for_parts(o.exec, a.outer, kPart / std::max<std::size_t>(size, 1) + 1,
              [&](std::size_t row, std::size_t count) {
                  for (std::size_t k = row; k < row + count; ++k) {
                      ops::softmax(o.in(0).values<float>().subspan(k * size, size),
                                   o.out(0).values<float>().subspan(k * size, size));
                  }
              });
}

void infer_cumsum(Inference& i) {
    if (i.ranked(0)) {
        if (const auto axis = i.ints(1)) {
            if (axis->size() != 1) fail_node(i.node, "axis must be one number");
            (void)axis_of(i.node, axis->front(), i.dims(0).size());
        }
    }
    infer_same(i);
}

template <class C>
void cumulate(std::span<C> row, bool exclusive, bool reverse) {
    if (reverse) std::ranges::reverse(row);
    C sum = 0;
    for (auto& v : row) {
        const C next = add_wrapped(sum, v);
        v = exclusive ? sum : next;
        sum = next;
    }
    if (reverse) std::ranges::reverse(row);
}

void run_cumsum(const Operands& o) {
    std::vector<bool> last(o.in(0).shape.size());
    last[axis_of(o.node, to_ints(o.in(1)).front(), last.size())] = true;
    const bool exclusive = int_attribute(o.node, "exclusive", 0) != 0;
    const bool reverse = int_attribute(o.node, "reverse", 0) != 0;
    const auto run = [&](auto zero) {
        using C = decltype(zero);
        map_rows<C>(o.in(0), last, o.exec, o.out(0),
                    [&](std::span<C> row) { cumulate(row, exclusive, reverse); });
    };
    is_float(o.in(0).type) ? run(double{}) : run(std::int64_t{});
}

void run_lp_normalization(const Operands& o) {
    const auto p = int_attribute(o.node, "p", 2);
    if (p != 1 && p != 2) fail_node(o.node, fmt::format("p must be 1 or 2, not {}", p));
    std::vector<bool> last(o.in(0).shape.size());
    last[axis_of(o.node, int_attribute(o.node, "axis", -1), last.size())] = true;
    map_rows<double>(o.in(0), last, o.exec, o.out(0), [&](std::span<double> row) {
        const double norm =
            p == 1 ? l1_of(std::span<const double>(row)) : l2_of(std::span<const double>(row));
        for (auto& v : row) v = norm == 0 ? 0 : v / norm;
    });
}

void infer_lp_normalization(Inference& i) {
    if (i.ranked(0)) (void)axis_of(i.node, int_attribute(i.node, "axis", -1), i.dims(0).size());
    infer_same(i);
}

// Mean 0 and variance 1 over the axes.
void run_mean_variance(const Operands& o) {
    std::vector<bool> last(o.in(0).shape.size());
    for (const auto axis : ints_attribute(o.node, "axes", {0, 2, 3}))
        last[axis_of(o.node, axis, last.size())] = true;
    map_rows<double>(o.in(0), last, o.exec, o.out(0), [&](std::span<double> row) {
        const double mean = mean_of(std::span<const double>(row));
        double squares = 0;
        for (auto& v : row) {
            v -= mean;
            squares += v * v;
        }
        const double deviation = std::sqrt(squares / static_cast<double>(row.size())) + 1e-9;
        for (auto& v : row) v /= deviation;
    });
}

void infer_mean_variance(Inference& i) {
    if (i.ranked(0)) {
        for (const auto axis : ints_attribute(i.node, "axes", {0, 2, 3}))
            (void)axis_of(i.node, axis, i.dims(0).size());
    }
    infer_same(i);
}

// Axes are an attribute, and an input since operator set `input_since`.
// NOLINTBEGIN(bugprone-macro-parentheses): f is a template
#define IMKA_REDUCE(name, input_since, f)                                             \
    {name, 1, 1, 1, infer_reduce, run_reduce<f<double>, f<std::int64_t>>}, {          \
        name, input_since, 1, 2, infer_reduce, run_reduce<f<double>, f<std::int64_t>> \
    }
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace

std::span<const Operator> reduce_operators() {
    static const Operator rows[] = {
        IMKA_REDUCE("ReduceSum", 13, sum_of),
        IMKA_REDUCE("ReduceMean", 18, mean_of),
        IMKA_REDUCE("ReduceProd", 18, product_of),
        IMKA_REDUCE("ReduceMax", 18, max_of),
        IMKA_REDUCE("ReduceMin", 18, min_of),
        IMKA_REDUCE("ReduceL1", 18, l1_of),
        IMKA_REDUCE("ReduceL2", 18, l2_of),
        IMKA_REDUCE("ReduceSumSquare", 18, sum_square_of),
        IMKA_REDUCE("ReduceLogSum", 18, log_sum_of),
        IMKA_REDUCE("ReduceLogSumExp", 18, log_sum_exp_of),
        {"ArgMax", 1, 1, 1, infer_arg, run_arg<true>},
        {"ArgMin", 1, 1, 1, infer_arg, run_arg<false>},
        {"Softmax", 1, 1, 1, infer_softmax, run_plain_softmax},
        {"Softmax", 13, 1, 1, infer_softmax, run_plain_softmax},
        {"LogSoftmax", 1, 1, 1, infer_softmax, run_softmax<log_softmax_row>},
        {"LogSoftmax", 13, 1, 1, infer_softmax, run_softmax<log_softmax_row>},
        {"Hardmax", 1, 1, 1, infer_softmax, run_softmax<hardmax_row>},
        {"Hardmax", 13, 1, 1, infer_softmax, run_softmax<hardmax_row>},
        {"CumSum", 11, 2, 2, infer_cumsum, run_cumsum},
        {"LpNormalization", 1, 1, 1, infer_lp_normalization, run_lp_normalization},
        {"MeanVarianceNormalization", 9, 1, 1, infer_mean_variance, run_mean_variance},
    };
#undef IMKA_REDUCE
    return rows;
}

}  // namespace imka::graph
