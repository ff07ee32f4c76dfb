// Normalised Gram errors.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "imka/report/averages.hpp"

namespace imka::report {
namespace {

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
                 .published = published,
                 .points = {}};
        for (const auto& [r, y] : means) s.points.push_back({.x = r, .y = y, .error = 0.0, .n = 0});
        plot.series.push_back(std::move(s));
    };
    add(values.fp32, false);
    add(values.chip, true);
}

}  // namespace

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
                .alt = {},
                .series = {},
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
