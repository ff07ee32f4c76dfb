#include "chip/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "imka/base/duration.hpp"
#include "imka/base/error.hpp"
#include "imka/chip/spec/chip.hpp"
#include "imka/chip/spec/chip_fields.hpp"
#include "imka/data/table.hpp"
#include "imka/deploy/chip_file.hpp"

namespace imka::app {
namespace {

template <NamedEnum E>
bool is_name(const std::string& text) {
    return std::ranges::find(EnumNames<E>::values, std::string_view(text)) != std::end(EnumNames<E>::values);
}

template <NamedEnum E>
std::string names_or_file() {
    return join_names(EnumNames<E>::values, "|") + "|FILE";
}

// Error{bad_usage} if the file does not exist.
template <NamedEnum E>
Matrix<float> read_matrix(const std::string& option, const std::string& path) {
    if (!std::filesystem::exists(path))
        fail(ErrorCode::bad_usage, fmt::format("{} {}: neither a file nor a {}; known: {}", option, path,
                                               EnumNames<E>::what, join_names(EnumNames<E>::values)));
    return read_table(path, {.label_column = "none"}).x;
}

// Reads the matrix of a file; if the text names a law, sets the law and returns an empty matrix.
template <NamedEnum E>
Matrix<float> law_or_matrix(const std::string& option, const std::string& text, E& law) {
    if (!is_name<E>(text)) return read_matrix<E>(option, text);
    law = parse_enum<E>(text);
    return {};
}

void add_named_chip_options(CLI::App& verb, const std::string& backend, const std::string& chip_set,
                            ChipArgs& args) {
    verb.add_option(backend, args.chip, "Chip: a name ('imka chip info' lists them) or a YAML file")
        ->type_name("NAME|FILE.yaml")
        ->capture_default_str();
    add_chip_set_option(verb, chip_set, [&args](const std::string& text) { args.chip_set = text; });
}

}  // namespace

Json summary_json(const Summary& s) {
    return Json::parse(to_json(s));
}

std::string mean_text(const Summary& s, double factor) {
    const double mean = factor * s.mean;
    const double half = factor * s.half_width;
    if (!(half > 0.0)) return fmt::format("{:.4g}", mean);
    // Two digits of the uncertainty, if plain notation can show them.
    const int digits = std::max(0, 1 - static_cast<int>(std::floor(std::log10(half))));
    if (digits > 3) return fmt::format("{:.2g} ± {:.1g}", mean, half);
    return fmt::format("{:.{}f} ± {:.{}f}", mean, digits, half, digits);
}

void add_chip_options(CLI::App& verb, ChipArgs& args) {
    add_named_chip_options(verb, "--backend", "--chip-set", args);
}

void add_own_chip_options(CLI::App& verb, ChipArgs& args) {
    add_named_chip_options(verb, "--backend,--chip", "--chip-set,--set", args);
}

void add_seed_options(CLI::App& verb, ChipArgs& args) {
    const auto parse = [&args](const std::string& text) {
        args.seeds = Codec<std::vector<std::uint64_t>>::parse(text, "seeds");
        Codec<std::vector<std::uint64_t>>::check(args.seeds, {}, "seeds");
    };
    const auto shown = args.seeds.size() == 1 ? std::to_string(args.seeds[0])
                                              : fmt::format("{}..{}", args.seeds.front(), args.seeds.back());
    verb.add_option_function<std::string>(
            "--seeds", parse,
            "Seeds; each one gives a new chip, and new weights and inputs unless they come from files")
        ->type_name("list such as 0..9 or 1,4,7")
        ->default_str(shown);
    verb.add_option_function<std::string>(
            "--seed",
            [&args](const std::string& text) { args.seeds = {Codec<std::uint64_t>::parse(text, "seed")}; },
            "A single seed")
        ->type_name("integer")
        ->excludes("--seeds");
}

ChipSpec load_spec(const ChipArgs& args) {
    const bool file = args.chip.ends_with(".yaml") || args.chip.ends_with(".yml") ||
                      args.chip.find('/') != std::string::npos;
    auto spec = file ? load_chip(args.chip) : chip_preset(args.chip);
    try {
        set_constants(spec, args.chip_set);
    } catch (const Error& e) {
        fail(e.code(), fmt::format("--chip-set: {}", e.what()));
    }
    return spec;
}

void add_problem_options(CLI::App& verb, ProblemArgs& args) {
    args.verb = &verb;
    auto& config = args.config;
    verb.add_option("--weights", args.weights,
                    "Distribution of the weights, or a file (NPY, CSV) with one row per input")
        ->type_name(names_or_file<WeightLaw>())
        ->capture_default_str();
    verb.add_option("--input-law", args.inputs,
                    "Distribution of the inputs, or a file with one input per row (the first half is used "
                    "for calibration)")
        ->type_name(names_or_file<InputLaw>())
        ->capture_default_str();
    bind_fields(verb, fields(config));
    add_enum_option(verb, "--input-range", args.input_range, "How calibration chooses the input range");
}

std::string problem_text(const ProblemArgs& args, const ChipTrials& trials) {
    const auto weights =
        trials.programmed ? std::string("the chip's weights")
        : args.weights == to_string(WeightLaw::gauss)
            ? fmt::format("Gaussian weights truncated at {} standard deviations", args.config.weight_sigmas)
            : fmt::format("{} weights", args.weights);
    const auto inputs = args.inputs == to_string(InputLaw::sparse)
                            ? fmt::format("Gaussian inputs, {} % of them 0", 100.0 * args.config.sparsity)
                        : args.inputs == to_string(InputLaw::gauss) ? "Gaussian inputs"
                                                                    : fmt::format("{} inputs", args.inputs);
    return fmt::format("{}, {}, input range by {}", weights, inputs, to_string(args.input_range));
}

void add_programming_option(CLI::App& verb, ChipBuild& build) {
    add_enum_option(verb, "--programming", build.programming.method, "How devices are programmed");
}

void add_load_option(CLI::App& verb, std::filesystem::path& file) {
    auto* load = verb.add_option("--load", file, "Programmed chip written by 'imka chip program --output'")
                     ->check(CLI::ExistingFile);
    for (const auto* other : {"--backend", "--chip-set", "--weights", "--rows", "--cols", "--programming"})
        load->excludes(verb.get_option(other));
}

void add_time_options(CLI::App& verb, TimeArgs& args) {
    add_at_option(verb, "--at,--time,--read-seconds", args.at,
                  [&args](const std::string& text) { args.at = text; });
    add_spacing_option(verb, args);
}

void add_spacing_option(CLI::App& verb, TimeArgs& args) {
    verb.add_option("--read-spacing,--spacing", args.spacing, "Time between two products")
        ->type_name("TIME")
        ->capture_default_str();
}

ReadTime read_time(const TimeArgs& args) {
    return {.seconds = parse_duration(args.at, "--at"),
            .spacing_seconds = parse_duration(args.spacing, "--read-spacing")};
}

void add_build_options(CLI::App& verb, BuildConfig& build) {
    bind_fields(verb, fields(build),
                {"input_range", "input_alpha", "calibration_inputs", "programming", "output_calibration",
                 "read_spacing", "compensation"});
    add_at_option(verb, "--at", "0",
                  [&build](const std::string& text) { build.read_seconds = parse_duration(text, "--at"); });
}

ChipSettings make_settings(const ChipSpec& spec, const ProblemArgs& args) {
    return {.spec = spec,
            .calibration = {.inputs = args.config.calibration_count, .input_range = args.input_range}};
}

// Rejects options of the problem that have no effect because of other options.
void check_effects(const CLI::App& verb, const TrialArgs& args) {
    const auto& weights = args.problem.weights;
    const auto& inputs = args.problem.inputs;
    if (!args.load.empty())
        reject_without_effect(verb, {"--weight-sigmas"}, "the weights are those of the loaded chip");
    if (!is_name<WeightLaw>(weights))
        reject_without_effect(verb, {"--rows", "--cols"}, fmt::format("the size is that of {}", weights));
    if (weights != to_string(WeightLaw::gauss))
        reject_without_effect(verb, {"--weight-sigmas"}, "the weights are not drawn from a Gaussian");
    if (inputs != to_string(InputLaw::sparse))
        reject_without_effect(verb, {"--sparsity"}, "the inputs are not sparse (--input-law sparse)");
}

ChipTrials make_trials(const TrialArgs& args) {
    if (args.problem.verb != nullptr) check_effects(*args.problem.verb, args);
    ChipTrials trials{.build = args.build, .seeds = args.chip.seeds};
    if (!args.load.empty()) trials.programmed = load_chip_file(args.load);
    trials.build.settings =
        make_settings(trials.programmed ? trials.programmed->plan.spec : load_spec(args.chip), args.problem);
    auto config = args.problem.config;
    auto weights = trials.programmed ? trials.programmed->plan.matrices.front().weights
                                     : law_or_matrix("--weights", args.problem.weights, config.weights);
    auto inputs = law_or_matrix("--input-law", args.problem.inputs, config.inputs);
    trials.source = with_file_name(args.problem.inputs, [&] {
        return make_problem_source(config, std::move(weights), std::move(inputs));
    });
    return trials;
}

void add_figure_option(CLI::App& verb, std::filesystem::path& file, const std::string& help) {
    verb.add_option("--figure", file, help + ": FILE.svg, .pdf or .png (needs gnuplot)");
}

void print_figure_note(const std::filesystem::path& file) {
    if (!file.empty()) print_out("\n{} written\n", file.string());
}

Json chip_json(const ChipTrials& trials) {
    const auto& spec = trials.build.settings.spec;
    return {{"chip", spec.name},
            {"chip_hash", chip_hash(spec)},
            {"rows", trials.source.config.rows},
            {"cols", trials.source.config.cols}};
}

std::string seeds_text(const ChipTrials& trials) {
    return count_text(trials.seeds.size(), "seed", "seeds");
}

std::string chip_line(const ChipTrials& trials) {
    const auto& config = trials.source.config;
    return chip_line(trials.build.settings.spec, config.rows, config.cols);
}

std::string chip_line(const ChipSpec& spec, std::size_t rows, std::size_t cols) {
    const auto tiles = tile_matrix(rows, cols, spec.core).size();
    return fmt::format("{}: a {} x {} matrix on {} of {} cores of {} x {}", spec.name, rows, cols, tiles,
                       static_cast<std::size_t>(spec.cores) * static_cast<std::size_t>(spec.chips),
                       spec.core.rows, spec.core.cols);
}

}  // namespace imka::app
