#include "imka/learn/ridge_graph.hpp"

#include <string>
#include <utility>
#include <vector>

#include "imka/graph/builder.hpp"
#include "imka/linalg/gemm.hpp"

namespace imka {
namespace {

using graph::Builder;
using graph::DType;
using graph::Graph;
using graph::matrix_tensor;
using graph::row_tensor;
using graph::ValueId;

// In double, rounded once.
ValueId standardised(Builder& b, const Standardization& s, ValueId x) {
    if (s.mean.empty()) return x;
    x = b.cast("x64", x, DType::f64);
    x = b.node("Sub", "centred", {x, b.constant("mean", row_tensor(s.mean))});
    x = b.node("Div", "standardised64", {x, b.constant("std", row_tensor(s.std))});
    return b.cast("standardised", x, DType::f32);
}

ValueId features(Builder& b, const RidgeModel& model, ValueId x) {
    const auto functions = feature_functions(model.recipe);
    const auto scale = b.constant("input_scale", row_tensor(std::vector{functions.input_scale}));
    x = b.node("Mul", "scaled", {x, scale});
    const auto omega = b.constant("projection", matrix_tensor(transposed(model.omega.view())));
    const auto u = b.node("MatMul", "projected", {x, omega});
    std::vector<ValueId> inputs{u, x};
    if (!functions.offsets.empty()) inputs.push_back(b.constant("offsets", row_tensor(functions.offsets)));
    return b.node("imka.Features", "features", std::move(inputs),
                  {{"function", std::string(to_string(functions.row.function))},
                   {"scale", graph::double_tensor(functions.row.scale)},
                   {"norm_exponent", static_cast<float>(functions.row.norm_exponent)}});
}

// A tie goes to the first class.
ValueId classified(Builder& b, const RidgeModel& model, ValueId scores) {
    if (model.weights.w.cols() > 1)
        return b.node("ArgMax", "class", {scores},
                      {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{0}}});
    const double threshold = model.targets == Targets::plus_minus ? 0.0 : 0.5;
    const auto above =
        b.node("Greater", "above", {scores, b.constant("threshold", row_tensor(std::vector{threshold}))});
    const auto column = b.cast("class_column", above, DType::i64);
    return b.node("Squeeze", "class", {column, b.constant("axes", row_tensor(std::vector<std::int64_t>{1}))});
}

}  // namespace

Graph graph_of(const RidgeModel& model) {
    Builder b;
    const auto width = static_cast<std::int64_t>(model.omega.cols());
    const auto raw = b.input("x", graph::Dims{{.name = "batch"}, {.size = width}});
    const auto x = standardised(b, model.standardization, raw);
    const auto z = features(b, model, x);
    const auto& w = model.weights;
    Matrix<double> weights(w.w.cols(), w.w.rows());
    for (std::size_t i = 0; i < w.w.rows(); ++i) {
        for (std::size_t k = 0; k < w.w.cols(); ++k) weights(k, i) = w.w(i, k);
    }
    const auto scores = b.node(
        "imka.Scores", "scores",
        {z, b.constant("weights", matrix_tensor(weights)), b.constant("intercept", row_tensor(w.intercept))});
    std::vector<ValueId> outputs{scores};
    if (!model.classes.empty()) outputs.push_back(classified(b, model, scores));
    return std::move(b).finished("ridge", std::move(outputs));
}

}  // namespace imka
