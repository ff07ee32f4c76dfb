// Runs of attention: kernelised attention against exact attention, digitally or on a chip.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "imka/deploy/deployed_model.hpp"
#include "imka/experiment/kinds.hpp"

namespace imka {

// Checks the settings of attention that do not depend on a file.
void validate_attention(const RunConfig& config);
// products: seed of the chip's noise.
AttentionOptions attention_options(const RunConfig& config, std::uint64_t products);
FeatureSizes attention_sizes(const RunConfig& config, std::int64_t d);

// Kernelised attention with the Ω of a seed.
struct SeededAttention {
    KernelAttention attention;
    std::optional<ChipInfo> chip;
    std::uint64_t products = 0;  // seed of the noise of a chip
};
// A chip is calibrated on a sample of the queries and keys.
SeededAttention seeded_attention(const RunConfig& config, const AttentionData& data, const OmegaDraw& draw,
                                 const Exec& exec);

// The layer of a seed as a deployed model (deploy/plan_file.hpp), calibrated on all sequences. Needs a chip
// as backend.
DeployedModel deployed_run(const RunConfig& config, const AttentionData& data, std::uint64_t seed,
                           const Exec& exec);

// Exact outputs of every sequence: rows for data.positions, one head after another.
std::vector<Matrix<float>> exact_outputs(const RunConfig& config, const AttentionData& data,
                                         const Exec& exec);

// One seed of the kinds attention and attention_time.
SeedResult run_attention(const RunConfig& config, std::uint64_t seed, RunData& data, const Exec& exec);
SeedResult time_attention(const RunConfig& config, std::uint64_t seed, RunData& data, const Exec& exec);

// Attention matrices of the first head of the first sequence, `size` x `size` at most: exact, in FP32 and, if
// the backend is a chip, on it.
struct AttentionPicture {
    std::vector<std::size_t> positions;  // of rows and columns
    std::vector<std::string> names;      // "exact", "FP32", "hermes"
    std::vector<Matrix<float>> matrices;
};
AttentionPicture attention_picture(const RunConfig& config, std::size_t size, const Exec& exec);

}  // namespace imka
