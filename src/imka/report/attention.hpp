// Figures of runs of attention: error against the number of directions, time and memory against the length.
#pragma once

#include <string>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/experiment/record.hpp"
#include "imka/metrics/metrics.hpp"
#include "imka/report/heat_map.hpp"
#include "imka/report/plot.hpp"

namespace imka::report {

// Runs that differ only in the seed. Errors have heavy tails: the median is shown.
struct AttentionPoint {
    double x = 0.0;  // m, or the length
    MedianInterval value;
    double mean = 0.0;
    std::size_t n = 0;
};
struct AttentionCurve {
    std::string label;
    bool on_chip = false;
    std::vector<AttentionPoint> points;  // by x
};
struct AttentionFigure {
    std::string experiment;
    std::string title;
    std::string caption;
    std::vector<AttentionCurve> curves;
    std::vector<std::string> notes;
    std::string command;
    Plot plot;
};
// By experiment, data set and quantity; runs with the slips of the published figure have separate figures.
std::vector<AttentionFigure> attention_figures(const std::vector<Record>& records);

// The length at which two curves of times cross, with linear interpolation of the logarithms; 0 if they do
// not cross. The first curve is the one that grows faster.
double break_even(const AttentionCurve& exact, const AttentionCurve& kernel);

// Exact, FP32 and chip attention of one run of an experiment.
struct AttentionMaps {
    std::string experiment;
    std::string title;
    std::vector<HeatMap> maps;
};
// One per experiment with runs on a chip: that of the run with the most directions. Computed anew; runs whose
// chip or file has changed are left out.
std::vector<AttentionMaps> attention_maps(const std::vector<Record>& records, const Exec& exec);

}  // namespace imka::report
