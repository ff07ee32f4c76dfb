#include "run_options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "imka/base/error.hpp"
#include "imka/base/random.hpp"
#include "imka/data/table.hpp"
#include "imka/io/settings.hpp"

namespace imka::app {
namespace {

constexpr std::size_t kBlockRows = 4096;

void copy_row(const Row& row, std::span<float> out) {
    if (!row.sparse) {
        std::ranges::copy(row.values, out.begin());
        return;
    }
    std::ranges::fill(out, 0.0F);
    for (std::size_t i = 0; i < row.indices.size(); ++i) out[row.indices[i]] = row.values[i];
}

// At most `count` rows of a file, all equally likely, drawn in one pass.
Matrix<float> sample_rows(const ChipInput& input, std::size_t count, std::uint64_t seed, const Exec& exec) {
    Matrix<float> kept;
    std::uint64_t rows = 0;
    for_each_input_block(input.path, input.options, exec, [&](InputBlock& block) {
        input.prepare(block);
        if (rows == 0) kept = Matrix<float>(count, block.x.cols());
        for (std::size_t r = 0; r < block.x.rows(); ++r, ++rows) {
            // Row n takes the place of another with the probability count / (n + 1).
            const auto place = rows < count ? rows : uniform_int(seed, Stream::subsample, rows, rows + 1);
            if (place < count) std::ranges::copy(block.x.row(r), kept.row(place).begin());
        }
    });
    if (rows < count) kept.resize_rows(static_cast<std::size_t>(rows));
    return kept;
}

}  // namespace

void add_feature_options(CLI::App& verb, RunArgs& args) {
    verb.add_option("--config", args.config_file, "YAML file with settings; flags and --set override it")
        ->check(CLI::ExistingFile);
    verb.add_option("--set", args.overrides, "Override one setting, e.g. --set gamma=0.1")
        ->type_name("KEY=VALUE");
    add_field_options(verb, fields(args.config),
                      {"kernel", "gamma", "sampler", "norms", "form", "truncation", "n_components",
                       "log_ratio", "backend", "seeds"},
                      args.given);
    // One seed is a list of one.
    verb.add_option_function<std::string>(
            "--seed", [&args](const std::string& text) { args.given.emplace_back("seeds", text); },
            "One seed")
        ->type_name("integer")
        ->excludes("--seeds");
}

void add_chip_options(CLI::App& verb, RunArgs& args, ChipUse use) {
    std::vector<std::string> names;
    for (const auto& f : fields(args.config.chip)) {
        if (use == ChipUse::fit || !f.name.starts_with("fit_")) names.push_back(f.name);
    }
    add_field_options(verb, fields(args.config), names, args.given);
    for (auto name : names) {
        std::ranges::replace(name, '_', '-');
        verb.get_option("--" + name)->group("With a chip as backend");
    }
}

void add_dataset_options(CLI::App& verb, RunArgs& args) {
    add_field_options(verb, fields(args.config), {"dataset", "protocol", "split_seed", "gram_rows"},
                      args.given);
}

void add_file_options(CLI::App& verb, RunArgs& args) {
    add_field_options(verb, fields(args.config), {"format", "label_column"}, args.given);
}

void add_input_options(CLI::App& verb, RunArgs& args) {
    verb.add_option("--n-features", args.n_features, "Features of a LIBSVM file (saves a first pass)");
}

void finish_run_args(RunArgs& args) {
    const auto list = fields(args.config);
    if (!args.config_file.empty()) load_yaml(args.config_file, list);
    for (const auto& text : args.overrides) {
        const auto [key, value] = parse_assignment(text, "--set");
        set_field(list, key, value);
    }
    for (const auto& [name, text] : args.given) set_field(list, name, text);
    validate(args.config);
}

ReadOptions read_options(const RunArgs& args) {
    ReadOptions options{.format = args.config.format, .label_column = args.config.label_column};
    if (args.n_features > 0) options.features = args.n_features;
    return options;
}

void for_each_input_block(const std::filesystem::path& path, const ReadOptions& options, const Exec& exec,
                          const std::function<void(InputBlock&)>& body) {
    const auto reader = open_rows(path, options);
    const auto features = reader->features();
    if (!features)
        fail(ErrorCode::bad_usage, fmt::format("{}: the number of features is not known", path.string()));
    Progress progress(exec, "rows", 0);
    InputBlock block;
    std::uint64_t rows = 0;
    Row row;
    bool more = reader->next(row);
    while (more) {
        check_cancelled(exec);
        block.first_row = rows;
        block.labels.clear();
        block.x = Matrix<float>(kBlockRows, *features);
        while (more && block.labels.size() < kBlockRows) {
            if (!row.sparse && row.values.size() != *features) {
                fail(ErrorCode::bad_data, fmt::format("{}: line {}: {} features, not {}", path.string(),
                                                      row.line, row.values.size(), *features));
            }
            copy_row(row, block.x.row(block.labels.size()));
            block.labels.push_back(row.label.empty() ? std::string() : canonical_label(row.label));
            more = reader->next(row);
        }
        block.x.resize_rows(block.labels.size());
        rows += block.labels.size();
        body(block);
        progress.update(rows);
    }
    if (rows == 0) fail(ErrorCode::bad_data, fmt::format("{}: holds no row", path.string()));
}

RunMap map_on_chip(const RunConfig& config, const FeatureRecipe& recipe, const Matrix<float>& omega,
                   const ChipInput& input, const Exec& exec) {
    const auto& run = config.chip;
    const auto chip = resolve_chip(config.backend, run);
    const auto seeds = test_seeds(run, config.seeds.front());
    const auto rows =
        sample_rows(input, static_cast<std::size_t>(run.projection.calibration_inputs), seeds.chip, exec);
    auto placed = chip_feature_map(
        recipe,
        {.chip = chip, .omega = omega, .inputs = rows.view(), .config = run.projection, .seeds = seeds},
        exec);
    const auto info = chip_info(chip, run, placed);
    return {.map = std::move(placed.map), .chip = info};
}

std::string chip_text(const ChipInfo& chip) {
    return fmt::format("on the chip {} ({}, read {:g} s after programming, {} {})", chip.name,
                       to_string(chip.state), chip.seconds, chip.cores, chip.cores == 1 ? "core" : "cores");
}

std::string summary_text(const Summary& s, double factor, std::string_view unit) {
    const double mean = factor * s.mean;
    const int digits = factor == 100.0 ? 2 : 4;
    if (s.values.size() == 1) return fmt::format("{:.{}f}{} (one seed)", mean, digits, unit);
    return fmt::format("{:.{}f} ± {:.{}f}{} ({} seeds; 95 % interval of the mean ± {:.{}f})", mean, digits,
                       factor * s.std, digits, unit, s.values.size(), factor * s.half_width, digits);
}

}  // namespace imka::app
