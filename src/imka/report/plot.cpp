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
        script += fmt::format("$s{} << EOD\n", s);
        for (const auto& p : plot.series[s].points) script += fmt::format("{} {} {}\n", p.x, p.y, p.error);
        script += "EOD\n";
    }
}

// Curves stand a little apart, as on the page, so that their error bars do not cover each other.
constexpr double kStep = 0.045;

std::vector<std::string> styles_of(const Plot& plot) {
    std::vector<std::string> styles;
    for (const auto& s : plot.series) {
        if (std::ranges::find(styles, s.style) == styles.end()) styles.push_back(s.style);
    }
    return styles;
}

std::string plot_line(const Plot& plot) {
    const auto styles = styles_of(plot);
    std::vector<std::string> parts;
    for (std::size_t k = 0; k < styles.size(); ++k) {
        const auto& style = style_of(styles[k]);
        const double shift =
            kStep * (static_cast<double>(k) - (static_cast<double>(styles.size()) - 1.0) / 2.0);
        // Published marks first: gnuplot's hollow marks cover what lies under them.
        for (const bool published : {true, false}) {
            for (std::size_t s = 0; s < plot.series.size(); ++s) {
                const auto& series = plot.series[s];
                if (series.style != styles[k] || series.published != published) continue;
                parts.push_back(fmt::format(
                    "$s{} using ($1+({:.4f})):2:3 with {} lc rgb '{}' pt {} ps {} lw 1.2 dt {} title {}", s,
                    shift, published ? "yerrorbars" : "yerrorlines", style.colour,
                    published ? style.hollow : style.filled, published ? 0.9 : 0.5, series.dashed ? 2 : 1,
                    quote_gnuplot(series.label)));
            }
        }
    }
    return fmt::format("plot {}\n", fmt::join(parts, ", \\\n     "));
}

std::string x_range(const Plot& plot) {
    Range x;
    for (const auto& s : plot.series) {
        for (const auto& p : s.points) x.add(p.x);
    }
    return fmt::format("set xrange [{}:{}]\n", x.low - 0.3, x.high + 0.3);
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
        const bool chip = curve.backend != "fp32" && !curve.backend.empty();
        Series ours{.label = curve.label(), .style = style_name(curve, c), .dashed = chip, .points = {}};
        Series theirs{
            .label = curve.label() + ", published", .style = ours.style, .published = true, .points = {}};
        for (const auto& p : curve.points) {
            if (p.ours.n > 0) {
                ours.points.push_back(
                    {.x = p.log_ratio, .y = scale * p.ours.mean, .error = scale * p.ours.std, .n = p.ours.n});
            }
            if (p.published) {
                theirs.points.push_back({.x = p.log_ratio,
                                         .y = scale * p.published->mean,
                                         .error = scale * p.published->std,
                                         .n = p.published->n});
            }
        }
        if (!ours.points.empty()) plot.series.push_back(std::move(ours));
        if (!theirs.points.empty()) published.push_back(std::move(theirs));
    }
    std::ranges::move(published, std::back_inserter(plot.series));
    plot.alt = describe(plot);
    return plot;
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
        "set tics nomirror out\nset grid ytics lc rgb '#dddddd'\nset xtics 1\n"
        "set bars 0.5\n";
    for (const auto& plot : plots) {
        add_blocks(script, plot);
        script += x_range(plot);
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
