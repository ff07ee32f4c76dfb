// What the verbs share: common options, progress on the terminal, examples in the help.
#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "imka/base/config.hpp"
#include "imka/base/error.hpp"
#include "imka/base/exec.hpp"

namespace imka::app {

using Json = nlohmann::ordered_json;
using TextTable = std::vector<std::vector<std::string>>;

struct Context {
    Exec exec;
    std::filesystem::path data_dir;  // --data-dir, else IMKA_DATA
    bool json = false;               // one JSON object on standard output, nothing else there
    int exit_code = 0;               // 1: a check failed
};

// What the program returns for an error.
int exit_code(ErrorCode code);

// A verb under parent, with its worked examples at the end of --help.
CLI::App* add_verb(CLI::App& parent, const std::string& name, const std::string& summary,
                   const std::vector<std::string>& examples);

// --json, --threads, --data-dir, --quiet.
void add_common_options(CLI::App& verb, Context& context);

// Settings given as flags, in their order.
using Assignments = std::vector<std::pair<std::string, std::string>>;

// One option a field: n_components becomes --n-components. What is given is collected, to be set when a
// settings file has been read: flags beat files. `names` picks fields; an unknown name is our bug.
void add_field_options(CLI::App& verb, const Fields& fields, const std::vector<std::string>& names,
                       Assignments& given);

// Text aligned in columns; the first row is the head.
std::string format_table(const TextTable& rows);

// Objects as rows under the names of the keys; booleans are yes and no, null is empty.
TextTable table_of(const Json& rows, const std::vector<std::string>& keys);

// Indented, on standard output.
void print_json(const Json& json);

// Verbs: one file each, cmd_<verb>.cpp.
void add_data(CLI::App& root, Context& context);
void add_features(CLI::App& root, Context& context);
void add_gram(CLI::App& root, Context& context);
void add_ridge(CLI::App& root, Context& context);
void add_sweep(CLI::App& root, Context& context);
void add_chip(CLI::App& root, Context& context);
void add_bench(CLI::App& root, Context& context);
void add_doctor(CLI::App& root, Context& context);
void add_validate(CLI::App& root, Context& context);
void add_report(CLI::App& root, Context& context);
void add_reproduce(CLI::App& root, Context& context);
void add_completion(CLI::App& root, Context& context);

}  // namespace imka::app
