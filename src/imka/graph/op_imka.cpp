// Operators of imka's own models, which are not part of ONNX. They call the same functions as the models, so
// that a lowered model gives the same bits.
#include <fmt/format.h>

#include <cmath>

#include "imka/base/parallel.hpp"
#include "imka/graph/operator.hpp"
#include "imka/ops/attention/kernel_heads.hpp"
#include "imka/ops/dot/dot.hpp"
#include "imka/ops/feature_row/feature_row.hpp"

namespace imka::graph {
namespace {

constexpr std::size_t kRowsPerTask = 256;

ops::FeatureFunction function_of(const Node& node) {
    return parse_enum<ops::FeatureFunction>(text_attribute(node, "function", "cos_sin"));
}

// An f64 attribute: a tensor of one element, because ONNX has no such attributes.
double double_attribute(const Node& node, std::string_view name, double otherwise) {
    const auto found = node.attributes.find(name);
    if (found == node.attributes.end()) return otherwise;
    const auto* tensor = std::get_if<Tensor>(&found->second);
    if (tensor == nullptr || tensor->view().count() != 1)
        fail_node(node, fmt::format("attribute '{}' must be a tensor of one element", name));
    return to_number(tensor->view());
}

void infer_features(Inference& i) {
    if (!i.ranked(0)) return i.set(0, DType::f32, std::nullopt);
    Dims dims = i.dims(0);
    if (dims.empty()) fail_node(i.node, "expected rows of projections");
    if (dims.back().known())
        dims.back().size *= static_cast<std::int64_t>(ops::features_per_direction(function_of(i.node)));
    i.set(0, DType::f32, std::move(dims));
}

std::size_t row_length(const Shape& shape) {
    return shape.empty() ? 1 : static_cast<std::size_t>(shape.back());
}

// Calls body(r) for every row.
template <class Body>
void for_rows(const Exec& exec, std::size_t rows, const Body& body) {
    parallel_for(exec, (rows + kRowsPerTask - 1) / kRowsPerTask, [&](std::size_t t) {
        for (std::size_t r = t * kRowsPerTask; r < std::min(rows, (t + 1) * kRowsPerTask); ++r) body(r);
    });
}

// Inputs: projections u; optionally x, whose norms scale the features; optionally offsets.
void run_features(const Operands& o) {
    require_f32(o);
    const ops::FeatureRow row{.function = function_of(o.node),
                              .scale = double_attribute(o.node, "scale", 1.0),
                              .norm_exponent = float_attribute(o.node, "norm_exponent", 0.0F)};
    const auto m = row_length(o.in(0).shape);
    const auto width = row_length(o.out(0).shape);
    const auto u = o.in(0).values<float>();
    const auto z = o.out(0).values<float>();
    const auto x = o.has(1) ? o.in(1).values<float>() : std::span<const float>{};
    const auto d = o.has(1) ? row_length(o.in(1).shape) : 0;
    const auto offsets = o.has(2) ? o.in(2).values<float>() : std::span<const float>{};
    const auto rows = m == 0 ? 0 : u.size() / m;
    if (row.norm_exponent != 0.0 && x.size() != rows * d)
        fail_node(o.node, "x and the projections have different numbers of rows");
    if (row.function == ops::FeatureFunction::offset_cos && offsets.size() != m)
        fail_node(o.node, "expected one offset per projection");
    for_rows(o.exec, rows, [&](std::size_t r) {
        const double norm2 = row.norm_exponent != 0.0 ? ops::squared_norm(x.subspan(r * d, d)) : 0.0;
        ops::feature_row(row, u.subspan(r * m, m), offsets, norm2, z.subspan(r * width, width));
    });
}

void infer_scores(Inference& i) {
    if (i.type(1) != DType::f64 || i.type(2) != DType::f64)
        fail_node(i.node, "weights and intercepts must be f64");
    if (!i.ranked(0) || !i.ranked(1)) return i.set(0, DType::f64, std::nullopt);
    if (i.dims(0).size() != 2 || i.dims(1).size() != 2) fail_node(i.node, "expected matrices");
    (void)same_dim(i.node, i.dims(0)[1], i.dims(1)[1]);
    i.set(0, DType::f64, Dims{i.dims(0)[0], i.dims(1)[0]});
}

// Inputs: rows of f32; weights of f64, one row per output; intercepts. Outputs in double.
void run_scores(const Operands& o) {
    require_f32(o);
    const auto d = row_length(o.in(0).shape);
    const auto outputs = static_cast<std::size_t>(o.in(1).shape[0]);
    const auto z = o.in(0).values<float>();
    const auto w = o.in(1).values<double>();
    const auto intercept = o.in(2).values<double>();
    const auto y = o.out(0).values<double>();
    if (intercept.size() != outputs) fail_node(o.node, "expected one intercept per output");
    for_rows(o.exec, static_cast<std::size_t>(o.in(0).shape[0]), [&](std::size_t r) {
        for (std::size_t k = 0; k < outputs; ++k)
            y[r * outputs + k] = intercept[k] + ops::dot(z.subspan(r * d, d), w.subspan(k * d, d));
    });
}

// Inputs of imka.Attention. The last two axes are tokens and components, the axis before them is heads; any
// axes before that are sequences.
enum AttentionInput : std::size_t {
    kQueryProjections,
    kKeyProjections,
    kValues,
    kKeys,     // for norms; only for forms that need them
    kKeyMask,  // sequences x keys; 0 or false: ignored
};

const ops::AttentionFormRow& attention_form_of(const Node& node) {
    return ops::attention_form(parse_enum<ops::AttentionForm>(text_attribute(node, "form", "positive")));
}

// Sequences, heads and tokens of `input` are those of the projections of keys.
void check_key_tokens(const Inference& i, std::size_t input) {
    const auto& a = i.dims(input);
    const auto& b = i.dims(kKeyProjections);
    if (a.size() != b.size())
        fail_node(i.node, fmt::format("input {} has {} axes, but the projections have {}", input, a.size(),
                                      b.size()));
    for (std::size_t k = 0; k + 1 < a.size(); ++k) (void)same_dim(i.node, a[k], b[k]);
}

void check_heads(const Inference& i) {
    const auto& q = i.dims(kQueryProjections);
    if (q.size() < 3) return;
    const auto& heads = q[q.size() - 3];
    const auto& key_heads = i.dims(kKeyProjections)[q.size() - 3];
    if (heads.known() && key_heads.known() && (key_heads.size == 0 || heads.size % key_heads.size != 0))
        fail_node(i.node, fmt::format("{} heads of queries cannot share {} heads of keys", heads.size,
                                      key_heads.size));
}

void check_key_mask(const Inference& i) {
    if (i.type(kKeyMask) != DType::bool_ && i.type(kKeyMask) != DType::u8)
        fail_node(i.node, "the key mask must be bool or u8");
    if (!i.ranked(kKeyMask)) return;
    Dims wanted = i.dims(kKeyProjections);
    wanted.pop_back();
    if (wanted.size() > 1) wanted.erase(wanted.end() - 2);
    const auto& mask = i.dims(kKeyMask);
    if (mask.size() != wanted.size())
        fail_node(i.node, fmt::format("the key mask must have {} axes: sequences and keys", wanted.size()));
    for (std::size_t k = 0; k < mask.size(); ++k) (void)same_dim(i.node, mask[k], wanted[k]);
}

void check_attention(const Inference& i) {
    const auto& q = i.dims(kQueryProjections);
    const auto& k = i.dims(kKeyProjections);
    if (q.size() < 2 || k.size() != q.size())
        fail_node(i.node, "expected query and key projections with equal numbers of axes, at least 2");
    (void)same_dim(i.node, q.back(), k.back());
    if (q.back().known() && q.back().size == 0) fail_node(i.node, "expected at least one projection");
    for (std::size_t a = 0; a + 3 < q.size(); ++a) (void)same_dim(i.node, q[a], k[a]);
    if (int_attribute(i.node, "causal", 0) != 0) (void)same_dim(i.node, q[q.size() - 2], k[k.size() - 2]);
    check_heads(i);
    check_key_tokens(i, kValues);
    if (i.has(kKeys) && i.ranked(kKeys)) check_key_tokens(i, kKeys);
    if (i.has(kKeyMask)) check_key_mask(i);
}

void infer_attention(Inference& i) {
    const auto& form = attention_form_of(i.node);
    for (const auto input : {kQueryProjections, kKeyProjections, kValues, kKeys}) {
        if (i.has(input) && i.type(input) != DType::f32) fail_type(i.node, i.type(input));
    }
    if (form.norm_exponent != 0.0 && !i.has(kKeys))
        fail_node(i.node, fmt::format("form {} needs the keys (input {})", to_string(form.form),
                                      static_cast<std::size_t>(kKeys)));
    if (!i.ranked(kQueryProjections) || !i.ranked(kKeyProjections) || !i.ranked(kValues))
        return i.set(0, DType::f32, std::nullopt);
    check_attention(i);
    Dims out = i.dims(kQueryProjections);
    out.back() = i.dims(kValues).back();
    i.set(0, DType::f32, std::move(out));
}

// Rows of a contiguous tensor of heads.
template <class T>
struct TokenRows {
    T* data = nullptr;
    std::size_t length = 0;
    std::size_t width = 0;
    MatrixView<T> operator()(const ops::HeadRange& r) const {
        return {data + (r.head * length + r.begin) * width, r.end - r.begin, width};
    }
};

// One sequence of the tensors.
class TensorHeads : public ops::HeadSource {
public:
    TokenRows<const float> query_projections;
    TokenRows<const float> key_projections;
    TokenRows<const float> value_rows;
    TokenRows<const float> key_rows;  // of width 0 if no norms are needed
    TokenRows<float> output_rows;

    ops::HeadRows queries(const ops::HeadRange& r, Matrix<float>& /*u*/) const override {
        const auto u = query_projections(r);
        return {{u.data(), u.rows(), 0}, u};  // norms of queries cancel
    }
    ops::HeadRows keys(const ops::HeadRange& r, Matrix<float>& /*u*/) const override {
        return {key_rows(r), key_projections(r)};
    }
    MatrixView<const float> values(const ops::HeadRange& r) const override { return value_rows(r); }
    MatrixView<float> outputs(const ops::HeadRange& r) const override { return output_rows(r); }
};

std::size_t axis_from_end(const Shape& shape, std::size_t from_end) {
    return from_end < shape.size() ? static_cast<std::size_t>(shape[shape.size() - 1 - from_end]) : 1;
}

// Rows of sequence s of `count` sequences.
template <class T, class Byte>
TokenRows<T> token_rows(const BasicTensorView<Byte>& tensor, std::size_t s, std::size_t count) {
    const auto values = tensor.template values<float>();
    return {values.data() + s * (values.size() / count), axis_from_end(tensor.shape, 1),
            axis_from_end(tensor.shape, 0)};
}

TensorHeads source_of(const Operands& o, std::size_t s, std::size_t count) {
    TensorHeads source;
    source.query_projections = token_rows<const float>(o.in(kQueryProjections), s, count);
    source.key_projections = token_rows<const float>(o.in(kKeyProjections), s, count);
    source.value_rows = token_rows<const float>(o.in(kValues), s, count);
    source.key_rows = attention_form_of(o.node).norm_exponent == 0.0
                          ? source.key_projections
                          : token_rows<const float>(o.in(kKeys), s, count);
    source.output_rows = token_rows<float>(o.out(0), s, count);
    return source;
}

ops::HeadSequence sequence_of(const Operands& o, std::size_t s, const TensorHeads& source) {
    const auto& q = o.in(kQueryProjections).shape;
    const auto& k = o.in(kKeyProjections).shape;
    ops::HeadSequence sequence{.source = &source,
                               .heads = axis_from_end(q, 2),
                               .key_heads = axis_from_end(k, 2),
                               .queries = axis_from_end(q, 1),
                               .keys = axis_from_end(k, 1),
                               .value_size = axis_from_end(o.out(0).shape, 0)};
    if (o.has(kKeyMask)) {
        const auto* mask = reinterpret_cast<const std::uint8_t*>(o.in(kKeyMask).data);
        sequence.key_mask = {mask + s * sequence.keys, sequence.keys};
    }
    return sequence;
}

// Attributes: form, epsilon, causal, input_scale (f64; applied to the keys before their norms are computed).
void run_attention(const Operands& o) {
    if (o.out(0).count() == 0) return;
    const auto& q = o.in(kQueryProjections).shape;
    const auto m = axis_from_end(q, 0);
    const auto count = element_count(q) / (axis_from_end(q, 2) * axis_from_end(q, 1) * m);
    std::vector<TensorHeads> sources;
    std::vector<ops::HeadSequence> sequences;
    for (std::size_t s = 0; s < count; ++s) sources.push_back(source_of(o, s, count));
    for (std::size_t s = 0; s < count; ++s) sequences.push_back(sequence_of(o, s, sources[s]));
    const ops::HeadRule rule{
        .features = {attention_form_of(o.node).form, m, float_attribute(o.node, "epsilon", 0.0F)},
        .input_scale = double_attribute(o.node, "input_scale", 1.0)};
    ops::kernel_heads(sequences, {rule, int_attribute(o.node, "causal", 0) != 0}, o.exec);
}

}  // namespace

std::span<const Operator> imka_operators() {
    static const Operator rows[] = {
        {"imka.Attention", 1, 3, 5, infer_attention, run_attention},
        {"imka.Features", 1, 1, 3, infer_features, run_features},
        {"imka.Scores", 1, 3, 3, infer_scores, run_scores},
    };
    return rows;
}

}  // namespace imka::graph
