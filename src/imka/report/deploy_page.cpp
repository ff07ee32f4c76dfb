#include "imka/report/deploy_page.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "imka/deploy/timeline.hpp"

namespace imka::report {
namespace {

using Iterator = std::vector<Span>::const_iterator;

// Merges successive spans of a resource into one span of the step with the most time.
Span fused(Iterator begin, Iterator end) {
    const auto key = [](const Span& s) { return std::tuple(s.inference, s.step, s.matrix, s.copy); };
    std::map<decltype(key(*begin)), double> seconds;
    for (auto span = begin; span != end; ++span) seconds[key(*span)] += span->end - span->begin;
    const auto most = std::ranges::max_element(seconds, {}, [](const auto& s) { return s.second; })->first;
    Span out = *std::find_if(begin, end, [&](const Span& s) { return key(s) == most; });
    out.rows = 0;
    for (auto span = begin; span != end; ++span) out.rows += key(*span) == most ? span->rows : 0;
    out.begin = begin->begin;
    out.end = std::prev(end)->end;
    return out;
}

// Merges the spans of a resource that begin in the same window.
std::vector<Span> coarse(const std::vector<Span>& by_resource, double window) {
    const auto place = [&](const Span& s) { return std::pair(s.resource, std::floor(s.begin / window)); };
    std::vector<Span> out;
    for (auto begin = by_resource.begin(); begin != by_resource.end();) {
        const auto end = std::find_if(begin, by_resource.end(),
                                      [&](const Span& span) { return place(span) != place(*begin); });
        out.push_back(fused(begin, end));
        begin = end;
    }
    return out;
}

}  // namespace

DrawnSpans drawn_spans(const Schedule& schedule, std::size_t most) {
    DrawnSpans out{.spans = merged_spans(schedule.spans)};
    auto by_resource = out.spans;
    std::ranges::stable_sort(by_resource, {}, &Span::resource);
    for (double parts = 8192.0; out.spans.size() > most && parts >= 1.0; parts /= 2.0) {
        out.window_seconds = schedule.makespan_seconds / parts;
        out.spans = coarse(by_resource, out.window_seconds);
    }
    std::ranges::stable_sort(out.spans, {}, &Span::begin);
    return out;
}

}  // namespace imka::report
