#include "imka/report/paper.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "imka/report/html.hpp"

namespace imka::report {
namespace {

enum class Side { ours, published };

struct Value {
    double log_ratio = 0.0;
    Statistics s;
};

std::vector<Value> values_of(const Curve& curve, Side side) {
    std::vector<Value> values;
    for (const auto& p : curve.points) {
        if (side == Side::ours && p.ours.n > 0) values.push_back({p.log_ratio, p.ours});
        if (side == Side::published && p.published) {
            values.push_back(
                {p.log_ratio, {.mean = p.published->mean, .std = p.published->std, .n = p.published->n}});
        }
    }
    return values;
}

// How many features a direction gives.
double functions_of(const std::string& kernel) {
    return kernel.starts_with("arccos") ? 1.0 : 2.0;
}

std::optional<Statistics> pick(const std::vector<Value>& values, SizeRule rule, const std::string& kernel) {
    if (values.empty()) return std::nullopt;
    if (rule == SizeRule::best)
        return std::ranges::max_element(values, {}, [](const Value& v) { return v.s.mean; })->s;
    const double r = rule == SizeRule::directions_32 ? 5.0 : 5.0 - std::log2(functions_of(kernel));
    const auto place =
        std::ranges::find_if(values, [r](const Value& v) { return std::abs(v.log_ratio - r) < 1e-3; });
    if (place == values.end()) return std::nullopt;
    return place->s;
}

std::optional<Level> level(const Figure& figure, SizeRule rule, Side side) {
    Level sum;
    double curves = 0.0;
    for (const auto& curve : figure.curves) {
        if (curve.backend != "fp32") continue;
        const auto s = pick(values_of(curve, side), rule, figure.kernel);
        if (!s) return std::nullopt;
        sum.mean += s->mean;
        sum.std += s->std;
        sum.error += s->std * s->std / static_cast<double>(s->n);
        curves += 1.0;
    }
    if (curves == 0.0) return std::nullopt;
    return Level{.mean = sum.mean / curves, .std = sum.std / curves, .error = std::sqrt(sum.error) / curves};
}

// All published values that a figure's points have are judged, or none.
bool comparable(const Figure& figure) {
    const auto counts = count(figure);
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

// kernel -> data set -> sampler -> r -> mean.
using Errors = std::map<std::string, std::map<std::string, std::map<std::string, std::map<double, double>>>>;

Errors gram_errors(const std::vector<Figure>& figures, const std::string& experiment, Side side) {
    Errors errors;
    for (const auto& f : figures) {
        if (f.experiment != experiment || f.quantity != Quantity::gram_error) continue;
        for (const auto& curve : f.curves) {
            if (curve.backend != "fp32" || !curve.variant.empty()) continue;
            for (const auto& v : values_of(curve, side))
                errors[f.kernel][f.dataset][curve.sampler][v.log_ratio] = v.s.mean;
        }
    }
    return errors;
}

double largest(const std::map<std::string, std::map<double, double>>& samplers) {
    double most = 0.0;
    for (const auto& [sampler, means] : samplers) {
        for (const auto& [r, mean] : means) most = std::max(most, mean);
    }
    return most;
}

enum class Normaliser { task, kernel };

// r -> mean over data sets and samplers.
std::map<double, double> normalise(const Errors::mapped_type& tasks, Normaliser by) {
    double of_kernel = 0.0;
    for (const auto& [task, samplers] : tasks) of_kernel = std::max(of_kernel, largest(samplers));
    std::map<double, std::pair<double, double>> sums;
    for (const auto& [task, samplers] : tasks) {
        const double by_value = by == Normaliser::task ? largest(samplers) : of_kernel;
        if (by_value <= 0.0) continue;
        for (const auto& [sampler, means] : samplers) {
            for (const auto& [r, mean] : means) {
                sums[r].first += mean / by_value;
                sums[r].second += 1.0;
            }
        }
    }
    std::map<double, double> out;
    for (const auto& [r, sum] : sums) out[r] = sum.first / sum.second;
    return out;
}

Series series_of(const std::string& label, const std::string& style, bool published,
                 const std::map<double, double>& values) {
    Series s{.label = label, .style = style, .published = published, .points = {}};
    for (const auto& [r, y] : values) s.points.push_back({.x = r, .y = y, .error = 0.0, .n = 0});
    return s;
}

void claim_steps(const Figure& f, Claim& falls) {
    for (const auto& curve : f.curves) {
        const auto values = values_of(curve, Side::ours);
        for (std::size_t i = 1; i < values.size(); ++i) {
            ++falls.cases;
            falls.holds += values[i].s.mean < values[i - 1].s.mean ? 1U : 0U;
        }
    }
}

void claim_orthogonal(const Figure& f, Claim& better) {
    const auto plain = std::ranges::find(f.curves, "rff", &Curve::sampler);
    if (plain == f.curves.end()) return;
    const auto reference = values_of(*plain, Side::ours);
    for (const auto& curve : f.curves) {
        if (curve.sampler != "orf" && curve.sampler != "sorf") continue;
        for (const auto& v : values_of(curve, Side::ours)) {
            const auto same = std::ranges::find(reference, v.log_ratio, &Value::log_ratio);
            if (v.log_ratio > 2.001 || same == reference.end()) continue;
            ++better.cases;
            better.holds += v.s.mean < same->s.mean ? 1U : 0U;
        }
    }
}

void claim_spread(const Figure& f, Claim& narrows) {
    for (const auto& curve : f.curves) {
        const auto values = values_of(curve, Side::ours);
        if (values.size() < 2 || values.front().s.n < 2 || values.back().s.n < 2) continue;
        ++narrows.cases;
        narrows.holds += values.back().s.std < values.front().s.std ? 1U : 0U;
    }
}

}  // namespace

std::vector<AccuracyRow> accuracy_rows(const std::vector<Figure>& figures, const std::string& experiment) {
    std::vector<AccuracyRow> rows;
    for (const auto& f : figures) {
        if (f.experiment != experiment || f.quantity != Quantity::accuracy) continue;
        AccuracyRow row{.dataset = f.dataset, .kernel = f.kernel, .ours = {}, .published = {}};
        for (std::size_t i = 0; i < kSizeRules; ++i) {
            const auto rule = static_cast<SizeRule>(i);
            row.ours[i] = level(f, rule, Side::ours);
            row.published[i] = level(f, rule, Side::published);
            row.verdicts[i] = judge(row.ours[i], row.published[i], comparable(f));
        }
        rows.push_back(std::move(row));
    }
    return rows;
}

std::vector<Plot> normalised_errors(const std::vector<Figure>& figures, const std::string& experiment) {
    const auto ours = gram_errors(figures, experiment, Side::ours);
    const auto published = gram_errors(figures, experiment, Side::published);
    std::vector<Plot> plots;
    std::set<std::string> done;
    for (const auto& f : figures) {
        const auto& kernel = f.kernel;
        if (!ours.contains(kernel) || f.experiment != experiment || !done.insert(kernel).second) continue;
        const auto& tasks = ours.at(kernel);
        Plot plot{.id = slug(fmt::format("{} normalised {}", experiment, kernel)),
                  .title = fmt::format("{}: normalised Gram error, mean of {} data set{}", kernel,
                                       tasks.size(), tasks.size() == 1 ? "" : "s"),
                  .x_label = "log2(m/d)",
                  .y_label = "normalised Gram error",
                  .digits = 3,
                  .alt = {},
                  .series = {}};
        plot.series.push_back(series_of("by task", "orf", false, normalise(tasks, Normaliser::task)));
        plot.series.push_back(series_of("by kernel", "other0", false, normalise(tasks, Normaliser::kernel)));
        const auto theirs = published.find(kernel);
        if (theirs != published.end()) {
            plot.series.push_back(
                series_of("by task, published", "orf", true, normalise(theirs->second, Normaliser::task)));
            plot.series.push_back(series_of("by kernel, published", "other0", true,
                                            normalise(theirs->second, Normaliser::kernel)));
        }
        plot.alt = describe(plot);
        plots.push_back(std::move(plot));
    }
    return plots;
}

std::vector<Claim> check_claims(const std::vector<Figure>& figures, const std::string& experiment) {
    Claim falls{.text = "The approximation error falls with every doubling of m"};
    Claim better{.text = "orf and sorf err less than rff at small sizes (r ≤ 2)"};
    Claim narrower{.text =
                       "The spread of the error over seeds is smaller at the largest m than at the smallest"};
    Claim steadier{
        .text = "The spread of the accuracy over seeds is smaller at the largest m than at the smallest"};
    for (const auto& f : figures) {
        if (f.experiment != experiment) continue;
        if (f.quantity == Quantity::gram_error) {
            claim_steps(f, falls);
            claim_orthogonal(f, better);
            claim_spread(f, narrower);
        } else {
            claim_spread(f, steadier);
        }
    }
    std::vector<Claim> claims = {falls, better, narrower, steadier};
    std::erase_if(claims, [](const Claim& c) { return c.cases == 0; });
    return claims;
}

}  // namespace imka::report
