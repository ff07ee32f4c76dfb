// Schedules of the products and digital operations of inferences on cores, digital unit and host link.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "imka/base/config.hpp"
#include "imka/base/names.hpp"
#include "imka/deploy/cost_data.hpp"
#include "imka/deploy/mapping.hpp"
#include "imka/deploy/pipeline.hpp"

namespace imka {

// Does one task at a time.
enum class ResourceKind { core, digital, link };
template <>
struct EnumNames<ResourceKind> {
    static constexpr std::string_view what = "resource";
    static constexpr std::string_view values[] = {"core", "digital unit", "host link"};
};
struct Resource {
    ResourceKind kind = ResourceKind::core;
    std::uint32_t core = 0;  // counted over all chips; 0 for the digital unit and the link
    auto operator<=>(const Resource&) const = default;
};
std::string resource_name(const Resource& resource, const CoreGrid& grid);  // "chip 1, core 3"

inline constexpr std::uint32_t kNoMatrix = std::numeric_limits<std::uint32_t>::max();

// Successive rows of a step on a resource, without a break.
struct Span {
    std::uint32_t step = 0;
    std::uint32_t inference = 0;
    Resource resource;
    std::uint32_t matrix = kNoMatrix;  // on a core: index in the mapping
    std::uint32_t copy = 0;            // of the matrix
    std::size_t first_row = 0;
    std::size_t rows = 0;
    double begin = 0.0;  // seconds
    double end = 0.0;
    bool operator==(const Span&) const = default;
};

// The link between host and chips, and between chips. A row arrives latency_seconds after it was sent; the
// link can send the next one in the meantime.
struct HostLink {
    double bytes_per_second = 0.0;
    double latency_seconds = 0.0;
    bool operator==(const HostLink&) const = default;
};
Fields fields(HostLink& link);

struct ScheduleOptions {
    std::size_t inferences = 1;  // one after another
    bool digital = true;         // false: digital operations take no time
    // For inputs, outputs and values between chips; none: they take no time.
    std::optional<HostLink> link = {};
    // Rows are scheduled in blocks, so that there are at most about this many spans.
    std::size_t most_spans = 100'000;
};
Fields fields(ScheduleOptions& options);
// Error{bad_config}, also for the link.
void validate(const ScheduleOptions& options);

// A time that no schedule of this mapping can beat if every call uses the same copies, and the reason.
struct ScheduleBound {
    double seconds = 0.0;
    std::string reason;                  // "critical path", "core 3", "digital unit", "host link"
    double critical_path_seconds = 0.0;  // one inference that never waits for a busy resource
};

struct ResourceUse {
    Resource resource;
    double seconds = 0.0;  // busy
};

struct Schedule {
    CoreGrid grid;
    std::size_t inferences = 1;
    std::vector<Span> spans;  // by begin
    double makespan_seconds = 0.0;
    // Between the ends of successive inferences; at least the mean work of the busiest resource.
    double interval_seconds = 0.0;
    ScheduleBound bound;
    std::vector<ResourceUse> uses;  // of every resource with work
    std::optional<HostLink> link = {};
};

// List scheduling: a free resource takes the waiting block with the earliest inference, then the longest path
// to the end, then the lowest rows. A core does one product at a time; tiles of a matrix on different cores
// run at once; copies share the rows of a call, or take turns from inference to inference. Calls that can run
// at the same time get different copies if there are enough, unless it is faster for all calls to use all
// copies. Error{bad_config} if pipeline and mapping do not fit.
Schedule make_schedule(const Pipeline& pipeline, const Mapping& mapping, const ChipSpec& spec,
                       const CostData& data, const ScheduleOptions& options = {});

// Independent check, without code of the scheduler: nothing overlaps on a resource, every row begins after
// the rows that it needs, every row of every matrix is done exactly once on all cores of one copy, and takes
// the time of its products; with a host link, inputs arrive before they are used and results are sent after
// they are computed. Error{bad_data} that names the first problem.
void verify_schedule(const Schedule& schedule, const Pipeline& pipeline, const Mapping& mapping,
                     const ChipSpec& spec);

// When a step runs, from its first row to its last.
struct StepWindow {
    double begin = 0.0;  // seconds
    double end = 0.0;
};
// Whether more than a tenth of the shorter window lies in the other one. Smaller overlaps occur if a step
// needs all rows of one input and reads another one row by row.
bool overlap(const StepWindow& a, const StepWindow& b);

// The windows of all steps if no step ever waits for a busy core and every call uses all copies. Without
// digital work and links.
std::vector<StepWindow> step_windows(const Pipeline& pipeline, const Mapping& mapping, const ChipSpec& spec,
                                     const CostData& data);

// Calls of one matrix, in the order of the pipeline: calls that run at the same time have different slots.
// groups[k]: number of slots of call k and the calls that overlap it, directly or through others.
struct CallSlots {
    std::vector<std::size_t> slots;
    std::vector<std::size_t> groups;
};
CallSlots call_slots(const std::vector<std::size_t>& steps, const std::vector<StepWindow>& windows);

}  // namespace imka
