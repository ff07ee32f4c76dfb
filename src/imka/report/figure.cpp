#include "imka/report/figure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "imka/data/registry.hpp"
#include "imka/experiment/kinds.hpp"
#include "imka/experiment/spec.hpp"
#include "imka/experiment/sweep.hpp"
#include "imka/io/text.hpp"
#include "imka/report/paper.hpp"

namespace imka::report {
namespace {

using Settings = std::map<std::string, std::string>;

// Settings shown by a figure's axes, its heading or the seeds.
const std::set<std::string, std::less<>> kShownByFigure = {"dataset",      "protocol", "kernel",
                                                           "sampler",      "backend",  "log_ratio",
                                                           "n_components", "seeds",    "split_seed"};

// "0.5" and "0.50" are the same setting.
bool same_setting(const std::string& a, const std::string& b) {
    if (a == b) return true;
    const auto x = parse_double(a);
    return x && x == parse_double(b);
}

// Without chip_hash, which identifies the chip and is not a choice of the run.
const Settings& default_settings(const std::string& backend) {
    static const Settings fp32 = settings_text(RunConfig{});
    static const Settings chip = [] {
        auto settings = settings_text(RunConfig{.backend = {.name = "hermes"}});
        settings.erase("chip_hash");
        return settings;
    }();
    return backend == "fp32" || backend.empty() ? fp32 : chip;
}

// Settings of the published runs on a data set: the defaults, overridden by the experiment that repeats the
// runs.
Settings settings_of_measured(const std::string& dataset, const std::string& backend) {
    static const auto repetition = find_experiment(paper().published_runs);
    auto settings = default_settings(backend);
    for (const auto& one : repetition.cases) {
        const auto says = [&](std::string_view name, const std::string& value) {
            return std::ranges::any_of(
                one, [&](const SettingText& s) { return s.name == name && s.value == value; });
        };
        if (!says("dataset", dataset) || !says("backend", backend)) continue;
        for (const auto& s : one) settings[s.name] = s.value;
    }
    return settings;
}

// Known names in their usual order, then unknown names alphabetically.
template <NamedEnum E>
std::pair<std::size_t, std::string> listed(const std::string& name) {
    const auto& names = EnumNames<E>::values;
    const auto* place = std::ranges::find(names, name);
    return {static_cast<std::size_t>(place - std::begin(names)), place == std::end(names) ? name : ""};
}

// (experiment, data set, kernel, protocol, quantity)
using FigureKey =
    std::tuple<std::string, std::string, std::pair<std::size_t, std::string>, std::string, Quantity>;
// (sampler, backend, variant)
using CurveKey = std::tuple<std::pair<std::size_t, std::string>, std::string, std::string>;
// (log ratio, m)
using PointKey = std::pair<double, std::int64_t>;

struct Runs {
    std::vector<const Record*> records;
    std::vector<double> values;
};
using CurveRuns = std::map<PointKey, Runs>;
using FigureRuns = std::map<CurveKey, CurveRuns>;

// Which other settings vary among the runs of one (experiment, data set, kernel, protocol, backend).
class Variants {
public:
    void add(const Record& r) {
        auto& settings = values_[place(r)];
        for (const auto& [name, value] : r.config) {
            if (!kShownByFigure.contains(name) && name != kChipHash) settings[name].insert(value);
        }
        hashes_[chip(r)].insert(r.setting(std::string(kChipHash)));
    }
    std::string of(const Record& r) const {
        std::vector<std::string> parts;
        for (const auto& [name, values] : values_.at(place(r))) {
            if (values.size() > 1) parts.push_back(fmt::format("{} {}", name, r.setting(name)));
        }
        // Shows hashes only if chips with the same name and settings differ.
        if (hashes_.at(chip(r)).size() > 1)
            parts.push_back(fmt::format("{} {}", kChipHash, r.setting(std::string(kChipHash)).substr(0, 8)));
        return fmt::format("{}", fmt::join(parts, ", "));
    }

private:
    using Place = std::tuple<std::string, std::string, std::string, std::string, std::string>;
    static Place place(const Record& r) {
        return {r.experiment, r.setting("dataset"), r.setting("kernel"), r.setting("protocol"),
                r.setting("backend")};
    }
    static constexpr std::string_view kChipHash = "chip_hash";
    using Chip = std::pair<std::string, std::string>;
    static Chip chip(const Record& r) { return {r.setting("backend"), r.setting("chip_set")}; }
    std::map<Place, std::map<std::string, std::set<std::string>>> values_;
    std::map<Chip, std::set<std::string>> hashes_;
};

double result_or(const Record& r, const std::string& name, double otherwise) {
    const auto place = r.results.find(name);
    return place == r.results.end() ? otherwise : place->second;
}

// Without a log ratio in the settings, log2(m/d), rounded so that points can share a position.
PointKey point_key(const Record& r) {
    return {std::round(result_or(r, "log_ratio", 0.0) * 1e4) / 1e4, std::llround(result_or(r, "m", 0.0))};
}

std::map<FigureKey, FigureRuns> group(const std::vector<Record>& records) {
    Variants variants;
    for (const auto& r : records) variants.add(r);
    std::map<FigureKey, FigureRuns> groups;
    for (const auto& r : records) {
        if (!r.ok() || recorded_kind(r.kind).tests_models) continue;
        for (const auto quantity : {Quantity::accuracy, Quantity::gram_error}) {
            const auto value = r.results.find(std::string(to_string(quantity)));
            if (value == r.results.end() || !std::isfinite(value->second)) continue;
            const FigureKey figure{r.experiment, r.setting("dataset"), listed<Kernel>(r.setting("kernel")),
                                   r.setting("protocol"), quantity};
            const CurveKey curve{listed<Sampler>(r.setting("sampler")), r.setting("backend"), variants.of(r)};
            auto& runs = groups[figure][curve][point_key(r)];
            runs.records.push_back(&r);
            runs.values.push_back(value->second);
        }
    }
    return groups;
}

Point make_point(const PointKey& key, Runs runs) {
    Point p{.log_ratio = key.first, .m = key.second, .config = runs.records.front()->config};
    // Sums values in the order of the seeds, for any order of the files.
    std::vector<std::pair<std::uint64_t, double>> by_seed;
    for (std::size_t i = 0; i < runs.values.size(); ++i)
        by_seed.emplace_back(runs.records[i]->seed, runs.values[i]);
    std::ranges::sort(by_seed);
    runs.values.clear();
    for (const auto& [seed, value] : by_seed) {
        p.seeds.push_back(seed);
        runs.values.push_back(value);
    }
    p.ours = summarize(std::move(runs.values));
    return p;
}

Figure make_figure(const FigureRuns& runs, Quantity quantity) {
    const Record& first = *runs.begin()->second.begin()->second.records.front();
    Figure figure{.experiment = first.experiment,
                  .dataset = first.setting("dataset"),
                  .protocol = first.setting("protocol"),
                  .kernel = first.setting("kernel"),
                  .quantity = quantity};
    for (const auto& [key, points] : runs) {
        const Record& one = *points.begin()->second.records.front();
        Curve curve{.sampler = one.setting("sampler"),
                    .backend = one.setting("backend"),
                    .variant = std::get<2>(key)};
        for (const auto& [place, point_runs] : points) curve.points.push_back(make_point(place, point_runs));
        figure.curves.push_back(std::move(curve));
    }
    return figure;
}

// The first setting that differs from the published runs; "" if all agree.
std::string other_setting(const Settings& config, const Published& published) {
    for (const auto& [name, usual] : settings_of_measured(published.dataset, published.backend)) {
        if (kShownByFigure.contains(name) || (name == "gamma" && published.kernel.starts_with("arccos")))
            continue;
        const auto place = config.find(name);
        if (place != config.end() && !same_setting(place->second, usual))
            return fmt::format("{} is {}; the published runs had {}", name, place->second, usual);
    }
    return "";
}

bool in_table(const Published& p, const std::string& experiment) {
    const auto* known = find_reproduction(experiment);
    return known == nullptr || known->table == p.table;
}

// Published values that a known experiment repeats.
bool is_repeated(const Published& p, const std::string& experiment) {
    const auto* known = find_reproduction(experiment);
    return known != nullptr && known->table == p.table &&
           (known->backend.empty() || known->backend == p.backend);
}

bool same_place(const Published& p, const Figure& f) {
    return p.dataset == f.dataset && p.kernel == f.kernel && p.quantity == f.quantity &&
           in_table(p, f.experiment);
}

bool stands_beside(const Published& p, const Curve& curve) {
    return p.sampler == curve.sampler && (p.backend == "fp32" ? curve.backend == "fp32" : curve.on_chip());
}

// In the protocol of the published runs m identifies a cell; otherwise the log ratio of the settings does.
bool same_point(const Published& p, const Figure& f, const Point& point) {
    return f.protocol == "measured" ? p.m == point.m : std::abs(p.log_ratio - point.log_ratio) < 1e-3;
}

std::string why_unlike(const Point& point, const Figure& figure, const Curve& curve) {
    const auto& p = *point.published;
    if (figure.protocol != "measured") return protocol_difference(figure.dataset, figure.kernel, p.sampler);
    if (curve.backend != p.backend)
        return fmt::format("different chip: {}; the published runs used {}", curve.backend, p.backend);
    return other_setting(point.config, p);
}

void judge(Point& point, const Figure& figure, const Curve& curve, const Published& published) {
    point.published = published;
    point.unlike = why_unlike(point, figure, curve);
    if (!point.unlike.empty()) {
        point.verdict = Verdict::unlike;
    } else {
        point.verdict = std::abs(point.errors()) <= kAllowedErrors ? Verdict::reproduced : Verdict::deviates;
    }
}

// The curve for a published value that was not run.
Curve& curve_for(Figure& figure, const Published& p) {
    for (auto& curve : figure.curves) {
        if (curve.sampler == p.sampler && curve.backend == p.backend) return curve;
    }
    return figure.curves.emplace_back(Curve{.sampler = p.sampler, .backend = p.backend});
}

void compare(Figure& figure, const std::vector<Published>& published) {
    for (const auto& p : published) {
        if (!same_place(p, figure)) continue;
        bool met = false;
        for (auto& curve : figure.curves) {
            if (!stands_beside(p, curve)) continue;
            for (auto& point : curve.points) {
                if (point.published || !same_point(p, figure, point)) continue;
                judge(point, figure, curve, p);
                met = true;
            }
        }
        if (met || !is_repeated(p, figure.experiment)) continue;
        auto& points = curve_for(figure, p).points;
        auto& point = points.emplace_back();
        point.log_ratio = p.log_ratio;
        point.published = p;
        point.verdict = Verdict::missing;
    }
    for (auto& curve : figure.curves) std::ranges::stable_sort(curve.points, {}, &Point::log_ratio);
}

std::string shell_word(const std::string& text) {
    const auto plain = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view("_-./,:=+@%").find(c) != std::string_view::npos;
    };
    if (!text.empty() && std::ranges::all_of(text, plain)) return text;
    std::string out = "'";
    for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

// The plot of a figure: our curves and the published marks.

std::string style_name(const Curve& curve, std::size_t index) {
    constexpr std::array<std::string_view, 3> kNamed = {"rff", "orf", "sorf"};
    const bool named = curve.variant.empty() && std::ranges::find(kNamed, curve.sampler) != kNamed.end();
    return named ? curve.sampler : fmt::format("other{}", index % 4);
}

std::string published_label(const Curve& curve) {
    for (const auto& p : curve.points) {
        if (!p.published) continue;
        const Curve published{.sampler = curve.sampler, .backend = p.published->backend};
        return published.label() + ", published";
    }
    return "";
}

PlotPoint scaled(double x, const Summary& s, double scale) {
    return {.x = x, .y = scale * s.mean, .error = scale * s.std, .n = s.n};
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

double Point::difference() const {
    return published ? ours.mean - published->value.mean : 0.0;
}

double Point::errors() const {
    return published && ours.n > 0 ? deviation(ours, published->value) : 0.0;
}

std::string Curve::label() const {
    std::string text = sampler;
    if (on_chip()) text += ", " + backend;
    if (!variant.empty()) text += ", " + variant;
    return text;
}

bool Curve::on_chip() const {
    return backend != "fp32" && !backend.empty();
}

std::vector<Value> values_of(const Curve& curve, Side side) {
    std::vector<Value> values;
    for (const auto& p : curve.points) {
        if (side == Side::ours && p.ours.n > 0) values.push_back({p.log_ratio, p.ours});
        if (side == Side::published && p.published) values.push_back({p.log_ratio, p.published->value});
    }
    return values;
}

std::string chip_of(const std::vector<Figure>& figures, const std::string& experiment) {
    std::string chip;
    for (const auto& f : figures) {
        if (f.experiment != experiment) continue;
        for (const auto& curve : f.curves) {
            if (!curve.on_chip() || values_of(curve, Side::ours).empty()) continue;
            if (curve.backend == "hermes") return curve.backend;
            if (chip.empty()) chip = curve.backend;
        }
    }
    return chip;
}

void Counts::add(Verdict verdict) {
    std::size_t* const all[] = {&reproduced, &deviates, &missing, &unlike, &unpublished};
    ++*all[static_cast<std::size_t>(verdict)];
}

void Counts::add(const Counts& other) {
    reproduced += other.reproduced;
    deviates += other.deviates;
    missing += other.missing;
    unlike += other.unlike;
    unpublished += other.unpublished;
}

std::size_t Counts::cells() const {
    return reproduced + deviates + missing;
}

double Counts::share() const {
    return cells() == 0 ? 0.0 : static_cast<double>(reproduced) / static_cast<double>(cells());
}

Counts count(const Figure& figure) {
    Counts counts;
    for (const auto& curve : figure.curves) {
        for (const auto& point : curve.points) counts.add(point.verdict);
    }
    return counts;
}

std::vector<Figure> make_figures(const std::vector<Record>& records,
                                 const std::vector<Published>& published) {
    std::vector<Figure> figures;
    for (const auto& [key, runs] : group(records)) {
        figures.push_back(make_figure(runs, std::get<Quantity>(key)));
        compare(figures.back(), published);
    }
    return figures;
}

std::vector<Absent> absent_figures(const std::vector<Figure>& figures,
                                   const std::vector<Published>& published) {
    std::set<std::string> experiments;
    for (const auto& f : figures) {
        if (find_reproduction(f.experiment) != nullptr) experiments.insert(f.experiment);
    }
    std::vector<Absent> absent;
    for (const auto& experiment : experiments) {
        for (const auto& p : published) {
            if (!is_repeated(p, experiment)) continue;
            const bool there = std::ranges::any_of(
                figures, [&](const Figure& f) { return f.experiment == experiment && same_place(p, f); });
            if (there) continue;
            const bool same_row = !absent.empty() && absent.back().experiment == experiment &&
                                  absent.back().dataset == p.dataset && absent.back().kernel == p.kernel;
            if (!same_row) {
                absent.push_back(
                    {.experiment = experiment, .dataset = p.dataset, .kernel = p.kernel, .values = 0});
            }
            ++absent.back().values;
        }
    }
    return absent;
}

std::string protocol_difference(const std::string& dataset, const std::string& kernel,
                                const std::string& sampler) {
    const auto* set = find_set(dataset);
    const bool split = set != nullptr && set->random_split;
    const auto allows = [](const std::vector<std::string>& names, const std::string& name) {
        return names.empty() || std::ranges::find(names, name) != names.end();
    };
    std::vector<std::string> points;
    for (const auto& d : paper().protocol_differences) {
        if (allows(d.datasets, dataset) && allows(d.kernels, kernel) && allows(d.samplers, sampler) &&
            d.random_split.value_or(split) == split)
            points.push_back(d.text);
    }
    return fmt::format("another protocol: {}", fmt::join(points, "; "));
}

std::string seeds_text(const std::vector<std::uint64_t>& seeds) {
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < seeds.size();) {
        std::size_t last = i;
        while (last + 1 < seeds.size() && seeds[last + 1] == seeds[last] + 1) ++last;
        parts.push_back(last == i ? fmt::format("{}", seeds[i])
                                  : fmt::format("{}..{}", seeds[i], seeds[last]));
        i = last + 1;
    }
    return fmt::format("{}", fmt::join(parts, ","));
}

std::string run_command(const std::string& kind, const Settings& config,
                        const std::vector<std::uint64_t>& seeds) {
    const auto& verb = recorded_kind(kind).verb;
    auto command = fmt::format("imka {}", verb.name);
    if (verb.words != nullptr) {
        for (const auto& word : verb.words(config)) command += " " + shell_word(word);
    }
    // Settings that a command need not contain, also for runs on a chip.
    const Settings& usual = default_settings_text(kind);
    for (const auto& [name, value] : config) {
        const auto place = usual.find(name);
        if (name == "seeds" || (place != usual.end() && same_setting(place->second, value))) continue;
        if (std::ranges::find(verb.no_flags, name) != verb.no_flags.end()) continue;
        std::string flag = name;
        std::ranges::replace(flag, '_', '-');
        command += fmt::format(" --{} {}", shell_word(flag), shell_word(value));
    }
    return fmt::format("{} --seeds {}", command, seeds_text(seeds));
}

std::string figure_command(const Figure& figure) {
    const auto name =
        find_reproduction(figure.experiment) != nullptr ? figure.experiment : figure.experiment + ".yaml";
    // The same settings use the same folder, so finished runs are not repeated.
    return fmt::format("imka sweep {} --set {} --set {}\nimka report {} --output page.html", shell_word(name),
                       shell_word("dataset=" + figure.dataset), shell_word("kernel=" + figure.kernel),
                       shell_word("runs/" + figure.experiment));
}

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
              .x_axis = XAxis::whole_numbers,
              .apart = kApart};
    std::vector<Series> published;
    for (std::size_t c = 0; c < figure.curves.size(); ++c) {
        const auto& curve = figure.curves[c];
        Series ours{.label = curve.label(), .style = style_name(curve, c), .dashed = curve.on_chip()};
        Series theirs{
            .label = published_label(curve), .style = ours.style, .dashed = ours.dashed, .published = true};
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
