#include "imka/report/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "imka/report/drift_plots.hpp"
#include "imka/report/figure.hpp"

namespace imka::report {
namespace {

using Kind = RecordProblem::Kind;

struct ProblemText {
    Kind kind;
    std::string_view name;
    std::string_view title;
};
constexpr ProblemText kProblems[] = {
    {Kind::disagrees, "disagrees", "runs recorded twice with different results; the first is shown"},
    {Kind::other_schema, "other_schema", "lines of another schema; ignored"},
    {Kind::torn, "torn", "truncated lines; the sweep repeats these runs"},
    {Kind::malformed, "malformed", "lines that are not records; ignored"},
};

void add_problems(const RecordSet& set, std::vector<Flag>& flags) {
    for (const auto& text : kProblems) {
        Flag flag{.name = std::string(text.name)};
        for (const auto& p : set.problems) {
            if (p.kind == text.kind)
                flag.details.push_back(fmt::format("{}: line {}: {}", p.file.string(), p.line, p.what));
        }
        flag.title = fmt::format("{} {}", flag.details.size(), text.title);
        flags.push_back(std::move(flag));
    }
}

void add_failed(const RecordSet& set, std::vector<Flag>& flags) {
    Flag flag{.name = "failed"};
    for (const auto& r : set.records) {
        if (!r.ok())
            flag.details.push_back(fmt::format("{} — {}", r.error, run_command(r.kind, r.config, {r.seed})));
    }
    flag.title = fmt::format("{} {} failed", flag.details.size(), flag.details.size() == 1 ? "run" : "runs");
    flags.push_back(std::move(flag));
}

std::string place_of(const Record& r) {
    const auto protocol = r.setting("protocol");
    // The hash of a test of a Performer is also that of its checkpoint.
    const auto model = r.setting("checkpoint");
    return fmt::format("{}, {}{}{}", r.experiment, r.setting("dataset"), model.empty() ? "" : ", " + model,
                       protocol == "default" || protocol.empty() ? "" : " (" + protocol + ")");
}

// One property that all runs of a figure should share.
struct Trait {
    std::string_view title;
    std::function<std::string(const Record&)> of;
};

void add_mixed(const RecordSet& set, std::vector<Flag>& flags) {
    const std::vector<Trait> traits = {
        {"figures with several program versions", [](const Record& r) { return r.imka_version; }},
        {"figures with several builds", [](const Record& r) { return r.build; }},
        {"figures with several instruction sets (means agree within rounding)",
         [](const Record& r) { return r.instruction_set; }},
        {"figures with several data hashes: the data set changed between runs",
         [](const Record& r) { return r.data_sha256.substr(0, 12); }},
    };
    for (const auto& trait : traits) {
        std::map<std::string, std::map<std::string, std::size_t>> values;
        for (const auto& r : set.records) {
            if (r.ok()) ++values[place_of(r)][trait.of(r)];
        }
        Flag flag{.name = "mixed", .title = std::string(trait.title)};
        for (const auto& [place, runs] : values) {
            if (runs.size() < 2) continue;
            std::vector<std::string> parts;
            for (const auto& [value, n] : runs)
                parts.push_back(fmt::format("{} ({} runs)", value.empty() ? "unknown" : value, n));
            flag.details.push_back(fmt::format("{}: {}", place, fmt::join(parts, ", ")));
        }
        flags.push_back(std::move(flag));
    }
}

// Points of one figure with fewer seeds than others: an unfinished sweep.
void add_uneven(const RecordSet& set, std::vector<Flag>& flags) {
    std::map<std::string, std::map<std::string, std::set<std::uint64_t>>> points;
    for (const auto& r : set.records) {
        if (!r.ok()) continue;
        auto settings = r.config;
        settings.erase("seeds");
        settings.erase("split_seed");
        std::string name;
        for (const auto& [key, value] : settings) name += fmt::format("{}={}\n", key, value);
        points[place_of(r)][name].insert(r.seed);
    }
    Flag flag{.name = "uneven", .title = "figures whose points have unequal numbers of seeds"};
    for (const auto& [place, cells] : points) {
        std::size_t least = SIZE_MAX;
        std::size_t most = 0;
        for (const auto& [name, seeds] : cells) {
            least = std::min(least, seeds.size());
            most = std::max(most, seeds.size());
        }
        if (least < most)
            flag.details.push_back(fmt::format("{}: {} to {} seeds per point", place, least, most));
    }
    flags.push_back(std::move(flag));
}

// A unique anchor for any names.
std::string unique_id(const Figure& f, std::set<std::string>& taken) {
    const auto base = slug(fmt::format("{} {} {} {} {}", f.experiment, f.dataset, f.kernel,
                                       f.protocol == "default" ? "" : f.protocol,
                                       f.quantity == Quantity::accuracy ? "accuracy" : "gram"));
    auto id = base;
    for (int i = 2; !taken.insert(id).second; ++i) id = fmt::format("{}-{}", base, i);
    return id;
}

Section& section_for(std::vector<Section>& sections, const std::string& experiment) {
    const auto place = std::ranges::find(sections, experiment, &Section::experiment);
    if (place != sections.end()) return *place;
    const auto* known = find_reproduction(experiment);
    Section section;
    section.experiment = experiment;
    section.title = known != nullptr ? known->title : experiment.empty() ? "Runs" : experiment;
    if (known != nullptr) {
        section.what = known->what;
        section.note = known->note;
    }
    return sections.emplace_back(std::move(section));
}

std::string title_of(const std::vector<Section>& sections) {
    if (sections.size() == 1) return sections.front().title;
    std::vector<std::string> names;
    names.reserve(sections.size());
    for (const auto& s : sections) names.push_back(s.experiment);
    return names.empty() ? "No results" : fmt::format("Results of {}", fmt::join(names, ", "));
}

void add_fidelity(Section& section, const std::vector<Figure>& figures) {
    section.fidelity = fidelity_of(figures, section.experiment);
    for (std::size_t i = 0; i < section.fidelity.size(); ++i) {
        const auto plots =
            fidelity_plots(section.fidelity[i], fmt::format("{} fidelity {}", section.experiment, i + 1));
        section.fidelity_plots.insert(section.fidelity_plots.end(), plots.begin(), plots.end());
    }
}

}  // namespace

std::vector<Flag> find_flags(const RecordSet& set) {
    std::vector<Flag> flags;
    add_problems(set, flags);
    add_failed(set, flags);
    add_mixed(set, flags);
    add_uneven(set, flags);
    std::erase_if(flags, [](const Flag& flag) { return flag.details.empty(); });
    return flags;
}

Report make_report(RecordSet set, const std::string& title, const std::vector<Published>& published) {
    Report report{.title = title, .set = std::move(set), .notes = paper().notes};
    auto figures = make_figures(report.set.records, published);
    report.absent = absent_figures(figures, published);
    report.flags = find_flags(report.set);
    std::set<std::string> ids;
    for (const auto& figure : figures) {
        auto& section = section_for(report.sections, figure.experiment);
        DrawnFigure drawn{
            .figure = figure, .plot = make_plot(figure, unique_id(figure, ids)), .counts = count(figure)};
        section.counts.add(drawn.counts);
        section.figures.push_back(std::move(drawn));
    }
    for (auto& figure : attention_figures(report.set.records)) {
        auto& section = section_for(report.sections, figure.experiment);
        section.attention.push_back(std::move(figure));
    }
    for (auto& table : task_tables(report.set.records)) {
        auto& section = section_for(report.sections, table.experiment);
        section.tables.push_back(std::move(table));
    }
    for (auto& [experiment, plots] : drift_plots(report.set.records))
        section_for(report.sections, experiment)
            .plots.push_back({.title = "Accuracy after some time",
                              .caption =
                                  "Means over seeds; error bars are one standard deviation. The digital "
                                  "accuracy does not depend on the time.",
                              .plots = std::move(plots)});
    for (const auto& a : report.absent) section_for(report.sections, a.experiment).counts.missing += a.values;
    for (auto& section : report.sections) {
        report.counts.add(section.counts);
        add_fidelity(section, figures);
        const auto* known = find_reproduction(section.experiment);
        if (known == nullptr) continue;
        if (known->averages) {
            const auto& sizes = paper().sizes;
            section.accuracy = accuracy_rows(figures, section.experiment, sizes);
            section.differences = difference_rows(section.accuracy);
            section.accuracy_plots = accuracy_plots(section.accuracy, section.experiment, sizes);
            section.normalised = normalised_errors(figures, section.experiment);
        }
        section.statements = check_statements(figures, section.experiment, paper());
    }
    if (report.title.empty()) report.title = title_of(report.sections);
    return report;
}

void add_heat_maps(Report& report, const Exec& exec) {
    for (auto& maps : attention_maps(report.set.records, exec))
        section_for(report.sections, maps.experiment).heat_maps.push_back(std::move(maps));
}

void add_learning_curves(Report& report, const std::string& experiment,
                         const std::vector<TrainingLog>& logs) {
    section_for(report.sections, experiment)
        .plots.push_back({.title = "Learning curves",
                          .caption =
                              "Loss and accuracy of the training examples (means over steps) and of the "
                              "validation examples, against the steps of training.",
                          .plots = learning_curves(logs)});
    if (report.title.empty() || report.title == "No results") report.title = title_of(report.sections);
}

void add_settings(Report& report, SettingTable table) {
    section_for(report.sections, table.name).settings.push_back(std::move(table));
    report.title = title_of(report.sections);
}

std::vector<Plot> all_plots(const Report& report) {
    std::vector<Plot> plots;
    for (const auto& section : report.sections) {
        for (const auto* drawn : {&section.fidelity_plots, &section.accuracy_plots, &section.normalised})
            plots.insert(plots.end(), drawn->begin(), drawn->end());
        for (const auto& drawn : section.figures) plots.push_back(drawn.plot);
        for (const auto& figure : section.attention) plots.push_back(figure.plot);
        for (const auto& group : section.plots)
            plots.insert(plots.end(), group.plots.begin(), group.plots.end());
    }
    return plots;
}

}  // namespace imka::report
