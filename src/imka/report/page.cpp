// The page: head, summary, warnings, sections, provenance. Everything is in one file that needs no network.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "imka/data/registry.hpp"
#include "imka/metrics/summary.hpp"
#include "imka/report/html.hpp"
#include "imka/report/page_parts.hpp"
#include "imka/report/report.hpp"

namespace imka::embedded {
extern const std::string_view report_css;
extern const std::string_view report_js;
}  // namespace imka::embedded

namespace imka::report {
namespace {

constexpr std::size_t kMostDetails = 50;  // lines of one flag that are listed

struct Deviation {
    const DrawnFigure* drawn = nullptr;
    const Curve* curve = nullptr;
    const Point* point = nullptr;
};

// The farthest first.
std::vector<Deviation> deviations(const Report& report) {
    std::vector<Deviation> list;
    for (const auto& section : report.sections) {
        for (const auto& drawn : section.figures) {
            for (const auto& curve : drawn.figure.curves) {
                for (const auto& point : curve.points) {
                    if (point.verdict == Verdict::deviates)
                        list.push_back({.drawn = &drawn, .curve = &curve, .point = &point});
                }
            }
        }
    }
    std::ranges::stable_sort(list, std::greater<>{},
                             [](const Deviation& d) { return std::abs(d.point->errors()); });
    return list;
}

// Judged points that would lie beyond the limit if nothing differed (Student's law for the seeds behind
// them).
double expected_by_chance(const Report& report) {
    std::map<std::size_t, double> beyond;
    double sum = 0.0;
    for (const auto& section : report.sections) {
        for (const auto& drawn : section.figures) {
            for (const auto& curve : drawn.figure.curves) {
                for (const auto& p : curve.points) {
                    const bool judged = p.verdict == Verdict::reproduced || p.verdict == Verdict::deviates;
                    if (!judged || p.ours.n + p.published->value.n < 3) continue;
                    const auto freedom = p.ours.n + p.published->value.n - 2;
                    const auto [place, fresh] = beyond.try_emplace(freedom, 0.0);
                    if (fresh) place->second = 1.0 - student_probability(kAllowedErrors, freedom);
                    sum += place->second;
                }
            }
        }
    }
    return sum;
}

std::string grouped(std::size_t n) {
    auto text = std::to_string(n);
    for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3)
        text.insert(static_cast<std::size_t>(at), ",");
    return text;
}

std::string tile(std::string_view kind, std::size_t n, std::string_view name, std::string_view what) {
    return fmt::format(R"(<div class="tile {}"><b>{}</b><span>{}</span><small>{}</small></div>)", kind,
                       grouped(n), name, what);
}

std::string tiles_html(const Counts& c) {
    return fmt::format(R"(<div class="tiles">{}{}{}{}</div>)",
                       tile("good", c.reproduced, "reproduced", "means within 3 standard errors"),
                       tile("bad", c.deviates, "deviate", "means beyond them"),
                       tile("miss", c.missing, "missing", "published, not among the records"),
                       tile("mute", c.unlike, "not judged", "run in another protocol; shown beside"));
}

bool random_split(const std::string& dataset) {
    const auto* set = find_set(dataset);
    return set != nullptr && set->random_split;
}

std::vector<TableCell> deviation_row(const Deviation& d) {
    const auto& f = d.drawn->figure;
    const auto& p = *d.point;
    const auto as = shown(f.quantity);
    const double runs =
        p.ours.std > 0.0 ? p.difference() / p.ours.std : std::copysign(INFINITY, p.difference());
    return {
        {.html = fmt::format(R"(<a href="#{}">{}</a>)", d.drawn->plot.id, escape_html(f.dataset)),
         .sort = f.dataset,
         .number = false},
        text_cell(f.kernel),
        text_cell(d.curve->label()),
        number_cell(p.log_ratio, ratio_text(p.log_ratio)),
        text_cell(f.quantity == Quantity::accuracy ? "accuracy, %" : "Gram error"),
        number_cell(p.ours.mean, mean_text(p.ours.mean, p.ours.std, as)),
        number_cell(p.published->value.mean, mean_text(p.published->value.mean, p.published->value.std, as)),
        number_cell(p.difference(), signed_text(as.scale * p.difference(), as.digits)),
        number_cell(p.errors(), signed_text(p.errors(), 1)),
        number_cell(runs, signed_text(runs, 1)),
        text_cell(f.experiment)};
}

std::string deviations_html(const Report& report) {
    const auto list = deviations(report);
    if (list.empty()) return "";
    TableText table{
        .caption =
            "What deviates, and by how much: mean ± standard deviation over seeds; the difference Δ "
            "in combined standard errors (se) and in standard deviations of our single runs (std)",
        .head = {"data set", "kernel", "sampler", "log2(m/d)", "quantity", "imka", "published", "Δ", "Δ / se",
                 "Δ / std", "experiment"},
        .rows = {}};
    bool split = false;
    for (const auto& d : list) {
        split = split || random_split(d.drawn->figure.dataset);
        table.rows.push_back(deviation_row(d));
    }
    auto html = table_html(table);
    if (split) {
        html +=
            "<p class=\"note\">eeg, magic and skin are split at random. All published seeds share one split "
            "that is "
            "not known, so their standard error lacks the effect of the split; Δ / std sets the difference "
            "against the spread of single runs, each with its own split.</p>";
    }
    return html;
}

std::string absent_html(const Report& report) {
    if (report.absent.empty()) return "";
    std::string items;
    for (const auto& a : report.absent) {
        items += fmt::format("<li>{}: {}, {} ({} values)</li>", escape_html(a.experiment),
                             escape_html(a.dataset), escape_html(a.kernel), a.values);
    }
    return fmt::format(
        "<details><summary>Published figures without any record: {}</summary><ul>{}</ul></details>",
        report.absent.size(), items);
}

std::string summary_html(const Report& report) {
    const auto judged = report.counts.reproduced + report.counts.deviates;
    std::string chance;
    if (judged > 0) {
        chance = fmt::format(" Chance alone would put about {:.1f} of {} beyond.", expected_by_chance(report),
                             grouped(judged));
    }
    return fmt::format(
        R"(<section id="summary"><h2>Summary</h2>{}<p class="rule"><b>The rule.</b> A mean is reproduced when it lies within 3 combined standard errors of the published mean. A standard error is the standard deviation over seeds divided by √n; ours and the published one are added in squares.{}</p>{}{}<p class="note"><b>Reading the figures.</b> Points are means over seeds; error bars are one standard deviation over seeds, the spread of single runs and not the uncertainty of the mean (tables give its 95 % interval). Violet circles are rff, blue squares orf, green triangles sorf; solid lines FP32, dashed lines a chip; hollow marks published means. Names under a figure switch its curves.</p></section>)"
        "\n",
        tiles_html(report.counts), chance, deviations_html(report), absent_html(report));
}

std::string flags_html(const std::vector<Flag>& flags) {
    if (flags.empty()) {
        return "<section id=\"flags\"><h2>Warnings</h2><p>None: every line was a record of this schema, no "
               "run failed, "
               "and no figure mixes programs, instruction sets or data.</p></section>\n";
    }
    std::string out = "<section id=\"flags\"><h2>Warnings</h2>";
    for (const auto& flag : flags) {
        std::string items;
        for (std::size_t i = 0; i < std::min(flag.details.size(), kMostDetails); ++i)
            items += fmt::format("<li>{}</li>", escape_html(flag.details[i]));
        if (flag.details.size() > kMostDetails)
            items += fmt::format("<li>and {} more</li>", grouped(flag.details.size() - kMostDetails));
        out += fmt::format(
            R"(<details class="flag" data-flag="{}"{}><summary>{}</summary><ul>{}</ul></details>)",
            escape_html(flag.name), flag.details.size() <= 5 ? " open" : "", escape_html(flag.title), items);
    }
    return out + "</section>\n";
}

std::string section_id(const Section& section, std::size_t index) {
    return fmt::format("e{}-{}", index + 1, slug(section.experiment));
}

std::string dataset_id(const Section& section, std::size_t index, const std::string& dataset) {
    return fmt::format("{}--{}", section_id(section, index), slug(dataset));
}

std::string section_html(const Section& section, std::size_t index) {
    auto out = fmt::format(R"(<section id="{}"><h2>{}</h2>)", section_id(section, index),
                           escape_html(section.title));
    if (!section.what.empty()) {
        out += fmt::format(
            "<p class=\"lead\">{}.</p><div class=\"command\"><pre><code>imka reproduce {}</code></pre>"
            R"(<button type="button" class="copy">Copy</button></div>)",
            escape_html(section.what), escape_html(section.experiment));
    }
    if (section.counts.unlike > 0) {
        out +=
            "<p class=\"note\">These runs use the default protocol, which is right by construction; the "
            "published "
            "runs were done otherwise (each figure says how). Their numbers stand beside ours without a "
            "verdict; "
            "<code>imka reproduce ridge_measured</code> repeats them in their own protocol, where they are "
            "judged.</p>";
    }
    out += fmt::format("<h3 id=\"{}--overview\">At a glance</h3>{}", section_id(section, index),
                       overview_html(section));
    const auto fidelity = fidelity_html(section);
    if (!fidelity.empty()) {
        out += fmt::format("<h3 id=\"{}--fidelity\">Emulated against measured chip</h3>{}",
                           section_id(section, index), fidelity);
    }
    const auto paper = paper_html(section);
    if (!paper.empty()) {
        out +=
            fmt::format("<h3 id=\"{}--paper\">What the paper says</h3>{}", section_id(section, index), paper);
    }
    const std::string* open = nullptr;
    for (const auto& drawn : section.figures) {
        if (open == nullptr || *open != drawn.figure.dataset) {
            if (open != nullptr) out += "</div>";
            open = &drawn.figure.dataset;
            out += fmt::format(R"(<h3 id="{}">{}</h3><div class="grid">)", dataset_id(section, index, *open),
                               escape_html(*open));
        }
        out += figure_html(drawn);
    }
    if (open != nullptr) out += "</div>";
    return out + "</section>\n";
}

std::string contents_html(const Report& report) {
    std::string items = R"(<li><a href="#summary">Summary</a></li>)";
    items += fmt::format(R"(<li><a href="#flags">Warnings ({})</a></li>)", report.flags.size());
    for (std::size_t i = 0; i < report.sections.size(); ++i) {
        const auto& section = report.sections[i];
        const auto id = section_id(section, i);
        std::string inner = fmt::format(R"(<li><a href="#{}--overview">At a glance</a></li>)", id);
        if (!section.fidelity.empty())
            inner += fmt::format(R"(<li><a href="#{}--fidelity">Emulated against measured</a></li>)", id);
        if (!section.accuracy.empty() || !section.claims.empty())
            inner += fmt::format(R"(<li><a href="#{}--paper">What the paper says</a></li>)", id);
        std::set<std::string> seen;
        for (const auto& drawn : section.figures) {
            const auto& name = drawn.figure.dataset;
            if (seen.insert(name).second)
                inner += fmt::format(R"(<li><a href="#{}">{}</a></li>)", dataset_id(section, i, name),
                                     escape_html(name));
        }
        items += fmt::format(R"(<li><a href="#{}">{}</a><ul>{}</ul></li>)", id,
                             escape_html(section.experiment), inner);
    }
    items += R"(<li><a href="#provenance">Where this comes from</a></li>)";
    return fmt::format(
        R"(<nav aria-label="Contents"><details open><summary>Contents</summary><ul>{}</ul></details></nav>)",
        items);
}

// "a (1,800 runs), b (2 runs)"
template <class Trait>
std::string tally(const std::vector<Record>& records, const Trait& trait) {
    std::map<std::string, std::size_t> counts;
    for (const auto& r : records) ++counts[trait(r)];
    std::vector<std::string> parts;
    parts.reserve(counts.size());
    for (const auto& [value, n] : counts)
        parts.push_back(fmt::format("{} ({} runs)", value.empty() ? "unknown" : value, grouped(n)));
    return fmt::format("{}", fmt::join(parts, "; "));
}

std::string data_html(const std::vector<Record>& records) {
    std::map<std::string, std::map<std::string, std::size_t>> hashes;
    for (const auto& r : records) {
        if (!r.data_sha256.empty())
            ++hashes[r.setting("dataset") + (r.setting("protocol") == "measured" ? ", measured" : "")]
                    [r.data_sha256];
    }
    TableText table{.caption = "Data sets: sha256 of the parsed tables",
                    .head = {"data set", "sha256", "runs"},
                    .rows = {}};
    for (const auto& [name, values] : hashes) {
        for (const auto& [hash, n] : values) {
            table.rows.push_back({text_cell(name),
                                  {.html = fmt::format("<code>{}</code>", escape_html(hash)), .sort = hash},
                                  number_cell(static_cast<double>(n), grouped(n))});
        }
    }
    return table.rows.empty() ? "" : table_html(table);
}

std::string latest(const std::vector<Record>& records) {
    std::string last;
    for (const auto& r : records) last = std::max(last, r.finished);
    return last;
}

std::string provenance_html(const Report& report) {
    const auto& records = report.set.records;
    double seconds = 0.0;
    double memory = 0.0;
    for (const auto& r : records) {
        seconds += r.wall_seconds;
        memory = std::max(memory, r.peak_memory_mb);
    }
    const auto row = [](std::string_view name, const std::string& value) {
        return fmt::format("<dt>{}</dt><dd>{}</dd>", name, escape_html(value));
    };
    std::string list;
    list += row("Program", tally(records, [](const Record& r) { return r.imka_version; }));
    list += row("Build", tally(records, [](const Record& r) { return r.build; }));
    list += row("Instruction set", tally(records, [](const Record& r) { return r.instruction_set; }));
    list += row("Time of all runs", fmt::format("{:.1f} minutes", seconds / 60.0));
    list += row("Largest memory", fmt::format("{:.0f} MB", memory));
    list += row("Last run finished", latest(records));
    return fmt::format(
        R"(<section id="provenance"><h2>Where this comes from</h2><dl>{}</dl>{}<p><button type="button" id="csv">Save all points as CSV</button></p></section>)",
        list, data_html(records));
}

std::string header_html(const Report& report) {
    std::set<std::string> experiments;
    for (const auto& r : report.set.records) experiments.insert(r.experiment);
    return fmt::format(
        R"(<header><div class="bar"><span class="kicker">imka report</span><button type="button" id="theme" aria-label="Switch between light and dark">Dark</button></div><h1>{}</h1><p class="lead">{} runs of {}{}</p></header>)",
        escape_html(report.title), grouped(report.set.records.size()),
        escape_html(fmt::format("{}", fmt::join(experiments, ", "))),
        report.set.records.empty() ? "" : escape_html(", the last finished " + latest(report.set.records)));
}

}  // namespace

std::string render_page(const Report& report, std::string_view chart_js) {
    std::string body = header_html(report) + R"(<div class="layout">)" + contents_html(report) + "<main>" +
                       summary_html(report) + flags_html(report.flags);
    for (std::size_t i = 0; i < report.sections.size(); ++i) body += section_html(report.sections[i], i);
    body += provenance_html(report) + "</main></div>";
    return fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<link rel=\"icon\" "
        "href=\"data:,\">\n"
        "<style>{}</style>\n</head>\n<body>\n{}\n"
        "<script type=\"application/json\" "
        "id=\"plots\">{}</script>\n<script>{}</script>\n<script>{}</script>\n"
        "</body>\n</html>\n",
        escape_html(report.title), embedded::report_css, body,
        escape_json_in_script(plots_json(all_plots(report))), escape_script(chart_js), embedded::report_js);
}

}  // namespace imka::report
