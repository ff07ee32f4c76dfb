// Inner loops of attention on matrices in panels (ops/panel): features of keys and queries, softmax of blocks
// of scores. ops/attention/head.hpp combines them.
//
// Domain: finite projections. Accuracy: exponentials within 2 ULP of the exact value for the rounded
// exponent; below exp(-87) they are 0. cos and sin as in ops/epilogue. The bits of a row depend only on the
// row and the instruction set. Cost: one pass over the projections for the largest exponent and one for the
// features, in the widest vectors of the processor, selected at run time.
#pragma once

#include <cstddef>
#include <span>

#include "imka/ops/attention/form.hpp"
#include "imka/ops/panel/panel.hpp"

namespace imka::ops {

struct FeatureRule {
    AttentionForm form = AttentionForm::positive;
    std::size_t directions = 0;  // m
    float epsilon = 0.0F;        // added to every feature
    // m rounded up to whole panels. Features of padding are 0.
    std::size_t padded() const { return (directions + panel_width() - 1) / panel_width() * panel_width(); }
    std::size_t features() const { return attention_form(form).per_direction * padded(); }
};

// Keys: features in rows, keys in columns. t has rule.features() rows; the first m hold the projections.
// shifts has one value per column, padding included: the exponent of a key, -infinity if it is ignored.

// exponents[j]: the largest exponent of a feature of key j; -infinity if it is ignored. 0 for forms that are
// not exponential.
void key_exponents(const FeatureRule& rule, std::span<const float> shifts, const Panels& t,
                   std::span<float> exponents);
// Replaces projections by features. Features of ignored keys are 0. epsilon is added only for forms that are
// not exponential; for the others, see prepare() in head.hpp.
void key_features(const FeatureRule& rule, std::span<const float> shifts, Panels& t);
// sums[j] = sum of squares of column j of x.
void column_squares(const Panels& x, std::span<float> sums);
// sums[f] = sum of row f of t.
void row_sums(const Panels& t, std::span<float> sums);

// Queries: queries in rows, features in columns. z has rule.features() columns; the first m hold the
// projections. Exponential features are divided by the largest one of their row; maxima gets its exponent.
void query_features(const FeatureRule& rule, std::span<float> maxima, Panels& z);
// out[r] = zᵀ(r) w; w has z.cols() values.
void row_dots(const Panels& z, std::span<const float> w, std::span<float> out);

// Running softmax of rows whose scores arrive in blocks of columns.
struct SoftmaxRow {
    float most;    // largest score so far; -infinity at the start
    float sum;     // of exp(score - most)
    float factor;  // for the sums of earlier blocks: exp(earlier most - most)
};
// Replaces the scores of each row by exp(score - most). limits[r]: number of columns that row r uses; the
// others become 0. biases: one per column, padding included; 0, or -infinity for an ignored column.
void softmax_block(std::span<const std::size_t> limits, std::span<const float> biases,
                   std::span<SoftmaxRow> rows, Panels& scores);

}  // namespace imka::ops
