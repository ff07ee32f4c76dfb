#include "imka/report/learning_curves.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "imka/base/error.hpp"

namespace imka::report {
namespace {

constexpr std::size_t kMostPoints = 200;
constexpr double kMostTicks = 5.0;
constexpr std::string_view kLogFile = "log.jsonl";

struct CurveKind {
    std::string_view kind;  // of the events
    std::string_view label;
    std::string_view style;
    Draw draw;
};
constexpr std::array<CurveKind, 4> kCurves = {{
    {"train", "training", "other2", Draw::curve},
    {"valid", "validation", "orf", Draw::joined},
    {"test", "test, new directions", "other0", Draw::joined},
    {"test_poisson", "test, Poisson directions", "other1", Draw::joined},
}};

struct Measure {
    std::string_view name;  // in the plot's id
    std::string_view label;
    double TrainingEvent::*value;
    double scale;
    int digits;
};
constexpr std::array<Measure, 2> kMeasures = {{
    {"loss", "loss", &TrainingEvent::loss, 1.0, 3},
    {"accuracy", "accuracy (%)", &TrainingEvent::accuracy, 100.0, 2},
}};

// Means over neighbours, so that no curve has more than kMostPoints.
std::vector<PlotPoint> thinned(const std::vector<PlotPoint>& points) {
    const auto per = (points.size() + kMostPoints - 1) / kMostPoints;
    std::vector<PlotPoint> out;
    for (std::size_t first = 0; first < points.size(); first += per) {
        const auto last = std::min(first + per, points.size());
        PlotPoint mean;
        for (std::size_t i = first; i < last; ++i) {
            mean.x += points[i].x / static_cast<double>(last - first);
            mean.y += points[i].y / static_cast<double>(last - first);
        }
        out.push_back(mean);
    }
    return out;
}

Series series_of(const TrainingLog& log, const CurveKind& kind, const Measure& measure) {
    std::vector<PlotPoint> points;
    for (const auto& e : log.events) {
        if (e.kind == kind.kind)
            points.push_back({.x = static_cast<double>(e.step), .y = measure.scale * e.*measure.value});
    }
    return {.label = std::string(kind.label),
            .style = std::string(kind.style),
            .draw = kind.draw,
            .points = kind.draw == Draw::curve ? thinned(points) : points};
}

// Round numbers of steps from 0.
std::vector<Tick> step_ticks(double most) {
    const double decade = std::pow(10.0, std::floor(std::log10(std::max(most, 1.0))));
    double apart = 2.0 * decade;
    for (const double part : {0.1, 0.2, 0.5, 1.0}) {
        if (most / (part * decade) > kMostTicks) continue;
        apart = part * decade;
        break;
    }
    std::vector<Tick> ticks;
    for (int k = 0; k * apart <= most; ++k)
        ticks.push_back({.at = k * apart, .name = fmt::format("{:g}", k * apart)});
    return ticks;
}

Plot make_plot(const TrainingLog& log, const Measure& measure) {
    Plot plot{.id = slug(fmt::format("training {} {}", log.name, measure.name)),
              .title = fmt::format("{}: {}", log.name, measure.name),
              .x_label = "step",
              .y_label = std::string(measure.label),
              .digits = measure.digits};
    double most = 0.0;
    for (const auto& kind : kCurves) {
        auto series = series_of(log, kind, measure);
        if (series.points.empty()) continue;
        most = std::max(most, series.points.back().x);
        plot.series.push_back(std::move(series));
    }
    plot.ticks = step_ticks(most);
    plot.alt = describe(plot);
    return plot;
}

}  // namespace

std::vector<TrainingLog> read_training_logs(const std::filesystem::path& folder) {
    std::vector<TrainingLog> logs;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        const auto& path = entry.path();
        if (entry.is_directory() && std::filesystem::exists(path / kLogFile))
            logs.push_back({.name = path.filename().string(), .events = read_training_log(path / kLogFile)});
        if (entry.is_regular_file() && path.extension() == ".jsonl")
            logs.push_back(
                {.name = (path.filename() == kLogFile ? std::filesystem::absolute(path).parent_path() : path)
                             .stem()
                             .string(),
                 .events = read_training_log(path)});
    }
    std::erase_if(logs, [](const TrainingLog& log) { return log.events.empty(); });
    if (logs.empty())
        fail(ErrorCode::bad_data,
             fmt::format("{}: no training logs; expected files *.jsonl, or folders that 'imka train' wrote",
                         folder.string()));
    std::ranges::sort(logs, {}, &TrainingLog::name);
    return logs;
}

std::vector<Plot> learning_curves(const std::vector<TrainingLog>& logs) {
    std::vector<Plot> plots;
    for (const auto& log : logs) {
        for (const auto& measure : kMeasures) plots.push_back(make_plot(log, measure));
    }
    return plots;
}

}  // namespace imka::report
