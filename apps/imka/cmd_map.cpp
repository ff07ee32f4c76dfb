// imka map: places matrices on the cores of a chip, draws, verifies and compares mappings.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>

#include "app.hpp"
#include "chip/options.hpp"
#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/chip/analyse/cost.hpp"
#include "imka/deploy/floor_plan.hpp"
#include "imka/deploy/map.hpp"
#include "imka/deploy/map_verify.hpp"
#include "imka/deploy/mapping_file.hpp"
#include "imka/deploy/schedule.hpp"
#include "imka/deploy/timeline.hpp"
#include "matrix_options.hpp"

namespace imka::app {
namespace {

struct MapArgs {
    ChipArgs chip;
    MatrixArgs matrices;
    MapOptions options;
    std::string replicas = "1";
    double throughput = 0.0;
    std::filesystem::path output;
    std::filesystem::path svg;
    std::filesystem::path timeline;
    std::filesystem::path perfetto;
    std::size_t inferences = 1;
    std::filesystem::path verify;
    std::vector<std::string> diff;
    bool floor_plan = false;
    bool timeline_text = false;
    bool list = false;
};

// When the matrices of a mapping work; none where there are more calls than a schedule can have.
struct Timing {
    Pipeline pipeline;
    Schedule schedule;
};

std::size_t weight_count(const MatrixList& list) {
    std::size_t weights = 0;
    for (const auto& m : list) weights += m.inputs * m.outputs;
    return weights;
}

std::size_t most_products(const Mapping& mapping) {
    double most = 0.0;
    for (const auto& use : core_uses(mapping)) most = std::max(most, use.products);
    return static_cast<std::size_t>(std::ceil(most));
}

// Per inference, of all cores. Copies share the vectors.
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

Timing timing_of(const MapArgs& args, const MatrixList& list, const Mapping& mapping, const ChipSpec& spec) {
    Timing timing{.pipeline = pipeline_of(list), .schedule = {}};
    timing.schedule = make_schedule(timing.pipeline, mapping, spec, cost_data(),
                                    {.inferences = args.inferences, .digital = false});
    verify_schedule(timing.schedule, timing.pipeline, mapping, spec);
    return timing;
}

// Lists that are too long have a mapping, but no schedule.
std::optional<Timing> find_timing(const MapArgs& args, const MatrixList& list, const Mapping& mapping,
                                  const ChipSpec& spec) {
    double calls = 0.0;
    double vectors = 0.0;
    for (const auto& m : list) {
        calls += static_cast<double>(m.calls);
        vectors = std::max(vectors, static_cast<double>(m.vectors));
    }
    const bool asked = !args.timeline.empty() || !args.perfetto.empty() || args.timeline_text;
    if (!asked && (calls > static_cast<double>(kMostMatrices) || vectors > 2147483648.0)) return std::nullopt;
    return timing_of(args, list, mapping, spec);
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

Json timing_json(const Timing& timing) {
    const auto& s = timing.schedule;
    return {{"inferences", s.inferences},
            {"makespan_seconds", s.makespan_seconds},
            {"bound_seconds", s.bound.seconds},
            {"bound", s.bound.reason},
            {"critical_path_seconds", s.bound.critical_path_seconds},
            {"interval_seconds", s.interval_seconds},
            {"chains", chains_json(timing.pipeline)}};
}

void print_timing(const Timing& timing) {
    const auto& s = timing.schedule;
    print_out("\npipeline, chain by chain:\n{}", pipeline_text(timing.pipeline));
    print_out("\nmakespan of {}: {}; bound {} ({}), {:.3f} times; next inference after {}\n",
              count_text(s.inferences, "inference", "inferences"), seconds_text(s.makespan_seconds),
              seconds_text(s.bound.seconds), s.bound.reason, s.makespan_seconds / s.bound.seconds,
              seconds_text(s.interval_seconds));
    print_out("products only: digital work and links are left out\n");
}

// The mapping in the fewest cores, to compare with.
struct Fewest {
    std::size_t cores = 0;
    double makespan_seconds = 0.0;
};
Fewest fewest_cores(const MapArgs& args, const MatrixList& list, const ChipSpec& spec) {
    const auto result = map_matrices(list, grid_of(spec), {.seed = args.options.seed});
    return {result.cores, timing_of(args, list, result.mapping, spec).schedule.makespan_seconds};
}

Json result_json(const MapResult& result, const MapArgs& args, const ChipSpec& spec) {
    const auto& mapping = result.mapping;
    const auto joules = product_joules(spec.core);
    return {{"backend", spec.name},
            {"objective", to_string(args.options.objective)},
            {"cuts", to_string(args.options.cuts)},
            {"matrices", mapping.matrices.size()},
            {"cores", result.cores},
            {"lower_bound", result.bound.bins},
            {"bound", result.bound.reason},
            {"optimal", result.optimal()},
            {"chips", mapping.grid.chips},
            {"tiles", mapping.regions.size()},
            {"one_tile_cores", result.one_tile_cores},
            {"utilisation", utilisation(mapping)},
            {"interval_seconds", static_cast<double>(most_products(mapping)) * product_seconds(spec.core)},
            {"core_products", core_products(mapping)},
            {"energy_joules", joules ? Json(core_products(mapping) * *joules) : Json()},
            {"verified", true},
            {"core_list", cores_json(mapping)}};
}

void print_result(const MapResult& result, const MapArgs& args, const ChipSpec& spec) {
    const auto& mapping = result.mapping;
    const auto& grid = mapping.grid;
    const auto uses = core_uses(mapping);
    const auto [least, most] = std::ranges::minmax(uses, {}, &CoreUse::utilisation);
    print_out("{}: {} cores of {} x {} per chip; {} cuts\n", spec.name, grid.cores, grid.rows, grid.cols,
              to_string(args.options.cuts));
    print_out("{} on {}; lower bound {} ({}){}\n", count_text(result.cores, "core", "cores"),
              count_text(grid.chips, "chip", "chips"), result.bound.bins, result.bound.reason,
              result.optimal() ? ": optimal" : "");
    print_out("{}; with one tile per core {}\n", count_text(mapping.regions.size(), "tile", "tiles"),
              count_text(result.one_tile_cores, "core", "cores"));
    print_out("cells in use: {:.1f} % of the used cores, {:.1f} to {:.1f} % of a core\n",
              100.0 * utilisation(mapping), 100.0 * least.utilisation, 100.0 * most.utilisation);
    const auto products = most_products(mapping);
    print_out("busiest core: {} per inference, {:.4g} us\n", count_text(products, "product", "products"),
              1e6 * static_cast<double>(products) * product_seconds(spec.core));
    const auto joules = product_joules(spec.core);
    print_out("core products: {:.6g} per inference{}\n", core_products(mapping),
              joules ? fmt::format(", {:.4g} uJ", 1e6 * *joules * core_products(mapping)) : "");
    print_out("verified: every weight has one cell, and products through the mapping are exact\n");
    if (args.floor_plan) print_out("\n{}", floor_plan_text(mapping));
}

MapOptions options_of(const MapArgs& args, const ChipSpec& spec) {
    auto options = args.options;
    options.replicas = args.replicas == "fill" ? 0 : Codec<std::uint64_t>::parse(args.replicas, "--replicas");
    if (args.replicas != "fill" && options.replicas == 0)
        fail(ErrorCode::bad_usage, "--replicas 0; expected 1 or more, or 'fill'");
    if (args.throughput > 0.0) options.core_products = 1.0 / (args.throughput * product_seconds(spec.core));
    return options;
}

void write_files(const MapArgs& args, const Mapping& mapping, const std::optional<Timing>& timing,
                 const std::string& title) {
    if (!args.output.empty()) save_mapping(args.output, mapping);
    if (!args.svg.empty()) write_file_atomic(args.svg, floor_plan_svg(mapping, title));
    if (!args.timeline.empty())
        write_file_atomic(args.timeline, timeline_svg(timing->schedule, timing->pipeline, title));
    if (!args.perfetto.empty())
        write_file_atomic(args.perfetto, perfetto_json(timing->schedule, timing->pipeline));
}

void map_one(const MapArgs& args, const Context& context) {
    const auto spec = load_spec(args.chip);
    const auto [name, list] = read_matrices(args.matrices);
    for (const auto& file : {args.output, args.svg, args.timeline, args.perfetto}) {
        if (!file.empty()) check_folder(file);
    }
    const auto result = map_matrices(list, grid_of(spec), options_of(args, spec));
    verify_products(result.mapping);
    const auto timing = find_timing(args, list, result.mapping, spec);
    write_files(args, result.mapping, timing, name + " on " + spec.name);
    std::optional<Fewest> fewest;
    if (args.options.objective == Objective::least_time) fewest = fewest_cores(args, list, spec);
    if (context.json) {
        Json json{{"name", name}};
        json.update(result_json(result, args, spec));
        json["schedule"] = timing ? timing_json(*timing) : Json();
        if (fewest)
            json["least_cores"] = {{"cores", fewest->cores}, {"makespan_seconds", fewest->makespan_seconds}};
        return print_json(json);
    }
    print_out("{}: {}, {} weights\n", name, count_text(list.size(), "matrix", "matrices"),
              weight_count(list));
    print_result(result, args, spec);
    if (timing) print_timing(*timing);
    if (fewest)
        print_out("with the fewest cores ({}): makespan {}\n", fewest->cores,
                  seconds_text(fewest->makespan_seconds));
    if (timing && args.timeline_text) print_out("\n{}", timeline_text(timing->schedule, timing->pipeline));
}

void list_networks(const MapArgs& args, const Context& context) {
    const auto spec = load_spec(args.chip);
    Json rows = Json::array();
    const auto or_null = [](const std::optional<std::size_t>& n) { return n ? Json(*n) : Json(); };
    for (const auto& network : known_networks()) {
        auto options = options_of(args, spec);
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

void verify_file(const MapArgs& args, const Context& context) {
    const auto spec = load_spec(args.chip);
    const auto mapping = load_mapping(args.verify, grid_of(spec));
    with_file_name(args.verify, [&] { verify_products(mapping); });
    if (!args.svg.empty())
        write_file_atomic(args.svg,
                          floor_plan_svg(mapping, args.verify.filename().string() + " on " + spec.name));
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

void diff_files(const MapArgs& args, Context& context) {
    const auto grid = grid_of(load_spec(args.chip));
    const auto lines =
        mapping_differences(load_mapping(args.diff[0], grid), load_mapping(args.diff[1], grid));
    context.exit_code = lines.empty() ? 0 : 1;
    if (context.json) return print_json({{"equal", lines.empty()}, {"differences", lines}});
    for (const auto& line : lines) print_out("{}\n", line);
    if (lines.empty()) print_out("no differences\n");
}

void add_map_options(CLI::App& verb, MapArgs& args) {
    add_matrix_options(verb, args.matrices);
    add_chip_options(verb, args.chip);
    add_enum_option(verb, "--cuts", args.options.cuts,
                    "Where matrices are cut: at multiples of the core, also elsewhere to save cores, or "
                    "evenly with one tile per core (as imka ridge)");
    add_enum_option(verb, "--objective", args.options.objective,
                    "Fewest cores, least time (cores of their own and copies, on 1 chip if one is enough) or "
                    "least energy (fewest core products)");
    bind_fields(
        verb,
        {field("inferences", args.inferences,
               range::between(1, 65536, "Inferences of the schedule, one behind the other")),
         field("chips", args.options.chips, range::between(0, 65536, "Most chips; 0 = as many as needed")),
         field("throughput", args.throughput,
               {.help = "Inferences per second; matrices get the copies that this needs. 0: no target",
                .unit = "1/s",
                .min = 0}),
         field("seed", args.options.seed, {.help = "Seed of the search"})});
    verb.add_option("--replicas", args.replicas,
                    "Copies of all matrices, each on its own cores; fill: as many as the chips take")
        ->type_name("N|fill")
        ->capture_default_str();
    verb.add_option("--output", args.output, "Write the mapping as JSON")->type_name("FILE.json");
    verb.add_option("--svg", args.svg, "Draw the floor plan")->type_name("FILE.svg");
    verb.add_option("--timeline", args.timeline, "Draw who works when")->type_name("FILE.svg");
    verb.add_option("--perfetto", args.perfetto, "Write who works when, for ui.perfetto.dev")
        ->type_name("FILE.json");
    verb.add_flag("--timeline-text", args.timeline_text, "Print who works when as text");
    verb.add_flag("--floor-plan", args.floor_plan, "Print the floor plan of every core as text");
    verb.add_flag("--list", args.list, "Map every known network");
    verb.add_option("--verify", args.verify, "Check a mapping file instead")->type_name("FILE.json");
    verb.add_option("--diff", args.diff, "Compare two mapping files instead; exit code 1 if they differ")
        ->type_name("FILE.json FILE.json")
        ->expected(2);
}

// Options without effect next to another mode of the verb.
void check_modes(const CLI::App& verb, const MapArgs& args) {
    const std::vector<std::string> sources{"--network",    "--shapes",   "--matrices", "--cuts",
                                           "--chips",      "--seed",     "--replicas", "--output",
                                           "--throughput", "--timeline", "--perfetto", "--timeline-text",
                                           "--inferences", "--objective"};
    if (!args.verify.empty()) {
        reject_without_effect(verb, sources, "--verify reads a mapping");
        reject_without_effect(verb, {"--diff", "--list"}, "--verify was given");
    } else if (!args.diff.empty()) {
        reject_without_effect(verb, sources, "--diff reads two mappings");
        reject_without_effect(verb, {"--svg", "--floor-plan", "--list"}, "--diff was given");
    } else if (args.list) {
        reject_without_effect(
            verb,
            {"--network", "--shapes", "--matrices", "--cuts", "--output", "--svg", "--floor-plan",
             "--timeline", "--perfetto", "--timeline-text", "--inferences", "--objective"},
            "--list maps every known network");
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
                           "imka map --verify plan.json"});
    add_common_options(*verb, context);
    add_map_options(*verb, *args);
    verb->callback([args, verb, &context] {
        check_modes(*verb, *args);
        if (!args->verify.empty()) return verify_file(*args, context);
        if (!args->diff.empty()) return diff_files(*args, context);
        if (args->list) return list_networks(*args, context);
        map_one(*args, context);
    });
}

}  // namespace imka::app
