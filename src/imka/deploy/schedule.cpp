#include "imka/deploy/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/chip/analyse/cost.hpp"

namespace imka {
namespace {

constexpr std::size_t kMostSpans = 10'000'000;
constexpr std::size_t kMostSamples = 16384;  // of a step, on the critical path

// A part of every block of rows, on one resource.
struct Lane {
    Resource resource;
    std::uint32_t matrix = kNoMatrix;
    std::uint32_t copy = 0;
    std::size_t part = 0;  // part `part` of `parts` of the rows
    std::size_t parts = 1;
    double seconds = 0.0;  // per row
};

// Lanes that run at once.
struct Phase {
    std::vector<Lane> lanes;
    double delay = 0.0;  // seconds from their end until the rows are available
};

// A way to the end of the network from a step, when a share of its rows is done: (1 - share) rows + rest.
struct Way {
    double rows = 0.0;  // seconds of all rows of the slowest step until rows have to wait for each other
    double rest = 0.0;  // seconds of everything else
    double seconds(double share) const { return (1.0 - share) * rows + rest; }
};

double longest(const std::vector<Way>& ways, double share) {
    double seconds = 0.0;
    for (const auto& way : ways) seconds = std::max(seconds, way.seconds(share));
    return seconds;
}

// Drops ways that are never the longest.
void prune(std::vector<Way>& ways) {
    std::ranges::sort(ways, [](const Way& a, const Way& b) {
        return std::pair(-a.rows, -a.rest) < std::pair(-b.rows, -b.rest);
    });
    std::vector<Way> kept;
    for (const auto& way : ways) {
        if (kept.empty() || way.rest > kept.back().rest) kept.push_back(way);
    }
    ways = std::move(kept);
}

// The work of a step: phases one after another, in blocks of rows.
struct Stage {
    std::vector<Phase> phases;
    std::size_t rows = 1;
    std::size_t parts = 1;  // largest number of copies that share the rows
    std::size_t block = 1;  // rows
    double path = 0.0;      // seconds to the end of the network, one step after another
    std::vector<Way> ways;  // the same, with rows that flow from step to step
    std::size_t blocks() const { return (rows + block - 1) / block; }
    std::size_t first_row(std::size_t b) const { return std::min(rows, b * block); }
    // Seconds from a block to the end of the network.
    double way(std::size_t b) const {
        return longest(ways, static_cast<double>(first_row(b)) / static_cast<double>(rows));
    }
};

double operations(const DigitalWork& w) {
    return w.exponentials + w.divisions + w.norm_elements + w.additions + w.multiplications;
}

std::vector<std::vector<std::size_t>> readers_of(const Pipeline& pipeline) {
    std::vector<std::vector<std::size_t>> readers(pipeline.steps.size());
    for (std::size_t s = 0; s < pipeline.steps.size(); ++s) {
        for (const auto& input : pipeline.steps[s].inputs) readers[input.step].push_back(s);
    }
    return readers;
}

void check(const Pipeline& pipeline, const Mapping& mapping, const ScheduleOptions& options) {
    validate(options);
    for (const auto& step : pipeline.steps) {
        for (const auto m : step.matrices) {
            if (m >= mapping.matrices.size())
                fail(ErrorCode::bad_config,
                     fmt::format("step {} multiplies matrix {}; the mapping has only {} {}",
                                 in_quotes(step.name), m, mapping.matrices.size(),
                                 mapping.matrices.size() == 1 ? "matrix" : "matrices"));
        }
    }
}

// The copies of each matrix that each of its calls uses: calls that run at the same time divide the copies
// among themselves if that is possible evenly; otherwise all calls use all copies.
class CopyShares {
public:
    CopyShares() = default;  // every call uses all copies
    CopyShares(const Pipeline& pipeline, const Mapping& mapping, const std::vector<StepWindow>& windows) {
        std::map<std::uint32_t, std::vector<std::size_t>> calls;
        for (std::size_t s = 0; s < pipeline.steps.size(); ++s) {
            for (const auto m : pipeline.steps[s].matrices) calls[m].push_back(s);
        }
        for (const auto& [m, steps] : calls) {
            if (steps.size() == 1 || mapping.matrices[m].replicas == 1) continue;
            const auto slots = call_slots(steps, windows);
            for (std::size_t k = 0; k < steps.size(); ++k) {
                if (mapping.matrices[m].replicas % slots.groups[k] == 0)
                    slots_[{m, steps[k]}] = {slots.slots[k], slots.groups[k]};
            }
        }
    }

    bool all() const { return slots_.empty(); }  // every call uses all copies

    std::vector<std::uint32_t> copies(std::uint32_t matrix, std::size_t step, std::size_t replicas) const {
        const auto found = slots_.find({matrix, step});
        const auto [slot, count] =
            found == slots_.end() ? std::pair<std::size_t, std::size_t>(0, 1) : found->second;
        std::vector<std::uint32_t> list;
        for (std::size_t k = slot; k < replicas; k += count) list.push_back(static_cast<std::uint32_t>(k));
        return list;
    }

private:
    std::map<std::pair<std::uint32_t, std::size_t>, std::pair<std::size_t, std::size_t>> slots_;
};

// Builds the stages of a pipeline.
class Stages {
public:
    Stages(const Pipeline& pipeline, const Mapping& mapping, const ChipSpec& spec, const CostData& data)
        : pipeline_(pipeline),
          mapping_(mapping),
          product_(product_seconds(spec.core)),
          digital_rate_(parameter(data.parameters, "digital_rate").value) {
        for (const auto& r : mapping.regions) {
            ++regions_[{r.matrix, r.replica}][r.core];
            output_cols_[{r.matrix, r.replica}] += static_cast<double>(r.tile.cols);
        }
    }

    std::vector<Stage> build(const CopyShares& shares, const ScheduleOptions& options) const {
        std::vector<Stage> stages;
        const auto bytes = link_bytes(pipeline_, mapping_);
        for (std::size_t s = 0; s < pipeline_.steps.size(); ++s) {
            const auto& step = pipeline_.steps[s];
            Stage stage{.phases = {}, .rows = step.rows};
            const auto rows = static_cast<double>(step.rows);
            if (options.link) add_transfer(*options.link, bytes[s].before / rows, stage);
            double additions = 0.0;
            if (!step.matrices.empty()) stage.phases.push_back({products(s, shares, additions)});
            const double seconds = (operations(step.work) / rows + additions) / digital_rate_;
            if (options.digital && seconds > 0.0)
                stage.phases.push_back({{Lane{.resource = {ResourceKind::digital, 0}, .seconds = seconds}}});
            if (options.link) add_transfer(*options.link, bytes[s].after / rows, stage);
            for (const auto& phase : stage.phases) {
                for (const auto& lane : phase.lanes) stage.parts = std::max(stage.parts, lane.parts);
            }
            stages.push_back(std::move(stage));
        }
        set_paths(stages);
        set_ways(stages);
        set_blocks(options, stages);
        return stages;
    }

private:
    static void add_transfer(const HostLink& link, double bytes, Stage& stage) {
        if (bytes > 0.0)
            stage.phases.push_back(
                {{Lane{.resource = {ResourceKind::link, 0}, .seconds = bytes / link.bytes_per_second}},
                 link.latency_seconds});
    }

    // additions: partial sums per row.
    std::vector<Lane> products(std::size_t s, const CopyShares& shares, double& additions) const {
        std::vector<Lane> lanes;
        for (const auto m : pipeline_.steps[s].matrices) {
            const auto copies = shares.copies(m, s, mapping_.matrices[m].replicas);
            for (std::size_t k = 0; k < copies.size(); ++k) {
                const auto found = regions_.find({m, copies[k]});
                if (found == regions_.end())
                    fail(ErrorCode::bad_config,
                         fmt::format("matrix {}, replica {}: has no region",
                                     in_quotes(mapping_.matrices[m].shape.name), copies[k]));
                for (const auto& [core, regions] : found->second)
                    lanes.push_back({.resource = {ResourceKind::core, core},
                                     .matrix = m,
                                     .copy = copies[k],
                                     .part = k,
                                     .parts = copies.size(),
                                     .seconds = static_cast<double>(regions) * product_});
                additions += (output_cols_.at({m, copies[k]}) -
                              static_cast<double>(mapping_.matrices[m].shape.outputs)) /
                             static_cast<double>(copies.size());
            }
        }
        return lanes;
    }

    void set_paths(std::vector<Stage>& stages) const {
        for (std::size_t s = stages.size(); s-- > 0;) {
            for (const auto& phase : stages[s].phases)
                stages[s].path += slowest(phase) * static_cast<double>(stages[s].rows) + phase.delay;
            for (const auto& input : pipeline_.steps[s].inputs)
                stages[input.step].path = std::max(stages[input.step].path, stages[s].path);
        }
    }

    // A path of steps that read row by row takes the time of all rows of its slowest step plus that of one
    // row of every other step.
    void set_ways(std::vector<Stage>& stages) const {
        std::vector<double> after(stages.size(), 0.0);  // seconds after the last row of a step
        for (std::size_t s = stages.size(); s-- > 0;) {
            auto& ways = stages[s].ways;
            double all_rows = 0.0;
            double one_row = 0.0;
            for (const auto& phase : stages[s].phases) {
                all_rows = std::max(all_rows, slowest(phase) * static_cast<double>(stages[s].rows));
                one_row += slowest(phase) + phase.delay;
            }
            for (auto& way : ways) way.rest += one_row;
            ways.push_back({all_rows, after[s]});
            prune(ways);
            for (const auto& input : pipeline_.steps[s].inputs) {
                const bool all = input.reads == Reads::all;
                after[input.step] = std::max(after[input.step], longest(ways, all ? 0.0 : 1.0));
                auto& before = stages[input.step].ways;
                if (!all) before.insert(before.end(), ways.begin(), ways.end());
            }
        }
    }

    // Seconds per row, on all copies together.
    static double slowest(const Phase& phase) {
        double seconds = 0.0;
        for (const auto& lane : phase.lanes)
            seconds = std::max(seconds, lane.seconds / static_cast<double>(lane.parts));
        return seconds;
    }

    static void set_blocks(const ScheduleOptions& options, std::vector<Stage>& stages) {
        for (std::size_t most = std::size_t{1} << 20U; most > 0; most /= 2) {
            std::size_t spans = 0;
            for (auto& stage : stages) {
                stage.block = stage.parts * ((stage.rows - 1) / (stage.parts * most) + 1);
                for (const auto& phase : stage.phases)
                    spans += stage.blocks() * phase.lanes.size() * options.inferences;
            }
            if (spans <= options.most_spans) return;
            if (most == 1 && spans > kMostSpans)
                fail(ErrorCode::bad_config,
                     fmt::format("a schedule of {} inferences has {} spans; the limit is {}",
                                 options.inferences, spans, kMostSpans));
        }
    }

    const Pipeline& pipeline_;
    const Mapping& mapping_;
    double product_;
    double digital_rate_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::map<std::uint32_t, std::size_t>> regions_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, double> output_cols_;
};

// The critical path: when rows are done if no resource is ever busy with something else. Sampled at multiples
// of the copies; every value is a lower bound.
class CriticalPath {
public:
    CriticalPath(const Pipeline& pipeline, const std::vector<Stage>& stages) : pipeline_(pipeline) {
        for (std::size_t s = 0; s < stages.size(); ++s) add(stages[s], s);
    }
    double seconds() const {
        double longest = 0.0;
        for (const auto& step : steps_) longest = std::max(longest, step.done.back());
        return longest;
    }
    std::vector<StepWindow> windows() const {
        std::vector<StepWindow> list;
        for (std::size_t s = 0; s < steps_.size(); ++s) list.push_back({ready(s, 1), steps_[s].done.back()});
        return list;
    }

private:
    struct Samples {
        std::size_t block = 1;
        std::vector<double> done;        // done[k]: end of the first k blocks
        std::vector<double> first_done;  // first_done[k]: end of the next row
    };

    double ready(std::size_t s, std::size_t rows) const {
        double time = 0.0;
        const auto& step = pipeline_.steps[s];
        for (const auto& input : step.inputs) {
            const auto& in = steps_[input.step];
            const auto need = needed_rows(pipeline_, step, input, rows);
            const bool all = need == pipeline_.steps[input.step].rows;
            const auto& sample = need % in.block == 0 ? in.done : in.first_done;
            time = std::max(time, all ? in.done.back() : sample[need / in.block]);
        }
        return time;
    }

    void add(const Stage& stage, std::size_t s) {
        Samples samples{.block = stage.parts * ((stage.rows - 1) / (stage.parts * kMostSamples) + 1),
                        .done = {0.0},
                        .first_done = {}};
        const auto count = (stage.rows + samples.block - 1) / samples.block;
        std::vector<double> first;  // when the first row of each block can begin, and its last
        std::vector<double> last;
        for (std::size_t k = 0; k < count; ++k) {
            first.push_back(ready(s, k * samples.block + 1));
            last.push_back(ready(s, std::min(stage.rows, (k + 1) * samples.block)));
        }
        for (const auto& phase : stage.phases) pass(phase, samples.block, stage.rows, first, last);
        samples.done.insert(samples.done.end(), last.begin(), last.end());
        samples.first_done = std::move(first);
        steps_.push_back(std::move(samples));
    }

    // The parts of each matrix and the least time per row on its copies.
    static std::set<std::pair<std::size_t, double>> speeds(const Phase& phase) {
        std::map<std::tuple<std::uint32_t, std::uint32_t>, double> copies;
        std::map<std::uint32_t, std::pair<std::size_t, double>> matrices;
        for (const auto& lane : phase.lanes) {
            auto& longest = copies[{lane.matrix, lane.copy}];
            longest = std::max(longest, lane.seconds);
        }
        for (const auto& lane : phase.lanes) {
            const auto seconds = copies[{lane.matrix, lane.copy}];
            auto& [parts, least] = matrices.try_emplace(lane.matrix, lane.parts, seconds).first->second;
            parts = lane.parts;
            least = std::min(least, seconds);
        }
        std::set<std::pair<std::size_t, double>> out;
        for (const auto& [matrix, speed] : matrices) out.insert(speed);
        return out;
    }

    // Replaces the times when rows can begin by the times when they are done.
    static void pass(const Phase& phase, std::size_t block, std::size_t rows, std::vector<double>& first,
                     std::vector<double>& last) {
        std::vector<double> first_done(first.size(), 0.0);
        std::vector<double> last_done(first.size(), 0.0);
        for (const auto& [parts, seconds] : speeds(phase)) {
            double done = 0.0;
            for (std::size_t k = 0; k < first.size(); ++k) {
                const auto count = std::min(rows, (k + 1) * block) - k * block;
                const auto whole = count / parts;
                const auto at_most = (count + parts - 1) / parts;
                first_done[k] = std::max({first_done[k], done, first[k] + seconds});
                done = std::max({done + static_cast<double>(whole) * seconds,
                                 first[k] + static_cast<double>(at_most) * seconds, last[k] + seconds});
                last_done[k] = std::max(last_done[k], done);
            }
        }
        for (auto& time : first_done) time += phase.delay;
        for (auto& time : last_done) time += phase.delay;
        first = std::move(first_done);
        last = std::move(last_done);
    }

    const Pipeline& pipeline_;
    std::vector<Samples> steps_;
};

// What a resource does first: the rows or the step with the longest way to the end.
enum class Order { rows, steps };

// Simulates the resources, event by event.
class Simulation {
public:
    Simulation(const Pipeline& pipeline, const std::vector<Stage>& stages, std::size_t inferences,
               Order order)
        : pipeline_(pipeline),
          stages_(stages),
          readers_(readers_of(pipeline)),
          order_(order),
          ends_(inferences, 0.0) {
        progress_.resize(inferences * stages.size());
        for (std::size_t i = 0; i < inferences; ++i) {
            for (std::size_t s = 0; s < stages.size(); ++s) {
                progress_[i * stages.size() + s].blocks.resize(stages[s].blocks());
                pending_.push_back({i, s});
            }
        }
    }

    std::vector<Span> run() {
        release();
        dispatch();
        while (!events_.empty()) {
            const double now = events_.top().time;
            now_ = now;
            while (!events_.empty() && events_.top().time == now) {
                const auto event = events_.top();
                events_.pop();
                finish(event);
            }
            release();
            dispatch();
        }
        return std::move(spans_);
    }

    // End of every inference.
    const std::vector<double>& ends() const { return ends_; }

private:
    struct BlockState {
        std::uint32_t phase = 0;
        std::uint32_t open = 0;  // lanes of the phase that are not done
        bool done = false;
    };
    struct Progress {
        std::vector<BlockState> blocks;
        std::size_t released = 0;  // blocks
        std::size_t done = 0;      // blocks, without a gap
    };
    struct StepRef {
        std::size_t inference = 0;
        std::size_t step = 0;
    };
    struct Task {
        std::size_t inference = 0;
        double priority = 0.0;
        std::size_t block = 0;
        std::size_t step = 0;
        std::size_t lane = 0;
        auto order() const { return std::tuple(inference, -priority, block, step, lane); }
        bool operator<(const Task& other) const { return other.order() < order(); }  // first on top
    };
    struct Event {
        double time = 0.0;
        std::size_t number = 0;  // of the span, to break ties
        Task task;
        Resource resource;
        bool arrived = false;  // the delay of the phase is over
        bool operator<(const Event& other) const {
            return std::pair(other.time, other.number) < std::pair(time, number);
        }
    };
    struct Queue {
        std::priority_queue<Task> waiting;
        bool busy = false;
    };

    Progress& progress(std::size_t inference, std::size_t step) {
        return progress_[inference * stages_.size() + step];
    }
    std::size_t rows_done(std::size_t inference, std::size_t step) {
        return stages_[step].first_row(progress(inference, step).done);
    }

    // Starts all blocks with available inputs.
    void release() {
        while (!pending_.empty()) {
            const auto [i, s] = pending_.back();
            pending_.pop_back();
            auto& p = progress(i, s);
            const auto before = p.done;
            while (p.released < stages_[s].blocks() && is_ready(i, s, p.released)) {
                enter(i, s, p.released);
                ++p.released;
            }
            advance(i, s, before);
        }
    }

    bool is_ready(std::size_t i, std::size_t s, std::size_t block) {
        const auto& step = pipeline_.steps[s];
        const auto rows = stages_[s].first_row(block + 1);
        return std::ranges::all_of(step.inputs, [&](const StepInput& input) {
            return rows_done(i, input.step) >= needed_rows(pipeline_, step, input, rows);
        });
    }

    // Begins the current phase of a block, or ends the block after the last phase.
    void enter(std::size_t i, std::size_t s, std::size_t b) {
        auto& state = progress(i, s).blocks[b];
        if (state.phase == stages_[s].phases.size()) {
            state.done = true;
            return;
        }
        const auto& phase = stages_[s].phases[state.phase];
        const auto priority = order_ == Order::rows ? stages_[s].way(b) : stages_[s].path;
        for (std::size_t l = 0; l < phase.lanes.size(); ++l) {
            const auto& lane = phase.lanes[l];
            if (part_of(i, s, b, lane).second == 0) continue;
            ++state.open;
            queues_[lane.resource].waiting.push({i, priority, b, s, l});
            woken_.insert(lane.resource);
        }
    }

    // First row and number of rows of a lane. If rows cannot be divided evenly, the copies take turns from
    // inference to inference.
    std::pair<std::size_t, std::size_t> part_of(std::size_t i, std::size_t s, std::size_t b,
                                                const Lane& lane) const {
        const auto first = stages_[s].first_row(b);
        const auto rows = stages_[s].first_row(b + 1) - first;
        const auto part = rows % lane.parts == 0 ? lane.part : (lane.part + i) % lane.parts;
        const auto begin = rows * part / lane.parts;
        return {first + begin, rows * (part + 1) / lane.parts - begin};
    }

    void dispatch() {
        for (const auto& resource : woken_) {
            auto& queue = queues_[resource];
            if (queue.busy || queue.waiting.empty()) continue;
            const auto task = queue.waiting.top();
            queue.waiting.pop();
            queue.busy = true;
            const auto phase = progress(task.inference, task.step).blocks[task.block].phase;
            const auto& lane = stages_[task.step].phases[phase].lanes[task.lane];
            const auto [first, rows] = part_of(task.inference, task.step, task.block, lane);
            const double end = now_ + static_cast<double>(rows) * lane.seconds;
            events_.push({end, spans_.size(), task, resource});
            spans_.push_back({.step = static_cast<std::uint32_t>(task.step),
                              .inference = static_cast<std::uint32_t>(task.inference),
                              .resource = resource,
                              .matrix = lane.matrix,
                              .copy = lane.copy,
                              .first_row = first,
                              .rows = rows,
                              .begin = now_,
                              .end = end});
        }
        woken_.clear();
    }

    void finish(const Event& event) {
        const auto& [i, priority, b, s, lane] = event.task;
        auto& p = progress(i, s);
        auto& state = p.blocks[b];
        if (!event.arrived) {
            queues_[event.resource].busy = false;
            woken_.insert(event.resource);
            if (--state.open > 0) return;
            if (const double delay = stages_[s].phases[state.phase].delay; delay > 0.0) {
                events_.push({now_ + delay, event.number, event.task, event.resource, true});
                return;
            }
        }
        ++state.phase;
        const auto before = p.done;
        enter(i, s, b);
        advance(i, s, before);
    }

    // Counts blocks that are done, and queues the readers of new rows.
    void advance(std::size_t i, std::size_t s, std::size_t before) {
        auto& p = progress(i, s);
        while (p.done < p.blocks.size() && p.blocks[p.done].done) ++p.done;
        if (p.done == before) return;
        for (const auto reader : readers_[s]) pending_.push_back({i, reader});
        if (p.done < p.blocks.size()) return;
        ends_[i] = now_;
    }

    const Pipeline& pipeline_;
    const std::vector<Stage>& stages_;
    std::vector<std::vector<std::size_t>> readers_;
    Order order_;
    std::vector<Progress> progress_;
    std::vector<StepRef> pending_;
    std::map<Resource, Queue> queues_;
    std::set<Resource> woken_;
    std::priority_queue<Event> events_;
    std::vector<Span> spans_;
    std::vector<double> ends_;  // of every inference
    double now_ = 0.0;
};

struct Simulated {
    std::vector<Stage> stages;
    std::vector<Span> spans;
    std::vector<double> ends;  // of every inference
    double makespan() const { return std::ranges::max(ends); }
};

// Neither order is always better: `rows` keeps cores busy after a slow step, `steps` gives work to cores that
// would otherwise wait for all rows of an input.
Simulated shortest(const Pipeline& pipeline, std::vector<Stage> stages, std::size_t inferences) {
    Simulated best;
    for (const auto order : {Order::rows, Order::steps}) {
        Simulation simulation(pipeline, stages, inferences, order);
        auto spans = simulation.run();
        if (best.ends.empty() || std::ranges::max(simulation.ends()) < best.makespan())
            best = {{}, std::move(spans), simulation.ends()};
    }
    best.stages = std::move(stages);
    return best;
}

// Calls with different copies do not wait for each other; if other matrices are on the same cores, it can be
// faster for every call to use all copies.
Simulated shortest(const Pipeline& pipeline, const Stages& stages, const CopyShares& shares,
                   const ScheduleOptions& options) {
    auto best = shortest(pipeline, stages.build(shares, options), options.inferences);
    if (shares.all()) return best;
    auto all = shortest(pipeline, stages.build({}, options), options.inferences);
    return all.makespan() < best.makespan() ? std::move(all) : std::move(best);
}

std::vector<ResourceUse> uses_of(const std::vector<Span>& spans) {
    std::map<Resource, double> seconds;
    for (const auto& span : spans) seconds[span.resource] += span.end - span.begin;
    std::vector<ResourceUse> uses;
    uses.reserve(seconds.size());
    for (const auto& [resource, busy] : seconds) uses.push_back({resource, busy});
    return uses;
}

// Seconds of the busiest resource per inference if copies share all rows evenly, as they do on average over
// many inferences.
double mean_work(const std::vector<Stage>& stages) {
    std::map<Resource, double> seconds;
    for (const auto& stage : stages) {
        for (const auto& phase : stage.phases) {
            for (const auto& lane : phase.lanes)
                seconds[lane.resource] +=
                    lane.seconds * static_cast<double>(stage.rows) / static_cast<double>(lane.parts);
        }
    }
    double most = 0.0;
    for (const auto& [resource, work] : seconds) most = std::max(most, work);
    return most;
}

}  // namespace

std::string resource_name(const Resource& resource, const CoreGrid& grid) {
    if (resource.kind != ResourceKind::core) return std::string(to_string(resource.kind));
    const auto chip = grid.chips > 1 ? fmt::format("chip {}, ", resource.core / grid.cores) : std::string();
    return fmt::format("{}core {}", chip, resource.core % grid.cores);
}

bool overlap(const StepWindow& a, const StepWindow& b) {
    const double shorter = std::min(a.end - a.begin, b.end - b.begin);
    return std::min(a.end, b.end) - std::max(a.begin, b.begin) > 0.1 * shorter;
}

std::vector<StepWindow> step_windows(const Pipeline& pipeline, const Mapping& mapping, const ChipSpec& spec,
                                     const CostData& data) {
    return CriticalPath(pipeline, Stages(pipeline, mapping, spec, data).build({}, {.digital = false}))
        .windows();
}

CallSlots call_slots(const std::vector<std::size_t>& steps, const std::vector<StepWindow>& windows) {
    CallSlots out;
    while (out.slots.size() < steps.size()) {
        // A group ends before the first call that overlaps none of its calls.
        const auto first = out.slots.size();
        std::size_t count = 0;
        while (out.slots.size() < steps.size()) {
            const auto next = out.slots.size();
            std::set<std::size_t> taken;
            for (std::size_t k = first; k < next; ++k) {
                if (overlap(windows[steps[k]], windows[steps[next]])) taken.insert(out.slots[k]);
            }
            if (taken.empty() && next > first) break;
            std::size_t slot = 0;
            while (taken.contains(slot)) ++slot;
            out.slots.push_back(slot);
            count = std::max(count, slot + 1);
        }
        out.groups.resize(out.slots.size(), count);
    }
    return out;
}

Fields fields(HostLink& link) {
    return {
        field("host_link_rate", link.bytes_per_second, range::positive("Rate of the host link", "B/s")),
        field("host_link_latency", link.latency_seconds,
              range::not_negative("Latency from sending to arrival on the host link", "s")),
    };
}

Fields fields(ScheduleOptions& o) {
    return {field("inferences", o.inferences,
                  range::between(1, 65536, "Inferences in the schedule, one after another"))};
}

void validate(const ScheduleOptions& options) {
    auto copy = options;
    check_ranges(fields(copy));
    if (copy.link) check_ranges(fields(*copy.link));
}

Schedule make_schedule(const Pipeline& pipeline, const Mapping& mapping, const ChipSpec& spec,
                       const CostData& data, const ScheduleOptions& options) {
    check(pipeline, mapping, options);
    const CopyShares shares(pipeline, mapping, step_windows(pipeline, mapping, spec, data));
    auto [stages, spans, ends] = shortest(pipeline, Stages(pipeline, mapping, spec, data), shares, options);
    Schedule schedule{.grid = mapping.grid,
                      .inferences = options.inferences,
                      .spans = std::move(spans),
                      .makespan_seconds = std::ranges::max(ends)};
    std::ranges::stable_sort(schedule.spans, {}, &Span::begin);
    schedule.uses = uses_of(schedule.spans);
    schedule.link = options.link;
    const auto path = CriticalPath(pipeline, stages).seconds();
    schedule.bound = {.seconds = path, .reason = "critical path", .critical_path_seconds = path};
    for (const auto& use : schedule.uses) {
        if (use.seconds <= schedule.bound.seconds) continue;
        schedule.bound.seconds = use.seconds;
        schedule.bound.reason = resource_name(use.resource, mapping.grid);
    }
    schedule.interval_seconds = mean_work(stages);
    if (options.inferences > 1)
        // Copies that take turns end at the same time, so that a few inferences can seem faster than many.
        schedule.interval_seconds =
            std::max(schedule.interval_seconds,
                     (ends.back() - ends.front()) / static_cast<double>(options.inferences - 1));
    return schedule;
}

}  // namespace imka
