// The statements of one paper as data. Numbers and texts are in experiments/published/paper.yaml, not in the
// code of report/.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "imka/experiment/published.hpp"
#include "imka/report/figure.hpp"

namespace imka::report {

// An experiment that repeats part of the paper.
struct Reproduction {
    std::string name;     // name of the reproduction and of its experiment
    std::string table;    // table of the published values
    std::string backend;  // backend of the published values that it repeats; "" for all
    bool averages = false;
    bool runs = true;    // an experiment; otherwise a table of settings (report/setting_tables.hpp)
    std::string qkv_of;  // checkpoint whose queries, keys and values are the data set; may be empty
    std::string title;
    std::string what;
    std::string note;  // a remark on the figures; may be empty
};

// A size at which accuracies are averaged over samplers. The best size of each sampler if both are 0.
struct SizeRule {
    std::string name;
    double features = 0.0;    // D/d
    double directions = 0.0;  // m/d
};

// Goals for an emulated chip.
struct Goals {
    std::map<std::string, double> gram_error;  // by kernel: largest RMS of ln(emulated / measured)
    double accuracy_share = 0.0;               // minimum fraction of cells whose accuracy agrees
};

// A difference between the default protocol and the protocol of the published runs. Empty conditions always
// apply.
struct ProtocolDifference {
    std::string text;
    std::vector<std::string> datasets;
    std::vector<std::string> kernels;
    std::vector<std::string> samplers;
    std::optional<bool> random_split;
};

// A sentence and how to check it. The check determines which of the other fields are used (statements.cpp).
struct Statement {
    std::string text;
    std::string check;
    std::string dataset;
    std::string kernel;
    std::string backend;  // fp32 or chip
    std::string than;     // a kernel or sampler to compare with
    Quantity quantity = Quantity::gram_error;
    std::vector<std::string> kernels;
    std::vector<std::string> samplers;
    std::vector<std::string> except;  // "DATASET KERNEL"
    std::vector<double> sizes;        // log2(m/d)
    std::vector<double> range;        // low, high
    std::vector<double> first;        // range at the first size
    std::vector<double> last;         // range at the last size
    double points = 0.0;              // percentage points
};

struct Paper {
    std::vector<Reproduction> reproductions;
    std::string published_runs;  // the experiment with the settings of the published runs
    std::vector<SizeRule> sizes;
    Goals goals;
    std::vector<ProtocolDifference> protocol_differences;
    std::map<std::string, std::string> notes;
    std::vector<Statement> statements;
};

// Error{bad_config} with the line for unknown or missing keys and unknown checks.
Paper parse_paper(std::string_view yaml);
// The embedded file.
const Paper& paper();

const std::vector<Reproduction>& reproductions();
// nullptr if unknown.
const Reproduction* find_reproduction(std::string_view name);

// Checks of the statements on records and on the published values.

// Number of cases in which a sentence holds, and its numbers.
struct Holding {
    std::size_t holds = 0;
    std::size_t cases = 0;
    std::string numbers;  // mostly for statements on the chip; may be empty
};
struct CheckedStatement {
    std::string text;
    Holding ours;
    Holding published;  // the same check on the published values
};
// Statements with at least one case among our runs. Comparisons allow two standard errors.
std::vector<CheckedStatement> check_statements(const std::vector<Figure>& figures,
                                               const std::string& experiment, const Paper& paper);

// The fields of Statement that a check uses. Error{bad_config} for an unknown check.
std::span<const std::string_view> check_arguments(std::string_view check);

}  // namespace imka::report
