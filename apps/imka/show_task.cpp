#include "show_task.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/data/lra/listops.hpp"
#include "imka/data/lra/show.hpp"
#include "imka/io/text.hpp"

namespace imka::app {
namespace {

std::vector<std::uint32_t> documents_of(const LraTaskInfo& info, const LraData::Example& example) {
    if (info.documents == 2) return {example.first, example.second};
    return {example.first};
}

Json document_json(const LraData& data, std::uint32_t document) {
    const auto tokens = document_tokens(data, document);
    Json json = {{"length", tokens.size()}};
    if (lra_task(data.task).pixels)
        json["pixels"] = tokens;
    else if (data.task == LraTask::listops)
        json["expression"] = listops::expression_text(tokens);
    else if (data.task == LraTask::tiny)
        json["symbols"] = tokens;
    else
        json["text"] = printable(std::string(tokens.begin(), tokens.end()));
    return json;
}

Json head_json(const LraData& data, const ShowTaskOptions& options, const std::string& part) {
    return {{"task", options.task}, {"part", part}, {"seed", options.seed}, {"origin", data.origin}};
}

Json example_json(const LraData& data, std::size_t index) {
    const auto& example = data.examples[index];
    Json documents = Json::array();
    for (const auto d : documents_of(lra_task(data.task), example))
        documents.push_back(document_json(data, d));
    return {{"index", index}, {"label", example.label}, {"documents", documents}};
}

void print_example(const LraData& data, const std::string& part, std::size_t index) {
    const auto& example = data.examples[index];
    print_out("{}, part {}, example {}: label {}\n", to_string(data.task), part, index, example.label);
    for (const auto d : documents_of(lra_task(data.task), example)) {
        const auto tokens = document_tokens(data, d);
        print_out("{}\n{}", count_text(tokens.size(), "token", "tokens"), document_text(data.task, tokens));
    }
}

void write_picture(const LraData& data, const ShowTaskOptions& options) {
    if (!lra_task(data.task).pixels)
        fail(ErrorCode::bad_usage, fmt::format("--output writes images; {} has none", options.task));
    if (options.count > 1) fail(ErrorCode::bad_usage, "--output writes one image; use it without --count");
    const auto document = data.examples[options.index].first;
    write_file_atomic(options.output, pgm_bytes(document_tokens(data, document)));
}

Json statistics_json(const LraStatistics& s) {
    Json json = {
        {"examples", s.examples},
        {"documents", s.documents},
        {"class_counts", s.class_counts},
        {"length",
         {{"min", s.lengths[0]}, {"mean", s.mean_length}, {"median", s.lengths[1]}, {"max", s.lengths[2]}}}};
    if (s.pixels)
        json["pixels"] = {{"mean", s.pixels->mean},
                          {"standard_deviation", s.pixels->standard_deviation},
                          {"share_of_zeros", s.pixels->share_of_zeros},
                          {"share_from_128", s.pixels->share_from_128}};
    return json;
}

void show_statistics(const LraData& data, const ShowTaskOptions& options, const std::string& part,
                     const Context& context) {
    const auto s = lra_statistics(data);
    if (context.json) {
        auto json = head_json(data, options, part);
        json["statistics"] = statistics_json(s);
        return print_json(json);
    }
    print_out("{}, part {}, {}: {}, {}\n\n", options.task, part, data.origin,
              count_text(s.examples, "example", "examples"),
              count_text(s.documents, "document", "documents"));
    TextTable classes = {{"class", "examples", "share"}};
    for (std::size_t c = 0; c < s.class_counts.size(); ++c) {
        const auto share = static_cast<double>(s.class_counts[c]) / static_cast<double>(s.examples);
        classes.push_back(
            {std::to_string(c), std::to_string(s.class_counts[c]), fmt::format("{:.4f}", share)});
    }
    TextTable figures = {{"figure", "value"},
                         {"shortest document", std::to_string(s.lengths[0])},
                         {"mean length", fmt::format("{:.1f}", s.mean_length)},
                         {"median length", std::to_string(s.lengths[1])},
                         {"longest document", std::to_string(s.lengths[2])}};
    if (s.pixels) {
        figures.push_back({"mean gray", fmt::format("{:.3f}", s.pixels->mean)});
        figures.push_back({"standard deviation", fmt::format("{:.3f}", s.pixels->standard_deviation)});
        figures.push_back({"share of 0", fmt::format("{:.4f}", s.pixels->share_of_zeros)});
        figures.push_back({"share of 128..255", fmt::format("{:.4f}", s.pixels->share_from_128)});
    }
    print_out("{}\n{}", format_table(classes), format_table(figures));
}

// Generates only as many examples as needed.
LraSource source_of(const ShowTaskOptions& options, const Context& context) {
    LraSource source{.data_dir = context.data_dir, .seed = options.seed};
    const auto& info = lra_task(parse_enum<LraTask>(options.task));
    if (options.statistics && options.count > 0) source.examples = options.count;
    if (!options.statistics && info.generated)
        source.examples = options.index + std::max<std::uint64_t>(options.count, 1);
    return source;
}

}  // namespace

std::vector<std::string> task_flags() {
    return {"--index", "--count", "--seed", "--statistics", "--output"};
}

void add_task_options(CLI::App& verb, ShowTaskOptions& options) {
    verb.add_option("--task", options.task, "Task of Long Range Arena to show instead of a data set")
        ->type_name(join_names(EnumNames<LraTask>::values, "|"));
    constexpr double kMost = 4e9;
    bind_fields(verb,
                {field("index", options.index, range::between(0, kMost, "First example to show")),
                 field("count", options.count,
                       range::between(0, kMost, "Number of examples; 0 = one, or all for --statistics")),
                 field("seed", options.seed, {.help = "Seed of generated tasks, splits and choices"})});
    verb.add_flag("--statistics", options.statistics, "Show lengths, classes and gray levels of the part");
    verb.add_option("--output,-o", options.output, "Write the image of one example to this PGM file");
}

void run_show_task(const ShowTaskOptions& options, const std::string& part, const Context& context) {
    const auto data = load_lra(parse_enum<LraTask>(options.task), parse_enum<LraPart>(part),
                               source_of(options, context), context.exec);
    if (options.statistics) return show_statistics(data, options, part, context);
    if (options.index >= data.examples.size())
        fail(ErrorCode::bad_usage, fmt::format("--index {}: part {} of {} has {} examples", options.index,
                                               part, options.task, data.examples.size()));
    if (!options.output.empty()) write_picture(data, options);
    const auto end = std::min<std::uint64_t>(options.index + std::max<std::uint64_t>(options.count, 1),
                                             data.examples.size());
    if (context.json) {
        auto json = head_json(data, options, part);
        json["examples"] = Json::array();
        for (auto i = options.index; i < end; ++i) json["examples"].push_back(example_json(data, i));
        return print_json(json);
    }
    print_out("{}\n", data.origin);
    for (auto i = options.index; i < end; ++i) print_example(data, part, i);
    if (!options.output.empty()) print_out("wrote {}\n", options.output);
}

}  // namespace imka::app
