#include "imka/deploy/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "imka/deploy/floor_plan.hpp"

namespace imka {
namespace {

struct TimeUnit {
    std::string_view name;
    double seconds;
};

TimeUnit unit_for(double seconds) {
    constexpr TimeUnit kUnits[] = {{"s", 1.0}, {"ms", 1e-3}, {"us", 1e-6}};
    for (const auto& unit : kUnits) {
        if (seconds >= unit.seconds) return unit;
    }
    return {"ns", 1e-9};
}

// 1, 2 or 5 times a power of ten, so that there are 5 to 12 ticks.
double tick_of(double length) {
    const double power = std::pow(10.0, std::floor(std::log10(length / 5.0)));
    for (const double factor : {5.0, 2.0}) {
        if (length / (factor * power) >= 5.0) return factor * power;
    }
    return power;
}

// Determines the colour: a matrix, digital work or the link, and whether the inference is odd.
struct Mark {
    ResourceKind kind = ResourceKind::core;
    std::uint32_t matrix = kNoMatrix;
    bool odd = false;
    auto operator<=>(const Mark&) const = default;
};

Mark mark_of(const Span& span) {
    return {span.resource.kind, span.matrix, span.inference % 2 == 1};
}

using Line = std::vector<std::optional<Mark>>;  // one per column of the picture

// Draws in each column the mark with the most time.
std::map<Resource, Line> draw_lines(const Schedule& schedule, std::size_t columns) {
    std::map<Resource, std::vector<std::map<Mark, double>>> shares;
    const double width = std::max(schedule.makespan_seconds, 1e-300) / static_cast<double>(columns);
    for (const auto& span : schedule.spans) {
        auto& line = shares[span.resource];
        line.resize(columns);
        const auto column = [&](double time) {
            return std::min(columns - 1, static_cast<std::size_t>(std::max(0.0, time / width)));
        };
        for (std::size_t c = column(span.begin); c <= column(span.end); ++c) {
            const double begin = std::max(span.begin, width * static_cast<double>(c));
            const double end = std::min(span.end, width * static_cast<double>(c + 1));
            if (end > begin) line[c][mark_of(span)] += end - begin;
        }
    }
    std::map<Resource, Line> lines;
    for (const auto& [resource, line] : shares) {
        for (const auto& marks : line) {
            const auto most = std::ranges::max_element(marks, {}, [](const auto& m) { return m.second; });
            lines[resource].push_back(most == marks.end() ? std::nullopt : std::optional(most->first));
        }
    }
    return lines;
}

// "omega" for the step "omega#1": the name of a matrix in legends.
std::map<std::uint32_t, std::string> matrix_names(const Pipeline& pipeline) {
    std::map<std::uint32_t, std::string> names;
    for (const auto& step : pipeline.steps) {
        for (std::size_t k = 0; k < step.matrices.size(); ++k) {
            const auto group = step.matrices.size() > 1 ? fmt::format(".g{}", k) : std::string();
            names.try_emplace(step.matrices[k], std::string(split_call_name(step.name).matrix) + group);
        }
    }
    return names;
}

std::string colour_of(const Mark& mark) {
    switch (mark.kind) {
        case ResourceKind::core:
            return matrix_colour(mark.matrix);
        case ResourceKind::digital:
            return "#9a9a9a";
        case ResourceKind::link:
            break;
    }
    return "#5a7184";
}

// Sizes of the picture, in pixels.
constexpr double kLeft = 120.0;
constexpr double kRight = 64.0;
constexpr double kTop = 58.0;
constexpr double kPlot = 1000.0;
constexpr double kStep = 18.0;
constexpr double kBar = 13.0;
constexpr double kWidth = kLeft + kPlot + kRight;

struct Picture {
    std::map<Mark, std::string> paths;
    std::string labels;
    double y = kTop;
};

// Rectangles of one line, as parts of the paths of their marks.
void add_line(const Line& line, double y, std::map<Mark, std::string>& paths) {
    const double width = kPlot / static_cast<double>(line.size());
    for (std::size_t begin = 0; begin < line.size();) {
        std::size_t end = begin + 1;
        while (end < line.size() && line[end] == line[begin]) ++end;
        if (line[begin]) {
            paths[*line[begin]] += fmt::format(
                "M{:.6g} {:.6g}h{:.6g}v{}h-{:.6g}z", kLeft + width * static_cast<double>(begin), y,
                width * static_cast<double>(end - begin), kBar, width * static_cast<double>(end - begin));
        }
        begin = end;
    }
}

std::string axis_svg(const Schedule& schedule, double bottom) {
    const auto unit = unit_for(schedule.makespan_seconds);
    const double length = schedule.makespan_seconds / unit.seconds;
    std::string out;
    if (!(length > 0.0)) return out;
    const double tick = tick_of(length);
    const auto ticks = static_cast<int>(length * (1.0 + 1e-9) / tick);
    for (int n = 0; n <= ticks; ++n) {
        const double t = n * tick;
        const double x = kLeft + kPlot * t / length;
        out += fmt::format(
            "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" class=\"g\"/>"
            "<text x=\"{0:.1f}\" y=\"{3:.1f}\" class=\"a\">{4:.6g}</text>\n",
            x, kTop - 4.0, bottom, bottom + 14.0, t);
    }
    return out + fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"t\">time, {}</text>\n",
                             kLeft + kPlot + 12.0, bottom + 14.0, unit.name);
}

std::string legend_svg(const std::map<Mark, std::string>& paths, const Pipeline& pipeline, double& y) {
    constexpr double kEntry = 260.0;
    constexpr std::size_t kColumns = 4;
    const auto names = matrix_names(pipeline);
    std::string out;
    std::size_t n = 0;
    for (const auto& [mark, path] : paths) {
        if (mark.odd) continue;
        auto name =
            mark.kind == ResourceKind::core ? names.at(mark.matrix) : std::string(to_string(mark.kind));
        if (name.size() > 38) name = fmt::format("..{}", name.substr(name.size() - 36));
        if (n > 0 && n % kColumns == 0) y += 18.0;
        const double x = kLeft + kEntry * static_cast<double>(n++ % kColumns);
        out += fmt::format(
            "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" fill=\"{}\"/>"
            "<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"t\">{}</text>\n",
            x, y, colour_of(mark), x + 18.0, y + 10.0, xml_escaped(name));
    }
    y += 30.0;
    return out;
}

std::string paths_svg(const std::map<Mark, std::string>& paths, const Pipeline& pipeline) {
    const auto names = matrix_names(pipeline);
    std::string out;
    for (const auto& [mark, path] : paths) {
        const auto name =
            mark.kind == ResourceKind::core ? names.at(mark.matrix) : std::string(to_string(mark.kind));
        out += fmt::format("<path d=\"{}\" fill=\"{}\"{} data-matrix=\"{}\"><title>{}</title></path>\n", path,
                           colour_of(mark), mark.odd ? " fill-opacity=\"0.6\"" : "", xml_escaped(name),
                           xml_escaped(name));
    }
    return out;
}

double busy_share(const Schedule& schedule, const Resource& resource) {
    for (const auto& use : schedule.uses) {
        if (use.resource == resource && schedule.makespan_seconds > 0.0)
            return use.seconds / schedule.makespan_seconds;
    }
    return 0.0;
}

std::string summary(const Schedule& schedule) {
    return fmt::format("makespan {}; bound {} ({}){}", seconds_text(schedule.makespan_seconds),
                       seconds_text(schedule.bound.seconds), schedule.bound.reason,
                       schedule.inferences > 1 ? fmt::format("; {} inferences", schedule.inferences) : "");
}

}  // namespace

std::string seconds_text(double seconds) {
    const auto unit = unit_for(seconds);
    return fmt::format("{:.4g} {}", seconds / unit.seconds, unit.name);
}

std::vector<Span> merged_spans(const std::vector<Span>& spans) {
    std::map<Resource, std::vector<Span>> lines;
    for (const auto& span : spans) {
        auto& line = lines[span.resource];
        if (!line.empty()) {
            auto& last = line.back();
            const bool same = std::tuple(last.step, last.inference, last.matrix, last.copy) ==
                              std::tuple(span.step, span.inference, span.matrix, span.copy);
            if (same && last.end == span.begin) {
                last.end = span.end;
                last.rows += span.rows;
                continue;
            }
        }
        line.push_back(span);
    }
    std::vector<Span> all;
    for (const auto& [resource, line] : lines) all.insert(all.end(), line.begin(), line.end());
    std::ranges::stable_sort(all, {}, &Span::begin);
    return all;
}

std::string timeline_svg(const Schedule& schedule, const Pipeline& pipeline, const std::string& title) {
    // Fewer columns for many lines, so that the file stays below a megabyte.
    const std::size_t columns = schedule.uses.size() <= 32 ? 1000 : 500;
    Picture picture;
    for (const auto& [resource, line] : draw_lines(schedule, columns)) {
        add_line(line, picture.y, picture.paths);
        picture.labels += fmt::format(
            "<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"n\">{}</text>"
            "<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"t\">{:.0f} %</text>\n",
            kLeft - 8.0, picture.y + 10.5, resource_name(resource, schedule.grid), kLeft + kPlot + 8.0,
            picture.y + 10.5, 100.0 * busy_share(schedule, resource));
        picture.y += kStep;
    }
    const double bottom = picture.y + 2.0;
    double y = bottom + 34.0;
    const auto axis = axis_svg(schedule, bottom);
    const auto legend = legend_svg(picture.paths, pipeline, y);
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
        "height=\"{1:.0f}\" font-family=\"sans-serif\">\n"
        "<style>.t{{font-size:12px;fill:#222}}.n{{font-size:12px;fill:#222;text-anchor:end}}"
        ".a{{font-size:11px;fill:#555;text-anchor:middle}}.g{{stroke:#ddd}}</style>\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        "<text x=\"16\" y=\"24\" font-size=\"16\">{2}</text>\n"
        "<text x=\"16\" y=\"42\" class=\"t\">{3}; the share of busy time is on the right</text>\n"
        "{4}{5}{6}{7}</svg>\n",
        kWidth, y, xml_escaped(title), summary(schedule), axis, paths_svg(picture.paths, pipeline),
        picture.labels, legend);
}

std::string timeline_text(const Schedule& schedule, const Pipeline& pipeline, std::size_t columns) {
    std::map<std::uint32_t, char> letters;
    for (const auto& [matrix, name] : matrix_names(pipeline))
        letters[matrix] = picture_letter(letters.size());
    std::string out;
    for (const auto& [resource, line] : draw_lines(schedule, columns)) {
        std::string bar;
        for (const auto& mark : line) {
            if (!mark) {
                bar += '.';
            } else if (mark->kind == ResourceKind::core) {
                bar += letters.at(mark->matrix);
            } else {
                bar += mark->kind == ResourceKind::digital ? '+' : '>';
            }
        }
        out += fmt::format("{:>15} {} {:3.0f} %\n", resource_name(resource, schedule.grid), bar,
                           100.0 * busy_share(schedule, resource));
    }
    out += fmt::format("{:>15} 0{:>{}}\n", "", seconds_text(schedule.makespan_seconds), columns - 1);
    std::string entries;
    for (const auto& [matrix, name] : matrix_names(pipeline)) {
        const auto entry = fmt::format("{} {}", letters.at(matrix), name);
        if (entries.size() + entry.size() + 2 > columns) {
            out += fmt::format("{:>15} {}\n", "", entries);
            entries.clear();
        }
        entries += (entries.empty() ? "" : "  ") + entry;
    }
    return out + fmt::format("{:>15} {}\n", "", entries);
}

}  // namespace imka
