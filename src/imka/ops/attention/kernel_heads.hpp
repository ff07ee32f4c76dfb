// Kernelised attention of all heads of many sequences on all cores, in blocks of ops/attention/head.hpp.
// Blocks and partial sums depend only on the lengths, so that bits do not depend on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "imka/base/exec.hpp"
#include "imka/ops/attention/head.hpp"

namespace imka::ops {

// Rows begin .. end - 1 of a head.
struct HeadRange {
    std::size_t head = 0;
    std::size_t begin = 0;
    std::size_t end = 0;
};

// Source and destination of the rows of one sequence. Thread-safe.
class HeadSource {
public:
    virtual ~HeadSource() = default;
    // u: memory for projections that are computed here; the result may refer to it.
    virtual HeadRows queries(const HeadRange& range, Matrix<float>& u) const = 0;
    virtual HeadRows keys(const HeadRange& range, Matrix<float>& u) const = 0;
    virtual MatrixView<const float> values(const HeadRange& range) const = 0;
    virtual MatrixView<float> outputs(const HeadRange& range) const = 0;
};

struct HeadSequence {
    const HeadSource* source = nullptr;
    std::size_t heads = 1;
    std::size_t key_heads = 1;  // a divisor of heads
    std::size_t queries = 0;
    std::size_t keys = 0;  // if causal: as many as queries
    std::size_t value_size = 0;
    std::span<const std::uint8_t> key_mask = {};  // per key: 0 = ignored; empty: all are used
};

struct KernelHeadsOptions {
    HeadRule rule;
    bool causal = false;
};

// Error{numeric} naming the query if its normaliser is 0 or not finite.
void kernel_heads(std::span<const HeadSequence> sequences, const KernelHeadsOptions& options,
                  const Exec& exec);

// Throws this error.
[[noreturn]] void fail_normaliser(std::size_t head, std::size_t query);

}  // namespace imka::ops
