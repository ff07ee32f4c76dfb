// Time and memory of a run, estimated from its sizes before it starts.
#pragma once

#include "imka/data/dataset.hpp"
#include "imka/experiment/run.hpp"

namespace imka {

struct RunCost {
    double seconds = 0.0;  // on one core of a nominal machine; scale with the measured speed for real times
    double bytes = 0.0;    // without the data set
};

// One function per kind of run. Zero if the sizes are invalid: such a run fails immediately.
RunCost ridge_cost(const RunConfig& config, const DatasetFacts& data);
RunCost gram_cost(const RunConfig& config, const DatasetFacts& data);
RunCost attention_cost(const RunConfig& config, const DatasetFacts& data);
RunCost performer_cost(const RunConfig& config, const DatasetFacts& data);

// Seconds on one core of this machine per nominal second, measured with a small fit (a few hundredths of a
// second).
double measure_machine_factor(const Exec& exec);

}  // namespace imka
