// Checks the statements of the paper against records.
#include "imka/report/paper.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/report/averages.hpp"

namespace imka::report {
namespace {

constexpr double kAllowance = 2.0;  // standard errors

// The figures of an experiment, and which values to check: ours or the published ones.
struct View {
    const std::vector<Figure>& figures;
    std::string experiment;
    const std::vector<SizeRule>& sizes;
    std::string chip;
    Side side = Side::ours;
};

struct Cell {
    std::string dataset;
    std::string kernel;
    std::string sampler;
    double log_ratio = 0.0;
};

// A number with its standard error.
struct Estimate {
    double value = 0.0;
    double error = 0.0;
};

std::optional<Estimate> gram_error(const View& view, const Cell& cell, const std::string& backend) {
    for (const auto& f : view.figures) {
        if (f.experiment != view.experiment || f.quantity != Quantity::gram_error ||
            f.dataset != cell.dataset || f.kernel != cell.kernel)
            continue;
        for (const auto& curve : f.curves) {
            if (curve.sampler != cell.sampler || curve.backend != backend || !curve.variant.empty()) continue;
            for (const auto& v : values_of(curve, view.side)) {
                if (std::abs(v.log_ratio - cell.log_ratio) < 1e-3)
                    return Estimate{.value = v.s.mean, .error = v.s.error()};
            }
        }
    }
    return std::nullopt;
}

// Error on the chip / error in FP32.
std::optional<Estimate> ratio(const View& view, const Cell& cell) {
    const auto chip = gram_error(view, cell, view.chip);
    const auto fp32 = gram_error(view, cell, "fp32");
    if (!chip || !fp32 || chip->value <= 0.0 || fp32->value <= 0.0) return std::nullopt;
    const double value = chip->value / fp32->value;
    return Estimate{.value = value,
                    .error = value * std::hypot(chip->error / chip->value, fp32->error / fp32->value)};
}

bool lies_in(const Estimate& e, const std::vector<double>& range) {
    return e.value + kAllowance * e.error >= range.front() && e.value - kAllowance * e.error <= range.back();
}

// One more case of a sentence.
void add(bool holds, const std::string& number, Holding& found) {
    ++found.cases;
    found.holds += holds ? 1U : 0U;
    if (number.empty()) return;
    if (!found.numbers.empty()) found.numbers += "; ";
    found.numbers += number;
}

template <class Visit>
void each_fp32_curve(const View& view, Quantity quantity, const Visit& visit) {
    for (const auto& f : view.figures) {
        if (f.experiment != view.experiment || f.quantity != quantity) continue;
        for (const auto& curve : f.curves) {
            if (curve.backend == "fp32") visit(f, curve);
        }
    }
}

Holding error_falls(const View& view, const Statement&) {
    Holding found;
    each_fp32_curve(view, Quantity::gram_error, [&](const Figure&, const Curve& curve) {
        const auto values = values_of(curve, view.side);
        for (std::size_t i = 1; i < values.size(); ++i)
            add(values[i].s.mean < values[i - 1].s.mean, "", found);
    });
    return found;
}

Holding errs_less(const View& view, const Statement& s) {
    Holding found;
    const double largest = std::ranges::max(s.sizes) + 1e-3;
    each_fp32_curve(view, Quantity::gram_error, [&](const Figure& f, const Curve& curve) {
        if (std::ranges::find(s.samplers, curve.sampler) == s.samplers.end()) return;
        for (const auto& v : values_of(curve, view.side)) {
            const auto other = gram_error(view, {f.dataset, f.kernel, s.than, v.log_ratio}, "fp32");
            if (v.log_ratio <= largest && other) add(v.s.mean < other->value, "", found);
        }
    });
    return found;
}

Holding spread_narrows(const View& view, const Statement& s) {
    Holding found;
    each_fp32_curve(view, s.quantity, [&](const Figure&, const Curve& curve) {
        const auto values = values_of(curve, view.side);
        if (values.size() < 2 || values.front().s.n < 2 || values.back().s.n < 2) return;
        add(values.back().s.std < values.front().s.std, "", found);
    });
    return found;
}

// Chip - FP32 in normalised error at the smallest and the largest size.
struct Gap {
    double first = 0.0;
    double last = 0.0;
};
std::optional<Gap> gap(const View& view, const std::string& kernel) {
    const auto n =
        normalise(view.figures, view.experiment, kernel,
                  {.side = view.side, .by = Normaliser::task, .shared = view.side == Side::published});
    if (n.fp32.size() < 2 || n.chip.size() != n.fp32.size()) return std::nullopt;
    return Gap{.first = n.chip.begin()->second - n.fp32.begin()->second,
               .last = n.chip.rbegin()->second - n.fp32.rbegin()->second};
}

Holding gap_widens(const View& view, const Statement& s) {
    Holding found;
    for (const auto& kernel : s.kernels) {
        const auto g = gap(view, kernel);
        if (g)
            add(g->last > g->first, fmt::format("{} {:+.3f} to {:+.3f}", kernel, g->first, g->last), found);
    }
    return found;
}

Holding gap_is_wider(const View& view, const Statement& s) {
    Holding found;
    const auto one = gap(view, s.kernel);
    const auto other = gap(view, s.than);
    if (one && other)
        add(one->last > other->last, fmt::format("{:+.3f} against {:+.3f}", one->last, other->last), found);
    return found;
}

// Accuracy on the chip - FP32 in points at the first size of the averages, by data set and kernel.
template <class Visit>
void each_difference(const View& view, const Visit& visit) {
    for (const auto& row : difference_rows(accuracy_rows(view.figures, view.experiment, view.sizes))) {
        const auto& level = (view.side == Side::ours ? row.ours : row.published).front();
        if (level) visit(row, 100.0 * level->mean);
    }
}

Holding accuracy_within(const View& view, const Statement& s) {
    Holding found;
    each_difference(view, [&](const AccuracyRow& row, double points) {
        if (std::ranges::find(s.except, row.dataset + " " + row.kernel) != s.except.end()) return;
        const bool within = std::abs(points) <= s.points;
        add(within, within ? "" : fmt::format("{} {} {:+.2f}", row.dataset, row.kernel, points), found);
    });
    return found;
}

Holding accuracy_loses(const View& view, const Statement& s) {
    Holding found;
    each_difference(view, [&](const AccuracyRow& row, double points) {
        if (row.dataset == s.dataset && row.kernel == s.kernel)
            add(points < -s.points, fmt::format("{:+.2f}", points), found);
    });
    return found;
}

Holding ratio_within(const View& view, const Statement& s) {
    Holding found;
    for (const auto& sampler : s.samplers) {
        for (const double r : s.sizes) {
            const auto q = ratio(view, {s.dataset, s.kernel, sampler, r});
            if (q) add(lies_in(*q, s.range), fmt::format("{:.2f}", q->value), found);
        }
    }
    return found;
}

Holding ratio_grows(const View& view, const Statement& s) {
    Holding found;
    for (const auto& sampler : s.samplers) {
        const auto first = ratio(view, {s.dataset, s.kernel, sampler, s.sizes.front()});
        const auto last = ratio(view, {s.dataset, s.kernel, sampler, s.sizes.back()});
        if (!first || !last) continue;
        add(lies_in(*first, s.first) && lies_in(*last, s.last),
            fmt::format("{} {:.2f} to {:.2f}", sampler, first->value, last->value), found);
    }
    return found;
}

// Checks FP32 only where it can be compared with a chip.
Holding error_within(const View& view, const Statement& s) {
    Holding found;
    if (view.chip.empty()) return {};
    for (const auto& sampler : s.samplers) {
        for (const double r : s.sizes) {
            const auto e = gram_error(view, {s.dataset, s.kernel, sampler, r},
                                      s.backend == "chip" ? view.chip : s.backend);
            if (e) add(lies_in(*e, s.range), fmt::format("{} {:.3f}", sampler, e->value), found);
        }
    }
    return found;
}

struct Check {
    std::string_view name;
    Holding (*run)(const View&, const Statement&);
    std::vector<std::string_view> arguments;
};

const std::vector<Check>& checks() {
    static const std::vector<Check> all = {
        {"error_falls", error_falls, {}},
        {"errs_less", errs_less, {"samplers", "than", "sizes"}},
        {"spread_narrows", spread_narrows, {"quantity"}},
        {"gap_widens", gap_widens, {"kernels"}},
        {"gap_is_wider", gap_is_wider, {"kernel", "than"}},
        {"accuracy_within", accuracy_within, {"points", "except"}},
        {"accuracy_loses", accuracy_loses, {"dataset", "kernel", "points"}},
        {"ratio_within", ratio_within, {"dataset", "kernel", "samplers", "sizes", "range"}},
        {"ratio_grows", ratio_grows, {"dataset", "kernel", "samplers", "sizes", "first", "last"}},
        {"error_within", error_within, {"dataset", "kernel", "backend", "samplers", "sizes", "range"}},
    };
    return all;
}

const Check& find_check(std::string_view name) {
    const auto place = std::ranges::find(checks(), name, &Check::name);
    if (place != checks().end()) return *place;
    std::vector<std::string_view> known;
    for (const auto& check : checks()) known.push_back(check.name);
    fail(ErrorCode::bad_config, fmt::format("unknown check '{}'; known: {}", name, fmt::join(known, ", ")));
}

}  // namespace

std::span<const std::string_view> check_arguments(std::string_view check) {
    return find_check(check).arguments;
}

std::vector<CheckedStatement> check_statements(const std::vector<Figure>& figures,
                                               const std::string& experiment, const Paper& paper) {
    const View ours{.figures = figures,
                    .experiment = experiment,
                    .sizes = paper.sizes,
                    .chip = chip_of(figures, experiment)};
    View published = ours;
    published.side = Side::published;
    std::vector<CheckedStatement> checked;
    for (const auto& statement : paper.statements) {
        const auto& check = find_check(statement.check);
        const auto holding = check.run(ours, statement);
        if (holding.cases == 0) continue;
        checked.push_back(
            {.text = statement.text, .ours = holding, .published = check.run(published, statement)});
    }
    return checked;
}

}  // namespace imka::report
