#include "imka/report/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace imka::report {
namespace {

// Unique anchors for any names.
class Ids {
public:
    std::string of(const Figure& f) {
        auto id = slug(fmt::format("{} {} {} {} {}", f.experiment, f.dataset, f.kernel,
                                   f.protocol == "default" ? "" : f.protocol,
                                   f.quantity == Quantity::accuracy ? "accuracy" : "gram"));
        const auto base = id;
        for (int i = 2; !taken_.insert(id).second; ++i) id = fmt::format("{}-{}", base, i);
        return id;
    }

private:
    std::set<std::string> taken_;
};

Section& section_for(std::vector<Section>& sections, const std::string& experiment) {
    const auto place = std::ranges::find(sections, experiment, &Section::experiment);
    if (place != sections.end()) return *place;
    const auto* known = find_reproduction(experiment);
    Section section;
    section.experiment = experiment;
    section.title = known != nullptr ? known->title : experiment.empty() ? "Runs" : experiment;
    if (known != nullptr) section.what = known->what;
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

Report make_report(RecordSet set, const std::string& title, const std::vector<Published>& published) {
    Report report{.title = title, .set = std::move(set), .notes = paper().notes};
    auto figures = make_figures(report.set.records, published);
    report.absent = absent_figures(figures, published);
    report.flags = find_flags(report.set);
    Ids ids;
    for (const auto& figure : figures) {
        auto& section = section_for(report.sections, figure.experiment);
        DrawnFigure drawn{
            .figure = figure, .plot = make_plot(figure, ids.of(figure)), .counts = count(figure)};
        section.counts.add(drawn.counts);
        section.figures.push_back(std::move(drawn));
    }
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

std::vector<Plot> all_plots(const Report& report) {
    std::vector<Plot> plots;
    for (const auto& section : report.sections) {
        for (const auto* drawn : {&section.fidelity_plots, &section.accuracy_plots, &section.normalised})
            plots.insert(plots.end(), drawn->begin(), drawn->end());
        for (const auto& drawn : section.figures) plots.push_back(drawn.plot);
    }
    return plots;
}

}  // namespace imka::report
