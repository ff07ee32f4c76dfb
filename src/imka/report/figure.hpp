// Figures from records: runs grouped over seeds into points, points into curves, curves into figures, each
// point beside its published value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "imka/experiment/published.hpp"
#include "imka/experiment/record.hpp"
#include "imka/metrics/summary.hpp"
#include "imka/report/plot.hpp"

namespace imka::report {

enum class Verdict {
    reproduced,   // within 3 combined standard errors of the published mean
    deviates,     // beyond them
    missing,      // published, but not among the records
    unlike,       // published for another protocol or other settings: shown beside, not judged
    unpublished,  // nothing to compare with
};
inline constexpr double kAllowedErrors = 3.0;

struct Point {
    double log_ratio = 0.0;
    std::int64_t m = 0;  // 0 where nothing was run
    Summary ours;
    std::optional<Published> published;
    Verdict verdict = Verdict::unpublished;
    std::string unlike;  // why there is no verdict
    std::vector<std::uint64_t> seeds;
    std::map<std::string, std::string> config;  // of the first seed

    double difference() const;  // ours - published
    double errors() const;      // the same in combined standard errors; infinite where these are 0
};

struct Curve {
    std::string sampler;
    std::string backend;
    std::string variant;        // other settings that vary within the figure: "gamma 0.1"; mostly empty
    std::vector<Point> points;  // by log_ratio
    std::string label() const;
    bool on_chip() const;
};

struct Figure {
    std::string experiment;
    std::string dataset;
    std::string protocol;
    std::string kernel;
    Quantity quantity = Quantity::accuracy;
    std::vector<Curve> curves;
};

// Our means of a curve, or the published ones beside them, by log_ratio.
enum class Side { ours, published };
struct Value {
    double log_ratio = 0.0;
    Summary s;
};
std::vector<Value> values_of(const Curve& curve, Side side);

// The chip of an experiment's runs: "hermes" where it is among them, else the first; "" without any.
std::string chip_of(const std::vector<Figure>& figures, const std::string& experiment);

struct Counts {
    std::size_t reproduced = 0;
    std::size_t deviates = 0;
    std::size_t missing = 0;
    std::size_t unlike = 0;
    std::size_t unpublished = 0;
    void add(Verdict verdict);
    void add(const Counts& other);
};
Counts count(const Figure& figure);

// Figures with what was run, in the order experiment, data set, kernel, quantity. Values published for the
// chip stand beside those of any chip, and are judged where it is the same. Published values of an experiment
// that the registry knows and that were not run become points without ours.
std::vector<Figure> make_figures(const std::vector<Record>& records, const std::vector<Published>& published);

// Published values of the experiments at hand for which there is no figure at all.
struct Absent {
    std::string experiment;
    std::string dataset;
    std::string kernel;
    std::size_t values = 0;
};
std::vector<Absent> absent_figures(const std::vector<Figure>& figures,
                                   const std::vector<Published>& published);

// Why results of the default protocol are no repetition of the published ones: the points that differ.
std::string protocol_difference(const std::string& dataset, const std::string& kernel,
                                const std::string& sampler);

// Accuracy in percent, Gram error as it is. The caller keeps `id` unique.
Plot make_plot(const Figure& figure, const std::string& id);
inline constexpr double kApart = 0.045;  // between curves over log2(m/d)

// "0..9" or "0,2,5", as --seeds takes it.
std::string seeds_text(const std::vector<std::uint64_t>& seeds);
// The imka ridge command that repeats runs of these settings; other seeds than the one in the settings on
// request.
std::string ridge_command(const std::map<std::string, std::string>& config,
                          const std::vector<std::uint64_t>& seeds);
// The commands that repeat a figure, one a line.
std::string figure_command(const Figure& figure);

}  // namespace imka::report
