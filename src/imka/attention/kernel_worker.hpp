// Kernelised attention of ranges of rows on one thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "imka/attention/attention.hpp"
#include "imka/ops/attention/head.hpp"

namespace imka {

// What all blocks of one call share. Thread-safe.
class KernelRun {
public:
    KernelRun(const KernelAttention& attention, const AttentionOptions& options);
    KernelRun(const KernelRun&) = delete;
    KernelRun& operator=(const KernelRun&) = delete;

    const ops::HeadRule& rule() const { return rule_; }
    bool projects() const { return projector_ != nullptr; }
    // Projections of x by the projector. first: number of the first product.
    void project(MatrixView<const float> x, std::uint64_t first, const Exec& exec, MatrixView<float> u) const;

private:
    const Projector* projector_;
    std::uint64_t product_seed_;
    ops::Directions directions_;
    ops::HeadRule rule_;
};

// Rows begin .. end - 1 of a head.
struct HeadRange {
    std::size_t head = 0;
    std::size_t begin = 0;
    std::size_t end = 0;
};

// Holds scratch memory: one per thread.
class KernelWorker {
public:
    KernelWorker(const KernelRun& run, const Exec& exec);

    // Sums over keys.
    void add_keys(const AttentionInputs& inputs, const HeadRange& range, ops::KeySums& sums);
    // Outputs of queries for all keys.
    void attend(const AttentionInputs& inputs, const HeadRange& range, const ops::PreparedKeys& keys,
                const HeadsView<float>& out);
    // Causal outputs of all heads of queries that share the key head range.head. sums: of the keys before.
    void attend_causal(const AttentionInputs& inputs, const HeadRange& range, ops::KeySums sums,
                       const HeadsView<float>& out);
    // The features of a block, for rows of the attention matrix.
    const ops::KeyBlock& keys(const AttentionInputs& inputs, const HeadRange& range);
    const ops::QueryBlock& queries(const AttentionInputs& inputs, const HeadRange& range);

private:
    ops::HeadRows key_rows(const AttentionInputs& inputs, const HeadRange& range);
    ops::HeadRows query_rows(const AttentionInputs& inputs, const HeadRange& range);
    ops::HeadRows projected(MatrixView<const float> x, std::uint64_t first, Matrix<float>& u);
    double spread(const ops::KeySums& sums) const;
    void attend_one_by_one(const AttentionInputs& inputs, const HeadRange& range, ops::KeySums sums,
                           MatrixView<float> out);

    const KernelRun& run_;
    Exec exec_;
    ops::KeyBlock keys_;
    ops::QueryBlock queries_;
    ops::HeadOutput output_;
    ops::PreparedKeys earlier_;
    Matrix<float> key_projections_;
    Matrix<float> query_projections_;
};

// Error{numeric} naming the query if `wrong` is one of the `count` queries.
void check_normaliser(std::size_t wrong, std::size_t count, std::size_t head, std::size_t first);

}  // namespace imka
