// Shared by the verbs: common options, tables, JSON output, examples in the help.
#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "imka/base/config.hpp"
#include "imka/base/error.hpp"
#include "imka/base/exec.hpp"
#include "imka/train/trainer.hpp"
#include "terminal.hpp"

namespace imka::app {

using Json = nlohmann::ordered_json;
using TextTable = std::vector<std::vector<std::string>>;

struct Context {
    Exec exec;
    std::filesystem::path data_dir;           // --data-dir, else IMKA_DATA
    bool json = false;                        // print only one JSON object on standard output
    int exit_code = 0;                        // 1: a check failed
    Trainer train = {};                       // only in the program imka-train
    std::vector<std::string> arguments = {};  // command line with the program name
    bool gpu_named = false;                   // --device cuda:N, not just cuda
};

// Exit code for an error.
int exit_code(ErrorCode code);

// Adds a verb to parent; --help ends with the remarks and the examples.
CLI::App* add_verb(CLI::App& parent, const std::string& name, const std::string& summary,
                   const std::vector<std::string>& examples, const std::string& remarks = {});

// --json, --threads, --data-dir, --quiet.
void add_common_options(CLI::App& verb, Context& context);

// --device: sets context.exec.device.
void add_device_option(CLI::App& verb, const std::string& what, Context& context);
// Call this before any work. Error{missing_part} with advice if the device is a GPU that cannot be used.
void require_device(const Context& context);

// Options of a chip. `names`: the name, then former names that still work: "--at,--time".
// --at: when the chip is read; `take` gets the text of a duration.
void add_at_option(CLI::App& verb, const std::string& names, const std::string& shown,
                   const std::function<void(const std::string&)>& take);
// --chip-set (repeatable): changed constants. `take` gets all of them as one list for set_constants.
void add_chip_set_option(CLI::App& verb, const std::string& names,
                         const std::function<void(const std::string&)>& take);

// Settings given as flags, in the order of the command line.
using Assignments = std::vector<std::pair<std::string, std::string>>;

// One option per field: n_components becomes --n-components. Collects the given values, which are applied
// after a settings file: flags override files. `names` selects fields; an unknown name is a bug.
void add_field_options(CLI::App& verb, const Fields& fields, const std::vector<std::string>& names,
                       Assignments& given);

// One option per field that sets the field directly: "calibration_inputs" becomes --calibration-inputs. Use
// it for every number, so that all numbers have the same parser and a range.
void bind_fields(CLI::App& verb, const Fields& fields);
// The same for the fields with these names, in their order; an unknown name is a bug.
void bind_fields(CLI::App& verb, const Fields& fields, const std::vector<std::string>& names);
std::string flag_of(std::string_view field_name);  // "--calibration-inputs"

// Error{bad_usage} "--flag has no effect: <why>" if one of the flags was given.
void reject_without_effect(const CLI::App& verb, const std::vector<std::string>& flags, std::string_view why);

// Text aligned in columns; the first row is the header.
std::string format_table(const TextTable& rows);

// One row per object, one column per key; booleans become yes and no, null is empty.
TextTable table_of(const Json& rows, const std::vector<std::string>& keys);

// Indented, on standard output.
void print_json(const Json& json);

// Path of the training program (imka-train), next to this program; it may not exist.
std::filesystem::path training_program();

// Verbs: one file each, cmd_<verb>.cpp.
void add_data(CLI::App& root, Context& context);
void add_features(CLI::App& root, Context& context);
void add_gram(CLI::App& root, Context& context);
void add_ridge(CLI::App& root, Context& context);
void add_attention(CLI::App& root, Context& context);
void add_train(CLI::App& root, Context& context);
void add_eval(CLI::App& root, Context& context);
void add_sweep(CLI::App& root, Context& context);
void add_chip(CLI::App& root, Context& context);
void add_map(CLI::App& root, Context& context);
void add_deploy(CLI::App& root, Context& context);
void add_run(CLI::App& root, Context& context);
void add_cost(CLI::App& root, Context& context);
void add_bench(CLI::App& root, Context& context);
void add_doctor(CLI::App& root, Context& context);
void add_validate(CLI::App& root, Context& context);
void add_report(CLI::App& root, Context& context);
void add_reproduce(CLI::App& root, Context& context);
void add_completion(CLI::App& root, Context& context);

}  // namespace imka::app
