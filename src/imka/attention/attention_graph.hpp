// Kernelised attention as a graph, to deploy it like any network.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "imka/attention/attention.hpp"
#include "imka/chip/spec/chip.hpp"
#include "imka/deploy/deployed_model.hpp"
#include "imka/graph/graph.hpp"

namespace imka {

struct AttentionLayer {
    AttentionConfig config;
    Matrix<float> omega;            // m x d
    AttentionOptions options = {};  // product_seed has no effect
    bool key_mask = false;          // whether sequences have masks
};

// Inputs "q" (batch x heads x queries x d), "k" (batch x key heads x keys x d), "v" (batch x key heads x keys
// x size of a value) and, if the layer has masks, "key_mask" (u8, batch x keys; masked keys must be finite).
// Output "y" (batch x heads x queries x size of a value). The matrix "omega" is multiplied with queries and
// with keys: two call sites. The same bits as KernelAttention with a DigitalProjector.
graph::Graph graph_of(const AttentionLayer& layer);

// The sequences as inputs of that graph. Error{bad_data} if their shapes differ, or only some have masks.
std::vector<graph::Tensor> attention_tensors(std::span<const AttentionInputs> sequences);

struct AttentionTarget {
    ChipSpec chip;
    std::uint64_t seed = 0;
    BuildConfig build = {};
    MapOptions map = {.cuts = Cuts::even};  // places Ω as the rest of imka does
};
// The layer on a chip that is calibrated with these sequences. The same bits as KernelAttention on a chip
// with the same calibration rows (scaled queries, then scaled keys) and seed, if the noise of both call sites
// uses the seeds of a deployed model (docs/deploy.md).
DeployedModel deployed_attention(const AttentionLayer& layer, std::span<const AttentionInputs> calibration,
                                 const AttentionTarget& target, const Exec& exec);

}  // namespace imka
