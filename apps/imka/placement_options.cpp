#include "placement_options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gnuplot.hpp"
#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/chip/analyse/cost.hpp"
#include "imka/deploy/floor_plan.hpp"
#include "imka/deploy/map_verify.hpp"
#include "imka/deploy/mapping_file.hpp"
#include "imka/deploy/pareto.hpp"
#include "imka/deploy/plan_file.hpp"
#include "imka/deploy/timeline.hpp"

namespace imka::app {
namespace {

// Products of the busiest core per inference: the mean over inferences, because copies can take turns.
double most_products(const Mapping& mapping) {
    double most = 0.0;
    for (const auto& use : core_uses(mapping)) most = std::max(most, use.products);
    return most;
}

// Products of all cores per inference. Copies share the vectors.
double core_products(const Mapping& mapping) {
    double sum = 0.0;
    for (const auto& use : core_uses(mapping)) sum += use.products;
    return sum;
}

Json cores_json(const Mapping& mapping) {
    Json cores = Json::array();
    for (const auto& use : core_uses(mapping))
        cores.push_back({{"core", use.core},
                         {"regions", use.regions},
                         {"utilisation", use.utilisation},
                         {"products", use.products}});
    return cores;
}

Json chains_json(const Pipeline& pipeline) {
    Json chains = Json::array();
    for (const auto& chain : pipeline.chains) {
        Json branches = Json::array();
        for (const auto& branch : chain.branches) {
            Json names = Json::array();
            for (const auto s : branch) names.push_back(pipeline.steps[s].name);
            branches.push_back(names);
        }
        chains.push_back(branches);
    }
    return chains;
}

// The rule that placed the tiles.
std::string cuts_of(const PlacementArgs& args) {
    return std::string(args.from.empty() ? to_string(args.options.cuts) : "given");
}

}  // namespace

Mapping read_mapping(const std::filesystem::path& file, const PlacementArgs& args) {
    if (file.extension() == ".plan") return mapping_of(load_deployed(file));
    return load_mapping(file, grid_of(load_spec(args.chip)));
}

void add_placement_options(CLI::App& verb, const std::string& mapping_flag, PlacementArgs& args) {
    add_chip_options(verb, args.chip);
    bind_fields(verb, fields(args.options), {"cuts", "objective"});
    bind_fields(verb, fields(args.schedule));
    // 0 and auto are not values of a HostLink; host_link() checks the others.
    bind_fields(
        verb,
        {field("host_link_rate", args.host_link_rate,
               {.help = "Inputs, outputs and values between chips go over a link of this rate; 0: they take "
                        "no time",
                .unit = "B/s"}),
         field("host_link_latency", args.host_link_latency,
               {.help = "Latency from sending to arrival on that link; auto: as in the cost model",
                .unit = "s"})});
    bind_fields(verb, fields(args.options), {"chips"});
    bind_fields(
        verb,
        {field(
            "throughput", args.throughput,
            {.help = "Target inferences per second; matrices get as many copies as this needs. 0: no target",
             .unit = "1/s",
             .min = 0})});
    verb.add_option("--replicas", args.replicas,
                    "Copies of all matrices, each on its own cores; fill: as many as fit on the chips")
        ->type_name("N|fill")
        ->capture_default_str();
    verb.add_option(mapping_flag, args.mapping, "Write the mapping as JSON")->type_name("FILE.json");
    verb.add_option("--svg", args.svg, "Draw the floor plan")->type_name("FILE.svg");
    verb.add_option("--timeline", args.timeline, "Draw the time line")->type_name("FILE.svg");
    verb.add_option("--perfetto", args.perfetto, "Write the time line, for ui.perfetto.dev")
        ->type_name("FILE.json");
    verb.add_flag("--timeline-text", args.timeline_text, "Print the time line as text");
    verb.add_flag("--floor-plan", args.floor_plan, "Print the floor plan of every core as text");
    verb.add_flag("--pareto", args.pareto,
                  "Compare cuts, copies and objectives instead, by cores, time and energy; mark the best");
    add_figure_option(verb, args.figure, "Draw the comparison");
    verb.add_option("--verify", args.verify, "Check a deployed model or a mapping file instead")
        ->type_name("FILE");
    verb.add_option("--diff", args.diff,
                    "Compare two deployed models or mapping files instead; exit code 1 if they differ")
        ->type_name("FILE FILE")
        ->expected(2);
}

std::vector<std::string> timing_flags() {
    return {"--timeline",  "--perfetto",       "--timeline-text",    "--inferences",
            "--objective", "--host-link-rate", "--host-link-latency"};
}

std::vector<std::string> placement_flags() {
    std::vector<std::string> flags{"--cuts", "--chips", "--replicas", "--throughput"};
    for (auto& flag : timing_flags()) flags.push_back(std::move(flag));
    return flags;
}

MapOptions map_options(const PlacementArgs& args, const ChipSpec& spec) {
    auto options = args.options;
    options.replicas = args.replicas == "fill" ? 0 : Codec<std::uint64_t>::parse(args.replicas, "--replicas");
    if (args.replicas != "fill" && options.replicas == 0)
        fail(ErrorCode::bad_usage, "--replicas 0; expected 1 or more, or 'fill'");
    if (args.throughput > 0.0) options.core_products = 1.0 / (args.throughput * product_seconds(spec.core));
    return options;
}

std::optional<HostLink> host_link(const PlacementArgs& args) {
    if (args.host_link_rate == 0.0 && args.host_link_latency)
        fail(ErrorCode::bad_usage, "--host-link-latency has no effect without --host-link-rate");
    if (args.host_link_rate == 0.0) return std::nullopt;
    const auto data = cost_data();
    HostLink link{.bytes_per_second = args.host_link_rate,
                  .latency_seconds =
                      args.host_link_latency.value_or(parameter(data.parameters, "host_link_latency").value)};
    check_ranges(fields(link));
    return link;
}

void check_folders(const PlacementArgs& args) {
    check_figure(args.figure);
    for (const auto& file : {args.mapping, args.svg, args.timeline, args.perfetto}) {
        if (!file.empty()) check_folder(file);
    }
}

bool wants_timing(const PlacementArgs& args) {
    return !args.timeline.empty() || !args.perfetto.empty() || args.timeline_text;
}

void write_pictures(const PlacementArgs& args, const Mapping& mapping, const Timing* timing,
                    const std::string& title) {
    if (!args.mapping.empty()) save_mapping(args.mapping, mapping);
    if (!args.svg.empty()) write_file_atomic(args.svg, floor_plan_svg(mapping, title));
    if (!args.timeline.empty())
        write_file_atomic(args.timeline, timeline_svg(timing->schedule, timing->pipeline, title));
    if (!args.perfetto.empty())
        write_file_atomic(args.perfetto, perfetto_json(timing->schedule, timing->pipeline));
}

Json placement_json(const MapResult& result, const PlacementArgs& args, const ChipSpec& spec) {
    const auto& mapping = result.mapping;
    const auto joules = product_joules(spec.core);
    return {{"backend", spec.name},
            {"objective", args.from.empty() ? Json(to_string(args.options.objective)) : Json()},
            {"cuts", cuts_of(args)},
            {"matrices", mapping.matrices.size()},
            {"cores", result.cores},
            {"lower_bound", result.bound.bins},
            {"bound", result.bound.reason},
            {"optimal", result.optimal()},
            {"chips", mapping.grid.chips},
            {"tiles", mapping.regions.size()},
            {"one_tile_cores", result.one_tile_cores},
            {"utilisation", utilisation(mapping)},
            {"interval_seconds", most_products(mapping) * product_seconds(spec.core)},
            {"core_products", core_products(mapping)},
            {"energy_joules", joules ? Json(core_products(mapping) * *joules) : Json()},
            {"verified", true},
            {"core_list", cores_json(mapping)}};
}

void print_placement(const MapResult& result, const PlacementArgs& args, const ChipSpec& spec) {
    const auto& mapping = result.mapping;
    const auto& grid = mapping.grid;
    const auto uses = core_uses(mapping);
    const auto [least, most] = std::ranges::minmax(uses, {}, &CoreUse::utilisation);
    print_out("{}: {} cores of {} x {} per chip; {} cuts\n", spec.name, grid.cores, grid.rows, grid.cols,
              cuts_of(args));
    print_out("{} on {}; lower bound {} ({}){}\n", count_text(result.cores, "core", "cores"),
              count_text(grid.chips, "chip", "chips"), result.bound.bins, result.bound.reason,
              result.optimal() ? ": optimal" : "");
    print_out("{}; with one tile per core {}\n", count_text(mapping.regions.size(), "tile", "tiles"),
              count_text(result.one_tile_cores, "core", "cores"));
    print_out("cells in use: {:.1f} % of the used cores, {:.1f} to {:.1f} % of a core\n",
              100.0 * utilisation(mapping), 100.0 * least.utilisation, 100.0 * most.utilisation);
    const auto products = most_products(mapping);
    print_out("busiest core: {:.6g} {} per inference, {:.4g} us\n", products,
              products == 1.0 ? "product" : "products", 1e6 * products * product_seconds(spec.core));
    const auto joules = product_joules(spec.core);
    print_out("core products: {:.6g} per inference{}\n", core_products(mapping),
              joules ? fmt::format(", {:.4g} uJ", 1e6 * *joules * core_products(mapping)) : "");
    print_out("verified: every weight has one cell, and products through the mapping are exact\n");
}

namespace {

Json link_json(const Schedule& schedule) {
    if (!schedule.link) return {};
    return {{"bytes_per_second", schedule.link->bytes_per_second},
            {"latency_seconds", schedule.link->latency_seconds},
            {"busy_seconds", link_seconds(schedule)}};
}

}  // namespace

Json timing_json(const Timing& timing) {
    const auto& s = timing.schedule;
    return {{"inferences", s.inferences},
            {"makespan_seconds", s.makespan_seconds},
            {"bound_seconds", s.bound.seconds},
            {"bound", s.bound.reason},
            {"critical_path_seconds", s.bound.critical_path_seconds},
            {"interval_seconds", s.interval_seconds},
            {"host_link", link_json(s)},
            {"chains", chains_json(timing.pipeline)}};
}

void print_timing(const Timing& timing) {
    const auto& s = timing.schedule;
    print_out("\npipeline, chain by chain:\n{}", pipeline_text(timing.pipeline));
    print_out("\nmakespan of {}: {}; bound {} ({}), {:.3f} times; next inference after {}\n",
              count_text(s.inferences, "inference", "inferences"), seconds_text(s.makespan_seconds),
              seconds_text(s.bound.seconds), s.bound.reason, s.makespan_seconds / s.bound.seconds,
              seconds_text(s.interval_seconds));
    if (s.link)
        print_out("host link: {:.4g} B/s, arrival after {}; busy for {}\n", s.link->bytes_per_second,
                  seconds_text(s.link->latency_seconds), seconds_text(link_seconds(s)));
}

namespace {

Json point_json(const PlacementPoint& p) {
    return {{"best", p.best},
            {"objective", to_string(p.options.objective)},
            {"cuts", to_string(p.options.cuts)},
            {"copies", p.options.objective == Objective::least_time ? Json() : Json(p.options.replicas)},
            {"cores", p.cores},
            {"chips", p.chips},
            {"makespan_seconds", p.makespan_seconds},
            {"interval_seconds", p.interval_seconds},
            {"core_joules", p.core_joules ? Json(*p.core_joules) : Json()}};
}

report::Plot placement_plot(const std::vector<PlacementPoint>& points, const std::string& title) {
    report::Plot plot{.title = title,
                      .x_label = "cores",
                      .y_label = "time of an inference (us)",
                      .series = {{.label = "best"}, {.label = "others"}},
                      .log_x = true,
                      .log_y = true};
    for (const auto& p : points)
        plot.series[p.best ? 0 : 1].points.push_back(
            {.x = static_cast<double>(p.cores), .y = 1e6 * p.makespan_seconds});
    return plot;
}

}  // namespace

void show_placements(const PlacementArgs& args, const MatrixList& list, const Pipeline& pipeline,
                     const ScheduleOptions& timing, const Context& context) {
    const auto spec = load_spec(args.chip);
    const auto points = compare_placements(list, pipeline, spec, timing, args.options.chips);
    if (!args.figure.empty()) draw_file(placement_plot(points, "Placements on " + spec.name), args.figure);
    Json rows = Json::array();
    for (const auto& p : points) rows.push_back(point_json(p));
    if (context.json) return print_json({{"backend", spec.name}, {"placements", rows}});
    TextTable table = {{"best", "objective", "cuts", "copies", "cores", "chips", "time", "interval", "uJ"}};
    for (const auto& p : points)
        table.push_back(
            {p.best ? "yes" : "", std::string(to_string(p.options.objective)),
             std::string(to_string(p.options.cuts)),
             p.options.objective == Objective::least_time ? "by time" : std::to_string(p.options.replicas),
             std::to_string(p.cores), std::to_string(p.chips), seconds_text(p.makespan_seconds),
             seconds_text(p.interval_seconds),
             p.core_joules ? fmt::format("{:.4g}", 1e6 * *p.core_joules) : ""});
    print_out("{}", format_table(table));
    print_out("best: no other placement is at least as good in cores, time and energy, and better in one\n");
    print_figure_note(args.figure);
}

void verify_file(const PlacementArgs& args, const Context& context) {
    const auto mapping = read_mapping(args.verify, args);
    with_file_name(args.verify, [&] { verify_products(mapping); });
    if (!args.svg.empty())
        write_file_atomic(args.svg, floor_plan_svg(mapping, args.verify.filename().string()));
    if (context.json)
        return print_json({{"file", args.verify.string()},
                           {"verified", true},
                           {"matrices", mapping.matrices.size()},
                           {"tiles", mapping.regions.size()},
                           {"cores", cores_used(mapping)},
                           {"utilisation", utilisation(mapping)},
                           {"core_list", cores_json(mapping)}});
    print_out("{}: {} on {}, {:.1f} % of their cells in use\n", args.verify.string(),
              count_text(mapping.matrices.size(), "matrix", "matrices"),
              count_text(cores_used(mapping), "core", "cores"), 100.0 * utilisation(mapping));
    print_out("verified: every weight has one cell, and products through the mapping are exact\n");
    if (args.floor_plan) print_out("\n{}", floor_plan_text(mapping));
}

void diff_files(const PlacementArgs& args, Context& context) {
    const auto lines =
        mapping_differences(read_mapping(args.diff[0], args), read_mapping(args.diff[1], args));
    context.exit_code = lines.empty() ? 0 : 1;
    if (context.json) return print_json({{"equal", lines.empty()}, {"differences", lines}});
    for (const auto& line : lines) print_out("{}\n", line);
    if (lines.empty()) print_out("no differences\n");
}

}  // namespace imka::app
