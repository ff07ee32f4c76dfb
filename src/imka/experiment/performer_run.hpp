// Runs of Performers: tests of a trained model with one mode and one seed.
#pragma once

#include <cstdint>

#include "imka/experiment/kinds.hpp"

namespace imka {

FeatureSizes performer_sizes(const PerformerConfig& config);

// Every mode uses the Ω of a chip, so that runs with the same seed can be compared. One test gives the modes
// `all` and `all-but-last`; the second run takes its results from the first.
SeedResult run_performer(const RunConfig& config, std::uint64_t seed, RunData& data, const Exec& exec);

}  // namespace imka
