#include "imka/report/fidelity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "imka/report/paper.hpp"

namespace imka::report {
namespace {

const Figure* accuracy_figure(const std::vector<Figure>& figures, const Figure& of) {
    for (const auto& f : figures) {
        if (f.quantity == Quantity::accuracy && f.experiment == of.experiment && f.dataset == of.dataset &&
            f.kernel == of.kernel && f.protocol == of.protocol)
            return &f;
    }
    return nullptr;
}

// The same point in the accuracy figure.
const Point* accuracy_point(const Figure* figure, const Curve& like, const Point& at) {
    if (figure == nullptr) return nullptr;
    for (const auto& curve : figure->curves) {
        if (curve.label() != like.label()) continue;
        for (const auto& p : curve.points) {
            if (p.m == at.m && p.ours.n > 0 && p.published) return &p;
        }
    }
    return nullptr;
}

std::string chip_name(const Curve& curve) {
    return curve.variant.empty() ? curve.backend : curve.backend + ", " + curve.variant;
}

FidelityCell make_cell(const Figure& figure, const Curve& curve, const Point& p, const Point* accuracy) {
    FidelityCell cell{.dataset = figure.dataset,
                      .kernel = figure.kernel,
                      .sampler = curve.sampler,
                      .log_ratio = p.published->log_ratio,
                      .m = p.m,
                      .error = p.ours,
                      .error_measured = p.published->value};
    if (accuracy != nullptr) {
        cell.accuracy = accuracy->ours;
        cell.accuracy_measured = accuracy->published->value;
    }
    return cell;
}

void add_rows(Fidelity& f) {
    std::vector<std::pair<std::string, std::string>> places;
    for (const auto& c : f.cells) {
        const std::pair place(c.dataset, c.kernel);
        if (std::ranges::find(places, place) == places.end()) places.push_back(place);
    }
    for (const auto& [dataset, kernel] : places) f.rows.push_back(fidelity_score(f.cells, dataset, kernel));
    for (const auto& kernel : distinct(f.cells, &FidelityCell::kernel))
        f.totals.push_back(fidelity_score(f.cells, "all", kernel));
    f.totals.push_back(fidelity_score(f.cells, "all", "all"));
}

void add_aims(Fidelity& f, const Goals& goals) {
    for (const auto& total : f.totals) {
        const auto goal = goals.gram_error.find(total.kernel);
        if (goal == goals.gram_error.end()) continue;
        f.aims.push_back({.quantity = "Gram error, " + total.kernel,
                          .aim = goal->second,
                          .value = total.rms,
                          .noise = total.noise,
                          .met = total.rms <= goal->second});
    }
    const auto& all = f.totals.back();
    if (all.accuracy_cells == 0) return;
    f.aims.push_back({.quantity = "accuracy",
                      .aim = goals.accuracy_share,
                      .value = all.accuracy_share(),
                      .noise = 0.0,
                      .met = all.accuracy_share() >= goals.accuracy_share});
}

std::string cell_name(const FidelityCell& c) {
    return fmt::format("{}, {}, r = {:.4g}", c.dataset, c.sampler, c.log_ratio);
}

std::string style_for(const std::string& sampler) {
    return sampler == "rff" || sampler == "orf" || sampler == "sorf" ? sampler : "other0";
}

// Points of a kernel, one series per sampler.
template <class MakePoint>
void add_series(Plot& plot, const Fidelity& f, const std::string& kernel, const MakePoint& make) {
    for (const auto& sampler : distinct(f.cells, &FidelityCell::sampler)) {
        Series s{.label = sampler, .style = style_for(sampler), .draw = Draw::marks};
        for (const auto& c : f.cells) {
            if (c.kernel == kernel && c.sampler == sampler) s.points.push_back(make(c));
        }
        if (!s.points.empty()) plot.series.push_back(std::move(s));
    }
}

std::string row_text(const FidelityScore& row) {
    return fmt::format(
        "RMS of ln(emulated / measured) {:.3f} over {} cells; {:.3f} expected from seeds alone", row.rms,
        row.cells, row.noise);
}

Plot scatter(const Fidelity& f, const FidelityScore& total, const std::string& id) {
    Plot plot{.id = slug(fmt::format("{} scatter {}", id, total.kernel)),
              .title = fmt::format("{}: Gram error on {}, emulated against measured", total.kernel, f.chip),
              .x_label = "measured Gram error",
              .y_label = "emulated Gram error",
              .digits = 4,
              .alt = fmt::format("Scatter chart with a diagonal, {}. {}.", total.kernel, row_text(total)),
              .log_x = true,
              .log_y = true,
              .reference = Reference::diagonal};
    add_series(plot, f, total.kernel, [](const FidelityCell& c) {
        return PlotPoint{.x = c.error_measured.mean,
                         .y = c.error.mean,
                         .error = c.error.error(),
                         .n = c.error.n,
                         .x_error = c.error_measured.error(),
                         .name = cell_name(c)};
    });
    return plot;
}

// Data sets side by side, r = 1, 2, ... within each.
Plot residuals(const Fidelity& f, const FidelityScore& total, const std::string& id) {
    Plot plot{.id = slug(fmt::format("{} residuals {}", id, total.kernel)),
              .title = fmt::format("{}: ln(emulated / measured) by data set and size", total.kernel),
              .x_label = "log2(m/d), by data set",
              .y_label = "ln(emulated / measured)",
              .digits = 3,
              .reference = Reference::zero,
              .apart = 0.2};
    double most = 1.0;
    for (const auto& c : f.cells) most = std::max(most, c.log_ratio);
    const auto datasets = distinct(f.cells, &FidelityCell::dataset);
    const auto place = [&](const FidelityCell& c) {
        const auto at = std::ranges::find(datasets, c.dataset) - datasets.begin();
        return static_cast<double>(at) * (most + 1.0) + c.log_ratio;
    };
    for (std::size_t i = 0; i < datasets.size(); ++i) {
        plot.ticks.push_back(
            {.at = static_cast<double>(i) * (most + 1.0) + (most + 1.0) / 2.0, .name = datasets[i]});
    }
    add_series(plot, f, total.kernel, [&](const FidelityCell& c) {
        return PlotPoint{.x = place(c),
                         .y = c.residual(),
                         .error = c.residual_error(),
                         .n = c.error.n,
                         .name = cell_name(c)};
    });
    plot.alt =
        fmt::format("Chart of residuals, {}. Mean {:+.3f}; {}.", total.kernel, total.bias, row_text(total));
    return plot;
}

}  // namespace

std::vector<Fidelity> fidelity_of(const std::vector<Figure>& figures, const std::string& experiment) {
    std::vector<Fidelity> all;
    for (const auto& f : figures) {
        if (f.experiment != experiment || f.quantity != Quantity::gram_error || f.protocol != "measured")
            continue;
        const auto* accuracies = accuracy_figure(figures, f);
        for (const auto& curve : f.curves) {
            if (!curve.on_chip()) continue;
            for (const auto& p : curve.points) {
                // The logarithm needs positive errors.
                if (p.ours.n == 0 || !p.published || p.ours.mean <= 0.0) continue;
                auto place = std::ranges::find(all, chip_name(curve), &Fidelity::chip);
                if (place == all.end()) {
                    all.push_back({.chip = chip_name(curve)});
                    place = std::prev(all.end());
                }
                place->cells.push_back(make_cell(f, curve, p, accuracy_point(accuracies, curve, p)));
            }
        }
    }
    for (auto& f : all) {
        add_rows(f);
        add_aims(f, paper().goals);
    }
    return all;
}

std::vector<Plot> fidelity_plots(const Fidelity& fidelity, const std::string& id) {
    std::vector<Plot> plots;
    for (const auto& total : fidelity.totals) {
        if (total.kernel == "all") continue;
        plots.push_back(scatter(fidelity, total, id));
        plots.push_back(residuals(fidelity, total, id));
    }
    return plots;
}

}  // namespace imka::report
