#include "reproduce_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "app.hpp"
#include "imka/data/registry.hpp"

namespace imka::app {
namespace {

using report::CheckedCell;

// "liu: ijcnn1" where a data set is in several tables.
std::string dataset_name(const CheckedCell& c) {
    return c.published.table == "ridge" ? c.published.dataset
                                        : c.published.table + ": " + c.published.dataset;
}

std::string reason(const CheckedCell& c) {
    if (c.ours.n == 0) return "not run";
    if (c.reproduced()) return "";
    const double runs =
        c.ours.std > 0.0 ? std::abs(c.ours.mean - c.published.value.mean) / c.ours.std : INFINITY;
    const auto* set = find_set(c.published.dataset);
    if (set != nullptr && set->random_split)
        return fmt::format(
            "the published split is unknown; the difference is {:.1f} standard deviations of our runs, each "
            "with its own split",
            runs);
    return fmt::format("same split: chance or a real difference ({:.1f} standard deviations of our runs)",
                       runs);
}

std::vector<std::string> cell_row(const CheckedCell& c) {
    const bool accuracy = c.published.quantity == Quantity::accuracy;
    const double factor = accuracy ? 100.0 : 1.0;
    const int digits = accuracy ? 2 : 4;
    const auto text = [&](const Summary& s) {
        return s.n == 0
                   ? std::string("-")
                   : fmt::format("{:.{}f} ± {:.{}f}", factor * s.mean, digits, factor * s.error(), digits);
    };
    return {dataset_name(c),
            c.published.kernel,
            c.published.sampler,
            fmt::format("{:.4g}", c.published.log_ratio),
            accuracy ? "accuracy %" : "Gram error",
            text(c.published.value),
            text(c.ours),
            fmt::format("{:+.1f}", c.deviation()),
            reason(c)};
}

struct Count {
    int reproduced = 0;
    int cells = 0;
    std::string text() const { return fmt::format("{} of {}", reproduced, cells); }
};

std::string counts_text(const std::vector<CheckedCell>& cells) {
    std::vector<std::string> names;
    std::map<std::string, std::map<Quantity, Count>> counts;
    for (const auto& c : cells) {
        const auto name = dataset_name(c);
        if (!counts.contains(name)) names.push_back(name);
        for (auto* count : {&counts[name][c.published.quantity], &counts["all"][c.published.quantity]}) {
            count->reproduced += c.reproduced() ? 1 : 0;
            count->cells += 1;
        }
    }
    names.emplace_back("all");
    std::vector<std::vector<std::string>> table = {{"data set", "Gram error", "accuracy"}};
    for (const auto& name : names)
        table.push_back(
            {name, counts[name][Quantity::gram_error].text(), counts[name][Quantity::accuracy].text()});
    return format_table(table);
}

std::ptrdiff_t count_reproduced(const std::vector<CheckedCell>& cells) {
    return std::ranges::count_if(cells, &CheckedCell::reproduced);
}

nlohmann::ordered_json summary_json(const Summary& s) {
    return {{"mean", s.mean}, {"std", s.std}, {"n", s.n}};
}

}  // namespace

std::string check_text(const std::vector<CheckedCell>& cells, ListedCells listed) {
    std::vector<std::vector<std::string>> rows = {{"data set", "kernel", "sampler", "r", "quantity",
                                                   "published ± se", "imka ± se", "difference / se",
                                                   "reason"}};
    for (const auto& c : cells) {
        if (listed == ListedCells::all || !c.reproduced()) rows.push_back(cell_row(c));
    }
    std::string text =
        fmt::format("Cells whose mean is within 3 combined standard errors of the published one:\n\n{}\n",
                    counts_text(cells));
    if (rows.size() > 1)
        text += fmt::format("{}:\n\n{}\n", listed == ListedCells::all ? "All cells" : "The others",
                            format_table(rows));
    const auto reproduced = count_reproduced(cells);
    return text +
           fmt::format(
               "{} of {} cells are reproduced ({:.1f} %; at least {:.0f} % are required). Chance alone "
               "would put about {:.1f} beyond 3 standard errors.\n",
               reproduced, cells.size(),
               100.0 * static_cast<double>(reproduced) / static_cast<double>(cells.size()),
               100.0 * report::kShareWanted, report::expected_by_chance(cells));
}

std::string check_json(const std::vector<CheckedCell>& cells) {
    auto list = nlohmann::ordered_json::array();
    for (const auto& c : cells) {
        list.push_back({{"experiment", c.experiment},
                        {"dataset", c.published.dataset},
                        {"kernel", c.published.kernel},
                        {"sampler", c.published.sampler},
                        {"log_ratio", c.published.log_ratio},
                        {"m", c.published.m},
                        {"quantity", to_string(c.published.quantity)},
                        {"published", summary_json(c.published.value)},
                        {"ours", summary_json(c.ours)},
                        {"deviation", c.deviation()},
                        {"reproduced", c.reproduced()}});
    }
    return nlohmann::ordered_json{
        {"reproduced", count_reproduced(cells)}, {"cells", cells.size()}, {"list", std::move(list)}}
        .dump();
}

}  // namespace imka::app
