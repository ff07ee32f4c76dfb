#include "imka/report/drift_plots.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "imka/base/duration.hpp"
#include "imka/experiment/kinds.hpp"
#include "imka/io/text.hpp"
#include "imka/metrics/metrics.hpp"

namespace imka::report {
namespace {

using Times = std::map<double, std::vector<double>>;  // accuracies of the seeds by time
using Curves = std::map<std::string, Times>;          // by label

double seconds_of(const Record& r) {
    return std::max(1.0, parse_double(r.setting("read_seconds")).value_or(0.0));
}

std::string label_of(const Record& r) {
    const auto mode = r.setting("mode");
    if (mode == "fp32") return "digital";
    const auto compensation = r.setting("compensation");
    return fmt::format(
        "{} on chip, {}", mode,
        compensation.empty() || compensation == "none" ? "no compensation" : compensation + " compensation");
}

Series series_of(const std::string& label, const Times& times) {
    Series series{.label = label, .dashed = label != "digital"};
    for (const auto& [seconds, values] : times) {
        const auto s = summarize(values);
        series.points.push_back(
            {.x = seconds, .y = 100.0 * s.mean, .error = 100.0 * s.std, .n = values.size()});
    }
    return series;
}

// Curves with compensation start with the uncompensated runs that are read immediately. The digital curve is
// constant.
void complete(const std::set<double>& times, Curves& curves) {
    const auto start = curves.find("all on chip, no compensation");
    for (auto& [label, points] : curves) {
        if (label == "digital") {
            const auto values = points.begin()->second;
            for (const double t : times) points[t] = values;
        } else if (start != curves.end() && label.starts_with("all on chip") && start->second.contains(1.0)) {
            points.try_emplace(1.0, start->second.at(1.0));
        }
    }
}

Plot make_plot(const std::string& experiment, const std::string& task, Curves curves) {
    std::set<double> times;
    for (const auto& [label, points] : curves) {
        for (const auto& [seconds, values] : points) times.insert(seconds);
    }
    complete(times, curves);
    Plot plot{.id = slug(fmt::format("{} {} drift", experiment, task)),
              .title = fmt::format("{}: accuracy after some time", task),
              .x_label = "time since programming",
              .y_label = "test accuracy (%)",
              .most = 100.0,
              .log_x = true};
    for (const double t : times)
        plot.ticks.push_back({.at = t, .name = t > 1.0 ? duration_text(t) : "at once"});
    std::size_t number = 0;
    for (const auto& [label, points] : curves) {
        plot.series.push_back(series_of(label, points));
        plot.series.back().style = fmt::format("other{}", number++ % 4);
    }
    plot.alt = describe(plot);
    return plot;
}

}  // namespace

std::map<std::string, std::vector<Plot>> drift_plots(const std::vector<Record>& records) {
    std::map<std::pair<std::string, std::string>, Curves> tasks;
    std::map<std::string, std::set<double>> times;
    for (const auto& r : records) {
        if (!r.ok() || !recorded_kind(r.kind).tests_models || !r.results.contains("accuracy")) continue;
        tasks[{r.experiment, r.setting("dataset")}][label_of(r)][seconds_of(r)].push_back(
            r.results.at("accuracy"));
        times[r.experiment].insert(seconds_of(r));
    }
    std::map<std::string, std::vector<Plot>> plots;
    for (const auto& [key, curves] : tasks) {
        if (times[key.first].size() > 1) plots[key.first].push_back(make_plot(key.first, key.second, curves));
    }
    return plots;
}

}  // namespace imka::report
