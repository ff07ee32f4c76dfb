// imka map: places matrices on the cores of a chip, draws, verifies and compares mappings.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "app.hpp"
#include "imka/base/error.hpp"
#include "imka/deploy/floor_plan.hpp"
#include "imka/deploy/map.hpp"
#include "imka/deploy/map_verify.hpp"
#include "imka/deploy/schedule.hpp"
#include "imka/deploy/timeline.hpp"
#include "matrix_options.hpp"
#include "placement_options.hpp"

namespace imka::app {
namespace {

struct MapArgs {
    PlacementArgs placement;
    MatrixArgs matrices;
    bool list = false;
};

std::size_t weight_count(const MatrixList& list) {
    std::size_t weights = 0;
    for (const auto& m : list) weights += m.inputs * m.outputs;
    return weights;
}

// Products only: the digital work between listed matrices is not known.
Timing timing_of(const MapArgs& args, const MatrixList& list, const Mapping& mapping, const ChipSpec& spec) {
    return make_timing(pipeline_of(list), mapping, spec,
                       {.inferences = args.placement.schedule.inferences,
                        .digital = false,
                        .link = host_link(args.placement)});
}

// nullopt for lists that are too long for a schedule.
std::optional<Timing> find_timing(const MapArgs& args, const MatrixList& list, const Mapping& mapping,
                                  const ChipSpec& spec) {
    double calls = 0.0;
    double vectors = 0.0;
    for (const auto& m : list) {
        calls += static_cast<double>(m.calls);
        vectors = std::max(vectors, static_cast<double>(m.vectors));
    }
    if (!wants_timing(args.placement) &&
        (calls > static_cast<double>(kMostMatrices) || vectors > 2147483648.0))
        return std::nullopt;
    return timing_of(args, list, mapping, spec);
}

// The mapping with the fewest cores, for comparison.
struct Fewest {
    std::size_t cores = 0;
    double makespan_seconds = 0.0;
};
Fewest fewest_cores(const MapArgs& args, const MatrixList& list, const ChipSpec& spec) {
    const auto result = map_matrices(list, grid_of(spec), {.seed = args.placement.options.seed});
    return {result.cores, timing_of(args, list, result.mapping, spec).schedule.makespan_seconds};
}

void map_one(const CLI::App& verb, const MapArgs& args, const Context& context) {
    const auto& placement = args.placement;
    if (!placement.pareto) reject_without_effect(verb, {"--figure"}, "only --pareto draws a figure");
    const auto spec = load_spec(placement.chip);
    const auto [name, list] = read_matrices(args.matrices);
    check_folders(placement);
    if (placement.pareto)
        return show_placements(placement, list, pipeline_of(list),
                               {.digital = false, .link = host_link(placement)}, context);
    const auto options = map_options(placement, spec);
    const auto result = map_matrices(list, grid_of(spec), options);
    verify_products(result.mapping);
    const auto timing = find_timing(args, list, result.mapping, spec);
    write_pictures(placement, result.mapping, timing ? &*timing : nullptr, name + " on " + spec.name);
    std::optional<Fewest> fewest;
    if (options.objective == Objective::least_time) fewest = fewest_cores(args, list, spec);
    if (context.json) {
        Json json{{"name", name}};
        json.update(placement_json(result, placement, spec));
        json["schedule"] = timing ? timing_json(*timing) : Json();
        if (fewest)
            json["least_cores"] = {{"cores", fewest->cores}, {"makespan_seconds", fewest->makespan_seconds}};
        return print_json(json);
    }
    print_out("{}: {}, {} weights\n", name, count_text(list.size(), "matrix", "matrices"),
              weight_count(list));
    print_placement(result, placement, spec);
    if (placement.floor_plan) print_out("\n{}", floor_plan_text(result.mapping));
    if (timing) {
        print_timing(*timing);
        print_out("products {}\n", timing->schedule.link ? "and host link only: digital work is left out"
                                                         : "only: digital work and links are left out");
    }
    if (fewest)
        print_out("with the fewest cores ({}): makespan {}\n", fewest->cores,
                  seconds_text(fewest->makespan_seconds));
    if (timing && placement.timeline_text)
        print_out("\n{}", timeline_text(timing->schedule, timing->pipeline));
}

void list_networks(const MapArgs& args, const Context& context) {
    const auto spec = load_spec(args.placement.chip);
    Json rows = Json::array();
    const auto or_null = [](const std::optional<std::size_t>& n) { return n ? Json(*n) : Json(); };
    for (const auto& network : known_networks()) {
        auto options = map_options(args.placement, spec);
        options.cuts = Cuts::grid;
        const auto grid = map_matrices(network.matrices, grid_of(spec), options);
        options.cuts = Cuts::free;
        const auto free = map_matrices(network.matrices, grid_of(spec), options);
        verify_products(grid.mapping);
        verify_products(free.mapping);
        rows.push_back({{"network", network.name},
                        {"matrices", network.matrices.size()},
                        {"weights", weight_count(network.matrices)},
                        {"one_tile_cores", grid.one_tile_cores},
                        {"cores", grid.cores},
                        {"lower_bound", grid.bound.bins},
                        {"optimal", grid.optimal()},
                        {"free_cores", free.cores},
                        {"free_bound", free.bound.bins},
                        {"best_known", or_null(network.known_cores)},
                        {"released", or_null(network.released_cores)},
                        {"description", network.description}});
    }
    if (context.json) return print_json({{"backend", spec.name}, {"networks", rows}});
    print_out("{}\n", format_table(table_of(rows, {"network", "matrices", "weights", "one_tile_cores",
                                                   "cores", "lower_bound", "optimal", "free_cores",
                                                   "free_bound", "best_known", "released", "description"})));
    print_out(
        "cores, lower_bound, optimal: grid cuts on {}. free_cores: cuts anywhere. best_known: published best "
        "for "
        "cores of 256 x 256. released: the published mapping of this network. All mappings are verified.\n",
        spec.name);
}

// Rejects options that have no effect in the chosen mode of the verb.
void check_modes(const CLI::App& verb, const MapArgs& args) {
    const std::vector<std::string> sources{"--network", "--shapes", "--matrices", "--output", "--seed"};
    if (!args.placement.verify.empty()) {
        for (const auto& flags : {sources, placement_flags()})
            reject_without_effect(verb, flags, "--verify reads a mapping");
        reject_without_effect(verb, {"--diff", "--list"}, "--verify was given");
    } else if (!args.placement.diff.empty()) {
        for (const auto& flags : {sources, placement_flags()})
            reject_without_effect(verb, flags, "--diff reads two mappings");
        reject_without_effect(verb, {"--svg", "--floor-plan", "--list"}, "--diff was given");
    } else if (args.list) {
        for (const auto& flags : {std::vector<std::string>{"--network", "--shapes", "--matrices", "--output",
                                                           "--cuts", "--svg", "--floor-plan"},
                                  timing_flags()})
            reject_without_effect(verb, flags, "--list maps every known network");
    }
}

}  // namespace

void add_map(CLI::App& root, Context& context) {
    auto args = std::make_shared<MapArgs>();
    auto* verb = add_verb(root, "map", "Place matrices on the cores of a chip, with a proven lower bound",
                          {"imka map --network resnet18-in --output plan.json --svg plan.svg",
                           "imka map --shapes \"640x128 128x128 128x640\" --floor-plan",
                           "imka map --matrices layers.csv --cuts free --chips 1", "imka map --list",
                           "imka map --network performer-aan --objective least_time --timeline time.svg",
                           "imka map --network performer-aan --pareto", "imka map --verify plan.json"});
    add_common_options(*verb, context);
    add_matrix_options(*verb, args->matrices);
    add_placement_options(*verb, "--output", args->placement);
    bind_fields(*verb, fields(args->placement.options), {"seed"});
    verb->add_flag("--list", args->list, "Map every known network");
    verb->callback([args, verb, &context] {
        check_modes(*verb, *args);
        if (!args->placement.verify.empty()) return verify_file(args->placement, context);
        if (!args->placement.diff.empty()) return diff_files(args->placement, context);
        if (args->list) return list_networks(*args, context);
        map_one(*verb, *args, context);
    });
}

}  // namespace imka::app
