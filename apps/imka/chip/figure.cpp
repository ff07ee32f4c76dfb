#include "chip/figure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "gnuplot.hpp"
#include "imka/base/duration.hpp"
#include "imka/base/error.hpp"
#include "imka/report/html.hpp"
#include "terminal.hpp"

namespace imka::app {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kWidth = 64;
constexpr std::size_t kHeight = 16;
constexpr std::string_view kMarks = "ox+*#@%&";
constexpr std::array<std::string_view, 6> kColours = {"#1f6bc4", "#c2571a", "#1b8a4b",
                                                      "#7a3db8", "#5a6472", "#b0306a"};

constexpr double kYear = 365.25 * 86400.0;

struct Axis {
    bool log = false;
    double low = std::numeric_limits<double>::infinity();
    double high = -std::numeric_limits<double>::infinity();

    double scaled(double v) const { return log ? std::log10(v) : v; }
    void add(double v) {
        if (!std::isfinite(scaled(v))) return;
        low = std::min(low, scaled(v));
        high = std::max(high, scaled(v));
    }
    double value(double share) const {
        const double v = low + share * (high - low);
        return log ? std::pow(10.0, v) : v;
    }
    // The cell of a value; the first where there is no extent.
    std::size_t cell(double v, std::size_t cells) const {
        if (!(high > low)) return 0;
        const double share = std::clamp((scaled(v) - low) / (high - low), 0.0, 1.0);
        return static_cast<std::size_t>(std::lround(share * static_cast<double>(cells - 1)));
    }
};

std::string number_text(double v) {
    return fmt::format("{:.3g}", v);
}

void mark_line(std::vector<std::string>& grid, const Axis& x, const Axis& y, const FigureSeries& series,
               char mark) {
    for (std::size_t i = 0; i + 1 < series.points.size(); ++i) {
        const auto& a = series.points[i];
        const auto& b = series.points[i + 1];
        const auto first = x.cell(a.x, kWidth);
        const auto last = x.cell(b.x, kWidth);
        for (std::size_t c = first + 1; c < last; ++c) {
            const double share = static_cast<double>(c - first) / static_cast<double>(last - first);
            auto& cell = grid[y.cell(a.y + share * (b.y - a.y), kHeight)][c];
            if (cell == ' ') cell = series.style == FigureStyle::formula ? mark : '.';
        }
    }
}

std::string tick_text(const ChipFigure& figure, double x) {
    return figure.seconds_x ? duration_text(x) : number_text(x);
}

std::string ending_of(const fs::path& file) {
    auto ending = file.extension().string();
    if (!ending.empty()) ending.erase(0, 1);
    return ending;
}

std::string heading(const std::string& title, const std::string& x_label) {
    return fmt::format(
        "set encoding utf8\nset key outside below center horizontal samplen 1.5 spacing 1.1\nset border 3\n"
        "set tics nomirror out\nset bars 0.5\nset title {}\nset xlabel {}\n",
        report::quote_gnuplot(title), report::quote_gnuplot(x_label));
}

std::string duration_ticks(const Axis& x) {
    std::vector<std::string> ticks;
    for (const double t : {1.0, 60.0, 3600.0, 86400.0, 2592000.0, kYear, 10 * kYear}) {
        if (std::log10(t) >= x.low - 0.05 && std::log10(t) <= x.high + 0.05)
            ticks.push_back(fmt::format("'{}' {}", duration_text(t), t));
    }
    return fmt::format("set xtics ({})\n", fmt::join(ticks, ", "));
}

std::string series_blocks(const ChipFigure& figure) {
    std::string text;
    for (std::size_t s = 0; s < figure.series.size(); ++s) {
        text += fmt::format("$s{} << EOD\n", s);
        for (const auto& p : figure.series[s].points) {
            if (std::isfinite(p.x) && std::isfinite(p.y))
                text += fmt::format("{} {} {}\n", p.x, p.y, p.error);
        }
        text += "EOD\n";
    }
    return text;
}

std::string series_plot(const ChipFigure& figure) {
    std::vector<std::string> parts;
    for (std::size_t s = 0; s < figure.series.size(); ++s) {
        const auto& series = figure.series[s];
        const auto colour = kColours[s % kColours.size()];
        const auto title = report::quote_gnuplot(series.label);
        if (series.style == FigureStyle::formula) {
            parts.push_back(
                fmt::format("$s{} using 1:2 with lines lc rgb '{}' lw 1.5 title {}", s, colour, title));
        } else {
            parts.push_back(fmt::format("$s{} using 1:2:3 with {} lc rgb '{}' pt {} ps 0.6 lw 1.2 title {}",
                                        s, series.style == FigureStyle::line ? "yerrorlines" : "yerrorbars",
                                        colour, 5 + 2 * (s % 4), title));
        }
    }
    return fmt::format("plot {}\n", fmt::join(parts, ", \\\n     "));
}

std::string script(const ChipFigure& figure) {
    Axis x{.log = figure.log_x};
    for (const auto& s : figure.series) {
        for (const auto& p : s.points) x.add(p.x);
    }
    std::string text = heading(figure.title, figure.x_label);
    text += fmt::format("set ylabel {}\nset grid ytics lc rgb '#dddddd'\nset yrange [0:*]\n",
                        report::quote_gnuplot(figure.y_label));
    if (figure.log_x) text += "set logscale x\n";
    if (figure.seconds_x) text += duration_ticks(x);
    return text + series_blocks(figure) + series_plot(figure);
}

std::string script(const BarChart& chart) {
    const auto groups = chart.names.size();
    const auto bars = static_cast<double>(chart.series.size());
    std::string text = heading(chart.title, chart.x_label);
    std::vector<std::string> ticks;
    for (std::size_t n = 0; n < groups; ++n)
        ticks.push_back(fmt::format("{} {}", report::quote_gnuplot(chart.names[n]), n));
    text += fmt::format("set ytics ({})\nset yrange [{}:-0.6]\nset grid xtics lc rgb '#dddddd'\n",
                        fmt::join(ticks, ", "), static_cast<double>(groups) - 0.4);
    std::vector<std::string> parts;
    for (std::size_t s = 0; s < chart.series.size(); ++s) {
        const auto& series = chart.series[s];
        const double shift = (static_cast<double>(s) - (bars - 1.0) / 2.0) * 0.8 / bars;
        text += fmt::format("$s{} << EOD\n", s);
        for (std::size_t n = 0; n < groups; ++n)
            text +=
                fmt::format("{} {} {}\n", series.values[n], static_cast<double>(n) + shift, series.errors[n]);
        text += "EOD\n";
        const double half = 0.4 / bars;
        parts.push_back(fmt::format(
            "$s{0} using (0):2:(0):1:($2-{1}):($2+{1}) with boxxyerror fs solid 0.8 noborder lc rgb '{2}' "
            "title {3}, $s{0} using 1:2:3 with xerrorbars lc rgb '#333333' pt -1 lw 1 notitle",
            s, half, kColours[s % kColours.size()], report::quote_gnuplot(series.label)));
    }
    return text + fmt::format("plot {}\n", fmt::join(parts, ", \\\n     "));
}

void draw(const std::string& commands, const fs::path& file, std::size_t height) {
    check_figure(file);
    const auto ending = ending_of(file);
    const std::string terminal =
        ending == "svg"
            ? fmt::format("svg size 560,{} font 'Helvetica,11' noenhanced background 'white'", height)
        : ending == "pdf" ? fmt::format("pdfcairo size 14cm,{}cm font 'Helvetica,10' noenhanced",
                                        static_cast<double>(height) / 40.0)
                          : fmt::format("pngcairo size 1120,{} font 'Helvetica,20' noenhanced", 2 * height);
    draw_one(terminal, commands, file);
}

}  // namespace

std::string draw_text(const ChipFigure& figure) {
    Axis x{.log = figure.log_x};
    Axis y;
    y.add(0.0);
    for (const auto& s : figure.series) {
        for (const auto& p : s.points) {
            x.add(p.x);
            y.add(p.y);
        }
    }
    std::vector<std::string> grid(kHeight, std::string(kWidth, ' '));
    for (std::size_t s = 0; s < figure.series.size(); ++s) {
        const auto& series = figure.series[s];
        const char mark = kMarks[s % kMarks.size()];
        if (series.style != FigureStyle::points) mark_line(grid, x, y, series, mark);
    }
    for (std::size_t s = 0; s < figure.series.size(); ++s) {
        for (const auto& p : figure.series[s].points) {
            if (std::isfinite(x.scaled(p.x)) && std::isfinite(p.y))
                grid[y.cell(p.y, kHeight)][x.cell(p.x, kWidth)] = kMarks[s % kMarks.size()];
        }
    }
    std::string text = figure.y_label + "\n";
    for (std::size_t r = kHeight; r-- > 0;) {
        const bool tick = r % 5 == 0;
        const auto label =
            tick ? number_text(y.value(static_cast<double>(r) / static_cast<double>(kHeight - 1))) : "";
        text += fmt::format("{:>8} |{}\n", label, grid[r].substr(0, grid[r].find_last_not_of(' ') + 1));
    }
    text += fmt::format("{:>8} +{}\n", "", std::string(kWidth, '-'));
    const auto left = tick_text(figure, x.value(0.0));
    const auto middle = tick_text(figure, x.value(0.5));
    const auto right = tick_text(figure, x.value(1.0));
    const std::size_t half = kWidth / 2;
    text += fmt::format("{:>9} {:<{}}{:<{}}{:>{}}\n", "", left, half - middle.size() / 2, middle,
                        half - half / 2, right, half / 2 + middle.size() / 2);
    text += fmt::format("{:>10}{}\n", "", figure.x_label);
    for (std::size_t s = 0; s < figure.series.size(); ++s)
        text += fmt::format("{:>10}{} {}\n", "", kMarks[s % kMarks.size()], figure.series[s].label);
    return text;
}

std::string draw_text(const BarChart& chart) {
    constexpr double kBar = 48.0;
    double most = 0.0;
    std::size_t name_width = 0;
    for (const auto& name : chart.names) name_width = std::max(name_width, display_width(name));
    for (const auto& s : chart.series) {
        for (const double v : s.values) most = std::max(most, std::abs(v));
    }
    std::string text = chart.x_label + "\n";
    for (std::size_t n = 0; n < chart.names.size(); ++n) {
        for (std::size_t s = 0; s < chart.series.size(); ++s) {
            const double value = chart.series[s].values[n];
            const auto length =
                most > 0.0 ? static_cast<std::size_t>(std::lround(kBar * std::abs(value) / most)) : 0;
            const std::string bar(length, value < 0.0 ? '-' : kMarks[s + 3]);
            text += fmt::format("{:<{}} |{} {}\n", s == 0 ? chart.names[n] : "", name_width, bar,
                                number_text(value));
        }
    }
    for (std::size_t s = 0; s < chart.series.size(); ++s)
        text += fmt::format("{:<{}}  {} {}\n", "", name_width, kMarks[s + 3], chart.series[s].label);
    return text;
}

void check_figure(const fs::path& file) {
    if (file.empty()) return;
    const auto ending = ending_of(file);
    if (ending != "svg" && ending != "pdf" && ending != "png")
        fail(ErrorCode::bad_usage,
             fmt::format("--figure {}: its name must end in .svg, .pdf or .png", file.string()));
    if (!gnuplot_installed())
        fail(ErrorCode::missing_part,
             "--figure needs gnuplot, which is not installed: apt-get install gnuplot-nox");
}

void draw_file(const ChipFigure& figure, const fs::path& file) {
    draw(script(figure), file, 400);
}

void draw_file(const BarChart& chart, const fs::path& file) {
    draw(script(chart), file, 120 + 32 * chart.names.size());
}

}  // namespace imka::app
