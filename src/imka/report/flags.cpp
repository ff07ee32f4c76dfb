#include "imka/report/flags.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "imka/report/figure.hpp"

namespace imka::report {
namespace {

using Kind = RecordProblem::Kind;

struct ProblemText {
    Kind kind;
    std::string_view name;
    std::string_view title;
};
constexpr ProblemText kProblems[] = {
    {Kind::disagrees, "disagrees", "runs recorded twice with different results; the first is shown"},
    {Kind::other_schema, "other_schema", "lines of another schema; ignored"},
    {Kind::torn, "torn", "truncated lines; the sweep repeats these runs"},
    {Kind::malformed, "malformed", "lines that are not records; ignored"},
};

void add_problems(const RecordSet& set, std::vector<Flag>& flags) {
    for (const auto& text : kProblems) {
        Flag flag{.name = std::string(text.name), .title = {}, .details = {}};
        for (const auto& p : set.problems) {
            if (p.kind == text.kind)
                flag.details.push_back(fmt::format("{}: line {}: {}", p.file.string(), p.line, p.what));
        }
        if (flag.details.empty()) continue;
        flag.title = fmt::format("{} {}", flag.details.size(), text.title);
        flags.push_back(std::move(flag));
    }
}

void add_failed(const RecordSet& set, std::vector<Flag>& flags) {
    Flag flag{.name = "failed", .title = {}, .details = {}};
    for (const auto& r : set.records) {
        if (!r.ok())
            flag.details.push_back(fmt::format("{} — {}", r.error, ridge_command(r.config, {r.seed})));
    }
    if (flag.details.empty()) return;
    flag.title = fmt::format("{} {} failed", flag.details.size(), flag.details.size() == 1 ? "run" : "runs");
    flags.push_back(std::move(flag));
}

std::string place_of(const Record& r) {
    const auto protocol = r.setting("protocol");
    return fmt::format("{}, {}{}", r.experiment, r.setting("dataset"),
                       protocol == "default" || protocol.empty() ? "" : " (" + protocol + ")");
}

// One property that all runs of a figure should share.
struct Trait {
    std::string_view title;
    std::function<std::string(const Record&)> of;
};

void add_mixed(const RecordSet& set, std::vector<Flag>& flags) {
    const std::vector<Trait> traits = {
        {"figures with several program versions", [](const Record& r) { return r.imka_version; }},
        {"figures with several builds", [](const Record& r) { return r.build; }},
        {"figures with several instruction sets (means agree within rounding)",
         [](const Record& r) { return r.instruction_set; }},
        {"figures with several data hashes: the data set changed between runs",
         [](const Record& r) { return r.data_sha256.substr(0, 12); }},
    };
    for (const auto& trait : traits) {
        std::map<std::string, std::map<std::string, std::size_t>> values;
        for (const auto& r : set.records) {
            if (r.ok()) ++values[place_of(r)][trait.of(r)];
        }
        Flag flag{.name = "mixed", .title = std::string(trait.title), .details = {}};
        for (const auto& [place, runs] : values) {
            if (runs.size() < 2) continue;
            std::vector<std::string> parts;
            for (const auto& [value, n] : runs)
                parts.push_back(fmt::format("{} ({} runs)", value.empty() ? "unknown" : value, n));
            flag.details.push_back(fmt::format("{}: {}", place, fmt::join(parts, ", ")));
        }
        if (!flag.details.empty()) flags.push_back(std::move(flag));
    }
}

// Points of one figure with fewer seeds than others: an unfinished sweep.
void add_uneven(const RecordSet& set, std::vector<Flag>& flags) {
    std::map<std::string, std::map<std::string, std::set<std::uint64_t>>> points;
    for (const auto& r : set.records) {
        if (!r.ok()) continue;
        auto settings = r.config;
        settings.erase("seeds");
        settings.erase("split_seed");
        std::string name;
        for (const auto& [key, value] : settings) name += fmt::format("{}={}\n", key, value);
        points[place_of(r)][name].insert(r.seed);
    }
    Flag flag{.name = "uneven", .title = {}, .details = {}};
    for (const auto& [place, cells] : points) {
        std::size_t least = SIZE_MAX;
        std::size_t most = 0;
        for (const auto& [name, seeds] : cells) {
            least = std::min(least, seeds.size());
            most = std::max(most, seeds.size());
        }
        if (least < most)
            flag.details.push_back(fmt::format("{}: {} to {} seeds per point", place, least, most));
    }
    if (flag.details.empty()) return;
    flag.title = "figures whose points have unequal numbers of seeds";
    flags.push_back(std::move(flag));
}

}  // namespace

std::vector<Flag> find_flags(const RecordSet& set) {
    std::vector<Flag> flags;
    add_problems(set, flags);
    add_failed(set, flags);
    add_mixed(set, flags);
    add_uneven(set, flags);
    return flags;
}

}  // namespace imka::report
