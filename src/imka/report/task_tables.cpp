#include "imka/report/task_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "imka/base/duration.hpp"
#include "imka/experiment/kinds.hpp"
#include "imka/io/text.hpp"
#include "imka/io/yaml_list.hpp"

namespace imka::embedded {
extern const std::string_view published_tables;
}  // namespace imka::embedded

namespace imka::report {
namespace {

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
                     .accuracy = std::vector<std::optional<double>>(tasks),
                     .deviation = std::vector<std::optional<double>>(tasks)};
    if (row.checkpoint.empty() != row.mode.empty())
        reader.fail_here("expected both checkpoint and mode, or neither");
    if (row.checkpoint.empty() || reader.find("accuracy") != nullptr)
        row.accuracy = shares(reader, "accuracy", tasks);
    if (reader.find("deviation") != nullptr) row.deviation = shares(reader, "deviation", tasks);
    if (const auto average = reader.find_number("average")) row.average = *average / 100.0;
    reader.done();
    return row;
}

PublishedTable read_table(YamlReader& reader) {
    PublishedTable table{.name = reader.text("name"),
                         .title = reader.text("title"),
                         .source = reader.find_text("source").value_or(""),
                         .experiments = reader.texts("experiments"),
                         .whole_test = reader.find_text("whole_test").value_or("no") == "yes",
                         .baseline = reader.find_text("baseline").value_or(""),
                         .tasks = reader.texts("tasks")};
    if (table.experiments.empty()) reader.fail_key("experiments", "expected at least one name");
    for (auto& row : reader.maps("rows")) table.rows.push_back(read_row(row, table.tasks.size()));
    return table;
}

// Grouping

using Group = std::vector<const Record*>;
// (experiment, samples, data_seed): runs of one table
using TableKey = std::tuple<std::string, std::string, std::string>;
// Runs of one row.
struct RowKey {
    std::string checkpoint;
    std::string mode;
    std::string omega;      // if it is not drawn from the usual law
    double seconds = 0.0;   // since programming
    std::string chip = {};  // other settings

    auto operator<=>(const RowKey&) const = default;
    RowKey digital() const { return {.checkpoint = checkpoint, .mode = "fp32", .omega = omega}; }
    // ", Ω of the checkpoint, after 1 d, compensation global"
    std::string settings() const {
        const auto when = seconds > 0.0 ? fmt::format(", after {}", duration_text(seconds)) : "";
        return omega + when + chip;
    }
};
// By task and seed.
using RowRuns = std::map<std::string, std::map<std::uint64_t, const Record*>>;

// Settings that a table shows elsewhere, or that follow from other settings.
const std::set<std::string, std::less<>> kShownByTable = {
    "dataset",    "seeds", "samples", "data_seed", "saved_omega", "omega_law",
    "checkpoint", "mode",  "origin",  "chip_hash", "read_seconds"};

RowKey row_key(const Record& r) {
    RowKey key{.checkpoint = r.setting("checkpoint"), .mode = r.setting("mode")};
    if (r.setting("saved_omega") == "true") key.omega = ", Ω of the checkpoint";
    if (r.setting("omega_law") == "poisson") key.omega = ", Ω of the Poisson law";
    key.seconds = parse_double(r.setting("read_seconds")).value_or(0.0);
    for (const auto& [name, value] : changed_settings(r.config, default_settings_text(r.kind))) {
        const bool idle = key.mode == "fp32" && name == "calibration_examples";  // no chip is calibrated
        if (!kShownByTable.contains(name) && !idle) key.chip += fmt::format(", {} {}", name, value);
    }
    return key;
}

std::map<RowKey, RowRuns> rows_of(const Group& group) {
    std::map<RowKey, RowRuns> rows;
    for (const auto* r : group) rows[row_key(*r)][r->setting("dataset")][r->seed] = r;
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
        for (const auto& p : published_.rows) {
            rows.push_back(row({.checkpoint = p.checkpoint, .mode = p.mode}, &p));
            if (published_.baseline.empty()) add_variants(p, rows);
        }
        if (!published_.baseline.empty()) return rows;
        for (const auto& [key, runs] : rows_) {
            if (published_row(published_, key.checkpoint, key.mode) == nullptr)
                rows.push_back(row(key, nullptr));
        }
        return rows;
    }

private:
    // Rows for runs of a published row with other settings.
    void add_variants(const PublishedRow& p, std::vector<TaskRow>& rows) const {
        for (const auto& [key, runs] : rows_) {
            if (key.checkpoint == p.checkpoint && key.mode == p.mode && !key.settings().empty())
                rows.push_back(row(key, &p));
        }
    }

    TaskRow row(const RowKey& key, const PublishedRow* published) const {
        TaskRow row{.model = (published != nullptr ? published->model
                                                   : fmt::format("{}, {}", key.checkpoint, key.mode)) +
                             key.settings(),
                    .mode = key.mode};
        if (published != nullptr) row.published_average = published->average;
        for (std::size_t t = 0; t < published_.tasks.size(); ++t)
            row.cells.push_back(cell(key, published, t));
        row.average = average(row);
        return row;
    }

    TaskCell cell(const RowKey& key, const PublishedRow* published, std::size_t task) const {
        TaskCell cell;
        const auto& name = published_.tasks[task];
        const auto* runs = find(key, name);
        if (runs != nullptr) add_runs(*runs, cell);
        const auto* base = key.mode == "fp32" ? nullptr : find(key.digital(), name);
        if (runs != nullptr && base != nullptr) cell.minus_digital = paired(*runs, *base);
        if (published == nullptr) return cell;
        cell.published = published->accuracy[task];
        cell.published_deviation = published->deviation[task];
        const auto* before = key.mode == "fp32" ? nullptr : published_row(published_, key.checkpoint, "fp32");
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

// The tables of the experiment; if it has none, those of the first experiment in the file.
std::vector<const PublishedTable*> tables_for(const std::vector<PublishedTable>& published,
                                              const std::string& experiment) {
    std::vector<const PublishedTable*> tables;
    for (const auto& table : published) {
        if (std::ranges::find(table.experiments, experiment) != table.experiments.end())
            tables.push_back(&table);
    }
    if (!tables.empty() || published.empty()) return tables;
    const auto& first = published.front().experiments.front();
    return first == experiment ? tables : tables_for(published, first);
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
    return table;
}

}  // namespace

double TaskCell::example_error() const {
    return examples == 0 ? 0.0 : binomial_error(accuracy.mean, examples);
}

std::vector<PublishedTable> parse_tables(std::string_view yaml) {
    return parse_yaml_list(yaml, "tables.yaml", "tables", read_table);
}

const std::vector<PublishedTable>& published_tables() {
    static const auto parsed = parse_tables(embedded::published_tables);
    return parsed;
}

std::vector<TaskTable> task_tables(const std::vector<Record>& records,
                                   const std::vector<PublishedTable>& published) {
    std::map<TableKey, Group> groups;
    for (const auto& r : records) {
        if (!r.ok() || !recorded_kind(r.kind).tests_models || !r.results.contains("accuracy") ||
            !r.results.contains("examples"))
            continue;
        groups[{r.experiment, r.setting("samples"), r.setting("data_seed")}].push_back(&r);
    }
    std::vector<TaskTable> tables;
    for (const auto& [key, group] : groups) {
        for (const auto* table : tables_for(published, std::get<0>(key))) {
            if (!table->whole_test || is_whole(key)) tables.push_back(make_table(*table, key, group));
        }
    }
    return tables;
}

}  // namespace imka::report
