#include "imka/report/setting_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "imka/base/error.hpp"
#include "imka/data/lra/generate.hpp"
#include "imka/data/lra/task.hpp"
#include "imka/io/text.hpp"
#include "imka/io/yaml_list.hpp"
#include "imka/train/recipe.hpp"

namespace imka::embedded {
extern const std::string_view published_settings;
}  // namespace imka::embedded

namespace imka::report {
namespace {

constexpr std::string_view kNone = "-";

PublishedSetting read_setting(YamlReader& reader, std::size_t tasks) {
    PublishedSetting row{.setting = reader.text("setting")};
    row.name = reader.find_text("name").value_or(row.setting);
    row.values = reader.texts("values");
    if (row.values.size() != tasks)
        reader.fail_key("values", fmt::format("expected {} values, one per task", tasks));
    reader.done();
    return row;
}

SettingReason read_reason(YamlReader& reader) {
    SettingReason reason{.setting = reader.text("setting")};
    if (reader.find("tasks") != nullptr) reason.tasks = reader.texts("tasks");
    reason.text = reader.text("text");
    reader.done();
    return reason;
}

PublishedSettings read_settings(YamlReader& reader) {
    PublishedSettings table{.name = reader.text("name"),
                            .title = reader.text("title"),
                            .source = reader.text("source"),
                            .tasks = reader.texts("tasks")};
    for (auto& row : reader.maps("rows")) table.rows.push_back(read_setting(row, table.tasks.size()));
    for (auto& reason : reader.maps("reasons")) table.reasons.push_back(read_reason(reason));
    return table;
}

const PublishedSettings& table_of(std::string_view name) {
    return *std::ranges::find(published_settings(), name, &PublishedSettings::name);
}

bool same(const std::string& a, const std::string& b) {
    const auto x = parse_double(a);
    const auto y = parse_double(b);
    return x && y ? *x == *y : a == b;
}

std::string reason_for(const PublishedSettings& table, const std::string& setting, const std::string& task) {
    for (const auto& r : table.reasons) {
        if (r.setting == setting && (r.tasks.empty() || std::ranges::count(r.tasks, task) > 0)) return r.text;
    }
    return {};
}

std::string value_of(const TaskSettings& ours, const std::string& task, const std::string& setting) {
    const auto settings = ours.find(task);
    if (settings == ours.end()) return std::string(kNone);
    const auto value = settings->second.find(setting);
    return value == settings->second.end() ? std::string(kNone) : value->second;
}

// Settings of a recipe, with those that the paper's table expresses differently.
std::map<std::string, std::string> recipe_settings(const std::string& task) {
    auto recipe = load_recipe(task);
    std::map<std::string, std::string> values;
    for (const auto& f : fields(recipe)) values[f.name] = plain_text(f);
    const auto& model = recipe.model;
    values.erase("task");
    values["optimizer"] = "adam";
    values["classifier_input"] = std::to_string(model.documents * model.width);
    values["features"] = std::to_string(model.attention == ModelAttention::favor ? 2 * model.n_directions
                                                                                 : model.n_directions);
    if (!lra_task(recipe.task).pixels) {
        values.erase("pixel_mean");
        values.erase("pixel_std");
    }
    return values;
}

std::size_t median_length(const LraData& data) {
    auto lengths = data.lengths;
    const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
    std::ranges::nth_element(lengths, middle);
    return *middle;
}

std::map<std::string, std::string> loaded_settings(const LraTaskInfo& info, LraSource source,
                                                   const Exec& exec) {
    std::map<std::string, std::string> values = {{"length", std::to_string(info.documents * info.length)},
                                                 {"split", info.generated ? "generated" : "fixed"},
                                                 {"classes", std::to_string(info.classes)},
                                                 {"modality", info.pixels ? "image" : "text"}};
    for (const auto part : {LraPart::train, LraPart::valid, LraPart::test}) {
        // Some examples of a generated task suffice for the median length.
        constexpr std::size_t kGenerated = 2000;
        if (info.generated) source.examples = part == LraPart::test ? kGenerated : 1;
        const auto data = load_lra(info.task, part, source, exec);
        const auto count = info.generated ? generated_examples(info.task, part) : data.examples.size();
        values[std::string(to_string(part))] = std::to_string(count);
        if (part == LraPart::test)
            values["median tokens of a document"] = std::to_string(median_length(data));
    }
    return values;
}

}  // namespace

std::vector<PublishedSettings> parse_settings(std::string_view yaml) {
    return parse_yaml_list(yaml, "settings.yaml", "tables", read_settings);
}

const std::vector<PublishedSettings>& published_settings() {
    static const auto parsed = parse_settings(embedded::published_settings);
    return parsed;
}

SettingTable compare_settings(const PublishedSettings& published, const TaskSettings& ours) {
    SettingTable table{.name = published.name,
                       .title = published.title,
                       .source = published.source,
                       .tasks = published.tasks};
    std::set<std::string> left;
    for (const auto& [task, settings] : ours) {
        for (const auto& [name, value] : settings) left.insert(name);
    }
    for (const auto& p : published.rows) {
        SettingRow row{.name = p.name};
        for (std::size_t t = 0; t < table.tasks.size(); ++t) {
            const auto& task = table.tasks[t];
            SettingCell cell{.imka = value_of(ours, task, p.setting), .published = p.values[t]};
            cell.differs = ours.contains(task) && cell.published != kNone && !same(cell.imka, cell.published);
            if (cell.differs) cell.reason = reason_for(published, p.setting, task);
            row.cells.push_back(std::move(cell));
        }
        left.erase(p.setting);
        table.rows.push_back(std::move(row));
    }
    for (const auto& setting : left) {
        SettingRow row{.name = setting};
        for (const auto& task : table.tasks)
            row.cells.push_back({.imka = value_of(ours, task, setting), .published = std::string(kNone)});
        table.rows.push_back(std::move(row));
    }
    return table;
}

SettingTable hyper_parameter_table() {
    const auto& published = table_of("hyper_parameters");
    TaskSettings ours;
    for (const auto& task : published.tasks) ours[task] = recipe_settings(task);
    return compare_settings(published, ours);
}

SettingTable data_table(const std::filesystem::path& data_dir, const Exec& exec) {
    const auto& published = table_of("data");
    TaskSettings ours;
    std::vector<std::string> notes;
    for (const auto& task : published.tasks) {
        const auto& info = lra_task(parse_enum<LraTask>(task));
        try {
            ours[task] = loaded_settings(info, {.data_dir = data_dir}, exec);
        } catch (const Error& e) {
            if (e.code() != ErrorCode::missing_part) throw;
            ours.erase(task);
            notes.push_back(fmt::format("{}: left out: {}", task, e.what()));
        }
    }
    auto table = compare_settings(published, ours);
    table.notes = std::move(notes);
    return table;
}

}  // namespace imka::report
