// Options and output shared by imka map and imka deploy: placement of matrices, and schedule.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app.hpp"
#include "chip/options.hpp"
#include "imka/deploy/map.hpp"
#include "imka/deploy/pipeline.hpp"
#include "imka/deploy/schedule.hpp"
#include "imka/deploy/timing.hpp"

namespace imka::app {

struct PlacementArgs {
    ChipArgs chip;
    MapOptions options;
    std::string replicas = "1";
    double throughput = 0.0;
    ScheduleOptions schedule;                      // without the link
    double host_link_rate = 0.0;                   // B/s; 0: transfers take no time
    std::optional<double> host_link_latency = {};  // s; none: that of the cost model
    std::filesystem::path mapping;                 // to write
    std::filesystem::path from;                    // to use instead of the mapper
    std::filesystem::path svg;
    std::filesystem::path timeline;
    std::filesystem::path perfetto;
    std::filesystem::path verify;
    std::vector<std::string> diff;
    bool floor_plan = false;
    bool timeline_text = false;
    bool pareto = false;
    std::filesystem::path figure;
};

// --backend, --cuts, --objective, ...; `mapping_flag` writes the mapping as JSON.
void add_placement_options(CLI::App& verb, const std::string& mapping_flag, PlacementArgs& args);
// Flags that have no effect on an existing mapping, and flags of the schedule.
std::vector<std::string> placement_flags();
std::vector<std::string> timing_flags();

// Error{bad_usage} for inconsistent values.
MapOptions map_options(const PlacementArgs& args, const ChipSpec& spec);
// None if transfers take no time.
std::optional<HostLink> host_link(const PlacementArgs& args);
// Checks the folders of all files to be written.
void check_folders(const PlacementArgs& args);

bool wants_timing(const PlacementArgs& args);  // a picture of it was requested

// `timing` may be null if none of its pictures was requested.
void write_pictures(const PlacementArgs& args, const Mapping& mapping, const Timing* timing,
                    const std::string& title);

Json placement_json(const MapResult& result, const PlacementArgs& args, const ChipSpec& spec);
void print_placement(const MapResult& result, const PlacementArgs& args, const ChipSpec& spec);
Json timing_json(const Timing& timing);
void print_timing(const Timing& timing);

// --pareto: all placements that fit, in a table, as JSON, and as a figure if args.figure is set.
void show_placements(const PlacementArgs& args, const MatrixList& list, const Pipeline& pipeline,
                     const ScheduleOptions& timing, const Context& context);

// The mapping of a deployed model (.plan) or of a mapping file.
Mapping read_mapping(const std::filesystem::path& file, const PlacementArgs& args);

// --verify and --diff: deployed models (.plan) or mapping files.
void verify_file(const PlacementArgs& args, const Context& context);
void diff_files(const PlacementArgs& args, Context& context);

}  // namespace imka::app
