// Operators of imka's own models, which ONNX does not have: the same functions that the models call
// themselves, so that a lowered model has the same bits.
#include <fmt/format.h>

#include "imka/base/parallel.hpp"
#include "imka/graph/operator.hpp"
#include "imka/ops/dot/dot.hpp"
#include "imka/ops/feature_row/feature_row.hpp"

namespace imka::graph {
namespace {

constexpr std::size_t kRowsPerTask = 256;

ops::FeatureFunction function_of(const Node& node) {
    return parse_enum<ops::FeatureFunction>(text_attribute(node, "function", "cos_sin"));
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
    const auto scale = o.node.attributes.find("scale");
    const ops::FeatureRow row{
        .function = function_of(o.node),
        .scale = scale == o.node.attributes.end() ? 1.0 : to_number(std::get<Tensor>(scale->second).view()),
        .norm_exponent = float_attribute(o.node, "norm_exponent", 0.0F)};
    const auto m = row_length(o.in(0).shape);
    const auto width = row_length(o.out(0).shape);
    const auto u = o.in(0).values<float>();
    const auto z = o.out(0).values<float>();
    const auto x = o.has(1) ? o.in(1).values<float>() : std::span<const float>{};
    const auto d = o.has(1) ? row_length(o.in(1).shape) : 0;
    const auto offsets = o.has(2) ? o.in(2).values<float>() : std::span<const float>{};
    const auto rows = m == 0 ? 0 : u.size() / m;
    if (row.norm_exponent != 0.0 && x.size() != rows * d) fail_node(o.node, "x has another number of rows");
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

}  // namespace

std::span<const Operator> imka_operators() {
    static const Operator rows[] = {
        {"imka.Features", 1, 1, 3, infer_features, run_features},
        {"imka.Scores", 1, 3, 3, infer_scores, run_scores},
    };
    return rows;
}

}  // namespace imka::graph
