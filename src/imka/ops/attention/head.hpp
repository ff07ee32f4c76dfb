// Attention of one head, one block of rows at a time, on one thread: kernelised attention in linear time and
// exact softmax attention without the matrix of scores. Callers run blocks and heads in parallel
// (imka/attention/attention.hpp).
//
// Kernelised attention replaces exp(qᵀk) by φ(q)ᵀφ(k). With the sums S = Σ φ(k) vᵀ and n = Σ φ(k) over the
// keys, the output of a query is φ(q)ᵀS / φ(q)ᵀn. Exponential features are kept relative to a common
// exp(exponent), which cancels in the quotient.
//
// Precision: features and products in float; sums over the keys of one block in float, over blocks in double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "imka/base/matrix.hpp"
#include "imka/ops/attention/attention.hpp"

namespace imka::ops {

// Rows per block. A block of features and the sums of a head stay in the L2 cache for usual sizes.
inline constexpr std::size_t kAttentionRows = 128;
inline constexpr std::size_t kCausalRows = 64;  // the products within a block grow with its rows

// Ω times the scale of the inputs, in the layouts of both products.
struct Directions {
    Matrix<float> rows;  // m x d
    Panels columns;      // d x m
};
Directions directions_of(MatrixView<const float> omega, double input_scale);

// Settings of all blocks of a head. directions: nullptr if projections are given.
struct HeadRule {
    FeatureRule features;
    double input_scale = 1.0;  // x' = input_scale x
    const Directions* directions = nullptr;
};

// A block of queries or keys. u: projections, m columns; empty: computed from x.
struct HeadRows {
    MatrixView<const float> x;
    MatrixView<const float> u;
};

struct KeyBlock {
    Panels features;            // one column per key
    Panels values;              // one row per key; 0 for ignored keys
    std::vector<float> sums;    // of each feature
    std::vector<float> maxima;  // exponent of the largest feature of each key, padding included
    double exponent = 0.0;      // of the features; -infinity if all keys are ignored
    std::size_t kept = 0;       // keys that are not ignored
    std::vector<float> shifts;  // scratch
    Panels inputs;              // scratch
};
// keep: 0 for ignored keys, whose values are never read; empty: all are used.
void make_key_block(const HeadRule& rule, const HeadRows& keys, MatrixView<const float> values,
                    std::span<const std::uint8_t> keep, KeyBlock& out);

struct QueryBlock {
    Panels features;  // one row per query
    std::vector<float> maxima;
};
void make_query_block(const HeadRule& rule, const HeadRows& queries, QueryBlock& out);

// Σ φ(k) vᵀ and Σ φ(k) over any number of keys.
class KeySums {
public:
    KeySums() = default;
    KeySums(const FeatureRule& rule, std::size_t value_size);
    void add(const KeyBlock& block);
    void add(const KeySums& other);
    // One key at a time, for generating one token after another. key and query have one row.
    void add_key(const HeadRule& rule, const HeadRows& key, std::span<const float> value);
    // Output of one query. false if its normaliser is 0 or not finite; all zeros if there are no keys.
    bool attend(const HeadRule& rule, const HeadRows& query, std::span<float> out);
    std::size_t keys() const { return kept_; }
    std::size_t value_size() const { return value_size_; }
    std::size_t bytes() const { return (values_.size() + normaliser_.size()) * sizeof(double); }

private:
    friend class PreparedKeys;
    void rescale(double exponent);

    FeatureRule rule_;
    std::size_t value_size_ = 0;
    std::size_t kept_ = 0;
    double exponent_ = 0.0;
    std::vector<double> values_;      // features x value_size, in the order of Panels
    std::vector<double> normaliser_;  // per feature
    std::vector<double> value_sum_;   // Σ v: epsilon adds it to every feature
    Panels products_;                 // scratch
    QueryBlock row_;                  // scratch
};

// Sums rounded to float, in the layout of the product with queries, with epsilon added.
class PreparedKeys {
public:
    void prepare(const KeySums& sums);
    // Without epsilon: HeadOutput::attend_causal adds it, since it depends on the query.
    void prepare_prefix(const KeySums& sums);
    double exponent() const { return exponent_; }

private:
    friend class HeadOutput;
    Panels values_;  // features x value_size
    std::vector<float> normaliser_;
    std::vector<float> value_sum_;
    std::size_t keys_ = 0;
    double exponent_ = 0.0;
};

// Outputs of blocks of queries. Holds scratch memory: one per thread.
class HeadOutput {
public:
    // The first query whose normaliser is 0 or not finite; out.rows() if none. Zeros if there are no keys.
    std::size_t attend(const QueryBlock& queries, const PreparedKeys& keys, MatrixView<float> out);
    // Queries and keys of the same block of a sequence: query r uses the earlier keys and the first r + 1 of
    // the block.
    std::size_t attend_causal(const HeadRule& rule, const QueryBlock& queries, const KeyBlock& block,
                              const PreparedKeys& earlier, MatrixView<float> out);

private:
    // Sums and normalisers over the earlier keys, on their scale.
    void attend_earlier(const QueryBlock& queries, const PreparedKeys& earlier, std::size_t columns);
    void add_products(const PreparedKeys& earlier, float before);

    Panels products_;
    Panels scores_;
    Panels block_products_;
    std::vector<float> normalisers_;
    std::vector<float> extras_;  // Σ φ(q) times epsilon on the scale of the block
    std::vector<float> sums_;
};

// Keys and values of a head for exact attention, in the layouts of its products.
struct ExactKeys {
    std::vector<Panels> keys;    // per block of kExactKeys: d x keys, scaled
    std::vector<Panels> values;  // keys x value size
    std::vector<std::vector<float>> biases;
    std::size_t kept = 0;
};
inline constexpr std::size_t kExactKeys = 256;
ExactKeys exact_keys(MatrixView<const float> keys, MatrixView<const float> values,
                     std::span<const std::uint8_t> keep, double scale);
// Exact softmax attention of a block of queries. first: position of its first query in the sequence, if
// causal.
struct ExactQueries {
    MatrixView<const float> queries;
    bool causal = false;
    std::size_t first = 0;
};
class ExactOutput {
public:
    // As HeadOutput::attend.
    std::size_t attend(const ExactQueries& queries, const ExactKeys& keys, MatrixView<float> out);

private:
    Panels scores_;
    Panels products_;
    std::vector<SoftmaxRow> rows_;
    std::vector<std::size_t> limits_;
};

}  // namespace imka::ops
