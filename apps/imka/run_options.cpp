#include "run_options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "imka/base/error.hpp"
#include "imka/data/table.hpp"

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

void add_dataset_options(CLI::App& verb, RunArgs& args) {
    add_field_options(verb, fields(args.config), {"dataset", "protocol", "split_seed", "gram_rows"},
                      args.given);
}

void add_read_options(CLI::App& verb, RunArgs& args) {
    verb.add_option("--format", args.read_format, "Format of the input file; by its name when not given")
        ->type_name(join(EnumNames<Format>::values, "|"));
    verb.add_option("--label-column", args.read.label_column,
                    "Column with the label: a name, a number from 0, first, last or none");
    verb.add_option("--n-features", args.read_features, "Features of a LIBSVM file (saves a first pass)");
}

void finish_run_args(RunArgs& args) {
    const auto list = fields(args.config);
    if (!args.config_file.empty()) load_yaml(list, args.config_file);
    for (const auto& text : args.overrides) {
        const auto equals = text.find('=');
        if (equals == std::string::npos)
            fail(ErrorCode::bad_usage, fmt::format("--set {}: KEY=VALUE belongs here", text));
        set_field(list, text.substr(0, equals), text.substr(equals + 1));
    }
    for (const auto& [name, text] : args.given) set_field(list, name, text);
    validate(args.config);
}

ReadOptions read_options(const RunArgs& args) {
    ReadOptions options = args.read;
    if (!args.read_format.empty()) options.format = parse_enum<Format>(args.read_format);
    if (args.read_features > 0) options.features = args.read_features;
    return options;
}

Dataset load_run_data(const RunConfig& config, const Context& context) {
    return load_dataset(
        config.dataset,
        {.protocol = config.protocol, .data_dir = context.data_dir, .split_seed = config.split_seed},
        context.exec);
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

std::string summary_text(const Summary& s, double factor, std::string_view unit) {
    const double mean = factor * s.mean;
    const int digits = factor == 100.0 ? 2 : 4;
    if (s.values.size() == 1) return fmt::format("{:.{}f}{} (one seed)", mean, digits, unit);
    return fmt::format("{:.{}f} ± {:.{}f}{} ({} seeds; 95 % interval of the mean ± {:.{}f})", mean, digits,
                       factor * s.std, digits, unit, s.values.size(), factor * s.half_width, digits);
}

}  // namespace imka::app
