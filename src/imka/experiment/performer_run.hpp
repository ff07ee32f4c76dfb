// Runs of Performers: tests of a trained model with one mode and one seed.
#pragma once

#include <cstdint>

#include "imka/experiment/kinds.hpp"

namespace imka {

FeatureSizes performer_sizes(const PerformerConfig& config);

// Ω is that of a chip in every mode, so that runs with the same seed can be compared. The modes `all` and
// `all-but-last` come from one test; the second run takes the results of the first.
SeedResult run_performer(const RunConfig& config, std::uint64_t seed, RunData& data, const Exec& exec);

}  // namespace imka
