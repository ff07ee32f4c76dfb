#include "imka/chip/analyse/attribution.hpp"

#include <fmt/format.h>

#include <cmath>
#include <mutex>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"

namespace imka {
namespace {

std::vector<const Nonideality*> present_items(const ChipSettings& settings) {
    std::vector<const Nonideality*> items;
    for (const auto& n : nonidealities()) {
        if (n.present(settings)) items.push_back(&n);
    }
    if (items.empty())
        fail(ErrorCode::bad_usage, fmt::format("{} has no non-ideality to explain", settings.spec.name));
    return items;
}

// One chip to measure, and where to store its squared error.
struct Case {
    ChipSettings settings;
    double* error;
};

std::vector<Case> all_cases(const ChipSettings& settings, const std::vector<const Nonideality*>& items,
                            CaseErrors& errors) {
    errors.alone.resize(items.size());
    errors.removed.resize(items.size());
    std::vector<Case> cases = {{settings, &errors.full}, {switched::without_all(settings), &errors.none}};
    for (std::size_t i = 0; i < items.size(); ++i) {
        cases.push_back({switched::only(settings, items[i]->name), &errors.alone[i]});
        cases.push_back({switched::without(settings, items[i]->name), &errors.removed[i]});
    }
    return cases;
}

Attribution attribution(const Nonideality& item, std::size_t i, const std::vector<CaseErrors>& errors) {
    // The mean over seeds: one chip may happen to add almost nothing.
    double chip = 0.0;
    for (const auto& e : errors) chip += (e.full - e.none) / static_cast<double>(errors.size());
    Attribution out{.item = &item};
    for (const auto& e : errors) {
        const double alone = e.alone[i] - e.none;
        out.alone_error.push_back(std::copysign(std::sqrt(std::abs(alone)), alone));
        out.alone.push_back(alone / chip);
        out.saved.push_back((e.full - e.removed[i]) / chip);
    }
    return out;
}

}  // namespace

CaseErrors measure_cases(const ChipSettings& settings, const SquaredError& squared_error, const Exec& exec) {
    CaseErrors errors;
    const auto cases = all_cases(settings, present_items(settings), errors);
    Progress progress(exec, "chips", cases.size());
    std::mutex mutex;
    std::uint64_t done = 0;
    parallel_for(exec, cases.size(), [&](std::size_t k) {
        check_cancelled(exec);
        *cases[k].error = squared_error(cases[k].settings);
        const std::scoped_lock lock(mutex);
        progress.update(++done);
    });
    return errors;
}

ErrorAttribution attribute_error(const ChipSettings& settings, std::vector<CaseErrors> errors) {
    const auto items = present_items(settings);
    ErrorAttribution out{.errors = std::move(errors)};
    for (std::size_t i = 0; i < items.size(); ++i) out.items.push_back(attribution(*items[i], i, out.errors));
    return out;
}

ErrorAttribution attribute_product_error(const ChipTrials& trials, const AgedRead& read, const Exec& exec) {
    validate(trials);
    const Exec one{.threads = 1};
    std::vector<CaseErrors> errors;
    for (const auto seed : trials.seeds) {
        const auto problem = with_exact_products(draw_problem(trials.source, seed));
        const auto squared_error = [&](const ChipSettings& settings) {
            auto build = trials.build;
            build.settings = settings;
            const auto chip = aged_and_compensated(build_chip(build, problem, one), read, one);
            const double error = measure_error(chip, problem, one);
            return error * error;
        };
        errors.push_back(measure_cases(trials.build.settings, squared_error, exec));
    }
    return attribute_error(trials.build.settings, std::move(errors));
}

}  // namespace imka
