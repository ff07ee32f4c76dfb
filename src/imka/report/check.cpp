#include "imka/report/check.hpp"

#include <cmath>

namespace imka::report {

double CheckedCell::deviation() const {
    return ours.n > 0 ? imka::deviation(ours, published.value) : 0.0;
}

bool CheckedCell::reproduced() const {
    return ours.n > 0 && std::abs(deviation()) <= kAllowedErrors;
}

std::vector<CheckedCell> check_cells(const std::vector<Record>& records,
                                     const std::vector<Published>& published) {
    std::vector<CheckedCell> cells;
    for (const auto& figure : make_figures(records, published)) {
        for (const auto& curve : figure.curves) {
            for (const auto& p : curve.points) {
                if (!p.published || p.verdict == Verdict::unlike) continue;
                cells.push_back({.experiment = figure.experiment, .published = *p.published, .ours = p.ours});
            }
        }
    }
    return cells;
}

double expected_by_chance(const std::vector<CheckedCell>& cells) {
    double sum = 0.0;
    for (const auto& c : cells) {
        const auto seeds = c.ours.n + c.published.value.n;
        if (seeds > 2) sum += 1.0 - student_probability(kAllowedErrors, seeds - 2);
    }
    return sum;
}

}  // namespace imka::report
