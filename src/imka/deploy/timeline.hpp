// Pictures of schedules: SVG, text, and traces for ui.perfetto.dev.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "imka/deploy/pipeline.hpp"
#include "imka/deploy/schedule.hpp"

namespace imka {

// One line per resource, one colour per matrix as in the floor plan, digital work in grey, a time axis and a
// legend. Every other inference is lighter. Self-contained SVG. Where several steps share a point of the
// picture, the one with the most time in it is drawn.
std::string timeline_svg(const Schedule& schedule, const Pipeline& pipeline, const std::string& title);

// One line of `columns` characters per resource: a letter per matrix, '+' digital work, '>' the host link,
// '.' idle; then a legend of the letters.
std::string timeline_text(const Schedule& schedule, const Pipeline& pipeline, std::size_t columns = 80);

// Merges spans of a step that follow each other on a resource without a break; sorted by begin.
std::vector<Span> merged_spans(const std::vector<Span>& spans);

// Chrome's trace event format, in order of time: a process per chip, a thread per core. Spans that follow
// each other without a break are one event.
std::string perfetto_json(const Schedule& schedule, const Pipeline& pipeline);

// "12.5 us"
std::string seconds_text(double seconds);

}  // namespace imka
