// A verified schedule with its pipeline.
#pragma once

#include "imka/deploy/schedule.hpp"

namespace imka {

// When the matrices of a mapping run.
struct Timing {
    Pipeline pipeline;
    Schedule schedule;
};
// With a host link, the inputs of the network are steps of the pipeline. Uses the constants of cost_data().
// Error{bad_config} if pipeline and mapping do not fit.
Timing make_timing(Pipeline pipeline, const Mapping& mapping, const ChipSpec& spec,
                   const ScheduleOptions& options);

// How long the host link is busy.
double link_seconds(const Schedule& schedule);

}  // namespace imka
