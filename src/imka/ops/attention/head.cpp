#include "imka/ops/attention/head.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

namespace imka::ops {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool is_exponential(const FeatureRule& rule) {
    return attention_form(rule.form).exponential;
}
// Exponential features get their epsilon later, where the common exponent is known.
double late_epsilon(const FeatureRule& rule) {
    return is_exponential(rule) ? double{rule.epsilon} : 0.0;
}
double norm_exponent(const HeadRule& rule) {
    return attention_form(rule.features.form).norm_exponent * rule.input_scale * rule.input_scale;
}
// exp(a - b); 0 if a is -infinity, that is, if there are no terms.
double relative(double a, double b) {
    return a == -kInfinity ? 0.0 : std::exp(a - b);
}

void shift_keys(const HeadRule& rule, std::size_t keys, std::span<const std::uint8_t> keep, KeyBlock& out) {
    out.shifts.assign(out.features.panels() * out.features.width(), 0.0F);
    const double exponent = norm_exponent(rule);
    if (exponent != 0.0) {
        column_squares(out.inputs, out.shifts);
        for (auto& s : out.shifts) s = static_cast<float>(exponent * s);
    }
    for (std::size_t j = 0; j < out.shifts.size(); ++j) {
        if (j >= keys || (!keep.empty() && keep[j] == 0)) out.shifts[j] = -kInfinity;
    }
}

}  // namespace

Directions directions_of(MatrixView<const float> omega, double input_scale) {
    Directions out{.rows = Matrix<float>(omega.rows(), omega.cols()), .columns = {}};
    for (std::size_t i = 0; i < omega.rows(); ++i) {
        for (std::size_t k = 0; k < omega.cols(); ++k)
            out.rows(i, k) = static_cast<float>(input_scale * omega(i, k));
    }
    out.columns.reshape(omega.cols(), omega.rows());
    pack_transposed(out.rows, 1.0F, {}, out.columns);
    return out;
}

void make_key_block(const HeadRule& rule, const HeadRows& keys, MatrixView<const float> values,
                    std::span<const std::uint8_t> keep, KeyBlock& out) {
    const std::size_t n = keys.x.rows();
    const bool projected = keys.u.rows() > 0;
    assert(projected || rule.directions != nullptr);
    out.features.reshape(rule.features.features(), n);
    if (!projected || norm_exponent(rule) != 0.0) {
        out.inputs.reshape(keys.x.cols(), n);
        pack_transposed(keys.x, 1.0F, keep, out.inputs);
    }
    if (projected) {
        pack_transposed(keys.u, 1.0F, keep, out.features);
    } else {
        multiply(rule.directions->rows.view(), out.inputs, out.features);
    }
    shift_keys(rule, n, keep, out);
    out.maxima.resize(out.shifts.size());
    key_exponents(rule.features, out.shifts, out.features, out.maxima);
    const float most = *std::ranges::max_element(out.maxima);
    out.exponent = most;
    out.kept =
        static_cast<std::size_t>(std::ranges::count_if(out.shifts, [](float s) { return s != -kInfinity; }));
    if (is_exponential(rule.features) && out.kept > 0) {
        for (auto& s : out.shifts) s -= most;
    }
    key_features(rule.features, out.shifts, out.features);
    out.sums.resize(out.features.rows());
    row_sums(out.features, out.sums);
    out.values.reshape(n, values.cols());
    pack(values, 1.0F, keep, out.values);
}

void make_query_block(const HeadRule& rule, const HeadRows& queries, QueryBlock& out) {
    out.features.reshape(queries.x.rows(), rule.features.features());
    out.maxima.resize(queries.x.rows());
    if (queries.u.rows() > 0) {
        pack(queries.u, 1.0F, {}, out.features);
    } else {
        multiply(queries.x, rule.directions->columns, out.features);
    }
    query_features(rule.features, out.maxima, out.features);
}

KeySums::KeySums(const FeatureRule& rule, std::size_t value_size)
    : rule_(rule),
      value_size_(value_size),
      exponent_(is_exponential(rule) ? -kInfinity : 0.0),
      normaliser_(rule.features()),
      value_sum_(value_size) {
    const std::size_t width = panel_width();
    values_.resize(rule.features() * ((value_size + width - 1) / width) * width);
}

void KeySums::rescale(double exponent) {
    if (exponent <= exponent_) return;
    const double factor = relative(exponent_, exponent);
    exponent_ = exponent;
    if (kept_ == 0) return;
    for (auto& v : values_) v *= factor;
    for (auto& v : normaliser_) v *= factor;
}

void KeySums::add(const KeyBlock& block) {
    if (block.kept == 0) return;
    rescale(block.exponent);
    const double factor = relative(block.exponent, exponent_);
    products_.reshape(block.features.rows(), value_size_);
    multiply(block.features, block.values, products_);
    const float* products = products_.panel(0);
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] += factor * products[i];
    for (std::size_t f = 0; f < normaliser_.size(); ++f) normaliser_[f] += factor * block.sums[f];
    kept_ += block.kept;
    if (late_epsilon(rule_) == 0.0) return;
    for (std::size_t r = 0; r < block.values.rows(); ++r) {
        for (std::size_t c = 0; c < value_size_; ++c) value_sum_[c] += block.values(r, c);
    }
}

void KeySums::add(const KeySums& other) {
    if (other.kept_ == 0) return;
    rescale(other.exponent_);
    const double factor = relative(other.exponent_, exponent_);
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] += factor * other.values_[i];
    for (std::size_t f = 0; f < normaliser_.size(); ++f) normaliser_[f] += factor * other.normaliser_[f];
    for (std::size_t c = 0; c < value_size_; ++c) value_sum_[c] += other.value_sum_[c];
    kept_ += other.kept_;
}

void KeySums::add_key(const HeadRule& rule, const HeadRows& key, std::span<const float> value) {
    HeadRule plain = rule;
    if (is_exponential(rule.features)) plain.features.epsilon = 0.0F;
    make_query_block(plain, key, row_);
    double exponent = row_.maxima[0];
    for (const float x : key.x.row(0)) exponent += norm_exponent(rule) * x * x;
    rescale(exponent);
    const double factor = is_exponential(rule.features) ? relative(exponent, exponent_) : 1.0;
    const std::size_t width = row_.features.width();
    for (std::size_t f = 0; f < normaliser_.size(); ++f) {
        const double z = factor * row_.features(0, f);
        normaliser_[f] += z;
        for (std::size_t first = 0; first < value_size_; first += width) {
            double* sums = values_.data() + first * normaliser_.size() + f * width;
            const std::size_t count = std::min(width, value_size_ - first);
            for (std::size_t c = 0; c < count; ++c) sums[c] += z * value[first + c];
        }
    }
    for (std::size_t c = 0; c < value_size_; ++c) value_sum_[c] += value[c];
    ++kept_;
}

bool KeySums::attend(const HeadRule& rule, const HeadRows& query, std::span<float> out) {
    if (kept_ == 0) {
        std::ranges::fill(out, 0.0F);
        return true;
    }
    make_query_block(rule, query, row_);
    const std::size_t width = row_.features.width();
    std::vector<double> numerator(value_size_);
    double normaliser = 0.0;
    double total = 0.0;
    for (std::size_t f = 0; f < normaliser_.size(); ++f) {
        const double z = row_.features(0, f);
        total += z;
        normaliser += z * normaliser_[f];
        for (std::size_t first = 0; first < value_size_; first += width) {
            const double* sums = values_.data() + first * normaliser_.size() + f * width;
            const std::size_t count = std::min(width, value_size_ - first);
            for (std::size_t c = 0; c < count; ++c) numerator[first + c] += z * sums[c];
        }
    }
    const double epsilon = late_epsilon(rule_) * total;
    normaliser += epsilon * static_cast<double>(kept_);
    for (std::size_t c = 0; c < value_size_; ++c)
        out[c] = static_cast<float>((numerator[c] + epsilon * value_sum_[c]) / normaliser);
    return std::isfinite(normaliser) && normaliser != 0.0;
}

void PreparedKeys::prepare_prefix(const KeySums& sums) {
    values_.reshape(sums.normaliser_.size(), sums.value_size_);
    float* values = values_.panel(0);
    for (std::size_t i = 0; i < sums.values_.size(); ++i) values[i] = static_cast<float>(sums.values_[i]);
    normaliser_.assign(sums.normaliser_.begin(), sums.normaliser_.end());
    value_sum_.assign(sums.value_sum_.begin(), sums.value_sum_.end());
    keys_ = sums.kept_;
    exponent_ = sums.exponent_;
}

void PreparedKeys::prepare(const KeySums& sums) {
    prepare_prefix(sums);
    const double epsilon = late_epsilon(sums.rule_);
    if (epsilon == 0.0) return;
    for (std::size_t f = 0; f < values_.rows(); ++f) {
        normaliser_[f] += static_cast<float>(epsilon * static_cast<double>(keys_));
        for (std::size_t c = 0; c < values_.cols(); ++c)
            values_(f, c) += static_cast<float>(epsilon) * value_sum_[c];
    }
}

namespace {

// out = products / normalisers; returns the first row with an undefined quotient.
std::size_t divide(const Panels& products, std::span<const float> normalisers, MatrixView<float> out) {
    std::size_t wrong = out.rows();
    for (std::size_t r = out.rows(); r-- > 0;) {
        if (normalisers[r] == 0.0F || !std::isfinite(normalisers[r])) wrong = r;
        const float factor = 1.0F / normalisers[r];
        for (std::size_t first = 0, p = 0; first < out.cols(); first += products.width(), ++p) {
            const float* from = products.panel(p) + r * products.width();
            float* to = out.row(r).data() + first;
            const std::size_t count = std::min(products.width(), out.cols() - first);
            for (std::size_t c = 0; c < count; ++c) to[c] = factor * from[c];
        }
    }
    return wrong;
}

std::size_t fill_zero(MatrixView<float> out) {
    for (std::size_t r = 0; r < out.rows(); ++r) std::ranges::fill(out.row(r), 0.0F);
    return out.rows();
}

}  // namespace

std::size_t HeadOutput::attend(const QueryBlock& queries, const PreparedKeys& keys, MatrixView<float> out) {
    if (keys.keys_ == 0) return fill_zero(out);
    products_.reshape(out.rows(), out.cols());
    multiply(queries.features, keys.values_, products_);
    normalisers_.resize(out.rows());
    row_dots(queries.features, keys.normaliser_, normalisers_);
    return divide(products_, normalisers_, out);
}

namespace {

// Scores of a causal block on a common scale: 0 for keys after the query and for ignored ones. extras:
// epsilon of each query on that scale.
void scale_scores(const KeyBlock& block, float scale, std::span<const float> extras, Panels& scores) {
    const std::size_t width = scores.width();
    std::vector<float> kept(scores.panels() * width);
    for (std::size_t j = 0; j < scores.cols(); ++j) kept[j] = block.maxima[j] != -kInfinity ? 1.0F : 0.0F;
    for (std::size_t p = 0; p < scores.panels(); ++p) {
        for (std::size_t r = 0; r < scores.rows(); ++r) {
            float* row = scores.panel(p) + r * width;
            const float* keep = kept.data() + p * width;
            const std::size_t used = std::min(width, r + 1 - std::min(r + 1, p * width));
            for (std::size_t c = 0; c < used; ++c) row[c] = (scale * row[c] + extras[r]) * keep[c];
            std::fill(row + used, row + width, 0.0F);
        }
    }
}

}  // namespace

void HeadOutput::attend_earlier(const QueryBlock& queries, const PreparedKeys& earlier, std::size_t columns) {
    const std::size_t n = queries.features.rows();
    normalisers_.assign(n, 0.0F);
    if (earlier.keys_ == 0) return;
    products_.reshape(n, columns);
    multiply(queries.features, earlier.values_, products_);
    row_dots(queries.features, earlier.normaliser_, normalisers_);
}

std::size_t HeadOutput::attend_causal(const HeadRule& rule, const QueryBlock& queries, const KeyBlock& block,
                                      const PreparedKeys& earlier, MatrixView<float> out) {
    const std::size_t n = out.rows();
    attend_earlier(queries, earlier, out.cols());
    // All terms are relative to the larger of the two exponents. epsilon is relative to the largest exponent
    // up to the query, as in KeySums::attend.
    double running = earlier.keys_ == 0 ? -kInfinity : earlier.exponent_;
    const double most = std::max(running, block.exponent);
    const auto before = static_cast<float>(relative(running, most));
    extras_.assign(n, 0.0F);
    if (late_epsilon(rule.features) != 0.0) {
        row_dots(queries.features, std::vector<float>(queries.features.cols(), 1.0F), extras_);
        for (std::size_t r = 0; r < n; ++r) {
            running = std::max(running, double{block.maxima[r]});
            extras_[r] *= static_cast<float>(late_epsilon(rule.features) * relative(running, most));
        }
    }
    scores_.reshape(n, n);
    multiply(queries.features, block.features, scores_);
    scale_scores(block, static_cast<float>(relative(block.exponent, most)), extras_, scores_);
    sums_.resize(n);
    row_sums(scores_, sums_);
    block_products_.reshape(n, out.cols());
    multiply(scores_, block.values, block_products_);
    bool none = earlier.keys_ == 0;
    for (std::size_t r = 0; r < n; ++r) {
        none = none && block.maxima[r] == -kInfinity;
        const float past = before * normalisers_[r] + extras_[r] * static_cast<float>(earlier.keys_);
        normalisers_[r] = none ? 1.0F : past + sums_[r];  // 0 / 1 for a query before the first key
    }
    add_products(earlier, before);
    return divide(block_products_, normalisers_, out);
}

// block_products_ += before × products_ + extras_ × Σ v of the earlier keys.
void HeadOutput::add_products(const PreparedKeys& earlier, float before) {
    if (earlier.keys_ == 0) return;
    const std::size_t width = products_.width();
    const std::size_t n = products_.rows();
    std::vector<float> values(products_.panels() * width);
    std::ranges::copy(earlier.value_sum_, values.begin());
    for (std::size_t p = 0; p < products_.panels(); ++p) {
        for (std::size_t r = 0; r < n; ++r) {
            float* to = block_products_.panel(p) + r * width;
            const float* from = products_.panel(p) + r * width;
            for (std::size_t c = 0; c < width; ++c)
                to[c] += before * from[c] + extras_[r] * values[p * width + c];
        }
    }
}

ExactKeys exact_keys(MatrixView<const float> keys, MatrixView<const float> values,
                     std::span<const std::uint8_t> keep, double scale) {
    ExactKeys out;
    for (std::size_t first = 0; first < keys.rows(); first += kExactKeys) {
        const std::size_t n = std::min(kExactKeys, keys.rows() - first);
        const auto kept = keep.empty() ? keep : keep.subspan(first, n);
        Panels& k = out.keys.emplace_back(keys.cols(), n);
        pack_transposed(keys.slice_rows(first, n), static_cast<float>(scale), kept, k);
        Panels& v = out.values.emplace_back(n, values.cols());
        pack(values.slice_rows(first, n), 1.0F, kept, v);
        auto& biases = out.biases.emplace_back(k.panels() * k.width(), -kInfinity);
        for (std::size_t j = 0; j < n; ++j) {
            if (!kept.empty() && kept[j] == 0) continue;
            biases[j] = 0.0F;
            ++out.kept;
        }
    }
    return out;
}

std::size_t ExactOutput::attend(const ExactQueries& queries, const ExactKeys& keys, MatrixView<float> out) {
    const std::size_t n = out.rows();
    rows_.assign(n, {-kInfinity, 0.0F, 0.0F});
    limits_.resize(n);
    Panels sums(n, out.cols());
    products_.reshape(n, out.cols());
    const std::size_t size = sums.panels() * n * sums.width();
    std::fill_n(sums.panel(0), size, 0.0F);
    const std::size_t last = queries.first + n;  // keys beyond are in the future of every query
    for (std::size_t b = 0; b < keys.keys.size() && (!queries.causal || b * kExactKeys < last); ++b) {
        const std::size_t count = keys.values[b].rows();
        for (std::size_t r = 0; r < n; ++r) {
            const std::size_t before = queries.first + r + 1;
            limits_[r] = !queries.causal ? count : std::min(count, before - std::min(before, b * kExactKeys));
        }
        scores_.reshape(n, count);
        multiply(queries.queries, keys.keys[b], scores_);
        softmax_block(limits_, keys.biases[b], rows_, scores_);
        multiply(scores_, keys.values[b], products_);
        for (std::size_t p = 0; p < sums.panels(); ++p) {
            for (std::size_t r = 0; r < n; ++r) {
                float* to = sums.panel(p) + r * sums.width();
                const float* from = products_.panel(p) + r * sums.width();
                for (std::size_t c = 0; c < sums.width(); ++c) to[c] = to[c] * rows_[r].factor + from[c];
            }
        }
    }
    std::vector<float> normalisers(n);
    for (std::size_t r = 0; r < n; ++r) normalisers[r] = rows_[r].most == -kInfinity ? 1.0F : rows_[r].sum;
    return divide(sums, normalisers, out);
}

}  // namespace imka::ops
