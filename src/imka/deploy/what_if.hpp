// A model on chips with other constants: what changes in cores, time, energy and accuracy.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "imka/deploy/deployed_model.hpp"
#include "imka/deploy/mapping_cost.hpp"
#include "imka/metrics/metrics.hpp"

namespace imka {

// Values of one constant, such as core.rows = 64, 128, 256; or of the node or the number of tiers.
struct WhatIfAxis {
    std::string key;
    std::vector<std::string> values;
};
// "core.rows=64,128,256". Error{bad_config} for malformed text.
WhatIfAxis parse_axis(const std::string& text);

// The assumed parameters of the energies and areas of these chips; empty if only known cores and nodes occur.
std::vector<CostParameter> assumptions_of(std::span<const WhatIfAxis> axes);

struct WhatIfPoint {
    std::vector<std::pair<std::string, std::string>> constants;
    std::size_t cores = 0;
    std::size_t chips = 0;
    double latency_seconds = 0.0;       // of one inference
    std::optional<CostValue> joules;    // of one inference; none if the power of the chip is unknown
    std::optional<CostValue> area_mm2;  // of all chips; none if the area of the chip is unknown
    Summary error;                      // relative error of the outputs, one value per chip
    bool best = false;  // no other point is at least as good in error, energy and latency, and better in one
};

struct WhatIfJob {
    const graph::Graph& graph;
    const ChipSpec& chip;
    std::span<const WhatIfAxis> axes;
    DeployOptions options = {};
    BuildConfig build = {};
    std::span<const graph::Tensor> calibration;
    std::span<const graph::Tensor> test;
    std::span<const std::uint64_t> seeds;  // of the chips
};

// Every combination of the values; the last axis varies fastest. Axes are constants of chip files, "node" and
// "tiers". Power and area are known for one chip only; for cores of other sizes, other nodes and several
// tiers they follow from assumptions, with intervals (deploy/technology.hpp). Tiers share converters, so they
// multiply one after another; the emulator gives each its own converters. Error{bad_config} for a constant
// that is unknown or out of range.
std::vector<WhatIfPoint> what_if(const WhatIfJob& job, const Exec& exec);

}  // namespace imka
