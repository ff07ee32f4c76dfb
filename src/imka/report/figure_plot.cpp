// The plot of a figure: our curves and the published marks.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "imka/report/figure.hpp"

namespace imka::report {
namespace {

std::string style_name(const Curve& curve, std::size_t index) {
    constexpr std::array<std::string_view, 3> kNamed = {"rff", "orf", "sorf"};
    const bool named = curve.variant.empty() && std::ranges::find(kNamed, curve.sampler) != kNamed.end();
    return named ? curve.sampler : fmt::format("other{}", index % 4);
}

std::string published_label(const Curve& curve) {
    for (const auto& p : curve.points) {
        if (!p.published) continue;
        const Curve published{
            .sampler = curve.sampler, .backend = p.published->backend, .variant = {}, .points = {}};
        return published.label() + ", published";
    }
    return "";
}

PlotPoint scaled(double x, const Summary& s, double scale) {
    return {.x = x, .y = scale * s.mean, .error = scale * s.std, .n = s.n, .x_error = 0.0, .name = {}};
}

// Curves of several chips can have the same published values.
void join(std::vector<Series>& all, Series series) {
    const auto known = std::ranges::find(all, series.label, &Series::label);
    if (known == all.end()) {
        all.push_back(std::move(series));
        return;
    }
    for (const auto& p : series.points) {
        if (std::ranges::find(known->points, p.x, &PlotPoint::x) == known->points.end())
            known->points.push_back(p);
    }
}

}  // namespace

Plot make_plot(const Figure& figure, const std::string& id) {
    const bool accuracy = figure.quantity == Quantity::accuracy;
    const double scale = accuracy ? 100.0 : 1.0;
    Plot plot{.id = id,
              .title = fmt::format("{}, {}: {}", figure.dataset, figure.kernel,
                                   accuracy ? "accuracy" : "Gram error"),
              .x_label = "log2(m/d)",
              .y_label = accuracy ? "test accuracy (%)" : "relative Gram error",
              .digits = accuracy ? 2 : 4,
              .most = accuracy ? 100.0 : 0.0,
              .alt = {},
              .series = {},
              .x_axis = XAxis::whole_numbers,
              .apart = kApart};
    std::vector<Series> published;
    for (std::size_t c = 0; c < figure.curves.size(); ++c) {
        const auto& curve = figure.curves[c];
        Series ours{
            .label = curve.label(), .style = style_name(curve, c), .dashed = curve.on_chip(), .points = {}};
        Series theirs{.label = published_label(curve),
                      .style = ours.style,
                      .dashed = ours.dashed,
                      .published = true,
                      .points = {}};
        for (const auto& p : curve.points) {
            if (p.ours.n > 0) ours.points.push_back(scaled(p.log_ratio, p.ours, scale));
            if (p.published) theirs.points.push_back(scaled(p.log_ratio, p.published->value, scale));
        }
        if (!ours.points.empty()) plot.series.push_back(std::move(ours));
        if (!theirs.points.empty()) join(published, std::move(theirs));
    }
    std::ranges::move(published, std::back_inserter(plot.series));
    plot.alt = describe(plot);
    return plot;
}

}  // namespace imka::report
