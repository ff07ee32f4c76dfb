#include "imka/report/page_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "imka/report/html.hpp"

namespace imka::report {
namespace {

std::string_view quantity_name(Quantity q) {
    return q == Quantity::accuracy ? "accuracy" : "Gram error";
}

// Word and class of a verdict.
std::string_view verdict_word(Verdict v) {
    constexpr std::string_view kWords[] = {"reproduced", "deviates", "missing", "not judged",
                                           "no published value"};
    return kWords[static_cast<std::size_t>(v)];
}
std::string_view verdict_class(Verdict v) {
    constexpr std::string_view kClasses[] = {"good", "bad", "miss", "mute", "mute"};
    return kClasses[static_cast<std::size_t>(v)];
}

std::string figure_badge(const Counts& c) {
    const auto judged = c.reproduced + c.deviates;
    if (c.deviates > 0)
        return fmt::format(R"(<span class="badge bad">{} of {} deviate</span>)", c.deviates, judged);
    if (judged > 0)
        return fmt::format(R"(<span class="badge good">{} of {} reproduced</span>)", c.reproduced, judged);
    if (c.unlike > 0) return R"(<span class="badge mute">another protocol</span>)";
    return R"(<span class="badge mute">no published value</span>)";
}

std::string_view verdict_mark(Verdict v) {
    return v == Verdict::reproduced ? "✓ " : v == Verdict::deviates ? "✗ " : "";
}

// Cells of a point: imka, published, difference, in standard errors.
std::vector<TableCell> comparison(const Point& p, const Shown& as) {
    std::vector<TableCell> cells(4, no_cell());
    if (p.ours.n > 0) cells[0] = number_cell(p.ours.mean, mean_text(p.ours.mean, p.ours.std, as));
    if (p.published) {
        cells[1] = number_cell(p.published->value.mean,
                               mean_text(p.published->value.mean, p.published->value.std, as));
    }
    if (p.published && p.ours.n > 0) {
        cells[2] = number_cell(p.difference(), signed_text(as.scale * p.difference(), as.digits));
        cells[3] = judged_cell(p.errors(), 1, p.verdict);
    }
    return cells;
}

std::string headline_table(const Figure& f) {
    const auto as = shown(f.quantity);
    double last = -INFINITY;
    for (const auto& curve : f.curves) {
        for (const auto& p : curve.points) last = std::max(last, p.ours.n > 0 ? p.log_ratio : last);
    }
    TableText table{.caption = fmt::format(
                        "At log2(m/d) = {}: mean ± standard deviation over seeds{}; Δ in combined standard "
                        "errors (se): ✓ reproduced, ✗ deviates",
                        ratio_text(last), as.unit.empty() ? "" : ", in percent"),
                    .head = {"sampler", "imka", "published", "Δ", "Δ / se"},
                    .rows = {}};
    for (const auto& curve : f.curves) {
        for (const auto& p : curve.points) {
            if (p.log_ratio != last) continue;
            std::vector<TableCell> row = {text_cell(curve.label())};
            std::ranges::move(comparison(p, as), std::back_inserter(row));
            table.rows.push_back(std::move(row));
        }
    }
    return table_html(table);
}

std::string all_values_table(const Figure& f) {
    const auto as = shown(f.quantity);
    TableText table{.caption = fmt::format("All points{}", as.unit.empty() ? "" : ", in percent"),
                    .head = {"sampler", "log2(m/d)", "m", "seeds", "95 % interval of the mean", "imka",
                             "published", "Δ", "Δ / se", "verdict"},
                    .rows = {}};
    for (const auto& curve : f.curves) {
        for (const auto& p : curve.points) {
            const auto m = p.m != 0 || !p.published ? p.m : p.published->m;
            std::vector<TableCell> row = {
                text_cell(curve.label()), number_cell(p.log_ratio, ratio_text(p.log_ratio)),
                number_cell(static_cast<double>(m), fmt::format("{}", m)),
                number_cell(static_cast<double>(p.ours.n), fmt::format("{}", p.ours.n)),
                p.ours.n > 1
                    ? number_cell(
                          p.ours.half_width,
                          fmt::format("{:.{}f} to {:.{}f}", as.scale * (p.ours.mean - p.ours.half_width),
                                      as.digits, as.scale * (p.ours.mean + p.ours.half_width), as.digits))
                    : no_cell()};
            std::ranges::move(comparison(p, as), std::back_inserter(row));
            row.push_back(verdict_cell(p.verdict, p.unlike));
            table.rows.push_back(std::move(row));
        }
    }
    return table_html(table);
}

std::string reasons_html(const Figure& f) {
    std::map<std::string, std::set<std::string>> reasons;
    for (const auto& curve : f.curves) {
        for (const auto& p : curve.points) {
            if (!p.unlike.empty()) reasons[p.unlike].insert(curve.label());
        }
    }
    if (reasons.empty()) return "";
    std::string items;
    for (const auto& [reason, curves] : reasons) {
        items += fmt::format("<li><b>{}</b>: {}.</li>",
                             escape_html(fmt::format("{}", fmt::join(curves, ", "))), escape_html(reason));
    }
    return fmt::format("<details><summary>Why there is no verdict</summary><ul>{}</ul></details>", items);
}

std::string seeds_phrase(const Figure& f) {
    std::size_t least = SIZE_MAX;
    std::size_t most = 0;
    for (const auto& curve : f.curves) {
        for (const auto& p : curve.points) {
            if (p.ours.n == 0) continue;
            least = std::min(least, p.ours.n);
            most = std::max(most, p.ours.n);
        }
    }
    if (least == most) return fmt::format("{} seed{}", most, most == 1 ? "" : "s");
    return fmt::format("{} to {} seeds", least, most);
}

std::string caption_of(const Figure& f, const Counts& counts) {
    const auto what = f.quantity == Quantity::accuracy
                          ? "Test accuracy of the ridge classifier on random features"
                          : "Relative error of the approximate Gram matrix in the Frobenius norm";
    const bool published = counts.reproduced + counts.deviates + counts.unlike + counts.missing > 0;
    return fmt::format(
        "{} for the {} kernel on {}{}, against log2(m/d): m directions in d dimensions. Points are means "
        "over {}; "
        "error bars are one standard deviation over seeds.{}",
        what, f.kernel, f.dataset, f.protocol == "measured" ? " in the protocol of the published runs" : "",
        seeds_phrase(f), published ? " Hollow marks are the published means with their deviation." : "");
}

std::string canvas_html(const Plot& plot) {
    return fmt::format(
        R"(<div class="chart"><canvas id="c-{}" role="img" aria-label="{}"></canvas></div><div class="legend" data-for="{}"></div>)",
        plot.id, escape_html(plot.title + ". " + plot.alt), plot.id);
}

std::string command_html(const std::string& command) {
    return fmt::format(
        R"(<details class="repeat"><summary>Repeat it</summary><div class="command"><pre><code>{}</code></pre><button type="button" class="copy">Copy</button></div></details>)",
        escape_html(command));
}

}  // namespace

std::string table_html(const TableText& table) {
    // The caption stands outside of what scrolls.
    std::string out = table.caption.empty()
                          ? std::string()
                          : fmt::format(R"(<p class="caption">{}</p>)", escape_html(table.caption));
    out += fmt::format(R"(<div class="scroll"><table class="sortable" aria-label="{}"><thead><tr>)",
                       escape_html(table.caption));
    for (std::size_t c = 0; c < table.head.size(); ++c) {
        const bool number = !table.rows.empty() && table.rows.front().at(c).number;
        out += fmt::format(R"(<th scope="col"{}><button type="button">{}</button></th>)",
                           number ? R"( class="n")" : "", escape_html(table.head[c]));
    }
    out += "</tr></thead><tbody>";
    for (const auto& row : table.rows) {
        out += "<tr>";
        for (const auto& cell : row) {
            out += cell.number ? R"(<td class="n")" : "<td";
            if (!cell.sort.empty()) out += fmt::format(R"( data-v="{}")", escape_html(cell.sort));
            out += fmt::format(">{}</td>", cell.html);
        }
        out += "</tr>";
    }
    return out + "</tbody></table></div>";
}

TableCell text_cell(std::string_view text) {
    return {.html = escape_html(text), .sort = "", .number = false};
}

TableCell number_cell(double value, const std::string& shown) {
    return {.html = escape_html(shown), .sort = fmt::format("{:.10g}", value), .number = true};
}

TableCell verdict_cell(Verdict verdict, std::string_view reason) {
    const auto title = reason.empty() ? std::string() : fmt::format(R"( title="{}")", escape_html(reason));
    return {.html = fmt::format(R"(<span class="v {}"{}>{}</span>)", verdict_class(verdict), title,
                                verdict_word(verdict)),
            .sort = "",
            .number = false};
}

TableCell judged_cell(double value, int digits, Verdict verdict) {
    auto cell = number_cell(value, signed_text(value, digits));
    cell.html = fmt::format(R"(<span class="v {}" title="{}">{}{}</span>)", verdict_class(verdict),
                            verdict_word(verdict), verdict_mark(verdict), cell.html);
    return cell;
}

TableCell aim_cell(double value, const std::string& shown, bool met) {
    auto cell = number_cell(value, shown);
    cell.html =
        fmt::format(R"(<span class="v {}">{} {}</span>)", met ? "good" : "bad", met ? "✓" : "✗", cell.html);
    return cell;
}

TableCell no_cell() {
    return {.html = "–", .sort = "", .number = true};
}

Shown shown(Quantity quantity) {
    return quantity == Quantity::accuracy ? Shown{.scale = 100.0, .digits = 2, .unit = "points"}
                                          : Shown{.scale = 1.0, .digits = 4, .unit = ""};
}

std::string mean_text(double mean, double std, const Shown& as) {
    return fmt::format("{:.{}f} ± {:.{}f}", as.scale * mean, as.digits, as.scale * std, as.digits);
}

std::string signed_text(double value, int digits) {
    if (std::isinf(value)) return value > 0 ? "+∞" : "−∞";
    auto text = fmt::format("{:.{}f}", std::abs(value), digits);
    if (text.find_first_not_of("0.") == std::string::npos) return text;
    return (value < 0 ? "−" : "+") + text;
}

std::string ratio_text(double log_ratio) {
    return fmt::format("{:.4g}", log_ratio);
}

std::string figure_html(const DrawnFigure& drawn) {
    const auto& f = drawn.figure;
    return fmt::format(
        R"(<figure class="card" id="{0}"><div class="cardhead"><h4><a href="#{0}">{1}, {2}</a></h4>{3}</div>{4}<figcaption>{5}</figcaption>{6}<div class="actions"><button type="button" class="png" data-for="{0}">Save PNG</button></div><details><summary>All values</summary>{7}</details>{8}{9}</figure>)"
        "\n",
        drawn.plot.id, escape_html(f.kernel), quantity_name(f.quantity), figure_badge(drawn.counts),
        canvas_html(drawn.plot), escape_html(caption_of(f, drawn.counts)), headline_table(f),
        all_values_table(f), reasons_html(f), command_html(figure_command(f)));
}

std::string plot_html(const Plot& plot, std::string_view caption) {
    return fmt::format(
        R"(<figure class="card" id="{0}"><div class="cardhead"><h4><a href="#{0}">{1}</a></h4></div>{2}<figcaption>{3}</figcaption><div class="actions"><button type="button" class="png" data-for="{0}">Save PNG</button></div></figure>)"
        "\n",
        plot.id, escape_html(plot.title), canvas_html(plot), escape_html(caption));
}

std::string overview_html(const Section& section) {
    std::string out = R"(<div class="overview">)";
    for (const auto& drawn : section.figures) {
        const auto name = fmt::format("{}, {}", drawn.figure.kernel, quantity_name(drawn.figure.quantity));
        const bool bad = drawn.counts.deviates > 0;
        out += fmt::format(R"(<a class="thumb{}" href="#{}" aria-label="{}"><b>{}</b><span>{}</span>{}</a>)",
                           bad ? " bad" : "", drawn.plot.id,
                           escape_html(drawn.figure.dataset + ", " + name + ". " + drawn.plot.alt),
                           escape_html(drawn.figure.dataset), escape_html(name), thumbnail(drawn.plot));
    }
    return out + "</div>";
}

}  // namespace imka::report
