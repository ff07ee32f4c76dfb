#include "imka/deploy/imka_work.hpp"

#include "imka/ops/attention/form.hpp"
#include "imka/ops/feature_row/feature_row.hpp"

namespace imka {
namespace {

using graph::Node;
using graph::Shape;
using Shapes = std::span<const Shape>;

double width_of(const Shape& shape) {
    return shape.empty() ? 1.0 : static_cast<double>(shape.back());
}

double rows_of(const Shape& shape) {
    double rows = 1.0;
    for (std::size_t a = 0; a + 1 < shape.size(); ++a) rows *= static_cast<double>(shape[a]);
    return rows;
}

constexpr DigitalWork kMultiplyAdd{.additions = 1, .multiplications = 1};

// Of one projection.
DigitalWork feature_work(ops::AttentionForm form) {
    using enum ops::AttentionForm;
    switch (form) {
        case positive:
        case cos_sin:
            return {.exponentials = 2, .additions = 3};  // maximum and two differences
        case single:
        case exp:
            return {.exponentials = 1, .additions = 2};
        case relu:
            return {.additions = 1};
        case elu:
            return {.exponentials = 1, .additions = 2};
        case square:
            break;
    }
    return {.multiplications = 1};
}

// Features of rows of projections, with the epsilon added to each.
DigitalWork form_work(const Node& node, const ops::AttentionFormRow& form, const Shape& projections) {
    const double rows = rows_of(projections);
    const double m = width_of(projections);
    DigitalWork work;
    add_work(feature_work(form.form), rows * m, work);
    if (graph::float_attribute(node, "epsilon", 0.0F) != 0.0F)
        work.additions += rows * m * static_cast<double>(form.per_direction);
    return work;
}

DigitalWork features_work(const Node& node, Shapes in) {
    using enum ops::FeatureFunction;
    const auto function =
        parse_enum<ops::FeatureFunction>(graph::text_attribute(node, "function", "cos_sin"));
    const double rows = rows_of(in[0]);
    const double m = width_of(in[0]);
    DigitalWork work;
    work.multiplications += rows * m * static_cast<double>(ops::features_per_direction(function));
    if (function == cos_sin || function == exp_plus_minus) work.exponentials += 2.0 * rows * m;
    if (function == offset_cos) work.exponentials += rows * m;
    if (function != cos_sin) work.additions += rows * m;
    if (function == relu_squared) work.multiplications += rows * m;
    if (in.size() > 1 && graph::float_attribute(node, "norm_exponent", 0.0F) != 0.0F)
        work.norm_elements += rows * width_of(in[1]);
    return work;
}

}  // namespace

AttentionWork attention_work(const Node& node, Shapes in) {
    const auto& form =
        ops::attention_form(parse_enum<ops::AttentionForm>(graph::text_attribute(node, "form", "positive")));
    const double queries = rows_of(in[0]);
    const double keys = rows_of(in[1]);
    const double features = static_cast<double>(form.per_direction) * width_of(in[0]);
    const double values = width_of(in[2]);
    AttentionWork work{.keys = form_work(node, form, in[1]), .queries = form_work(node, form, in[0])};
    if (form.norm_exponent != 0.0) work.keys.norm_elements += keys * width_of(in[3]);
    add_work(kMultiplyAdd, keys * features * values, work.keys);
    work.keys.additions += keys * features;
    add_work(kMultiplyAdd, queries * features * (values + 1.0), work.queries);
    work.queries.divisions += queries;
    work.queries.multiplications += queries * values;
    return work;
}

std::optional<DigitalWork> imka_work(const Node& node, Shapes inputs) {
    if (node.op == "imka.Attention") {
        auto [keys, queries] = attention_work(node, inputs);
        add_work(keys, 1.0, queries);
        return queries;
    }
    if (node.op == "imka.Features") return features_work(node, inputs);
    if (node.op != "imka.Scores") return std::nullopt;
    DigitalWork work;
    add_work(kMultiplyAdd, rows_of(inputs[0]) * width_of(inputs[0]) * rows_of(inputs[1]), work);
    return work;
}

}  // namespace imka
