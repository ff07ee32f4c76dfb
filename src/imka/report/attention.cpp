#include "imka/report/attention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/io/text.hpp"
#include "imka/report/figure.hpp"
#include "imka/report/paper.hpp"

namespace imka::report {
namespace {

constexpr std::string_view kErrors = "attention";
constexpr std::string_view kTimes = "attention_time";
constexpr std::size_t kPictureSize = 256;

// One figure per row: curves of one or two results.
struct QuantityRow {
    std::string_view kind;
    std::vector<std::pair<std::string, std::string>> results;  // name of a result, prefix of its curves
    std::string_view title;
    std::string_view y_label;
    std::string_view what;  // for the caption
};
const std::vector<QuantityRow>& quantities() {
    static const std::vector<QuantityRow> rows = {
        {kErrors,
         {{"output_mse", ""}},
         "mean squared error of the output",
         "mean squared error",
         "Mean squared error of the output of kernelised attention against exact attention"},
        {kErrors,
         {{"output_error", ""}},
         "relative error of the output",
         "relative error",
         "Relative error of the output of kernelised attention in the Frobenius norm, mean over sequences"},
        {kErrors,
         {{"matrix_error", ""}},
         "relative error of the attention matrix",
         "relative error",
         "Relative error of the attention matrix in the Frobenius norm, mean over sequences"},
        {kTimes,
         {{"exact_seconds", "exact"}, {"kernel_seconds", "kernelised"}},
         "time",
         "seconds",
         "Time of one call on all threads, including the projection"},
        {kTimes,
         {{"exact_memory_mb", "exact"}, {"kernel_memory_mb", "kernelised"}},
         "memory",
         "MB",
         "Peak resident memory of one call beyond its inputs, including its outputs"},
    };
    return rows;
}

// Settings on the axes, in headings, or different for every seed.
const std::set<std::string, std::less<>> kShownByAttention = {"dataset",   "seeds",    "split_seed",
                                                              "chip_hash", "protocol", "published_slips"};

std::string x_setting(std::string_view kind) {
    return kind == kTimes ? "length" : "n_directions";
}

double x_of(const Record& r) {
    if (r.kind == kTimes) return parse_double(r.setting("length")).value_or(0.0);
    const auto m = r.results.find("m");
    return m == r.results.end() ? 0.0 : m->second;
}

// (experiment, data set, protocol, published_slips, row of quantities)
using AttentionKey = std::tuple<std::string, std::string, std::string, std::string, std::size_t>;
using Group = std::vector<const Record*>;

// The settings that differ within a group. Chip settings are absent in FP32.
std::set<std::string> varying(const Group& group) {
    std::map<std::string, std::set<std::string>> values;
    for (const auto* r : group) {
        for (const auto& [name, value] : r->config) values[name].insert(value);
    }
    std::set<std::string> names = {"sampler", "form"};
    for (const auto& [name, seen] : values) {
        if (seen.size() > 1 && !kShownByAttention.contains(name) && name != x_setting(group.front()->kind))
            names.insert(name);
    }
    return names;
}

std::string norms_of(const Record& r) {
    if (r.setting("sampler") == "rff") return {};
    return fmt::format("{} norms", to_string(resolve_norms(parse_enum<Sampler>(r.setting("sampler")),
                                                           parse_enum<Norms>(r.setting("norms")))));
}

std::string curve_label(const Record& r, const std::set<std::string>& names) {
    std::vector<std::string> parts = {r.setting("sampler"), r.setting("form")};
    for (const auto& name : names) {
        const auto value = r.setting(name);
        if (name == "sampler" || name == "form" || value.empty()) continue;
        if (name == "norms") {
            if (auto norms = norms_of(r); !norms.empty()) parts.push_back(std::move(norms));
        } else if (name == "backend") {
            if (value != "fp32") parts.push_back(value);
        } else {
            parts.push_back(fmt::format("{} {}", name, value));
        }
    }
    return fmt::format("{}", fmt::join(parts, ", "));
}

using Points = std::map<double, std::vector<double>>;
struct AttentionRuns {
    const Record* first = nullptr;
    Points points;
};

std::vector<AttentionCurve> curves_of(const Group& group, const QuantityRow& row) {
    const auto names = varying(group);
    std::map<std::pair<bool, std::string>, AttentionRuns> curves;  // FP32 first
    for (const auto& [result, prefix] : row.results) {
        for (const auto* r : group) {
            const auto value = r->results.find(result);
            if (value == r->results.end() || !std::isfinite(value->second)) continue;
            auto label = curve_label(*r, names);
            if (!prefix.empty()) label = prefix == "exact" ? prefix : fmt::format("{}, {}", prefix, label);
            auto& curve = curves[{r->setting("backend") != "fp32", label}];
            curve.first = r;
            curve.points[x_of(*r)].push_back(value->second);
        }
    }
    std::vector<AttentionCurve> out;
    for (const auto& [key, runs] : curves) {
        auto& curve =
            out.emplace_back(AttentionCurve{.label = key.second, .on_chip = key.first, .points = {}});
        for (const auto& [x, values] : runs.points)
            curve.points.push_back({.x = x,
                                    .value = median_interval(values),
                                    .mean = summarize(values).mean,
                                    .n = values.size()});
    }
    return out;
}

// The first curve of a sampler has the sampler's colour in the paper, on a chip as in FP32.
std::vector<std::string> styles_of(const std::vector<AttentionCurve>& curves) {
    constexpr std::array<std::string_view, 3> kNamed = {"rff", "orf", "sorf"};
    std::set<std::pair<bool, std::string>> taken;
    std::vector<std::string> styles;
    std::size_t others = 0;
    for (const auto& c : curves) {
        const auto sampler = c.label.substr(0, c.label.find(','));
        const bool own =
            std::ranges::find(kNamed, sampler) != kNamed.end() && taken.insert({c.on_chip, sampler}).second;
        styles.push_back(own ? sampler : fmt::format("other{}", others++ % 4));
    }
    return styles;
}

// Over at least a factor of 5.
bool spans_decades(const std::vector<AttentionCurve>& curves) {
    double low = INFINITY;
    double high = 0.0;
    for (const auto& c : curves) {
        for (const auto& p : c.points) {
            low = std::min(low, p.value.low);
            high = std::max(high, p.value.high);
        }
    }
    return low > 0.0 && high > 5.0 * low;
}

Plot make_plot(const AttentionFigure& figure, const QuantityRow& row, const Record& first) {
    const bool times = row.kind == kTimes;
    Plot plot{.id = slug(fmt::format("{} {}", figure.experiment, figure.title)),
              .title = figure.title,
              .x_label = times ? "length" : fmt::format("directions m (d = {:.0f})", first.results.at("d")),
              .y_label = std::string(row.y_label),
              .digits = 4,
              .log_x = times,
              .log_y = spans_decades(figure.curves)};
    const auto styles = styles_of(figure.curves);
    for (std::size_t c = 0; c < figure.curves.size(); ++c) {
        const auto& curve = figure.curves[c];
        Series series{.label = curve.label, .style = styles[c], .dashed = curve.on_chip};
        for (const auto& p : curve.points)
            series.points.push_back({.x = p.x,
                                     .y = p.value.median,
                                     .error = p.value.high - p.value.median,
                                     .n = p.n,
                                     .below = p.value.median - p.value.low});
        plot.series.push_back(std::move(series));
    }
    plot.alt = describe(plot);
    return plot;
}

// The error of predicting 0 for every output, to compare with.
std::string trivial_note(const Group& group) {
    std::vector<double> values;
    for (const auto* r : group) {
        const auto v = r->results.find("trivial_mse");
        if (v != r->results.end()) values.push_back(v->second);
    }
    if (values.empty()) return {};
    return fmt::format("Predicting 0 for every output has a mean squared error of {:.3g} (median over runs).",
                       median(values));
}

std::string break_even_note(const std::vector<AttentionCurve>& curves) {
    const auto exact = std::ranges::find(curves, "exact", &AttentionCurve::label);
    if (exact == curves.end()) return {};
    std::vector<std::string> parts;
    for (const auto& c : curves) {
        if (&c == &*exact) continue;
        const double length = break_even(*exact, c);
        parts.push_back(length > 0.0
                            ? fmt::format("{} takes less time than exact attention from a length of about "
                                          "{:.0f}",
                                          c.label, length)
                            : fmt::format("{} and exact attention do not cross at these lengths", c.label));
    }
    return fmt::format("Break-even: {}.", fmt::join(parts, "; "));
}

// The name of a data set; for a file, without its folder.
std::string input_name(const std::string& dataset) {
    return std::filesystem::path(dataset).filename().string();
}

std::string caption_of(const QuantityRow& row, const Record& first) {
    const auto length = first.setting("length");
    const bool has_length = row.kind != kTimes && length != "auto";
    return fmt::format(
        "{}, for {}{}. Points are medians over seeds; bars are their 95 % confidence intervals "
        "(smallest and largest value if there are fewer than six seeds).",
        row.what,
        first.setting("dataset") == "normal" ? "Q, K, V ~ N(0, 1)" : input_name(first.setting("dataset")),
        has_length ? fmt::format(" of length {}", length) : "");
}

AttentionFigure make_figure(const AttentionKey& key, const Group& group) {
    const auto& [experiment, dataset, protocol, slips, number] = key;
    const auto& row = quantities()[number];
    const auto& first = *group.front();
    AttentionFigure figure{
        .experiment = experiment,
        .title = fmt::format("{}: {}{}", input_name(dataset), row.title,
                             slips == "true" ? ", with the slips of the published figure" : ""),
        .caption = caption_of(row, first),
        .curves = curves_of(group, row)};
    if (row.results.front().first == "output_mse") figure.notes.push_back(trivial_note(group));
    if (row.title == "time") figure.notes.push_back(break_even_note(figure.curves));
    std::erase(figure.notes, "");
    figure.command = find_reproduction(experiment) != nullptr ? fmt::format("imka reproduce {}", experiment)
                                                              : fmt::format("imka sweep {}.yaml", experiment);
    figure.plot = make_plot(figure, row, first);
    return figure;
}

RunConfig config_of(const Record& r) {
    auto config = attention_defaults();
    const auto list = fields(config);
    for (const auto& [name, value] : r.config) set_field(list, name, value);
    return config;
}

}  // namespace

std::vector<AttentionFigure> attention_figures(const std::vector<Record>& records) {
    std::map<AttentionKey, Group> groups;
    for (const auto& r : records) {
        for (std::size_t i = 0; i < quantities().size(); ++i) {
            const auto& row = quantities()[i];
            if (!r.ok() || r.kind != row.kind || !r.results.contains(row.results.front().first)) continue;
            groups[{r.experiment, r.setting("dataset"), r.setting("protocol"), r.setting("published_slips"),
                    i}]
                .push_back(&r);
        }
    }
    std::vector<AttentionFigure> figures;
    figures.reserve(groups.size());
    for (const auto& [key, group] : groups) figures.push_back(make_figure(key, group));
    return figures;
}

double break_even(const AttentionCurve& exact, const AttentionCurve& kernel) {
    const auto advantage = [&](std::size_t i) {
        return std::log(exact.points[i].value.median / kernel.points[i].value.median);
    };
    const std::size_t n = std::min(exact.points.size(), kernel.points.size());
    for (std::size_t i = n; i-- > 1;) {
        const double before = advantage(i - 1);
        const double after = advantage(i);
        if (after < 0.0) return 0.0;
        if (before >= 0.0) continue;
        const double share = before / (before - after);
        return std::exp(std::log(exact.points[i - 1].x) +
                        share * std::log(exact.points[i].x / exact.points[i - 1].x));
    }
    return 0.0;
}

std::vector<AttentionMaps> attention_maps(const std::vector<Record>& records, const Exec& exec) {
    std::map<std::string, const Record*> chosen;
    for (const auto& r : records) {
        if (!r.ok() || r.kind != kErrors || r.setting("backend") == "fp32") continue;
        auto& best = chosen[r.experiment];
        if (best == nullptr || std::pair(x_of(r), best->seed) > std::pair(x_of(*best), r.seed)) best = &r;
    }
    std::vector<AttentionMaps> all;
    for (const auto& [experiment, r] : chosen) {
        try {
            const auto picture = attention_picture(config_of(*r), kPictureSize, exec);
            all.push_back({.experiment = experiment,
                           .title = fmt::format("{}: the first {} tokens, m = {:.0f}, seed {}",
                                                input_name(r->setting("dataset")), picture.positions.size(),
                                                x_of(*r), r->seed),
                           .maps = heat_maps(picture)});
        } catch (const Error& e) {
            if (e.code() == ErrorCode::interrupted) throw;
            note(exec, fmt::format("no pictures of attention matrices of {}: {}", experiment, e.what()));
        }
    }
    return all;
}

}  // namespace imka::report
