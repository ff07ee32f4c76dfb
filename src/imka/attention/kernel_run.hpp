// One call of kernelised attention: its rule, and the rows of a sequence with their projections.
#pragma once

#include <cstddef>
#include <cstdint>

#include "imka/attention/attention.hpp"
#include "imka/ops/attention/kernel_heads.hpp"

namespace imka {

// State shared by all sequences of a call. Thread-safe.
class KernelRun {
public:
    KernelRun(const KernelAttention& attention, const AttentionOptions& options, const Exec& exec);
    KernelRun(const KernelRun&) = delete;
    KernelRun& operator=(const KernelRun&) = delete;

    const ops::HeadRule& rule() const { return rule_; }
    // x with its projections in u, if a projector computes them. first: number of the first product.
    ops::HeadRows rows(MatrixView<const float> x, std::uint64_t first, Matrix<float>& u) const;

private:
    const Projector* projector_;
    std::uint64_t product_seed_;
    Exec exec_;  // of a projection: one thread
    ops::Directions directions_;
    ops::HeadRule rule_;
};

// One sequence. The inputs and the run must outlive it.
class SequenceRows : public ops::HeadSource {
public:
    SequenceRows(const KernelRun& run, const AttentionInputs& inputs, HeadsView<float> out = {})
        : run_(run), inputs_(inputs), out_(out) {}
    ops::HeadRows queries(const ops::HeadRange& range, Matrix<float>& u) const override;
    ops::HeadRows keys(const ops::HeadRange& range, Matrix<float>& u) const override;
    MatrixView<const float> values(const ops::HeadRange& range) const override;
    MatrixView<float> outputs(const ops::HeadRange& range) const override;
    ops::HeadSequence sequence() const;

private:
    const KernelRun& run_;
    const AttentionInputs& inputs_;
    HeadsView<float> out_;
};

}  // namespace imka
