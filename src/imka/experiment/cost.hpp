// What a run costs in time and memory, estimated from its sizes before it starts.
#pragma once

#include "imka/data/dataset.hpp"
#include "imka/experiment/run.hpp"

namespace imka {

struct RunCost {
    double seconds = 0.0;  // of one core of a nominal machine: good for shares, to be scaled for times
    double bytes = 0.0;    // beside the data set
};

// One per kind of run. Zero for a run whose sizes are an error: it fails at once.
RunCost ridge_cost(const RunConfig& config, const DatasetFacts& data);
RunCost gram_cost(const RunConfig& config, const DatasetFacts& data);

// Seconds of one core of this machine for a nominal second, from a small fit (some hundredths of a second).
double measure_machine_factor(const Exec& exec);

}  // namespace imka
