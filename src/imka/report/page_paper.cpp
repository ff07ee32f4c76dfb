// The part of the page that sets our averages beside the paper's main figure and text.
#include <fmt/format.h>

#include <algorithm>

#include "imka/report/html.hpp"
#include "imka/report/page_parts.hpp"

namespace imka::report {
namespace {

TableCell level_cell(const std::optional<Level>& level) {
    if (!level) return no_cell();
    return number_cell(level->mean, mean_text(level->mean, level->std, shown(Quantity::accuracy)));
}

void add_level(const AccuracyRow& row, std::size_t rule, std::vector<TableCell>& cells) {
    const auto& ours = row.ours.at(rule);
    const auto& theirs = row.published.at(rule);
    cells.push_back(level_cell(ours));
    cells.push_back(level_cell(theirs));
    cells.push_back(ours && theirs
                        ? judged_cell(100.0 * (ours->mean - theirs->mean), 2, row.verdicts.at(rule))
                        : no_cell());
}

std::string backend_name(const std::string& backend) {
    return backend == "fp32" ? "FP32" : backend;
}

std::string accuracy_table(const Section& section) {
    TableText table{
        .caption =
            "Accuracy in percent, mean over samplers ± standard deviation over seeds averaged over "
            "samplers",
        .head = {"data set", "kernel", "backend", "imka, D/d = 32", "published, D/d = 32", "Δ",
                 "imka, m/d = 32", "published, m/d = 32", "Δ", "imka, best r", "published, best r", "Δ"},
        .rows = {}};
    for (const auto& row : section.accuracy) {
        std::vector<TableCell> cells = {text_cell(row.dataset), text_cell(row.kernel),
                                        text_cell(backend_name(row.backend))};
        for (std::size_t rule = 0; rule < kSizeRules; ++rule) add_level(row, rule, cells);
        table.rows.push_back(std::move(cells));
    }
    return table_html(table);
}

// "−0.83 ± 0.05", in points; coloured by whether it agrees with the published one.
TableCell difference_cell(const std::optional<Level>& level) {
    if (!level) return no_cell();
    return number_cell(level->mean,
                       fmt::format("{} ± {:.2f}", signed_text(100.0 * level->mean, 2), 100.0 * level->error));
}

std::string difference_table(const Section& section) {
    TableText table{
        .caption =
            "What the chip changes: accuracy on the chip minus accuracy in FP32, in points ± "
            "standard error; Δ is the difference between ours and the published one",
        .head = {"data set", "kernel", "imka, D/d = 32", "published, D/d = 32", "Δ", "imka, m/d = 32",
                 "published, m/d = 32", "Δ", "imka, best r", "published, best r", "Δ"},
        .rows = {}};
    for (const auto& row : section.differences) {
        std::vector<TableCell> cells = {text_cell(row.dataset), text_cell(row.kernel)};
        for (std::size_t rule = 0; rule < kSizeRules; ++rule) {
            const auto& ours = row.ours.at(rule);
            const auto& theirs = row.published.at(rule);
            cells.push_back(difference_cell(ours));
            cells.push_back(difference_cell(theirs));
            cells.push_back(ours && theirs
                                ? judged_cell(100.0 * (ours->mean - theirs->mean), 2, row.verdicts.at(rule))
                                : no_cell());
        }
        table.rows.push_back(std::move(cells));
    }
    return table_html(table);
}

void add_mean(const MeanDifference& mean, std::vector<TableCell>& cells) {
    if (mean.datasets == 0) {
        cells.insert(cells.end(), 3, no_cell());
        return;
    }
    cells.push_back(number_cell(
        mean.mean, fmt::format("{} ± {:.2f}", signed_text(100.0 * mean.mean, 2), 100.0 * mean.error)));
    cells.push_back(number_cell(mean.absolute, fmt::format("{:.3f}", 100.0 * mean.absolute)));
    cells.push_back(number_cell(
        mean.worst, fmt::format("{} ({})", signed_text(100.0 * mean.worst, 2), mean.worst_dataset)));
}

std::string means_table(const Section& section) {
    TableText table{
        .caption =
            "The same averaged over data sets, in points: mean difference ± standard error, mean absolute "
            "difference, the lowest",
        .head = {"kernel", "size", "data sets", "imka, mean", "absolute", "lowest", "shared data sets",
                 "imka, mean", "absolute", "lowest", "published, mean", "absolute", "lowest"},
        .rows = {}};
    for (const auto& s : summarise_differences(section.differences)) {
        std::vector<TableCell> cells = {
            text_cell(s.kernel), text_cell(rule_name(s.rule)),
            number_cell(static_cast<double>(s.ours.datasets), fmt::format("{}", s.ours.datasets))};
        add_mean(s.ours, cells);
        cells.push_back(
            number_cell(static_cast<double>(s.published.datasets), fmt::format("{}", s.published.datasets)));
        add_mean(s.ours_shared, cells);
        add_mean(s.published, cells);
        table.rows.push_back(std::move(cells));
    }
    std::vector<std::string> said;
    for (const auto& t : kTextDifferences)
        said.push_back(fmt::format("{} {:.3f} ({:.3f})", t.kernel, t.text, t.released));
    return table_html(table) +
           fmt::format(
               "<p class=\"note\">The paper gives mean absolute differences over all six data sets: {}, and "
               "{:.2f} ({:.2f}) for arccos0 on eeg; in brackets the same from all released results at the "
               "best "
               "r. “Published” here are the four data sets whose chip results are at hand.</p>",
               fmt::join(said, ", "), kTextLargest, kReleasedLargest);
}

std::string plots_html(const std::vector<Plot>& plots, std::string_view caption) {
    if (plots.empty()) return "";
    std::string out = R"(<div class="grid">)";
    for (const auto& plot : plots) out += plot_html(plot, caption);
    return out + "</div>";
}

TableCell holding_cell(const Holding& h) {
    if (h.cases == 0) return no_cell();
    const double share = static_cast<double>(h.holds) / static_cast<double>(h.cases);
    const auto* kind = h.holds == h.cases ? "good" : h.holds == 0 ? "bad" : "miss";
    const auto* word = h.holds == h.cases ? "holds" : h.holds == 0 ? "does not hold" : "in part";
    return {.html = fmt::format(R"(<span class="v {}">{}</span> {} of {})", kind, word, h.holds, h.cases),
            .sort = fmt::format("{:.4f}", share),
            .number = false};
}

std::string claims_table(const Section& section) {
    TableText table{.caption =
                        "What the text and its extended results say, checked on these records and, for "
                        "comparison, on the published values. Comparisons allow two standard errors",
                    .head = {"statement", "imka", "numbers", "published", "numbers"},
                    .rows = {}};
    for (const auto& c : section.claims) {
        table.rows.push_back({text_cell(c.text), holding_cell(c.ours), text_cell(c.ours.numbers),
                              holding_cell(c.published), text_cell(c.published.numbers)});
    }
    return R"(<div class="claims">)" + table_html(table) + "</div>";
}

}  // namespace

std::string paper_html(const Section& section) {
    std::string out;
    if (!section.accuracy.empty()) {
        out +=
            "<p>The paper draws accuracies as bars and prints few numbers; “published” are the released "
            "per-seed results, averaged by the same three rules as ours: at D/d = 32, the size that the text "
            "names (m = 16 d for rbf, 32 d for arc-cosine); at m/d = 32; and at the best r of each sampler, "
            "which is what the bars show. Differences Δ are in percentage points; ✓ and ✗ follow the rule "
            "above, and what is said there about random splits holds here too.</p>";
        out +=
            plots_html(section.accuracy_plots,
                       "Mean over samplers; error bars are the standard deviation over seeds, averaged over "
                       "samplers. Squares FP32, diamonds the chip; hollow marks are the published values.");
        out += accuracy_table(section);
    }
    if (!section.differences.empty()) out += difference_table(section) + means_table(section);
    out +=
        plots_html(section.normalised,
                   section.differences.empty()
                       ? "Gram error divided by the largest of its task (the text's rule) or of its kernel "
                         "(as the published runs did), averaged over data sets and samplers. FP32 alone "
                         "sets the largest error. Hollow marks are the same averages of the published "
                         "values."
                       : "Gram error divided by the largest of its task (the text's rule) or of its kernel "
                         "(as the published runs did), in FP32 or on the chip, averaged over data sets and "
                         "samplers. Solid lines FP32, dashed lines the chip; hollow marks are the same "
                         "averages of the published values.");
    if (!section.claims.empty()) out += claims_table(section);
    return out;
}

}  // namespace imka::report
