#include "imka/report/task_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "imka/experiment/run.hpp"
#include "imka/io/text.hpp"
#include "imka/io/yaml.hpp"

namespace imka::embedded {
extern const std::string_view published_tables;
}  // namespace imka::embedded

namespace imka::report {
namespace {

constexpr std::string_view kKind = "performer";

// Reading

std::vector<std::optional<double>> shares(YamlReader& reader, std::string_view key, std::size_t count) {
    std::vector<std::optional<double>> values;
    for (const auto& text : reader.texts(key)) {
        const auto percent = parse_double(text);
        if (!percent && text != "-") reader.fail_key(key, fmt::format("'{}' is not a number or '-'", text));
        values.push_back(percent ? std::optional(*percent / 100.0) : std::nullopt);
    }
    if (values.size() != count) reader.fail_key(key, fmt::format("expected {} values, one per task", count));
    return values;
}

PublishedRow read_row(YamlReader& reader, std::size_t tasks) {
    PublishedRow row{.model = reader.text("model"),
                     .checkpoint = reader.find_text("checkpoint").value_or(""),
                     .mode = reader.find_text("mode").value_or(""),
                     .accuracy = shares(reader, "accuracy", tasks),
                     .deviation = std::vector<std::optional<double>>(tasks)};
    if (row.checkpoint.empty() != row.mode.empty())
        reader.fail_here("expected both checkpoint and mode, or neither");
    if (reader.find("deviation") != nullptr) row.deviation = shares(reader, "deviation", tasks);
    if (const auto average = reader.find_number("average")) row.average = *average / 100.0;
    reader.done();
    return row;
}

PublishedTable read_table(YamlReader& reader) {
    PublishedTable table{.name = reader.text("name"),
                         .title = reader.text("title"),
                         .source = reader.text("source"),
                         .whole_test = reader.find_text("whole_test").value_or("no") == "yes",
                         .baseline = reader.find_text("baseline").value_or(""),
                         .tasks = reader.texts("tasks")};
    for (auto& row : reader.maps("rows")) table.rows.push_back(read_row(row, table.tasks.size()));
    reader.done();
    return table;
}

// Grouping

using Group = std::vector<const Record*>;
// (experiment, samples, data_seed, saved_omega): runs of one table
using TableKey = std::tuple<std::string, std::string, std::string, std::string>;
// (checkpoint, mode, changed chip settings): runs of one row
using RowKey = std::tuple<std::string, std::string, std::string>;
// By task and seed.
using RowRuns = std::map<std::string, std::map<std::uint64_t, const Record*>>;

// Settings that have a place of their own in a table, or are known from others.
const std::set<std::string, std::less<>> kPlaced = {
    "dataset", "seeds", "samples", "data_seed", "saved_omega", "checkpoint", "mode", "origin", "chip_hash"};

std::string other_settings(const Record& r) {
    std::string text;
    for (const auto& [name, value] : changed_settings(r.config, default_settings_text(kKind))) {
        if (!kPlaced.contains(name)) text += fmt::format(", {} {}", name, value);
    }
    return text;
}

std::map<RowKey, RowRuns> rows_of(const Group& group) {
    std::map<RowKey, RowRuns> rows;
    for (const auto* r : group)
        rows[{r->setting("checkpoint"), r->setting("mode"), other_settings(*r)}][r->setting("dataset")]
            [r->seed] = r;
    return rows;
}

// Cells

double accuracy_of(const Record& r) {
    return r.results.at("accuracy");
}

void add_runs(const std::map<std::uint64_t, const Record*>& runs, TaskCell& cell) {
    std::vector<double> values;
    for (const auto& [seed, r] : runs) {
        values.push_back(accuracy_of(*r));
        const auto examples = static_cast<std::size_t>(r->results.at("examples"));
        cell.examples = values.size() == 1 ? examples : std::min(cell.examples, examples);
    }
    cell.accuracy = summarize(std::move(values));
}

std::optional<Summary> paired(const std::map<std::uint64_t, const Record*>& runs,
                              const std::map<std::uint64_t, const Record*>& digital) {
    std::vector<double> values;
    for (const auto& [seed, r] : runs) {
        const auto base = digital.find(seed);
        if (base != digital.end()) values.push_back(accuracy_of(*r) - accuracy_of(*base->second));
    }
    if (values.empty()) return std::nullopt;
    return summarize(std::move(values));
}

const PublishedRow* published_row(const PublishedTable& table, const std::string& checkpoint,
                                  const std::string& mode) {
    const auto place = std::ranges::find_if(table.rows, [&](const PublishedRow& row) {
        return !row.checkpoint.empty() && row.checkpoint == checkpoint && row.mode == mode;
    });
    return place == table.rows.end() ? nullptr : &*place;
}

// Builds one table from the runs of its group.
class Builder {
public:
    Builder(const PublishedTable& published, const Group& group)
        : published_(published), rows_(rows_of(group)) {}

    std::vector<TaskRow> rows() const {
        std::vector<TaskRow> rows;
        for (const auto& p : published_.rows) rows.push_back(row({p.checkpoint, p.mode, ""}, &p));
        if (!published_.baseline.empty()) return rows;
        for (const auto& [key, runs] : rows_) {
            const auto& [checkpoint, mode, other] = key;
            const auto* known = published_row(published_, checkpoint, mode);
            if (known == nullptr || !other.empty()) rows.push_back(row(key, known));
        }
        return rows;
    }

private:
    TaskRow row(const RowKey& key, const PublishedRow* published) const {
        const auto& [checkpoint, mode, other] = key;
        TaskRow row{.model = published != nullptr ? published->model + other
                                                  : fmt::format("{}, {}{}", checkpoint, mode, other),
                    .mode = mode};
        if (published != nullptr) row.published_average = published->average;
        for (std::size_t t = 0; t < published_.tasks.size(); ++t)
            row.cells.push_back(cell(key, published, t));
        row.average = average(row);
        return row;
    }

    TaskCell cell(const RowKey& key, const PublishedRow* published, std::size_t task) const {
        TaskCell cell;
        const auto& [checkpoint, mode, other] = key;
        const RowKey digital{checkpoint, "fp32", ""};
        const auto& name = published_.tasks[task];
        const auto* runs = find(key, name);
        if (runs != nullptr) add_runs(*runs, cell);
        const auto* base = mode == "fp32" ? nullptr : find(digital, name);
        if (runs != nullptr && base != nullptr) cell.minus_digital = paired(*runs, *base);
        if (published == nullptr) return cell;
        cell.published = published->accuracy[task];
        cell.published_deviation = published->deviation[task];
        const auto* before = mode == "fp32" ? nullptr : published_row(published_, checkpoint, "fp32");
        if (before != nullptr && cell.published && before->accuracy[task])
            cell.published_minus_digital = *cell.published - *before->accuracy[task];
        return cell;
    }

    const std::map<std::uint64_t, const Record*>* find(const RowKey& key, const std::string& task) const {
        const auto row = rows_.find(key);
        if (row == rows_.end()) return nullptr;
        const auto runs = row->second.find(task);
        return runs == row->second.end() ? nullptr : &runs->second;
    }

    std::optional<TaskAverage> average(const TaskRow& row) const {
        TaskAverage sum;
        double baseline = 0.0;
        const auto base = std::ranges::find(published_.rows, published_.baseline, &PublishedRow::model);
        for (std::size_t t = 0; t < row.cells.size(); ++t) {
            const auto& c = row.cells[t];
            if (c.accuracy.n == 0 || !c.published) continue;
            sum.tasks.push_back(published_.tasks[t]);
            sum.mean += c.accuracy.mean;
            sum.error += c.accuracy.error() * c.accuracy.error();
            sum.published += *c.published;
            if (base != published_.rows.end()) baseline += base->accuracy[t].value_or(NAN);
        }
        if (sum.tasks.empty()) return std::nullopt;
        const auto n = static_cast<double>(sum.tasks.size());
        sum.mean /= n;
        sum.error = std::sqrt(sum.error) / n;
        sum.published /= n;
        if (base != published_.rows.end() && std::isfinite(baseline)) {
            sum.minus_baseline = sum.mean - baseline / n;
            sum.published_minus_baseline = sum.published - baseline / n;
        }
        return sum;
    }

    const PublishedTable& published_;
    std::map<RowKey, RowRuns> rows_;
};

// Words

std::vector<std::string> missing_of(const TaskTable& table) {
    std::vector<std::string> sentences;
    for (const auto& row : table.rows) {
        std::vector<std::string> tasks;
        for (std::size_t t = 0; t < row.cells.size(); ++t) {
            if (row.cells[t].accuracy.n == 0) tasks.push_back(table.tasks[t]);
        }
        if (!row.mode.empty() && !tasks.empty())
            sentences.push_back(fmt::format("{}: no runs of {}", row.model, fmt::join(tasks, ", ")));
    }
    return sentences;
}

std::vector<std::string> notes_of(const Group& group, const std::vector<std::string>& tasks) {
    std::vector<std::string> notes;
    for (const auto& task : tasks) {
        std::set<std::string> origins;
        std::set<double> examples;
        for (const auto* r : group) {
            if (r->setting("dataset") != task) continue;
            origins.insert(r->setting("origin"));
            examples.insert(r->results.at("examples"));
        }
        if (!origins.empty())
            notes.push_back(fmt::format("{}: {} test examples, {}", task, fmt::join(examples, ", "),
                                        fmt::join(origins, "; ")));
    }
    return notes;
}

bool is_whole(const TableKey& key) {
    return std::get<1>(key) == "auto";
}

TaskTable make_table(const PublishedTable& published, const TableKey& key, const Group& group) {
    TaskTable table{.experiment = std::get<0>(key),
                    .name = published.name,
                    .title = is_whole(key) ? published.title
                                           : fmt::format("{}, {} test examples per task", published.title,
                                                         std::get<1>(key)),
                    .source = published.source,
                    .baseline = published.baseline,
                    .tasks = published.tasks,
                    .rows = Builder(published, group).rows()};
    table.missing = missing_of(table);
    table.notes = notes_of(group, published.tasks);
    if (std::get<3>(key) == "true") table.notes.emplace_back("Ω of the checkpoint for all seeds");
    return table;
}

}  // namespace

double TaskCell::example_error() const {
    if (examples == 0) return 0.0;
    return std::sqrt(accuracy.mean * (1.0 - accuracy.mean) / static_cast<double>(examples));
}

std::vector<PublishedTable> parse_tables(std::string_view yaml) {
    const auto tree = parse_yaml(yaml, "tables.yaml");
    YamlReader reader(tree);
    std::vector<PublishedTable> tables;
    for (auto& entry : reader.maps("tables")) tables.push_back(read_table(entry));
    reader.done();
    return tables;
}

const std::vector<PublishedTable>& published_tables() {
    static const auto parsed = parse_tables(embedded::published_tables);
    return parsed;
}

std::vector<TaskTable> task_tables(const std::vector<Record>& records,
                                   const std::vector<PublishedTable>& published) {
    std::map<TableKey, Group> groups;
    for (const auto& r : records) {
        if (!r.ok() || r.kind != kKind || !r.results.contains("accuracy") || !r.results.contains("examples"))
            continue;
        groups[{r.experiment, r.setting("samples"), r.setting("data_seed"), r.setting("saved_omega")}]
            .push_back(&r);
    }
    std::vector<TaskTable> tables;
    for (const auto& [key, group] : groups) {
        for (const auto& table : published) {
            if (!table.whole_test || is_whole(key)) tables.push_back(make_table(table, key, group));
        }
    }
    return tables;
}

}  // namespace imka::report
