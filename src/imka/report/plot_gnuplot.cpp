// The gnuplot scripts of plots.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "imka/base/duration.hpp"
#include "imka/report/plot.hpp"

namespace imka::report {
namespace {

// Markers differ too, so that curves can be distinguished without colour. page.css and page.js repeat this
// for the page.
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
// For series without a style, in this order.
constexpr std::array kInTurn = {
    Style{"", "#1f6bc4", 5, 4},   Style{"", "#c2571a", 7, 6}, Style{"", "#1b8a4b", 9, 8},
    Style{"", "#7a3db8", 11, 10}, Style{"", "#5a6472", 5, 4}, Style{"", "#b0306a", 7, 6},
};

const Style& style_of(const Plot& plot, std::size_t index) {
    const auto& name = plot.series[index].style;
    if (name.empty()) return kInTurn[index % kInTurn.size()];
    const auto* place = std::ranges::find(kStyles, name, &Style::name);
    return place == kStyles.end() ? kStyles.back() : *place;
}

struct Range {
    double low = std::numeric_limits<double>::infinity();
    double high = -std::numeric_limits<double>::infinity();
};
Range x_range(const Plot& plot) {
    Range x;
    for (const auto& s : plot.series) {
        for (const auto& p : s.points) {
            if (plot.log_x && p.x <= 0.0) continue;
            x.low = std::min(x.low, p.x);
            x.high = std::max(x.high, p.x);
        }
    }
    return x;
}

std::string data_blocks(const Plot& plot) {
    std::string script;
    for (std::size_t s = 0; s < plot.series.size(); ++s) {
        const double shift = shift_of(plot, plot.series[s]);
        script += fmt::format("$s{} << EOD\n", s);
        for (const auto& p : plot.series[s].points) {
            if (std::isfinite(p.x) && std::isfinite(p.y))
                script += fmt::format("{} {} {} {}{}\n", p.x + shift, p.y, p.x_error, p.error,
                                      p.below ? fmt::format(" {}", *p.below) : "");
        }
        script += "EOD\n";
    }
    return script;
}

bool has_x_errors(const Plot& plot) {
    return std::ranges::any_of(plot.series, [](const Series& s) {
        return std::ranges::any_of(s.points, [](const PlotPoint& p) { return p.x_error > 0.0; });
    });
}

// Whether the bars are longer on one side.
bool uneven(const Series& series) {
    return std::ranges::any_of(series.points, [](const PlotPoint& p) { return p.below.has_value(); });
}

std::string bar_line(const Plot& plot, std::size_t index) {
    const auto bars = static_cast<double>(plot.series.size());
    const double shift = (static_cast<double>(index) - (bars - 1.0) / 2.0) * 0.8 / bars;
    return fmt::format(
        "$s{0} using (0):($1+({1})):(0):2:($1+({1})-{2}):($1+({1})+{2}) with boxxyerror fs solid 0.8 "
        "noborder lc rgb '{3}' title {4}, $s{0} using 2:($1+({1})):4 with xerrorbars lc rgb '#333333' "
        "pt -1 lw 1 notitle",
        index, shift, 0.4 / bars, style_of(plot, index).colour, quote_gnuplot(plot.series[index].label));
}

std::string series_line(const Plot& plot, std::size_t index) {
    if (plot.bars) return bar_line(plot, index);
    const auto& series = plot.series[index];
    const auto& style = style_of(plot, index);
    const auto title = quote_gnuplot(series.label);
    if (series.draw == Draw::curve)
        return fmt::format("$s{} using 1:2 with lines lc rgb '{}' lw 1.5 title {}", index, style.colour,
                           title);
    const bool both = has_x_errors(plot);
    const bool joined = series.draw == Draw::joined && !series.published;
    return fmt::format("$s{} using {} with {}{} lc rgb '{}' pt {} ps {} lw 1.2 dt {} title {}", index,
                       both             ? "1:2:3:4"
                       : uneven(series) ? "1:2:($2-$5):($2+$4)"
                                        : "1:2:4",
                       both ? "xy" : "y", joined ? "errorlines" : "errorbars", style.colour,
                       series.published ? style.hollow : style.filled, series.published ? 0.9 : 0.5,
                       series.dashed ? 2 : 1, title);
}

std::string plot_line(const Plot& plot) {
    std::vector<std::string> parts;
    if (plot.reference != Reference::none) {
        parts.push_back(fmt::format("{} with lines lc rgb '#888888' dt 3 notitle",
                                    plot.reference == Reference::diagonal ? "x" : "0"));
    }
    // Published marks first: gnuplot's hollow marks are opaque.
    for (const bool published : {true, false}) {
        for (std::size_t s = 0; s < plot.series.size(); ++s) {
            if (plot.series[s].published == published) parts.push_back(series_line(plot, s));
        }
    }
    return fmt::format("plot {}\n", fmt::join(parts, ", \\\n     "));
}

std::string named_ticks(const std::vector<Tick>& ticks) {
    std::vector<std::string> names;
    names.reserve(ticks.size());
    for (const auto& t : ticks) names.push_back(fmt::format("{} {}", quote_gnuplot(t.name), t.at));
    return fmt::format("({})", fmt::join(names, ", "));
}

std::string duration_ticks(const Range& x) {
    constexpr double kYear = 365.25 * 86400.0;
    std::vector<Tick> ticks;
    for (const double t : {1.0, 60.0, 3600.0, 86400.0, 2592000.0, kYear, 10 * kYear}) {
        if (t >= 0.9 * x.low && t <= 1.12 * x.high) ticks.push_back({.at = t, .name = duration_text(t)});
    }
    return named_ticks(ticks);
}

std::string axes(const Plot& plot) {
    const auto x = x_range(plot);
    if (plot.bars) {
        return fmt::format(
            "set ytics {}\nset yrange [{}:-0.6]\nset grid xtics lc rgb '#dddddd'\nset xlabel {}\n",
            named_ticks(plot.ticks), static_cast<double>(plot.ticks.size()) - 0.4,
            quote_gnuplot(plot.y_label));
    }
    auto text = fmt::format("set grid ytics lc rgb '#dddddd'\nset xlabel {}\nset ylabel {}\n",
                            quote_gnuplot(plot.x_label), quote_gnuplot(plot.y_label));
    if (plot.from_zero) text += "set yrange [0:*]\n";
    if (plot.log_x) text += "set logscale x\n";
    if (plot.log_y) text += "set logscale y\n";
    // A square plot with a diagonal.
    if (plot.log_x && plot.log_y) text += fmt::format("set xrange [{}:{}]\n", x.low / 1.3, x.high * 1.3);
    if (!plot.ticks.empty() || plot.x_axis == XAxis::whole_numbers) {
        text += fmt::format("set xrange [{}:{}]\nset xtics {}\n", x.low - 0.3, x.high + 0.3,
                            plot.ticks.empty() ? "1" : named_ticks(plot.ticks));
    }
    if (plot.x_axis == XAxis::seconds) text += fmt::format("set xtics {}\n", duration_ticks(x));
    return text;
}

// Everything except the terminal; `reset` makes a plot independent of the previous one.
std::string settings(const Plot& plot) {
    return fmt::format(
        "reset\nset encoding utf8\nset key outside below center horizontal maxcols 3 samplen 1.5 spacing 1.1 "
        "height 0.5\nset border 3\nset tics nomirror out\nset bars 0.5\nset title {}\n{}{}",
        quote_gnuplot(plot.title), axes(plot), data_blocks(plot));
}

std::string drawing(const Plot& plot, std::string_view terminal, const std::filesystem::path& file) {
    return fmt::format("set terminal {}\nset output {}\n{}unset output\n", terminal,
                       quote_gnuplot(file.string()), plot_line(plot));
}

}  // namespace

std::string gnuplot_script(const std::vector<Plot>& plots, const std::filesystem::path& folder) {
    std::string script;
    for (const auto& plot : plots) {
        script += settings(plot);
        script +=
            drawing(plot, "svg size 320,250 font 'Helvetica,9' noenhanced", folder / (plot.id + ".svg"));
        script += drawing(plot, "pdfcairo size 8.5cm,6.6cm font 'Helvetica,8' noenhanced",
                          folder / (plot.id + ".pdf"));
    }
    return script;
}

std::string gnuplot_script(const Plot& plot, const std::filesystem::path& file, std::string_view format) {
    const auto height = plot.bars ? 120 + 32 * plot.ticks.size() : 400;
    const auto terminal =
        format == "svg"
            ? fmt::format("svg size 560,{} font 'Helvetica,11' noenhanced background 'white'", height)
        : format == "pdf" ? fmt::format("pdfcairo size 14cm,{}cm font 'Helvetica,10' noenhanced",
                                        static_cast<double>(height) / 40.0)
                          : fmt::format("pngcairo size 1120,{} font 'Helvetica,20' noenhanced", 2 * height);
    return settings(plot) + drawing(plot, terminal, file);
}

std::string quote_gnuplot(std::string_view text) {
    std::string out = "'";
    for (const char c : text) {
        if (static_cast<unsigned char>(c) < 0x20U || c == '`') {
            out += ' ';
        } else if (c == '\'') {
            out += "''";
        } else {
            out += c;
        }
    }
    return out + "'";
}

}  // namespace imka::report
