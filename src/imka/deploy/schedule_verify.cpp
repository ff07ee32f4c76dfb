// Check of schedules; shares no code with the scheduler.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/chip/analyse/cost.hpp"
#include "imka/deploy/schedule.hpp"

namespace imka {
namespace {

using Key = std::pair<std::uint32_t, std::uint32_t>;  // inference and step

class Verifier {
public:
    Verifier(const Schedule& schedule, const Pipeline& pipeline, const Mapping& mapping, const ChipSpec& spec)
        : schedule_(schedule), pipeline_(pipeline), mapping_(mapping), product_(product_seconds(spec.core)) {}

    void run() {
        for (const auto& span : schedule_.spans) check_range(span);
        check_overlaps();
        for (const auto& span : schedule_.spans) spans_[{span.inference, span.step}].push_back(&span);
        for (auto& [key, list] : spans_) {
            std::ranges::sort(list, {}, [](const Span* s) { return std::pair(s->first_row, s->begin); });
        }
        for (std::uint32_t i = 0; i < schedule_.inferences; ++i) {
            for (std::uint32_t s = 0; s < pipeline_.steps.size(); ++s) {
                check_rows({i, s});
                check_digital({i, s});
                check_link({i, s});
                check_order({i, s});
            }
        }
    }

private:
    [[noreturn]] void fail_span(const Span& span, std::string_view what) const {
        const auto name = span.step < pipeline_.steps.size() ? pipeline_.steps[span.step].name : "?";
        fail(ErrorCode::bad_data,
             fmt::format("step {}, inference {}, rows {} to {} on {}: {}", in_quotes(name), span.inference,
                         span.first_row, span.first_row + span.rows,
                         resource_name(span.resource, mapping_.grid), what));
    }

    void check_range(const Span& span) const {
        if (span.step >= pipeline_.steps.size()) fail_span(span, "no such step");
        const auto& step = pipeline_.steps[span.step];
        if (span.inference >= schedule_.inferences) fail_span(span, "no such inference");
        if (span.rows == 0 || span.first_row > step.rows || span.rows > step.rows - span.first_row)
            fail_span(span, fmt::format("the step has {} rows", step.rows));
        if (!(span.begin >= 0.0 && span.end >= span.begin && span.end <= schedule_.makespan_seconds))
            fail_span(span, fmt::format("from {} to {} s of {} s", span.begin, span.end,
                                        schedule_.makespan_seconds));
        if (span.resource.kind != ResourceKind::core) return;
        if (std::ranges::find(step.matrices, span.matrix) == step.matrices.end())
            fail_span(span, "a matrix that the step does not use");
        std::size_t regions = 0;
        for (const auto& r : mapping_.regions) {
            if (r.matrix == span.matrix && r.replica == span.copy && r.core == span.resource.core) ++regions;
        }
        if (regions == 0) fail_span(span, "the copy of the matrix has no region on the core");
        const double expected = static_cast<double>(span.rows) * static_cast<double>(regions) * product_;
        if (std::abs(span.end - span.begin - expected) > 1e-9 * schedule_.makespan_seconds)
            fail_span(span,
                      fmt::format("takes {} s; its products take {} s", span.end - span.begin, expected));
    }

    void check_overlaps() const {
        std::map<Resource, std::vector<const Span*>> resources;
        for (const auto& span : schedule_.spans) resources[span.resource].push_back(&span);
        for (auto& [resource, list] : resources) {
            std::ranges::sort(list, {}, [](const Span* s) { return std::pair(s->begin, s->end); });
            for (std::size_t k = 1; k < list.size(); ++k) {
                if (list[k]->begin < list[k - 1]->end)
                    fail_span(
                        *list[k],
                        fmt::format("begins at {} s, before step {} ends at {} s", list[k]->begin,
                                    in_quotes(pipeline_.steps[list[k - 1]->step].name), list[k - 1]->end));
            }
        }
    }

    // Digital work does all rows once, each after its products.
    void check_digital(const Key& key) const {
        const auto found = spans_.find(key);
        if (found == spans_.end()) return;
        std::vector<const Span*> products;
        std::vector<const Span*> digital;
        std::size_t longest = 0;
        for (const auto* span : found->second) {
            if (span->resource.kind == ResourceKind::digital) digital.push_back(span);
            if (span->resource.kind != ResourceKind::core) continue;
            products.push_back(span);
            longest = std::max(longest, span->rows);
        }
        std::size_t end = 0;
        for (const auto* span : digital) {
            if (span->first_row != end)
                fail_span(*span, fmt::format("digital work: row {} is not processed exactly once",
                                             std::min(end, span->first_row)));
            end = span->first_row + span->rows;
            const auto from = span->first_row - std::min(span->first_row, longest);
            for (auto p = std::ranges::lower_bound(products, from, {}, &Span::first_row);
                 p != products.end() && (*p)->first_row < end; ++p) {
                if ((*p)->first_row + (*p)->rows > span->first_row && (*p)->end > span->begin)
                    fail_span(*span, "begins before its products are done");
            }
        }
        if (!digital.empty() && end != pipeline_.steps[key.second].rows)
            fail(ErrorCode::bad_data,
                 fmt::format("step {}, inference {}: digital work: row {} is never processed",
                             in_quotes(pipeline_.steps[key.second].name), key.first, end));
    }

    // When the rows of a span arrive where they are needed next.
    double arrival(const Span& span) const {
        const bool sent = span.resource.kind == ResourceKind::link && schedule_.link;
        return span.end + (sent ? schedule_.link->latency_seconds : 0.0);
    }

    // Inputs of the network arrive before any work on their rows; outputs are sent after all work on them.
    void check_link(const Key& key) const {
        const auto found = spans_.find(key);
        const auto& step = pipeline_.steps[key.second];
        const bool sends = schedule_.link && step.is_output && step.output_bytes > 0.0;
        const bool receives = schedule_.link && step.input_bytes > 0.0;
        if (found == spans_.end() || (!sends && !receives)) return;
        std::map<std::size_t, std::vector<const Span*>> sent;  // by first row
        for (const auto* span : found->second) {
            if (span->resource.kind == ResourceKind::link) sent[span->first_row].push_back(span);
        }
        for (const auto* span : found->second) {
            if (span->resource.kind == ResourceKind::link) continue;
            auto block = sent.upper_bound(span->first_row);
            if (block == sent.begin()) fail_span(*span, "its rows are never sent over the host link");
            const auto& [in, out] = std::ranges::minmax(std::prev(block)->second, {}, &Span::begin);
            if (in->first_row + in->rows < span->first_row + span->rows)
                fail_span(*span, "some of its rows are never sent over the host link");
            if (receives && arrival(*in) > span->begin)
                fail_span(*span, fmt::format("begins before its inputs arrive at {} s", arrival(*in)));
            if (sends && out->begin < span->end)
                fail_span(*span, fmt::format("ends after its results are sent at {} s", out->begin));
        }
        check_sent_rows(key, sent, (sends ? 1U : 0U) + (receives ? 1U : 0U));
    }

    // Every row goes over the link the given number of times, or more often between chips.
    void check_sent_rows(const Key& key, const std::map<std::size_t, std::vector<const Span*>>& sent,
                         std::size_t times) const {
        const auto& step = pipeline_.steps[key.second];
        std::size_t end = 0;
        for (const auto& [first, list] : sent) {
            if (first != end || list.size() < times) break;
            end = first + list.front()->rows;
        }
        if (end != step.rows)
            fail(ErrorCode::bad_data,
                 fmt::format("step {}, inference {}: row {} is not sent over the host link",
                             in_quotes(step.name), key.first, end));
    }

    // All cores of a copy do the same rows, and the copies together all rows once.
    void check_rows(const Key& key) const {
        using Ranges = std::vector<std::pair<std::size_t, std::size_t>>;  // first and end, sorted
        std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, Ranges> done;  // matrix, copy, core
        if (const auto found = spans_.find(key); found != spans_.end()) {
            for (const auto* span : found->second) {
                if (span->resource.kind == ResourceKind::core)
                    done[{span->matrix, span->copy, span->resource.core}].emplace_back(
                        span->first_row, span->first_row + span->rows);
            }
        }
        const auto& step = pipeline_.steps[key.second];
        for (const auto m : step.matrices) {
            std::map<std::uint32_t, std::set<std::uint32_t>> cores;  // of each copy
            for (const auto& r : mapping_.regions) {
                if (r.matrix == m) cores[r.replica].insert(r.core);
            }
            Ranges all;
            for (const auto& [copy, list] : cores) {
                const Ranges rows = done[{m, copy, *list.begin()}];
                for (const auto core : list) {
                    if (done[{m, copy, core}] != rows)
                        fail_step(key, m, "the cores of a copy process different rows");
                }
                all.insert(all.end(), rows.begin(), rows.end());
            }
            std::ranges::sort(all);
            std::size_t end = 0;
            for (const auto& [first, last] : all) {
                if (first != end)
                    fail_step(key, m,
                              fmt::format("row {} is not processed exactly once", std::min(first, end)));
                end = last;
            }
            if (end != step.rows) fail_step(key, m, fmt::format("row {} is never processed", end));
        }
    }

    [[noreturn]] void fail_step(const Key& key, std::uint32_t matrix, const std::string& what) const {
        fail(ErrorCode::bad_data,
             fmt::format("step {}, inference {}, matrix {}: {}", in_quotes(pipeline_.steps[key.second].name),
                         key.first, in_quotes(mapping_.matrices[matrix].shape.name), what));
    }

    // When the first `rows` rows of a step are available; steps without work pass on their inputs.
    double available(const Key& key, std::size_t rows) {
        if (rows == 0) return 0.0;
        const auto found = spans_.find(key);
        if (found != spans_.end()) {
            const auto& ends = latest_ends(key, found->second);
            const auto behind =
                std::ranges::lower_bound(ends, rows, {}, &std::pair<std::size_t, double>::first);
            return behind == ends.begin() ? 0.0 : std::prev(behind)->second;
        }
        const auto [place, added] = passed_.try_emplace({key, rows}, 0.0);
        if (!added) return place->second;
        const auto& step = pipeline_.steps[key.second];
        double time = 0.0;
        for (const auto& input : step.inputs)
            time = std::max(time, available({key.first, static_cast<std::uint32_t>(input.step)},
                                            need(step, input, rows)));
        return passed_[{key, rows}] = time;
    }

    // Duplicates needed_rows on purpose.
    std::size_t need(const PipelineStep& step, const StepInput& input, std::size_t rows) const {
        const auto all = pipeline_.steps[input.step].rows;
        if (input.reads == Reads::all) return all;
        std::size_t n = rows * all / step.rows;
        if (n * step.rows < rows * all) ++n;
        return std::min(all, n + (input.reads == Reads::window ? input.ahead : 0));
    }

    // The first row of each span, with the latest end of all spans up to this one.
    const std::vector<std::pair<std::size_t, double>>& latest_ends(const Key& key,
                                                                   const std::vector<const Span*>& spans) {
        auto& ends = ends_[key];
        if (!ends.empty()) return ends;
        double latest = 0.0;
        for (const auto* span : spans) {
            latest = std::max(latest, arrival(*span));
            ends.emplace_back(span->first_row, latest);
        }
        return ends;
    }

    void check_order(const Key& key) {
        const auto found = spans_.find(key);
        if (found == spans_.end()) return;
        const auto& step = pipeline_.steps[key.second];
        for (const auto* span : found->second) {
            for (const auto& input : step.inputs) {
                const auto rows = need(step, input, span->first_row + span->rows);
                const auto ready = available({key.first, static_cast<std::uint32_t>(input.step)}, rows);
                if (ready > span->begin)
                    fail_span(*span,
                              fmt::format("begins at {} s; {} rows of step {} are ready at {} s", span->begin,
                                          rows, in_quotes(pipeline_.steps[input.step].name), ready));
            }
        }
    }

    const Schedule& schedule_;
    const Pipeline& pipeline_;
    const Mapping& mapping_;
    double product_;
    std::map<Key, std::vector<const Span*>> spans_;
    std::map<Key, std::vector<std::pair<std::size_t, double>>> ends_;
    std::map<std::pair<Key, std::size_t>, double> passed_;
};

}  // namespace

void verify_schedule(const Schedule& schedule, const Pipeline& pipeline, const Mapping& mapping,
                     const ChipSpec& spec) {
    Verifier(schedule, pipeline, mapping, spec).run();
}

}  // namespace imka
