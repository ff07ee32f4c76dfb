#include "imka/experiment/signatures.hpp"

#include <algorithm>
#include <cmath>

namespace imka {
namespace {

// Cells of the same data set, kernel and sampler.
using CellGroup = std::vector<std::size_t>;

std::vector<CellGroup> groups_of(const std::vector<FidelityCell>& cells, double least_log_ratio) {
    std::vector<CellGroup> groups;
    for (std::size_t i = 0; i < cells.size(); ++i) {
        const auto& c = cells[i];
        if (c.log_ratio < least_log_ratio) continue;
        auto group = std::ranges::find_if(groups, [&](const CellGroup& g) {
            const auto& first = cells[g.front()];
            return first.dataset == c.dataset && first.kernel == c.kernel && first.sampler == c.sampler;
        });
        if (group == groups.end()) group = groups.insert(groups.end(), CellGroup{});
        group->push_back(i);
    }
    return groups;
}

template <class Value>
double mean_over(const CellGroup& group, Value value) {
    double sum = 0.0;
    for (const auto c : group) sum += value(c);
    return sum / static_cast<double>(group.size());
}

}  // namespace

std::vector<Signature> signatures(const std::vector<std::vector<FidelityCell>>& emulations,
                                  double least_log_ratio) {
    const auto& chip = emulations.front();
    std::vector<Signature> out;
    for (const auto& group : groups_of(chip, least_log_ratio)) {
        const auto& first = chip[group.front()];
        Signature s{
            .dataset = first.dataset,
            .kernel = first.kernel,
            .sampler = first.sampler,
            .missing = mean_over(group, [&](std::size_t c) { return -chip[c].residual(); }),
            .missing_error = mean_over(group, [&](std::size_t c) { return chip[c].residual_error(); }) /
                             std::sqrt(static_cast<double>(group.size())),
            .changes = {}};
        for (std::size_t k = 1; k < emulations.size(); ++k)
            s.changes.push_back(mean_over(group, [&](std::size_t c) {
                return std::log(emulations[k][c].error.mean / chip[c].error.mean);
            }));
        out.push_back(std::move(s));
    }
    return out;
}

}  // namespace imka
