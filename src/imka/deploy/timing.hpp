// A verified schedule with the pipeline that it belongs to.
#pragma once

#include "imka/deploy/schedule.hpp"

namespace imka {

// When the matrices of a mapping work.
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
