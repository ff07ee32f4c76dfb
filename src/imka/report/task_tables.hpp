// Tables of accuracies by task: runs of Performers next to published values.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "imka/experiment/record.hpp"
#include "imka/metrics/metrics.hpp"

namespace imka::report {

// A table of experiments/published/tables.yaml. Accuracies are fractions.
struct PublishedRow {
    std::string model;
    std::string checkpoint;  // of the runs to compare with; "" for reference only
    std::string mode;
    std::vector<std::optional<double>> accuracy;   // by task; none: not published
    std::vector<std::optional<double>> deviation;  // over seeds
    std::optional<double> average;
};
struct PublishedTable {
    std::string name;
    std::string title;
    std::string source;                    // of the published values; may be empty
    std::vector<std::string> experiments;  // whose runs it shows
    bool whole_test = false;               // only compared with runs on all test examples
    std::string baseline;                  // model whose average is subtracted; may be empty
    std::vector<std::string> tasks;
    std::vector<PublishedRow> rows;
};
// Error{bad_config} with the line.
std::vector<PublishedTable> parse_tables(std::string_view yaml);
const std::vector<PublishedTable>& published_tables();

struct TaskCell {
    Summary accuracy = {};                 // over seeds; n = 0: no runs
    std::size_t examples = 0;              // the smallest number in any run
    std::optional<Summary> minus_digital;  // the digital run of the same model and seed subtracted
    std::optional<double> published;       // as in PublishedRow
    std::optional<double> published_deviation;
    std::optional<double> published_minus_digital;

    // From the choice of examples: binomial.
    double example_error() const;
};
// Means over the tasks that have runs and a published value.
struct TaskAverage {
    std::vector<std::string> tasks;
    double mean = 0.0;
    double error = 0.0;  // over seeds
    double published = 0.0;
    std::optional<double> minus_baseline;            // on the same tasks
    std::optional<double> published_minus_baseline;  // on the same tasks
};
struct TaskRow {
    std::string model;
    std::string mode;             // "" for reference rows
    std::vector<TaskCell> cells;  // by task
    std::optional<TaskAverage> average;
    std::optional<double> published_average;  // of all tasks
};
struct TaskTable {
    std::string experiment;
    std::string name;
    std::string title;
    std::string source;
    std::string baseline;
    std::vector<std::string> tasks;
    std::vector<TaskRow> rows;
    std::vector<std::string> missing;  // sentences
    std::vector<std::string> notes;    // number and origin of the examples
};
// By experiment and number of examples.
std::vector<TaskTable> task_tables(const std::vector<Record>& records,
                                   const std::vector<PublishedTable>& published = published_tables());

}  // namespace imka::report
