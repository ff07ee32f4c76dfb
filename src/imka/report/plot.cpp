#include "imka/report/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <string_view>

#include "imka/report/html.hpp"

namespace imka::report {
namespace {

// The paper's colours: violet, blue, green; markers tell them apart without colour. page.css and page.js say
// the same for the page.
struct Style {
    std::string_view name;
    std::string_view colour;
    int filled;  // gnuplot's point types
    int hollow;
};
constexpr std::array kStyles = {
    Style{"rff", "#7a3db8", 7, 6},      Style{"orf", "#1f6bc4", 5, 4},
    Style{"sorf", "#1b8a4b", 9, 8},     Style{"other0", "#c2571a", 13, 12},
    Style{"other1", "#b0306a", 11, 10}, Style{"other2", "#5a6472", 15, 14},
    Style{"other3", "#8a6d00", 7, 6},
};
constexpr std::size_t kNamed = 3;

const Style& style_of(const std::string& name) {
    const auto* place = std::ranges::find(kStyles, name, &Style::name);
    return place == kStyles.end() ? kStyles.back() : *place;
}

std::string style_name(const Curve& curve, std::size_t index) {
    const auto* end = kStyles.begin() + kNamed;
    const bool named =
        curve.variant.empty() && std::ranges::find(kStyles.begin(), end, curve.sampler, &Style::name) != end;
    return named ? curve.sampler : fmt::format("other{}", index % (kStyles.size() - kNamed));
}

std::string published_label(const Curve& curve) {
    for (const auto& p : curve.points) {
        if (p.published) {
            return Curve{
                       .sampler = curve.sampler, .backend = p.published->backend, .variant = {}, .points = {}}
                       .label() +
                   ", published";
        }
    }
    return "";
}

PlotPoint scaled(double x, const Summary& s, double scale) {
    return {.x = x, .y = scale * s.mean, .error = scale * s.std, .n = s.n};
}

// Several curves, of one chip or another, may stand beside the same published values.
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

struct Range {
    double low = std::numeric_limits<double>::infinity();
    double high = -std::numeric_limits<double>::infinity();
    void add(double v) {
        low = std::min(low, v);
        high = std::max(high, v);
    }
    // 0 .. 1 over the range; the middle where there is no extent.
    double place(double v) const { return high > low ? (v - low) / (high - low) : 0.5; }
};

void add_blocks(std::string& script, const Plot& plot) {
    for (std::size_t s = 0; s < plot.series.size(); ++s) {
        const double shift = shift_of(plot, plot.series[s]);
        script += fmt::format("$s{} << EOD\n", s);
        for (const auto& p : plot.series[s].points)
            script += fmt::format("{} {} {} {}\n", p.x + shift, p.y, p.x_error, p.error);
        script += "EOD\n";
    }
}

bool has_x_errors(const Plot& plot) {
    return std::ranges::any_of(plot.series, [](const Series& s) {
        return std::ranges::any_of(s.points, [](const PlotPoint& p) { return p.x_error > 0.0; });
    });
}

std::string series_line(const Plot& plot, std::size_t index) {
    const auto& series = plot.series[index];
    const auto& style = style_of(series.style);
    const bool both = has_x_errors(plot);
    return fmt::format("$s{} using {} with {}{} lc rgb '{}' pt {} ps {} lw 1.2 dt {} title {}", index,
                       both ? "1:2:3:4" : "1:2:4", both ? "xy" : "y",
                       series.published || !series.line ? "errorbars" : "errorlines", style.colour,
                       series.published ? style.hollow : style.filled, series.published ? 0.9 : 0.5,
                       series.dashed ? 2 : 1, quote_gnuplot(series.label));
}

std::string plot_line(const Plot& plot) {
    std::vector<std::string> parts;
    if (plot.reference != Reference::none) {
        parts.push_back(fmt::format("{} with lines lc rgb '#888888' dt 3 notitle",
                                    plot.reference == Reference::diagonal ? "x" : "0"));
    }
    // Published marks first: gnuplot's hollow marks cover what lies under them.
    for (const bool published : {true, false}) {
        for (std::size_t s = 0; s < plot.series.size(); ++s) {
            if (plot.series[s].published == published) parts.push_back(series_line(plot, s));
        }
    }
    return fmt::format("plot {}\n", fmt::join(parts, ", \\\n     "));
}

// Ranges, scales and names of the axes; a plot leaves nothing behind for the next.
std::string axes(const Plot& plot) {
    Range x;
    for (const auto& s : plot.series) {
        for (const auto& p : s.points) x.add(p.x);
    }
    if (plot.logarithmic) {
        return fmt::format("set logscale xy\nset xtics auto\nset xrange [{}:{}]\n", x.low / 1.3,
                           x.high * 1.3);
    }
    auto text = fmt::format("unset logscale\nset xrange [{}:{}]\n", x.low - 0.3, x.high + 0.3);
    if (plot.ticks.empty()) return text + "set xtics 1\n";
    std::vector<std::string> names;
    names.reserve(plot.ticks.size());
    for (const auto& t : plot.ticks) names.push_back(fmt::format("{} {}", quote_gnuplot(t.name), t.at));
    return text + fmt::format("set xtics ({})\n", fmt::join(names, ", "));
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
              .series = {}};
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

double shift_of(const Plot& plot, const Series& series) {
    std::vector<std::pair<std::string, bool>> places;
    for (const auto& s : plot.series) {
        const std::pair place(s.style, s.dashed);
        if (std::ranges::find(places, place) == places.end()) places.push_back(place);
    }
    std::ranges::stable_sort(places, {}, &std::pair<std::string, bool>::second);
    const auto at = std::ranges::find(places, std::pair(series.style, series.dashed)) - places.begin();
    return plot.apart * (static_cast<double>(at) - (static_cast<double>(places.size()) - 1.0) / 2.0);
}

std::string describe(const Plot& plot) {
    std::vector<std::string> parts;
    std::size_t published = 0;
    for (const auto& s : plot.series) {
        if (s.published) {
            ++published;
            continue;
        }
        const auto& first = s.points.front();
        const auto& last = s.points.back();
        if (s.points.size() == 1) {
            parts.push_back(fmt::format("{} is {:.{}f} at {:.4g}", s.label, first.y, plot.digits, first.x));
            continue;
        }
        const auto* way = last.y > first.y ? "rises" : last.y < first.y ? "falls" : "stays";
        parts.push_back(fmt::format("{} {} from {:.{}f} at {:.4g} to {:.{}f} at {:.4g}", s.label, way,
                                    first.y, plot.digits, first.x, last.y, plot.digits, last.x));
    }
    return fmt::format("Line chart of {} against {}. {}.{}", plot.y_label, plot.x_label,
                       fmt::join(parts, "; "),
                       published > 0 ? " Hollow marks show the published means." : "");
}

std::string thumbnail(const Plot& plot) {
    constexpr double kWidth = 160.0;
    constexpr double kHeight = 84.0;
    constexpr double kMargin = 7.0;
    Range x;
    Range y;
    for (const auto& s : plot.series) {
        if (s.published) continue;
        for (const auto& p : s.points) {
            x.add(p.x);
            y.add(p.y);
        }
    }
    const auto at = [&](const PlotPoint& p) {
        return std::pair(kMargin + x.place(p.x) * (kWidth - 2 * kMargin),
                         kHeight - kMargin - y.place(p.y) * (kHeight - 2 * kMargin));
    };
    std::string svg =
        fmt::format(R"(<svg viewBox="0 0 {} {}" aria-hidden="true" focusable="false">)", kWidth, kHeight);
    for (const auto& s : plot.series) {
        if (s.published) continue;
        std::string line;
        std::string marks;
        for (const auto& p : s.points) {
            const auto [px, py] = at(p);
            line += fmt::format("{:.1f},{:.1f} ", px, py);
            marks += fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="1.8"/>)", px, py);
        }
        svg += fmt::format(R"(<g class="s-{}"><polyline points="{}"{}/>{}</g>)", s.style, line,
                           s.dashed ? R"( stroke-dasharray="4 3")" : "", marks);
    }
    return svg + "</svg>";
}

std::string gnuplot_script(const std::vector<Plot>& plots, const std::filesystem::path& folder) {
    struct Terminal {
        std::string_view setting;
        std::string_view ending;
    };
    constexpr std::array kTerminals = {
        Terminal{"svg size 320,250 font 'Helvetica,9' noenhanced", "svg"},
        Terminal{"pdfcairo size 8.5cm,6.6cm font 'Helvetica,8' noenhanced", "pdf"},
    };
    std::string script =
        "set encoding utf8\nset key outside below center horizontal maxcols 3 samplen 1.5 spacing 1.1 height "
        "0.5\nset border 3\n"
        "set tics nomirror out\nset grid ytics lc rgb '#dddddd'\n"
        "set bars 0.5\n";
    for (const auto& plot : plots) {
        add_blocks(script, plot);
        script += axes(plot);
        script += fmt::format("set title {}\nset xlabel {}\nset ylabel {}\n", quote_gnuplot(plot.title),
                              quote_gnuplot(plot.x_label), quote_gnuplot(plot.y_label));
        for (const auto& terminal : kTerminals) {
            const auto file = folder / fmt::format("{}.{}", plot.id, terminal.ending);
            script += fmt::format("set terminal {}\nset output {}\n{}", terminal.setting,
                                  quote_gnuplot(file.string()), plot_line(plot));
        }
        script += "unset output\n";
    }
    return script;
}

}  // namespace imka::report
