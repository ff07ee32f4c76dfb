// imka data: lists, describes, downloads, checks, converts and generates data sets.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app.hpp"
#include "imka/base/error.hpp"
#include "imka/data/dataset.hpp"
#include "imka/data/fetch.hpp"
#include "imka/data/generate.hpp"
#include "imka/data/inspect.hpp"
#include "imka/data/registry.hpp"
#include "imka/data/synthetic.hpp"
#include "show_task.hpp"

namespace imka::app {
namespace {

std::vector<Generator> generators() {
    std::vector<Generator> all;
    for (std::size_t g = 0; g < std::size(EnumNames<Generator>::values); ++g)
        all.push_back(static_cast<Generator>(g));
    return all;
}

[[noreturn]] void fail_unknown(const std::string& name) {
    std::vector<std::string_view> names;
    for (const auto& set : registered_sets()) names.emplace_back(set.name);
    fail(ErrorCode::bad_usage,
         fmt::format("'{}' is not a known data set; known: {}", name, join_names(names)));
}

const RegisteredSet& known_set(const std::string& name) {
    const auto* set = find_set(name);
    if (set == nullptr) fail_unknown(name);
    return *set;
}

// list

void run_list(const Context& context) {
    Json sets = Json::array();
    for (const auto& set : registered_sets()) {
        sets.push_back({{"name", set.name},
                        {"title", set.title},
                        {"kind", "files"},
                        {"present", is_present(set, context.data_dir)},
                        {"rows", total_rows(set)},
                        {"d", set.default_sizes.features},
                        {"classes", set.files[0].classes.size()},
                        {"licence", set.licence}});
    }
    for (const auto g : generators()) {
        const auto& info = generator_info(g);
        sets.push_back({{"name", to_string(g)},
                        {"title", info.description},
                        {"kind", "generator"},
                        {"present", true},
                        {"rows", info.train_rows + info.test_rows},
                        {"d", info.features},
                        {"classes", info.classes},
                        {"licence", "generated"}});
    }
    if (context.json) return print_json({{"data_dir", context.data_dir.string()}, {"sets", sets}});
    print_out("{}",
              format_table(table_of(sets, {"name", "present", "rows", "d", "classes", "licence", "title"})));
    if (context.data_dir.empty())
        print_out("\nNo data directory is set: use --data-dir or the environment variable IMKA_DATA.\n");
}

// info

Json sizes_json(const ProtocolSizes& sizes) {
    return {{"d", sizes.features}, {"train", sizes.train}, {"test", sizes.test}};
}

Json info_json(const RegisteredSet& set, const Context& context) {
    Json files = Json::array();
    for (const auto& file : set.files) {
        Json classes = Json::object();
        for (const auto& c : file.classes) classes[c.label] = c.rows;
        const auto path = find_source(set, file, context.data_dir);
        files.push_back({{"path", path ? Json(path->string()) : Json()},
                         {"names", file.names},
                         {"url", file.url},
                         {"format", to_string(file.read.format.value_or(Format::csv))},
                         {"rows", file.rows},
                         {"classes", classes},
                         {"bytes", file.bytes},
                         {"raw_sha256", file.raw_sha256},
                         {"table_sha256", file.table_sha256}});
    }
    return {{"name", set.name},
            {"title", set.title},
            {"description", set.description},
            {"page", set.page},
            {"licence", set.licence},
            {"citation", set.citation},
            {"folder", set.folder},
            {"present", is_present(set, context.data_dir)},
            {"protocols",
             {{"default", sizes_json(set.default_sizes)}, {"measured", sizes_json(set.measured_sizes)}}},
            {"files", files}};
}

std::string balance_text(const SourceFile& file) {
    std::string text;
    for (const auto& c : file.classes)
        text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", c.label, c.rows);
    return text;
}

std::vector<std::string> sizes_row(const std::string& protocol, const ProtocolSizes& s) {
    return {protocol, std::to_string(s.features), std::to_string(s.train), std::to_string(s.test)};
}

void print_info(const RegisteredSet& set, const Context& context) {
    TextTable table = {{"name", set.name}, {"title", set.title},     {"description", set.description},
                       {"page", set.page}, {"licence", set.licence}, {"citation", set.citation}};
    for (const auto& file : set.files) {
        const auto path = find_source(set, file, context.data_dir);
        table.emplace_back();
        table.push_back(
            {"file", path ? path->string() : "missing; expected a name that starts with " + file.names[0]});
        table.push_back({"url", file.url});
        table.push_back({"rows", std::to_string(file.rows)});
        table.push_back({"classes", balance_text(file)});
        table.push_back({"raw sha256", fmt::format("{} ({} bytes)", file.raw_sha256, file.bytes)});
        table.push_back({"table sha256", file.table_sha256});
    }
    print_out("{}\n", format_table(table));
    print_out("{}", format_table({{"protocol", "d", "training rows", "test rows"},
                                  sizes_row("default", set.default_sizes),
                                  sizes_row("measured", set.measured_sizes)}));
}

Json json_or_null(const std::optional<double>& value) {
    return value ? Json(*value) : Json();
}

void print_generator(Generator g, const Context& context) {
    const auto& info = generator_info(g);
    if (context.json) {
        return print_json({{"name", to_string(g)},
                           {"description", info.description},
                           {"d", info.features},
                           {"classes", info.classes},
                           {"train", info.train_rows},
                           {"test", info.test_rows},
                           {"bayes_error", json_or_null(info.bayes_error)},
                           {"noise", json_or_null(info.noise)},
                           {"best_r2", json_or_null(info.best_r2)},
                           {"generator_sha256", generator_sha256(g)}});
    }
    print_out("{}",
              format_table({{"name", std::string(to_string(g))},
                            {"description", std::string(info.description)},
                            {"d", std::to_string(info.features)},
                            {"classes", std::to_string(info.classes)},
                            {"training rows", std::to_string(info.train_rows)},
                            {"test rows", std::to_string(info.test_rows)},
                            info.bayes_error
                                ? std::vector<std::string>{"Bayes error",
                                                           fmt::format("{:.4g} %", 100.0 * *info.bayes_error)}
                                : std::vector<std::string>{"best R²", fmt::format("{:.4g}", *info.best_r2)},
                            {"sha256", generator_sha256(g)}}));
}

void run_info(const std::string& name, const Context& context) {
    if (const auto g = find_generator(name)) return print_generator(*g, context);
    const auto& set = known_set(name);
    if (context.json) return print_json(info_json(set, context));
    print_info(set, context);
}

// show and export

struct PartOptions {
    std::string name;
    std::string protocol = "default";
    std::string part = "train";
    std::uint64_t split_seed = 0;
    std::uint64_t train_rows = 0;
    std::uint64_t test_rows = 0;
    bool raw = false;
    ReadOptions read;  // for a file
};

void add_part_options(CLI::App& verb, PartOptions& options) {
    verb.add_option("name", options.name, "Data set, generator, file, or two files TRAIN:TEST")->required();
    verb.add_option("--protocol", options.protocol,
                    "How data are split and scaled: default, or as in the published measurements (measured)")
        ->check(CLI::IsMember({"default", "measured"}))
        ->capture_default_str();
    verb.add_option("--part", options.part, "Training or test part; tasks also have a validation part")
        ->check(CLI::IsMember({"train", "valid", "test"}))
        ->capture_default_str();
    using range::between;
    constexpr double kMostRows = 1e12;
    bind_fields(
        verb,
        {field("split_seed", options.split_seed, {.help = "Seed for random splits and for generated data"}),
         field("train_rows", options.train_rows,
               between(0, kMostRows, "Number of training rows of a generator; 0 = its default")),
         field("test_rows", options.test_rows,
               between(0, kMostRows, "Number of test rows of a generator; 0 = its default"))});
    verb.add_flag("--raw", options.raw, "Keep the values of the file; do not standardise");
    auto file = fields(options.read);
    std::erase_if(file, [](const Field& f) { return f.name == "format"; });  // differs between verbs
    bind_fields(verb, file);
}

// Options of files are errors for sets that are not read from a file.
void check_effects(const CLI::App& verb, const PartOptions& options) {
    if (options.part == "valid") fail(ErrorCode::bad_usage, "only tasks have the part valid (--task)");
    const bool generator = find_generator(options.name).has_value();
    if (generator || find_set(options.name) != nullptr)
        reject_without_effect(verb, {"--label-column", "--header", "--drop-columns", "--missing"},
                              options.name + " is not a file");
    if (!generator)
        reject_without_effect(verb, {"--train-rows", "--test-rows"}, options.name + " is not a generator");
}

Dataset load(const PartOptions& options, const Context& context) {
    auto read = options.read;
    read.advise = true;
    return load_dataset(options.name,
                        {.protocol = parse_enum<Protocol>(options.protocol),
                         .data_dir = context.data_dir,
                         .split_seed = options.split_seed,
                         .standardize = !options.raw,
                         .train_rows = options.train_rows,
                         .test_rows = options.test_rows,
                         .read = read},
                        context.exec);
}

const Part& part_of(const Dataset& data, const PartOptions& options) {
    return options.part == "test" ? data.test : data.train;
}

Json class_json(const Dataset& data, const Part& part) {
    const auto counts = class_counts(data, part);
    Json json = Json::object();
    for (std::size_t c = 0; c < counts.size(); ++c) json[data.classes[c]] = counts[c];
    return json;
}

Json show_json(const Dataset& data, const PartOptions& options, std::size_t rows, const Exec& exec) {
    const auto& part = part_of(data, options);
    Json first = Json::array();
    for (std::size_t r = 0; r < rows; ++r)
        first.push_back({{"class", data.classes[static_cast<std::size_t>(part.y[r])]}, {"x", part.x.row(r)}});
    Json columns = Json::array();
    for (const auto& c : column_ranges(part.x.view(), exec))
        columns.push_back({{"min", c.min}, {"mean", c.mean}, {"max", c.max}});
    return {{"dataset", data.name},
            {"protocol", options.protocol},
            {"part", options.part},
            {"standardized", !options.raw},
            {"rows", part.x.rows()},
            {"d", part.x.cols()},
            {"classes", class_json(data, part)},
            {"source_sha256", data.source_sha256},
            {"bayes_error", json_or_null(data.bayes_error)},
            {"first_rows", first},
            {"columns", columns}};
}

void run_show(const PartOptions& options, std::uint64_t most_rows, const Context& context) {
    const auto data = load(options, context);
    const auto& part = part_of(data, options);
    const std::size_t rows = std::min<std::uint64_t>(most_rows, part.x.rows());
    if (context.json) return print_json(show_json(data, options, rows, context.exec));
    print_out("{}, protocol {}, {} part: {} rows, {} features, {}\n\n", data.name, options.protocol,
              options.part, part.x.rows(), part.x.cols(), options.raw ? "as in the file" : "standardised");
    TextTable first = {{"row", "class", "values"}};
    constexpr std::size_t kMostColumns = 12;
    const std::size_t shown = std::min(kMostColumns, part.x.cols());
    for (std::size_t r = 0; r < rows; ++r) {
        first.push_back({std::to_string(r + 1), data.classes[static_cast<std::size_t>(part.y[r])]});
        for (std::size_t c = 0; c < shown; ++c) first.back().push_back(fmt::format("{:.5g}", part.x(r, c)));
        if (shown < part.x.cols()) first.back().push_back("...");
    }
    TextTable columns = {{"feature", "min", "mean", "max"}};
    const auto ranges = column_ranges(part.x.view(), context.exec);
    for (std::size_t c = 0; c < ranges.size(); ++c) {
        columns.push_back({std::to_string(c + 1), fmt::format("{:.6g}", ranges[c].min),
                           fmt::format("{:.6g}", ranges[c].mean), fmt::format("{:.6g}", ranges[c].max)});
    }
    TextTable classes = {{"class", "rows"}};
    const auto counts = class_counts(data, part);
    for (std::size_t c = 0; c < counts.size(); ++c)
        classes.push_back({data.classes[c], std::to_string(counts[c])});
    print_out("{}\n{}\n{}", format_table(first), format_table(classes), format_table(columns));
}

Json paths_json(const std::vector<std::filesystem::path>& paths) {
    Json list = Json::array();
    for (const auto& path : paths) list.push_back(path.string());
    return list;
}

struct ExportOptions {
    PartOptions part;
    std::string format;  // empty: from the extension of the output
    std::string output;
};

void run_export(const ExportOptions& options, const Context& context) {
    const auto format =
        options.format.empty() ? output_format(options.output) : parse_enum<Format>(options.format);
    const auto data = load(options.part, context);
    const auto& part = part_of(data, options.part);
    const auto files = export_part(data, part, format, options.output);
    if (context.json) {
        return print_json({{"dataset", data.name},
                           {"part", options.part.part},
                           {"rows", part.x.rows()},
                           {"d", part.x.cols()},
                           {"classes", data.classes},
                           {"files", paths_json(files)}});
    }
    for (const auto& file : files) print_out("wrote {} ({} rows)\n", file.string(), part.x.rows());
}

// fetch and verify

struct FetchArguments {
    std::vector<std::string> names;
    bool all = false;
    std::string base_url;
    int retries = FetchOptions{}.retries;
};

void run_fetch(const FetchArguments& arguments, const Context& context) {
    auto names = arguments.names;
    if (arguments.all) {
        names.clear();
        for (const auto& set : registered_sets()) names.push_back(set.name);
    }
    if (names.empty()) fail(ErrorCode::bad_usage, "expected the names of data sets to fetch, or --all");
    for (const auto& name : names) known_set(name);  // before the first download
    FetchOptions options;
    options.data_dir = context.data_dir;
    options.base_url = arguments.base_url;
    options.retries = arguments.retries;
    Json files = Json::array();
    for (const auto& name : names) {
        const auto& set = known_set(name);
        for (const auto& file : fetch_dataset(set, options, context.exec)) {
            files.push_back(
                {{"dataset", name}, {"path", file.path.string()}, {"downloaded", file.downloaded}});
            if (!context.json)
                print_out("{}: {} {}\n", name, file.path.string(),
                          file.downloaded ? "downloaded" : "already present");
        }
    }
    if (context.json) print_json({{"files", files}});
}

const char* file_state_text(FileState state) {
    switch (state) {
        case FileState::ok:
            return "ok";
        case FileState::other_copy:
            return "ok (other spelling)";
        case FileState::wrong:
            return "wrong";
        case FileState::absent:
            break;
    }
    return "absent";
}

void run_verify(const std::vector<std::string>& names, Context& context) {
    for (const auto& name : names) known_set(name);
    Json files = Json::array();
    std::size_t good = 0;
    std::size_t bad = 0;
    for (const auto& set : registered_sets()) {
        if (!names.empty() && std::ranges::find(names, set.name) == names.end()) continue;
        for (const auto& [path, state, check] : verify_set(set, context.data_dir, context.exec)) {
            // Without names, check only the files that exist.
            if (check.right)
                ++good;
            else if (state != FileState::absent || !names.empty())
                ++bad;
            files.push_back({{"dataset", set.name},
                             {"path", path.string()},
                             {"state", file_state_text(state)},
                             {"raw_sha256", check.raw_sha256},
                             {"table_sha256", check.table_sha256},
                             {"problem", check.problem}});
        }
    }
    // It is a failure if no file was checked.
    const bool right = good > 0 && bad == 0;
    if (!right) context.exit_code = 1;
    if (context.json) return print_json({{"ok", right}, {"files", files}});
    print_out("{}", format_table(table_of(files, {"dataset", "path", "state", "table_sha256", "problem"})));
}

// generate

struct GenerateArguments {
    std::string name;
    GenerateOptions options;  // `generator` is set from the name
};

void run_generate(const GenerateArguments& arguments, const Context& context) {
    auto options = arguments.options;
    options.generator = parse_enum<Generator>(arguments.name);
    generate_file(options, context.exec);
    std::vector<std::filesystem::path> files = {options.output};
    if (output_format(options.output) == Format::npy) files.push_back(labels_beside(options.output));
    if (context.json) {
        const auto& info = generator_info(options.generator);
        return print_json({{"generator", arguments.name},
                           {"seed", options.seed},
                           {"rows", options.rows},
                           {"d", info.features},
                           {"bayes_error", json_or_null(info.bayes_error)},
                           {"files", paths_json(files)}});
    }
    for (const auto& file : files) print_out("wrote {} ({} rows)\n", file.string(), options.rows);
}

// The verbs of `imka data`. The parser's callbacks own the options.

void add_list(CLI::App& data, Context& context) {
    auto* verb = add_verb(data, "list", "List data sets and generators, and show which are present",
                          {"imka data list", "imka data list --data-dir ~/data --json"});
    add_common_options(*verb, context);
    verb->callback([&context] { run_list(context); });
}

void add_info(CLI::App& data, Context& context) {
    auto* verb =
        add_verb(data, "info", "Show details of a data set: source, licence, sizes, files, checksums",
                 {"imka data info ijcnn1", "imka data info ringnorm --json"});
    add_common_options(*verb, context);
    const auto name = std::make_shared<std::string>();
    verb->add_option("name", *name, "Data set or generator")->required();
    verb->callback([&context, name] { run_info(*name, context); });
}

void show_task(const CLI::App& verb, const PartOptions& options, const ShowTaskOptions& task,
               const Context& context) {
    if (!options.name.empty())
        fail(ErrorCode::bad_usage, "expected a data set or --task, not both: " + in_quotes(options.name));
    reject_without_effect(verb,
                          {"--protocol", "--split-seed", "--train-rows", "--test-rows", "--raw",
                           "--label-column", "--header", "--drop-columns", "--missing", "--format", "--rows"},
                          "it needs a data set, not --task");
    if (task.statistics)
        reject_without_effect(verb, {"--index", "--output"}, "--statistics shows the whole part");
    run_show_task(task, options.part, context);
}

void add_show(CLI::App& data, Context& context) {
    auto* verb = add_verb(
        data, "show",
        "Show the first rows and the range of every feature, or examples of a task of Long Range Arena",
        {"imka data show magic", "imka data show skin --protocol measured --part test --raw",
         "imka data show train.libsvm:test.libsvm --rows 3", "imka data show --task pathfinder32 --index 7",
         "imka data show --task listops --part test --statistics"});
    add_common_options(*verb, context);
    const auto options = std::make_shared<PartOptions>();
    const auto rows = std::make_shared<std::uint64_t>(5);
    const auto task = std::make_shared<ShowTaskOptions>();
    add_part_options(*verb, *options);
    verb->get_option("name")->required(false);
    add_task_options(*verb, *task);
    bind_fields(*verb,
                {field("format", options->read.format, {.help = "Format of a file; auto: from its name"})});
    bind_fields(*verb, {field("rows", *rows, range::between(0, 1e9, "Number of rows to show"))});
    verb->callback([&context, verb, options, rows, task] {
        if (!task->task.empty()) return show_task(*verb, *options, *task, context);
        if (options->name.empty()) fail(ErrorCode::bad_usage, "expected a data set, a file or --task TASK");
        reject_without_effect(*verb, task_flags(), "it needs --task");
        check_effects(*verb, *options);
        run_show(*options, *rows, context);
    });
}

void add_fetch(CLI::App& data, Context& context) {
    auto* verb = add_verb(data, "fetch", "Download data sets; resume an interrupted download",
                          {"imka data fetch magic skin --data-dir ~/data",
                           "imka data fetch --all --base-url https://mirror.example.org/imka"});
    add_common_options(*verb, context);
    const auto arguments = std::make_shared<FetchArguments>();
    verb->add_option("names", arguments->names, "Data sets");
    verb->add_flag("--all", arguments->all, "All data sets");
    verb->add_option("--base-url", arguments->base_url, "Download from this mirror, as BASE/FOLDER/NAME");
    bind_fields(*verb, {field("retries", arguments->retries,
                              range::between(0, 100, "Number of retries after a failed attempt"))});
    verb->callback([&context, arguments] { run_fetch(*arguments, context); });
}

void add_verify(CLI::App& data, Context& context) {
    auto* verb =
        add_verb(data, "verify", "Check files against their expected sha256; exit code 1 on a mismatch",
                 {"imka data verify", "imka data verify letter eeg --json"});
    add_common_options(*verb, context);
    const auto names = std::make_shared<std::vector<std::string>>();
    verb->add_option("names", *names, "Data sets; default: all present ones");
    verb->callback([&context, names] { run_verify(*names, context); });
}

void add_export(CLI::App& data, Context& context) {
    auto* verb =
        add_verb(data, "export", "Write one part as LIBSVM, CSV or NPY",
                 {"imka data export letter --part test --output letter_test.csv",
                  "imka data export ijcnn1 --protocol measured --raw --format libsvm --output tr.libsvm",
                  "imka data export skin --output skin.npy    (class numbers in skin.labels.npy)"});
    add_common_options(*verb, context);
    const auto options = std::make_shared<ExportOptions>();
    add_part_options(*verb, options->part);
    bind_fields(*verb, {field("input_format", options->part.read.format,
                              {.help = "Format of an input file; auto: from its name"})});
    verb->add_option("--format", options->format, "Output format; default: from the extension of the output")
        ->check(CLI::IsMember({"libsvm", "csv", "npy"}));
    verb->add_option("--output,-o", options->output, "File to write")->required();
    verb->callback([&context, verb, options] {
        check_effects(*verb, options->part);
        run_export(*options, context);
    });
}

void add_generate(CLI::App& data, Context& context) {
    auto* verb = add_verb(data, "generate", "Write any number of generated rows",
                          {"imka data generate twonorm --rows 7400 --seed 1 --output twonorm.csv",
                           "imka data generate waveform --rows 100000000 --output waveform.npy"});
    add_common_options(*verb, context);
    const auto arguments = std::make_shared<GenerateArguments>();
    verb->add_option("name", arguments->name, "Generator")
        ->required()
        ->type_name(join_names(EnumNames<Generator>::values, "|"));
    bind_fields(*verb, fields(arguments->options));
    verb->get_option("--rows")->default_str("")->required();
    verb->add_option("--output,-o", arguments->options.output, "File to write: .libsvm, .csv or .npy")
        ->required();
    verb->callback([&context, arguments] { run_generate(*arguments, context); });
}

}  // namespace

void add_data(CLI::App& root, Context& context) {
    auto* data = add_verb(root, "data", "Data sets: list, show, download, check, convert, generate",
                          {"imka data list", "imka data fetch magic --data-dir ~/data"});
    data->require_subcommand(1);
    add_list(*data, context);
    add_info(*data, context);
    add_show(*data, context);
    add_fetch(*data, context);
    add_verify(*data, context);
    add_export(*data, context);
    add_generate(*data, context);
}

}  // namespace imka::app
