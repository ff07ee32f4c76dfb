// Matrix products: MatMul, Gemm, Einsum.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "imka/graph/copy.hpp"
#include "imka/graph/elementwise.hpp"
#include "imka/graph/operator.hpp"
#include "imka/graph/products.hpp"

namespace imka::graph {
namespace {

void infer_matmul(Inference& i) {
    check_same_type(i, 0, 1);
    if (!i.ranked(0) || !i.ranked(1)) return i.set(0, i.type(0), std::nullopt);
    Dims a = i.dims(0);
    Dims b = i.dims(1);
    if (a.empty() || b.empty()) fail_node(i.node, "scalars cannot be multiplied as matrices");
    const bool row = a.size() == 1;
    const bool column = b.size() == 1;
    if (row) a.insert(a.begin(), Dim{1});
    if (column) b.push_back({1});
    const auto& inner_a = a.back();
    const auto& inner_b = b[b.size() - 2];
    if (inner_a.known() && inner_b.known() && inner_a.size != inner_b.size)
        fail_node(i.node, fmt::format("{} columns of the first input do not fit {} rows of the second",
                                      inner_a.size, inner_b.size));
    Dims dims = broadcast_dims(i.node, Dims(a.begin(), a.end() - 2), Dims(b.begin(), b.end() - 2));
    if (!row) dims.push_back(a[a.size() - 2]);
    if (!column) dims.push_back(b.back());
    i.set(0, i.type(0), std::move(dims));
}

// For each pair of a broadcast batch, the index of its matrix in an input.
std::vector<std::size_t> batch_indices(const Shape& batch, const Shape& own) {
    std::vector<std::int64_t> values(element_count(own));
    std::iota(values.begin(), values.end(), 0);
    const auto numbers = make_tensor<std::int64_t>(own, values);
    Tensor out(DType::i64, batch);
    expand(numbers.view(), {}, out.view());
    const auto all = out.values<std::int64_t>();
    return {all.begin(), all.end()};
}

ProductBatch matmul_batch(Shape a, Shape b) {
    if (a.size() == 1) a.insert(a.begin(), 1);
    if (b.size() == 1) b.push_back(1);
    const auto at = [](const Shape& s, std::size_t from_end) {
        return static_cast<std::size_t>(s[s.size() - from_end]);
    };
    ProductBatch p{{at(a, 2), at(a, 1), at(b, 1)}, {}, {}};
    Shape batch_a(a.begin(), a.end() - 2);
    Shape batch_b(b.begin(), b.end() - 2);
    if (batch_b.empty()) {  // one matrix for all rows
        p.sizes.rows *= element_count(batch_a);
        batch_a.clear();
    }
    Shape batch(std::max(batch_a.size(), batch_b.size()), 1);
    for (const auto* s : {&batch_a, &batch_b}) {
        for (std::size_t k = 0; k < s->size(); ++k) {
            auto& size = batch[batch.size() - s->size() + k];
            if ((*s)[k] != 1) size = (*s)[k];
        }
    }
    p.a_index = batch_indices(batch, batch_a);
    p.b_index = batch_indices(batch, batch_b);
    return p;
}

MatrixView<const float> as_rows(const TensorView& t, std::size_t cols) {
    return {reinterpret_cast<const float*>(t.data), cols == 0 ? 0 : t.count() / cols, cols};
}

MatrixView<float> as_rows(const MutableTensorView& t, std::size_t cols) {
    return {reinterpret_cast<float*>(t.data), cols == 0 ? 0 : t.count() / cols, cols};
}

void run_matmul(const Operands& o) {
    if (o.products != nullptr) {
        const auto& weights = o.in(1).shape;
        return o.products->multiply(0, 0, as_rows(o.in(0), static_cast<std::size_t>(weights[0])),
                                    as_rows(o.out(0), static_cast<std::size_t>(weights[1])));
    }
    multiply(matmul_batch(o.in(0).shape, o.in(1).shape), o.in(0), o.in(1), o.exec, o.out(0));
}

struct GemmForm {
    bool transpose_a;
    bool transpose_b;
    float alpha;
    float beta;
};

GemmForm gemm_form(const Node& node) {
    return {int_attribute(node, "transA", 0) != 0, int_attribute(node, "transB", 0) != 0,
            float_attribute(node, "alpha", 1.0F), float_attribute(node, "beta", 1.0F)};
}

void infer_gemm(Inference& i) {
    check_same_type(i, 0, 1);
    check_same_type(i, 0, 2);
    if (!i.ranked(0) || !i.ranked(1)) return i.set(0, i.type(0), Dims(2));
    Dims a = i.dims(0);
    Dims b = i.dims(1);
    if (a.size() != 2 || b.size() != 2) fail_node(i.node, "the inputs must be matrices");
    const auto form = gemm_form(i.node);
    if (form.transpose_a) std::swap(a[0], a[1]);
    if (form.transpose_b) std::swap(b[0], b[1]);
    if (a[1].known() && b[0].known() && a[1].size != b[0].size)
        fail_node(i.node, fmt::format("{} columns of the first input do not fit {} rows of the second",
                                      a[1].size, b[0].size));
    const Dims dims{a[0], b[1]};
    if (i.has(2) && i.ranked(2)) {
        const auto with_bias = broadcast_dims(i.node, dims, i.dims(2));
        const auto grown = [](const Dim& d, const Dim& c) {
            return d.known() && c.known() && d.size != c.size;
        };
        if (with_bias.size() != 2 || grown(dims[0], with_bias[0]) || grown(dims[1], with_bias[1]))
            fail_node(i.node, "the bias has more elements than the product");
    }
    i.set(0, i.type(0), dims);
}

Tensor transposed_matrix(const TensorView& t, const Exec& exec) {
    Tensor out(t.type, {t.shape[1], t.shape[0]});
    transpose(t, {1, 0}, exec, out.view());
    return out;
}

// out = alpha out + beta c, with c broadcast.
void scale_and_add(const GemmForm& form, const TensorView* c, const Exec& exec,
                   const MutableTensorView& out) {
    const bool add = c != nullptr && form.beta != 0.0F;
    if (form.alpha == 1.0F && !add) return;
    const Tensor none(out.type, {1});
    const TensorView addend = add ? *c : none.view();
    visit_dtype(out.type, [&](auto zero) {
        using T = decltype(zero);
        const auto alpha = static_cast<Wide<T>>(form.alpha);
        const auto beta = static_cast<Wide<T>>(form.beta);
        const Broadcast runs(out.shape, {&addend});
        for_blocks(runs, 1, exec,
                   [&](std::size_t at, std::size_t count, const std::vector<BroadcastRun>& in) {
                       const auto* from = reinterpret_cast<const T*>(addend.data) + in[0].offset;
                       auto* to = reinterpret_cast<T*>(out.data) + at;
                       for (std::size_t k = 0; k < count; ++k) {
                           const auto bias = mul_wrapped(beta, widened(from[in[0].repeated ? 0 : k]));
                           to[k] = converted<T>(add_wrapped(mul_wrapped(alpha, widened(to[k])), bias));
                       }
                   });
    });
}

void run_gemm(const Operands& o) {
    const auto form = gemm_form(o.node);
    if (o.products != nullptr) {
        o.products->multiply(0, 0, as_rows(o.in(0), static_cast<std::size_t>(o.in(0).shape[1])),
                             as_rows(o.out(0), static_cast<std::size_t>(o.out(0).shape[1])));
    } else {
        Tensor copy_a;
        Tensor copy_b;
        auto a = o.in(0);
        auto b = o.in(1);
        if (form.transpose_a) a = (copy_a = transposed_matrix(a, o.exec), std::as_const(copy_a).view());
        if (form.transpose_b) b = (copy_b = transposed_matrix(b, o.exec), std::as_const(copy_b).view());
        multiply(matmul_batch(a.shape, b.shape), a, b, o.exec, o.out(0));
    }
    scale_and_add(form, o.has(2) ? &o.in(2) : nullptr, o.exec, o.out(0));
}

// Einsum. Labels are letters; the axes of "..." get the labels '0', '1', ... from the right.
struct Equation {
    std::vector<std::string> inputs;
    std::string output;
};

std::string without_blanks(std::string text) {
    std::erase(text, ' ');
    return text;
}

std::string labels_of(const Node& node, const std::string& term, std::size_t ellipsis_axes) {
    const auto dots = term.find("...");
    std::string labels = dots == std::string::npos ? term : term.substr(0, dots);
    if (dots != std::string::npos) {
        for (std::size_t k = ellipsis_axes; k-- > 0;) labels += static_cast<char>('0' + k);
        labels += term.substr(dots + 3);
    }
    const auto valid = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    };
    if (!std::ranges::all_of(labels, valid))
        fail_node(node, fmt::format("invalid term {} in the equation", in_quotes(term)));
    return labels;
}

// Without "->" the output has the labels that occur once, in alphabetical order.
std::string implicit_output(const std::string& terms) {
    std::map<char, int> counts;
    for (const char c : terms) {
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) ++counts[c];
    }
    std::string output = terms.find("...") != std::string::npos ? "..." : "";
    for (const auto& [label, count] : counts) {
        if (count == 1) output += label;
    }
    return output;
}

Equation parse_equation(const Node& node, const std::vector<std::size_t>& ranks) {
    const auto text = without_blanks(text_attribute(node, "equation", ""));
    const auto arrow = text.find("->");
    const std::string left = text.substr(0, arrow);
    const std::string output = arrow == std::string::npos ? implicit_output(left) : text.substr(arrow + 2);
    Equation e;
    std::size_t most = 0;
    std::size_t begin = 0;
    for (std::size_t k = 0; k < ranks.size(); ++k) {
        const auto end = left.find(',', begin);
        if ((end == std::string::npos) != (k + 1 == ranks.size()))
            fail_node(node,
                      fmt::format("the equation {} does not have {} terms", in_quotes(text), ranks.size()));
        const auto term = left.substr(begin, end - begin);
        const bool dots = term.find("...") != std::string::npos;
        const std::size_t own = dots ? term.size() - 3 : term.size();
        if (ranks[k] < own || (!dots && ranks[k] != own) || ranks[k] - own > 9)
            fail_node(node, fmt::format("the term {} does not fit an input with {} axes", in_quotes(term),
                                        ranks[k]));
        most = std::max(most, ranks[k] - own);
        e.inputs.push_back(labels_of(node, term, ranks[k] - own));
        begin = end + 1;
    }
    e.output = labels_of(node, output, most);
    return e;
}

using LabelSizes = std::map<char, Dim>;

LabelSizes label_sizes(const Inference& i, const Equation& e) {
    LabelSizes sizes;
    for (std::size_t k = 0; k < e.inputs.size(); ++k) {
        for (std::size_t a = 0; a < e.inputs[k].size(); ++a) {
            const auto [at, added] = sizes.try_emplace(e.inputs[k][a], i.dims(k)[a]);
            if (!added) at->second = broadcast_dim(i.node, at->second, i.dims(k)[a]);
        }
    }
    return sizes;
}

void infer_einsum(Inference& i) {
    std::vector<std::size_t> ranks;
    for (std::size_t k = 0; k < i.inputs.size(); ++k) {
        if (!i.has(k)) fail_node(i.node, "an input is omitted");
        check_same_type(i, 0, k);
        if (!i.ranked(k)) return i.set(0, i.type(0), std::nullopt);
        ranks.push_back(i.dims(k).size());
    }
    const auto e = parse_equation(i.node, ranks);
    auto sizes = label_sizes(i, e);
    Dims dims;
    for (const char label : e.output) {
        if (!sizes.contains(label))
            fail_node(i.node, fmt::format("output label '{}' does not occur in any input", label));
        if (std::ranges::count(e.output, label) > 1)
            fail_node(i.node, fmt::format("duplicate label '{}' in the output", label));
        dims.push_back(sizes[label]);
    }
    i.set(0, i.type(0), std::move(dims));
}

// Sizes and strides of all labels for a direct evaluation: output labels first, then those that are summed.
struct EinsumLoops {
    std::string labels;
    std::vector<std::size_t> sizes;
    std::vector<std::vector<std::size_t>> strides;  // per input and label
    std::size_t outputs = 1;
    std::size_t terms = 1;
};

EinsumLoops einsum_loops(const Operands& o, const Equation& e) {
    EinsumLoops p;
    p.labels = e.output;
    for (const auto& term : e.inputs) {
        for (const char label : term) {
            if (p.labels.find(label) == std::string::npos) p.labels += label;
        }
    }
    p.sizes.assign(p.labels.size(), 1);
    p.strides.assign(e.inputs.size(), std::vector<std::size_t>(p.labels.size(), 0));
    for (std::size_t k = 0; k < e.inputs.size(); ++k) {
        const auto strides = strides_of(o.in(k).shape);
        for (std::size_t a = 0; a < e.inputs[k].size(); ++a) {
            const auto at = p.labels.find(e.inputs[k][a]);
            const auto size = static_cast<std::size_t>(o.in(k).shape[a]);
            if (size == 1) continue;
            p.sizes[at] = size;
            p.strides[k][at] += static_cast<std::size_t>(strides[a]);
        }
    }
    for (std::size_t l = 0; l < p.labels.size(); ++l)
        (l < e.output.size() ? p.outputs : p.terms) *= p.sizes[l];
    return p;
}

void run_einsum_directly(const Operands& o, const Equation& e) {
    const auto p = einsum_loops(o, e);
    visit_dtype(o.out(0).type, [&](auto zero) {
        using T = decltype(zero);
        using C = std::conditional_t<std::is_same_v<Wide<T>, float>, double, Wide<T>>;
        const auto out = o.out(0).template values<T>();
        for_parts(o.exec, p.outputs, 4096 / (p.terms + 1) + 1, [&](std::size_t first, std::size_t count) {
            for (std::size_t k = first; k < first + count; ++k) {
                C sum = 0;
                for (std::size_t t = 0; t < p.terms; ++t) {
                    C product = 1;
                    for (std::size_t n = 0; n < o.inputs.size(); ++n) {
                        std::size_t at = 0;
                        std::size_t rest = t;
                        std::size_t place = k;
                        for (std::size_t l = p.labels.size(); l-- > 0;) {
                            auto& number = l < e.output.size() ? place : rest;
                            at += number % p.sizes[l] * p.strides[n][l];
                            number /= p.sizes[l];
                        }
                        product =
                            mul_wrapped(product, static_cast<C>(widened(o.in(n).template values<T>()[at])));
                    }
                    sum = add_wrapped(sum, product);
                }
                out[k] = converted<T>(sum);
            }
        });
    });
}

// Two inputs whose equation is a product of matrices, up to the order of the axes.
struct EinsumProduct {
    std::string batch;  // labels of both inputs and the output
    std::string left;   // of the first input and the output
    std::string inner;  // of both inputs: summed
    std::string right;
};

std::optional<EinsumProduct> as_product(const Operands& o, const Equation& e) {
    if (e.inputs.size() != 2) return std::nullopt;
    const auto& [a, b] = std::pair(e.inputs[0], e.inputs[1]);
    const auto in = [](const std::string& labels, char c) { return labels.find(c) != std::string::npos; };
    EinsumProduct p;
    for (const char c : a) {
        if (std::ranges::count(a, c) > 1) return std::nullopt;
        if (in(b, c) && o.in(0).shape[a.find(c)] != o.in(1).shape[b.find(c)]) return std::nullopt;
        if (!in(b, c) && !in(e.output, c)) return std::nullopt;
        (in(b, c) ? in(e.output, c) ? p.batch : p.inner : p.left) += c;
    }
    for (const char c : b) {
        if (std::ranges::count(b, c) > 1 || (!in(a, c) && !in(e.output, c))) return std::nullopt;
        if (!in(a, c)) p.right += c;
    }
    return p;
}

// A tensor with its axes in the order of `wanted`.
Tensor reordered(const TensorView& t, const std::string& labels, const std::string& wanted,
                 const Exec& exec) {
    std::vector<std::size_t> order;
    Shape shape;
    for (const char c : wanted) {
        order.push_back(labels.find(c));
        shape.push_back(t.shape[order.back()]);
    }
    Tensor out(t.type, shape);
    transpose(t, order, exec, out.view());
    return out;
}

void run_einsum_product(const Operands& o, const Equation& e, const EinsumProduct& p) {
    const auto a = reordered(o.in(0), e.inputs[0], p.batch + p.left + p.inner, o.exec);
    const auto b = reordered(o.in(1), e.inputs[1], p.batch + p.inner + p.right, o.exec);
    const auto count = [](const Shape& s, std::size_t first, std::size_t n) {
        return element_count(Shape(s.begin() + static_cast<std::ptrdiff_t>(first),
                                   s.begin() + static_cast<std::ptrdiff_t>(first + n)));
    };
    const std::size_t nb = p.batch.size();
    ProductBatch batch{{count(a.shape, nb, p.left.size()), count(b.shape, nb, p.inner.size()),
                        count(b.shape, nb + p.inner.size(), p.right.size())},
                       std::vector<std::size_t>(count(a.shape, 0, nb)),
                       {}};
    std::iota(batch.a_index.begin(), batch.a_index.end(), 0);
    batch.b_index = batch.a_index;
    Shape shape(a.shape.begin(), a.shape.begin() + static_cast<std::ptrdiff_t>(nb + p.left.size()));
    shape.insert(shape.end(), b.shape.begin() + static_cast<std::ptrdiff_t>(nb + p.inner.size()),
                 b.shape.end());
    Tensor c(a.type, shape);
    multiply(batch, a.view(), b.view(), o.exec, c.view());
    std::vector<std::size_t> order;
    const auto labels = p.batch + p.left + p.right;
    for (const char label : e.output) order.push_back(labels.find(label));
    transpose(std::as_const(c).view(), order, o.exec, o.out(0));
}

void run_einsum(const Operands& o) {
    std::vector<std::size_t> ranks;
    for (const auto* in : o.inputs) ranks.push_back(in->shape.size());
    const auto e = parse_equation(o.node, ranks);
    const auto product = as_product(o, e);
    product ? run_einsum_product(o, e, *product) : run_einsum_directly(o, e);
}

}  // namespace

std::span<const Operator> matmul_operators() {
    static const Operator rows[] = {
        {"MatMul", 1, 2, 2, infer_matmul, run_matmul},
        {"Gemm", 7, 2, 3, infer_gemm, run_gemm},
        {"Einsum", 12, 1, kAnyNumber, infer_einsum, run_einsum},
    };
    return rows;
}

}  // namespace imka::graph
