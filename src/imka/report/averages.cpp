#include "imka/report/averages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace imka::report {
namespace {

std::optional<Summary> pick(const std::vector<Value>& values, const SizeRule& rule,
                            const std::string& kernel) {
    if (values.empty()) return std::nullopt;
    const double functions = kernel.starts_with("arccos") ? 1.0 : 2.0;  // features per direction
    const double directions = rule.directions > 0.0 ? rule.directions : rule.features / functions;
    if (directions == 0.0)
        return std::ranges::max_element(values, {}, [](const Value& v) { return v.s.mean; })->s;
    const double r = std::log2(directions);
    const auto place =
        std::ranges::find_if(values, [r](const Value& v) { return std::abs(v.log_ratio - r) < 1e-3; });
    if (place == values.end()) return std::nullopt;
    return place->s;
}

// The curves of a figure on one backend.
struct Part {
    const Figure& figure;
    std::string backend;
    bool has(const Curve& curve) const { return curve.backend == backend; }
};

std::optional<Level> level(const Part& part, const SizeRule& rule, Side side) {
    Level sum;
    double curves = 0.0;
    for (const auto& curve : part.figure.curves) {
        if (!part.has(curve)) continue;
        const auto s = pick(values_of(curve, side), rule, part.figure.kernel);
        if (!s) return std::nullopt;
        sum.mean += s->mean;
        sum.std += s->std;
        sum.error += s->error() * s->error();
        curves += 1.0;
    }
    if (curves == 0.0) return std::nullopt;
    return Level{.mean = sum.mean / curves, .std = sum.std / curves, .error = std::sqrt(sum.error) / curves};
}

// Either all published values of the points are judged, or none.
bool comparable(const Part& part) {
    Counts counts;
    for (const auto& curve : part.figure.curves) {
        if (!part.has(curve)) continue;
        for (const auto& point : curve.points) counts.add(point.verdict);
    }
    return counts.unlike == 0 && counts.reproduced + counts.deviates > 0;
}

Verdict judge(const std::optional<Level>& ours, const std::optional<Level>& published, bool comparable) {
    if (!published) return Verdict::unpublished;
    if (!ours) return Verdict::missing;
    if (!comparable) return Verdict::unlike;
    const bool within =
        std::abs(ours->mean - published->mean) <= kAllowedErrors * std::hypot(ours->error, published->error);
    return within ? Verdict::reproduced : Verdict::deviates;
}

AccuracyRow accuracy_row(const Part& part, const std::vector<SizeRule>& sizes) {
    AccuracyRow row{.dataset = part.figure.dataset, .kernel = part.figure.kernel, .backend = part.backend};
    for (const auto& rule : sizes) {
        row.ours.push_back(level(part, rule, Side::ours));
        row.published.push_back(level(part, rule, Side::published));
        row.verdicts.push_back(judge(row.ours.back(), row.published.back(), comparable(part)));
    }
    return row;
}

std::optional<Level> difference(const std::optional<Level>& chip, const std::optional<Level>& fp32) {
    if (!chip || !fp32) return std::nullopt;
    return Level{.mean = chip->mean - fp32->mean, .std = 0.0, .error = std::hypot(chip->error, fp32->error)};
}

bool judged(Verdict v) {
    return v == Verdict::reproduced || v == Verdict::deviates;
}

AccuracyRow difference_row(const AccuracyRow& chip, const AccuracyRow& fp32) {
    AccuracyRow row{.dataset = chip.dataset, .kernel = chip.kernel, .backend = chip.backend};
    for (std::size_t i = 0; i < chip.ours.size(); ++i) {
        row.ours.push_back(difference(chip.ours[i], fp32.ours[i]));
        row.published.push_back(difference(chip.published[i], fp32.published[i]));
        row.verdicts.push_back(judge(row.ours.back(), row.published.back(),
                                     judged(chip.verdicts[i]) && judged(fp32.verdicts[i])));
    }
    return row;
}

struct Named {
    std::string dataset;
    Level level;
};
MeanDifference average(const std::vector<Named>& values) {
    MeanDifference mean{.datasets = values.size()};
    if (values.empty()) return mean;
    mean.worst = INFINITY;
    double squares = 0.0;
    for (const auto& v : values) {
        mean.mean += v.level.mean;
        mean.absolute += std::abs(v.level.mean);
        squares += v.level.error * v.level.error;
        if (v.level.mean < mean.worst) {
            mean.worst = v.level.mean;
            mean.worst_dataset = v.dataset;
        }
    }
    const auto n = static_cast<double>(values.size());
    mean.mean /= n;
    mean.absolute /= n;
    mean.error = std::sqrt(squares) / n;
    return mean;
}

std::string describe_levels(const Plot& plot) {
    std::vector<std::string> parts;
    for (const auto& s : plot.series) {
        if (s.published) continue;
        std::vector<std::string> values;
        values.reserve(s.points.size());
        for (const auto& p : s.points) values.push_back(fmt::format("{} {:.2f}", p.name, p.y));
        parts.push_back(fmt::format("{}: {}", s.label, fmt::join(values, ", ")));
    }
    return fmt::format("Chart of {} by data set. {}.", plot.y_label, fmt::join(parts, "; "));
}

// The accuracies of one kernel at one size.
struct AccuracyView {
    const std::vector<AccuracyRow>& rows;
    std::size_t rule = 0;
    const std::vector<Tick>& places;  // positions of the data sets
};

Series accuracy_series(const AccuracyView& view, Side side, const std::string& backend) {
    const bool chip = backend != "fp32";
    Series s{.label = (chip ? backend : "FP32") + std::string(side == Side::published ? ", published" : ""),
             .style = chip ? "other0" : "other2",
             .dashed = chip,
             .published = side == Side::published,
             .draw = Draw::marks};
    for (const auto& row : view.rows) {
        if (row.backend != backend) continue;
        const auto& level = (side == Side::ours ? row.ours : row.published).at(view.rule);
        const auto place = std::ranges::find(view.places, row.dataset, &Tick::name);
        if (!level) continue;
        s.points.push_back(
            {.x = place->at, .y = 100.0 * level->mean, .error = 100.0 * level->std, .name = row.dataset});
    }
    return s;
}

std::vector<Tick> dataset_ticks(const std::vector<AccuracyRow>& rows) {
    std::vector<Tick> ticks;
    for (auto& name : distinct(rows, &AccuracyRow::dataset))
        ticks.push_back({.at = static_cast<double>(ticks.size()), .name = std::move(name)});
    return ticks;
}

Plot accuracy_plot(const std::vector<AccuracyRow>& rows, std::size_t rule, const SizeRule& size) {
    Plot plot{.title = fmt::format("{}: accuracy at {}", rows.front().kernel, size.name),
              .x_label = "data set",
              .y_label = "test accuracy (%)",
              .digits = 2,
              .most = 100.0,
              .ticks = dataset_ticks(rows),
              .apart = 0.16};
    const AccuracyView view{.rows = rows, .rule = rule, .places = plot.ticks};
    std::vector<std::string> backends = {"fp32"};
    for (const auto& row : rows) {
        if (std::ranges::find(backends, row.backend) == backends.end()) backends.push_back(row.backend);
    }
    for (const auto side : {Side::ours, Side::published}) {
        for (const auto& backend : backends) {
            auto s = accuracy_series(view, side, backend);
            if (!s.points.empty()) plot.series.push_back(std::move(s));
        }
    }
    plot.alt = describe_levels(plot);
    return plot;
}

// Normalised Gram errors.

// sampler -> r -> mean
using Task = std::map<std::string, std::map<double, double>>;
// by data set
using Tasks = std::map<std::string, Task>;

struct Source {
    const std::vector<Figure>& figures;
    std::string experiment;
    std::string kernel;
    std::string backend;
};

Tasks gram_errors(const Source& source, Side side) {
    Tasks tasks;
    for (const auto& f : source.figures) {
        if (f.experiment != source.experiment || f.kernel != source.kernel ||
            f.quantity != Quantity::gram_error)
            continue;
        for (const auto& curve : f.curves) {
            if (curve.backend != source.backend || !curve.variant.empty()) continue;
            for (const auto& v : values_of(curve, side))
                tasks[f.dataset][curve.sampler][v.log_ratio] = v.s.mean;
        }
    }
    return tasks;
}

double largest(const Task& samplers) {
    double most = 0.0;
    for (const auto& [sampler, means] : samplers) {
        for (const auto& [r, mean] : means) most = std::max(most, mean);
    }
    return most;
}

// Divisor for the errors of each data set.
std::map<std::string, double> divisors(const std::vector<const Tasks*>& all, Normaliser by) {
    std::map<std::string, double> out;
    double of_kernel = 0.0;
    for (const auto* tasks : all) {
        for (const auto& [dataset, samplers] : *tasks) {
            out[dataset] = std::max(out[dataset], largest(samplers));
            of_kernel = std::max(of_kernel, out[dataset]);
        }
    }
    if (by == Normaliser::kernel) {
        for (auto& [dataset, divisor] : out) divisor = of_kernel;
    }
    return out;
}

// r -> mean over data sets and samplers.
std::map<double, double> averaged(const Tasks& tasks, const std::map<std::string, double>& divisors) {
    std::map<double, std::pair<double, double>> sums;
    for (const auto& [dataset, samplers] : tasks) {
        const double divisor = divisors.at(dataset);
        if (divisor <= 0.0) continue;
        for (const auto& [sampler, means] : samplers) {
            for (const auto& [r, mean] : means) {
                sums[r].first += mean / divisor;
                sums[r].second += 1.0;
            }
        }
    }
    std::map<double, double> out;
    for (const auto& [r, sum] : sums) out[r] = sum.first / sum.second;
    return out;
}

void keep(Tasks& tasks, const Tasks& others) {
    std::erase_if(tasks, [&](const auto& task) { return !others.contains(task.first); });
}

void add_series(Plot& plot, const Normalised& values, const Choice& choice, const std::string& chip) {
    const bool published = choice.side == Side::published;
    const std::string rule = choice.by == Normaliser::task ? "by task" : "by kernel";
    const auto add = [&](const std::map<double, double>& means, bool on_chip) {
        if (means.empty()) return;
        Series s{.label = rule + (on_chip ? ", " + chip : "") + (published ? ", published" : ""),
                 .style = choice.by == Normaliser::task ? "orf" : "other0",
                 .dashed = on_chip,
                 .published = published};
        for (const auto& [r, y] : means) s.points.push_back({.x = r, .y = y});
        plot.series.push_back(std::move(s));
    };
    add(values.fp32, false);
    add(values.chip, true);
}

}  // namespace

std::vector<AccuracyRow> accuracy_rows(const std::vector<Figure>& figures, const std::string& experiment,
                                       const std::vector<SizeRule>& sizes) {
    const auto chip = chip_of(figures, experiment);
    std::vector<AccuracyRow> rows;
    for (const auto& f : figures) {
        if (f.experiment != experiment || f.quantity != Quantity::accuracy) continue;
        for (const auto& backend : {std::string("fp32"), chip}) {
            if (std::ranges::find(f.curves, backend, &Curve::backend) != f.curves.end())
                rows.push_back(accuracy_row({.figure = f, .backend = backend}, sizes));
        }
    }
    return rows;
}

std::vector<AccuracyRow> difference_rows(const std::vector<AccuracyRow>& accuracy) {
    std::vector<AccuracyRow> rows;
    for (const auto& chip : accuracy) {
        if (chip.backend == "fp32") continue;
        const auto fp32 = std::ranges::find_if(accuracy, [&](const AccuracyRow& row) {
            return row.backend == "fp32" && row.dataset == chip.dataset && row.kernel == chip.kernel;
        });
        if (fp32 != accuracy.end()) rows.push_back(difference_row(chip, *fp32));
    }
    return rows;
}

std::vector<DifferenceSummary> summarise_differences(const std::vector<AccuracyRow>& differences) {
    std::vector<DifferenceSummary> all;
    if (differences.empty()) return all;
    for (const auto& kernel : distinct(differences, &AccuracyRow::kernel)) {
        for (std::size_t rule = 0; rule < differences.front().ours.size(); ++rule) {
            std::vector<Named> ours;
            std::vector<Named> shared;
            std::vector<Named> published;
            for (const auto& row : differences) {
                if (row.kernel != kernel || !row.ours.at(rule)) continue;
                ours.push_back({row.dataset, *row.ours.at(rule)});
                if (!row.published.at(rule)) continue;
                shared.push_back(ours.back());
                published.push_back({row.dataset, *row.published.at(rule)});
            }
            if (ours.empty()) continue;
            all.push_back({.kernel = kernel,
                           .rule = rule,
                           .ours = average(ours),
                           .ours_shared = average(shared),
                           .published = average(published)});
        }
    }
    return all;
}

std::vector<Plot> accuracy_plots(const std::vector<AccuracyRow>& accuracy, const std::string& experiment,
                                 const std::vector<SizeRule>& sizes) {
    std::vector<Plot> plots;
    if (difference_rows(accuracy).empty()) return plots;
    for (std::size_t rule = 0; rule < sizes.size(); ++rule) {
        for (const auto& kernel : distinct(accuracy, &AccuracyRow::kernel)) {
            std::vector<AccuracyRow> rows;
            std::ranges::copy_if(accuracy, std::back_inserter(rows),
                                 [&](const AccuracyRow& row) { return row.kernel == kernel; });
            auto plot = accuracy_plot(rows, rule, sizes[rule]);
            plot.id = slug(fmt::format("{} accuracy {} {}", experiment, kernel, sizes[rule].name));
            if (!plot.series.empty()) plots.push_back(std::move(plot));
        }
    }
    return plots;
}

Normalised normalise(const std::vector<Figure>& figures, const std::string& experiment,
                     const std::string& kernel, const Choice& choice) {
    const auto chip_name = chip_of(figures, experiment);
    const auto errors = [&](const std::string& backend, Side side) {
        return gram_errors(
            {.figures = figures, .experiment = experiment, .kernel = kernel, .backend = backend}, side);
    };
    auto fp32 = errors("fp32", choice.side);
    auto chip = chip_name.empty() ? Tasks{} : errors(chip_name, choice.side);
    for (const auto side : {Side::ours, Side::published}) {
        if (side == Side::published && !choice.shared) continue;
        const auto fp32_there = errors("fp32", side);
        keep(fp32, fp32_there);
        keep(chip, fp32_there);
        if (chip_name.empty()) continue;
        const auto chip_there = errors(chip_name, side);
        keep(fp32, chip_there);
        keep(chip, chip_there);
    }
    const auto by = divisors({&fp32, &chip}, choice.by);
    return {.fp32 = averaged(fp32, by), .chip = averaged(chip, by), .datasets = fp32.size()};
}

std::vector<Plot> normalised_errors(const std::vector<Figure>& figures, const std::string& experiment) {
    const auto chip = chip_of(figures, experiment);
    std::vector<Plot> plots;
    std::set<std::string> done;
    for (const auto& f : figures) {
        const auto& kernel = f.kernel;
        if (f.experiment != experiment || !done.insert(kernel).second) continue;
        const auto count = [&](bool shared) {
            return normalise(figures, experiment, kernel, {.shared = shared}).datasets;
        };
        for (const bool shared : {false, true}) {
            // One plot if the published values cover all data sets or none.
            const auto datasets = count(shared);
            if (datasets == 0 || (shared && datasets == count(false))) continue;
            const bool beside = shared || count(true) == datasets;
            Plot plot{
                .id = slug(fmt::format("{} normalised {}{}", experiment, kernel, shared ? " shared" : "")),
                .title = fmt::format("{}: normalised Gram error, mean of {} data set{}", kernel, datasets,
                                     datasets == 1 ? "" : "s"),
                .x_label = "log2(m/d)",
                .y_label = "normalised Gram error",
                .digits = 3,
                .x_axis = XAxis::whole_numbers,
                .apart = kApart};
            for (const auto side : {Side::ours, Side::published}) {
                if (side == Side::published && !beside) continue;
                for (const auto by : {Normaliser::task, Normaliser::kernel}) {
                    const Choice choice{.side = side, .by = by, .shared = shared};
                    add_series(plot, normalise(figures, experiment, kernel, choice), choice, chip);
                }
            }
            plot.alt = describe(plot);
            plots.push_back(std::move(plot));
        }
    }
    return plots;
}

}  // namespace imka::report
