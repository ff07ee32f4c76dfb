#include "imka/deploy/timing.hpp"

#include <utility>

namespace imka {

Timing make_timing(Pipeline pipeline, const Mapping& mapping, const ChipSpec& spec,
                   const ScheduleOptions& options) {
    Timing timing{.pipeline = options.link ? with_input_steps(std::move(pipeline)) : std::move(pipeline),
                  .schedule = {}};
    timing.schedule = make_schedule(timing.pipeline, mapping, spec, cost_data(), options);
    verify_schedule(timing.schedule, timing.pipeline, mapping, spec);
    return timing;
}

double link_seconds(const Schedule& schedule) {
    double seconds = 0.0;
    for (const auto& use : schedule.uses) {
        if (use.resource.kind == ResourceKind::link) seconds += use.seconds;
    }
    return seconds;
}

}  // namespace imka
