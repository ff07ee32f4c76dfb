// Queries, keys and values for runs of attention: generated, or from a file (docs/attention.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "imka/attention/attention.hpp"
#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/data/dataset.hpp"

namespace imka {

// Settings of the inputs of a run of attention.
struct AttentionSource {
    // normal: independent N(0, 1). text: a model of text (docs/attention.md). Otherwise a file.
    std::string dataset = "normal";
    std::uint64_t seed = 0;                 // of generated inputs
    std::optional<std::int64_t> length;     // L; auto: 4096, or the length in the file
    std::optional<std::int64_t> head_dim;   // d; auto: 64, or as in the file
    std::int64_t heads = 1;                 // of generated inputs; inputs from a file have one head
    std::optional<std::int64_t> sequences;  // auto: 1, or the first 10 of a file
    bool causal = false;
    std::optional<std::int64_t> query_rows;  // compared with exact attention; 0: all; auto: at most 4096

    bool operator==(const AttentionSource&) const = default;
};

// One sequence; the rows of all heads, one head after another.
struct AttentionSequence {
    Matrix<float> q;
    Matrix<float> k;
    Matrix<float> v;
};

struct AttentionData {
    std::string name;
    std::string source_sha256;
    std::size_t heads = 1;
    std::size_t length = 0;  // number of keys
    std::size_t d = 0;
    // Positions of the compared queries, increasing.
    std::vector<std::size_t> positions;
    // Without causal, q has only the rows of `positions`.
    bool all_queries = true;
    std::vector<AttentionSequence> sequences;

    std::size_t queries() const { return all_queries ? length : positions.size(); }  // rows of q per head
    // The row of q at positions[i].
    std::size_t row(std::size_t i) const { return all_queries ? positions[i] : i; }
    AttentionInputs inputs(std::size_t sequence) const;
};

// Whether the data set is a generator and not a file.
bool is_attention_generator(const std::string& dataset);

// All except dataset and seed.
Fields fields(AttentionSource& source);
// Checks what does not need a file. Error{bad_config} if the inputs do not fit in memory.
void validate(const AttentionSource& source);
AttentionData load_attention(const AttentionSource& source);
// features: d; train_rows: length; test_rows: sequences. A file is read.
DatasetFacts attention_facts(const AttentionSource& source);

}  // namespace imka
