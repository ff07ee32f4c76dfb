#include "imka/deploy/error_causes.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace imka {
namespace {

template <class Value>
Summary over_seeds(std::span<const CaseErrors> errors, Value value) {
    std::vector<double> values(errors.size());
    std::ranges::transform(errors, values.begin(), value);
    return summarize(std::move(values));
}

}  // namespace

std::vector<ErrorCause> summarize_causes(const ErrorAttribution& attribution) {
    std::vector<ErrorCause> causes;
    for (const auto& a : attribution.items)
        causes.push_back({.item = a.item,
                          .alone_error = summarize(a.alone_error),
                          .alone = summarize(a.alone),
                          .saved = summarize(a.saved)});
    return causes;
}

std::vector<ErrorCause> by_saving(std::vector<ErrorCause> causes) {
    std::ranges::stable_sort(causes, std::greater<>(), [](const ErrorCause& c) { return c.saved.mean; });
    return causes;
}

Summary root_error(std::span<const CaseErrors> errors, double CaseErrors::*part) {
    return over_seeds(errors, [part](const CaseErrors& e) { return std::sqrt(e.*part); });
}

bool is_above_ideal(std::span<const CaseErrors> errors) {
    if (std::ranges::all_of(errors, [](const CaseErrors& e) { return e.full > 1.2 * e.none; })) return true;
    const auto added = over_seeds(errors, [](const CaseErrors& e) { return e.full - e.none; });
    return added.n > 1 && added.mean > added.half_width;
}

}  // namespace imka
