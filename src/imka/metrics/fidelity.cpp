#include "imka/metrics/fidelity.hpp"

#include <algorithm>
#include <cmath>

namespace imka {

double FidelityCell::residual() const {
    return std::log(error.mean / error_measured.mean);
}

double FidelityCell::residual_error() const {
    return std::hypot(error.error() / error.mean, error_measured.error() / error_measured.mean);
}

double FidelityCell::accuracy_difference() const {
    return accuracy && accuracy_measured ? accuracy->mean - accuracy_measured->mean : 0.0;
}

double FidelityCell::accuracy_error() const {
    return accuracy && accuracy_measured ? std::hypot(accuracy->error(), accuracy_measured->error()) : 0.0;
}

bool FidelityCell::accuracy_agrees() const {
    if (!accuracy || !accuracy_measured) return false;
    return std::abs(accuracy_difference()) <= std::max(kAccuracyErrors * accuracy_error(), kAccuracyPoints);
}

double FidelityScore::excess() const {
    return std::sqrt(std::max(0.0, rms * rms - noise * noise));
}

double FidelityScore::accuracy_share() const {
    return accuracy_cells == 0 ? 0.0
                               : static_cast<double>(accuracy_agrees) / static_cast<double>(accuracy_cells);
}

FidelityScore fidelity_score(const std::vector<FidelityCell>& cells, const std::string& dataset,
                             const std::string& kernel) {
    FidelityScore s{.dataset = dataset, .kernel = kernel};
    for (const auto& c : cells) {
        if ((dataset != "all" && c.dataset != dataset) || (kernel != "all" && c.kernel != kernel)) continue;
        ++s.cells;
        s.rms += c.residual() * c.residual();
        s.noise += c.residual_error() * c.residual_error();
        s.bias += c.residual();
        if (!c.accuracy) continue;
        ++s.accuracy_cells;
        s.accuracy_agrees += c.accuracy_agrees() ? 1U : 0U;
    }
    const auto n = static_cast<double>(std::max<std::size_t>(s.cells, 1));
    s.rms = std::sqrt(s.rms / n);
    s.noise = std::sqrt(s.noise / n);
    s.bias /= n;
    return s;
}

}  // namespace imka
