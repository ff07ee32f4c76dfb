#include "imka/report/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <utility>

#include "imka/base/duration.hpp"

namespace imka::report {
namespace {

constexpr std::size_t kWidth = 64;
constexpr std::size_t kHeight = 16;
constexpr std::string_view kMarks = "ox+*#@%&";

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
    // The cell of a value; the first if the range is empty.
    std::size_t cell(double v, std::size_t cells) const {
        if (!(high > low)) return 0;
        const double share = std::clamp((scaled(v) - low) / (high - low), 0.0, 1.0);
        return static_cast<std::size_t>(std::lround(share * static_cast<double>(cells - 1)));
    }
};

struct TextGrid {
    Axis x;
    Axis y;
    std::vector<std::string> rows = std::vector<std::string>(kHeight, std::string(kWidth, ' '));
    bool has(const PlotPoint& p) const {
        return std::isfinite(x.scaled(p.x)) && std::isfinite(y.scaled(p.y));
    }
    char& at(const PlotPoint& p) { return rows[y.cell(p.y, kHeight)][x.cell(p.x, kWidth)]; }
};

std::string number_text(double v) {
    return fmt::format("{:.3g}", v);
}

std::size_t display_width(std::string_view text) {
    return static_cast<std::size_t>(
        std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

void draw_line(const Series& series, char mark, TextGrid& grid) {
    for (std::size_t i = 0; i + 1 < series.points.size(); ++i) {
        const auto& a = series.points[i];
        const auto& b = series.points[i + 1];
        if (!grid.has(a) || !grid.has(b)) continue;
        const auto first = grid.x.cell(a.x, kWidth);
        const auto last = grid.x.cell(b.x, kWidth);
        for (std::size_t c = first + 1; c < last; ++c) {
            const double share = static_cast<double>(c - first) / static_cast<double>(last - first);
            auto& cell = grid.rows[grid.y.cell(a.y + share * (b.y - a.y), kHeight)][c];
            if (cell == ' ') cell = series.draw == Draw::curve ? mark : '.';
        }
    }
}

TextGrid text_grid(const Plot& plot) {
    TextGrid grid{.x = {.log = plot.log_x}, .y = {.log = plot.log_y}};
    if (plot.from_zero) grid.y.add(0.0);
    for (const auto& s : plot.series) {
        for (const auto& p : s.points) {
            grid.x.add(p.x);
            grid.y.add(p.y);
        }
    }
    for (std::size_t s = 0; s < plot.series.size(); ++s) {
        if (plot.series[s].draw != Draw::marks) draw_line(plot.series[s], kMarks[s % kMarks.size()], grid);
    }
    for (std::size_t s = 0; s < plot.series.size(); ++s) {
        for (const auto& p : plot.series[s].points) {
            if (grid.has(p)) grid.at(p) = kMarks[s % kMarks.size()];
        }
    }
    return grid;
}

std::string x_ticks_text(const Plot& plot, const Axis& x) {
    const auto tick = [&](double share) {
        const double v = x.value(share);
        return plot.x_axis == XAxis::seconds ? duration_text(v) : number_text(v);
    };
    const auto middle = tick(0.5);
    const std::size_t half = kWidth / 2;
    return fmt::format("{:>9} {:<{}}{:<{}}{:>{}}\n", "", tick(0.0), half - middle.size() / 2, middle,
                       half - half / 2, tick(1.0), half / 2 + middle.size() / 2);
}

std::string lines_text(const Plot& plot) {
    const auto grid = text_grid(plot);
    std::string text = plot.y_label + "\n";
    for (std::size_t r = kHeight; r-- > 0;) {
        const double share = static_cast<double>(r) / static_cast<double>(kHeight - 1);
        const auto& row = grid.rows[r];
        text += fmt::format("{:>8} |{}\n", r % 5 == 0 ? number_text(grid.y.value(share)) : "",
                            row.substr(0, row.find_last_not_of(' ') + 1));
    }
    text += fmt::format("{:>8} +{}\n{}{:>10}{}\n", "", std::string(kWidth, '-'), x_ticks_text(plot, grid.x),
                        "", plot.x_label);
    for (std::size_t s = 0; s < plot.series.size(); ++s)
        text += fmt::format("{:>10}{} {}\n", "", kMarks[s % kMarks.size()], plot.series[s].label);
    return text;
}

std::string bars_text(const Plot& plot) {
    constexpr double kBar = 48.0;
    double most = 0.0;
    std::size_t name_width = 0;
    for (const auto& tick : plot.ticks) name_width = std::max(name_width, display_width(tick.name));
    for (const auto& s : plot.series) {
        for (const auto& p : s.points) most = std::max(most, std::abs(p.y));
    }
    std::string text = plot.y_label + "\n";
    for (std::size_t n = 0; n < plot.ticks.size(); ++n) {
        for (std::size_t s = 0; s < plot.series.size(); ++s) {
            const double value = plot.series[s].points[n].y;
            const auto length =
                most > 0.0 ? static_cast<std::size_t>(std::lround(kBar * std::abs(value) / most)) : 0;
            const std::string bar(length, value < 0.0 ? '-' : kMarks[s + 3]);
            text += fmt::format("{:<{}} |{} {}\n", s == 0 ? plot.ticks[n].name : "", name_width, bar,
                                number_text(value));
        }
    }
    for (std::size_t s = 0; s < plot.series.size(); ++s)
        text += fmt::format("{:<{}}  {} {}\n", "", name_width, kMarks[s + 3], plot.series[s].label);
    return text;
}

std::string series_words(const Series& s, const Plot& plot) {
    const auto number = [&](double v) {
        return plot.log_y ? fmt::format("{:.3g}", v) : fmt::format("{:.{}f}", v, plot.digits);
    };
    const auto& first = s.points.front();
    const auto& last = s.points.back();
    if (s.points.size() == 1) return fmt::format("{} is {} at {:.4g}", s.label, number(first.y), first.x);
    const auto* way = last.y > first.y ? "rises" : last.y < first.y ? "falls" : "stays";
    return fmt::format("{} {} from {} at {:.4g} to {} at {:.4g}", s.label, way, number(first.y), first.x,
                       number(last.y), last.x);
}

}  // namespace

std::string describe(const Plot& plot) {
    std::vector<std::string> parts;
    for (const auto& s : plot.series) {
        if (!s.published) parts.push_back(series_words(s, plot));
    }
    return fmt::format("Line chart of {} against {}. {}.{}", plot.y_label, plot.x_label,
                       fmt::join(parts, "; "),
                       parts.size() < plot.series.size() ? " Hollow marks show the published means." : "");
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

std::string draw_text(const Plot& plot) {
    return plot.bars ? bars_text(plot) : lines_text(plot);
}

std::string slug(std::string_view text) {
    std::string out;
    for (const char c : text) {
        const auto lower = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        const bool plain = (lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9');
        if (plain) {
            out += lower;
        } else if (!out.empty() && out.back() != '-') {
            out += '-';
        }
    }
    while (!out.empty() && out.back() == '-') out.pop_back();
    return out.substr(0, 60);
}

}  // namespace imka::report
