#include "imka/report/paper.hpp"

#include <algorithm>

#include "imka/io/yaml.hpp"

namespace imka::embedded {
extern const std::string_view published_paper;
}  // namespace imka::embedded

namespace imka::report {
namespace {

std::optional<bool> find_yes_no(YamlReader& reader, std::string_view key) {
    const auto text = reader.find_text(key);
    if (!text) return std::nullopt;
    if (*text != "yes" && *text != "no") reader.fail_key(key, "expected yes or no");
    return *text == "yes";
}

std::vector<std::string> find_texts(YamlReader& reader, std::string_view key) {
    return reader.find(key) != nullptr ? reader.texts(key) : std::vector<std::string>{};
}

std::vector<double> pair(YamlReader& reader, std::string_view key) {
    auto values = reader.numbers(key);
    if (values.size() != 2 || values[0] > values[1]) reader.fail_key(key, "expected [low, high]");
    return values;
}

Reproduction read_reproduction(YamlReader& reader) {
    return {.name = reader.text("name"),
            .table = reader.text("table"),
            .backend = reader.find_text("backend").value_or(""),
            .averages = find_yes_no(reader, "averages").value_or(false),
            .runs = find_yes_no(reader, "runs").value_or(true),
            .qkv_of = reader.find_text("qkv_of").value_or(""),
            .title = reader.text("title"),
            .what = reader.text("what"),
            .note = reader.find_text("note").value_or("")};
}

SizeRule read_size(YamlReader& reader) {
    SizeRule rule{.name = reader.text("name"),
                  .features = reader.find_number("features").value_or(0.0),
                  .directions = reader.find_number("directions").value_or(0.0)};
    const bool best = find_yes_no(reader, "best").value_or(false);
    if ((rule.features > 0.0) + (rule.directions > 0.0) + best != 1)
        reader.fail_here("expected one of features, directions and best");
    return rule;
}

Goals read_goals(YamlReader reader) {
    Goals goals;
    for (auto& entry : reader.maps("gram_error")) {
        goals.gram_error[entry.text("kernel")] = entry.number("rms");
        entry.done();
    }
    goals.accuracy_share = reader.number("accuracy_share");
    reader.done();
    return goals;
}

ProtocolDifference read_difference(YamlReader& reader) {
    return {.text = reader.text("text"),
            .datasets = find_texts(reader, "datasets"),
            .kernels = find_texts(reader, "kernels"),
            .samplers = find_texts(reader, "samplers"),
            .random_split = find_yes_no(reader, "random_split")};
}

// A check needs all of its arguments and accepts no others.
void read_argument(YamlReader& reader, std::string_view key, Statement& s) {
    if (key == "dataset") s.dataset = reader.text(key);
    if (key == "kernel") s.kernel = reader.text(key);
    if (key == "backend") s.backend = reader.text(key);
    if (key == "than") s.than = reader.text(key);
    if (key == "quantity") s.quantity = reader.name<Quantity>(key);
    if (key == "kernels") s.kernels = reader.texts(key);
    if (key == "samplers") s.samplers = reader.texts(key);
    if (key == "except") s.except = reader.texts(key);
    if (key == "sizes") s.sizes = reader.numbers(key);
    if (key == "range") s.range = pair(reader, key);
    if (key == "first") s.first = pair(reader, key);
    if (key == "last") s.last = pair(reader, key);
    if (key == "points") s.points = reader.number(key);
}

Statement read_statement(YamlReader& reader) {
    Statement statement{.text = reader.text("text"), .check = reader.text("check")};
    const auto arguments = reader.at("check", [&] { return check_arguments(statement.check); });
    for (const auto key : arguments) read_argument(reader, key, statement);
    return statement;
}

template <class Read>
auto read_all(YamlReader& reader, std::string_view key, const Read& read) {
    std::vector<decltype(read(reader))> all;
    for (auto& entry : reader.maps(key)) {
        all.push_back(read(entry));
        entry.done();
    }
    return all;
}

}  // namespace

Paper parse_paper(std::string_view yaml) {
    const auto tree = parse_yaml(yaml, "paper.yaml");
    YamlReader reader(tree);
    Paper paper{.reproductions = read_all(reader, "reproductions", read_reproduction),
                .published_runs = reader.text("published_runs"),
                .sizes = read_all(reader, "sizes", read_size),
                .goals = read_goals(reader.map("goals")),
                .protocol_differences = read_all(reader, "protocol_differences", read_difference),
                .statements = read_all(reader, "statements", read_statement)};
    auto notes = reader.map("notes");
    for (const auto& key : notes.node().keys) paper.notes[key.text] = notes.text(key.text);
    reader.done();
    return paper;
}

const Paper& paper() {
    static const auto parsed = parse_paper(embedded::published_paper);
    return parsed;
}

const std::vector<Reproduction>& reproductions() {
    return paper().reproductions;
}

const Reproduction* find_reproduction(std::string_view name) {
    const auto& all = reproductions();
    const auto place = std::ranges::find(all, name, &Reproduction::name);
    return place == all.end() ? nullptr : &*place;
}

}  // namespace imka::report
