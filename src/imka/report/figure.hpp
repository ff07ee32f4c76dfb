// Figures from records: groups runs over seeds into points, points into curves, curves into figures, and
// pairs each point with its published value.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "imka/experiment/published.hpp"
#include "imka/experiment/record.hpp"
#include "imka/metrics/metrics.hpp"
#include "imka/report/plot.hpp"

namespace imka::report {

enum class Verdict {
    reproduced,   // within 3 combined standard errors of the published mean
    deviates,     // beyond them
    missing,      // published, but not among the records
    unlike,       // published for another protocol or other settings: shown, not judged
    unpublished,  // no published value
};
inline constexpr double kAllowedErrors = 3.0;

struct Point {
    double log_ratio = 0.0;
    std::int64_t m = 0;  // 0 if not run
    Summary ours;
    std::optional<Published> published;
    Verdict verdict = Verdict::unpublished;
    std::string unlike;  // why there is no verdict
    std::vector<std::uint64_t> seeds;
    std::map<std::string, std::string> config;  // settings of the first seed

    double difference() const;  // ours - published
    double errors() const;      // difference in combined standard errors; infinite if these are 0
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

// The values of a member, in the order of their first items.
template <class Item>
std::vector<std::string> distinct(const std::vector<Item>& items, std::string Item::*member) {
    std::vector<std::string> values;
    for (const auto& item : items) {
        if (std::ranges::find(values, item.*member) == values.end()) values.push_back(item.*member);
    }
    return values;
}

// Our means of a curve, or the corresponding published ones, by log_ratio.
enum class Side { ours, published };
struct Value {
    double log_ratio = 0.0;
    Summary s;
};
std::vector<Value> values_of(const Curve& curve, Side side);

// The chip of an experiment's runs: "hermes" if they use it, otherwise the first chip; "" if none.
std::string chip_of(const std::vector<Figure>& figures, const std::string& experiment);

struct Counts {
    std::size_t reproduced = 0;
    std::size_t deviates = 0;
    std::size_t missing = 0;
    std::size_t unlike = 0;
    std::size_t unpublished = 0;
    void add(Verdict verdict);
    void add(const Counts& other);
    std::size_t cells() const;  // that runs could reproduce
    double share() const;       // of these cells that are reproduced; 0 if there are none
};
// Smallest share of a successful reproduction. Not all cells are required: of several hundred, a few lie
// beyond 3 standard errors by chance (docs/validation.md).
inline constexpr double kShareWanted = 0.9;
Counts count(const Figure& figure);

// Figures of the runs, ordered by experiment, data set, kernel, quantity. Values published for the chip are
// shown with the runs of any chip, and judged only for the same chip. Published values of a known experiment
// that were not run become points without our value.
std::vector<Figure> make_figures(const std::vector<Record>& records, const std::vector<Published>& published);

// Published values of the experiments that have no figure.
struct Absent {
    std::string experiment;
    std::string dataset;
    std::string kernel;
    std::size_t values = 0;
};
std::vector<Absent> absent_figures(const std::vector<Figure>& figures,
                                   const std::vector<Published>& published);

// How the default protocol differs from the published runs.
std::string protocol_difference(const std::string& dataset, const std::string& kernel,
                                const std::string& sampler);

// Accuracy in percent, Gram error as a fraction. The caller keeps `id` unique.
Plot make_plot(const Figure& figure, const std::string& id);
inline constexpr double kApart = 0.045;  // shift between curves, in log2(m/d)

// "0..9" or "0,2,5", as --seeds expects it.
std::string seeds_text(const std::vector<std::uint64_t>& seeds);
// The command that repeats runs with these settings, optionally with other seeds, with the verb of the kind.
std::string run_command(const std::string& kind, const std::map<std::string, std::string>& config,
                        const std::vector<std::uint64_t>& seeds);
// The commands that repeat a figure, one per line.
std::string figure_command(const Figure& figure);

}  // namespace imka::report
