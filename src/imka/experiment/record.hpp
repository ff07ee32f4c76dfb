// Records: what a finished run was, on which data and program, and what came out. One JSON line each
// (docs/formats.md); everything that reads results reads these.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "imka/experiment/run.hpp"

namespace imka {

// Changes with the form of a line or of its key. Records of an unknown schema are kept, flagged and never
// used.
inline constexpr std::string_view kRecordSchema = "imka-record-2";
// Its keys were hashes of all settings. Lines of this schema get their key anew when they are read.
inline constexpr std::string_view kFirstRecordSchema = "imka-record-1";

struct Record {
    std::string key;         // run_key(): names the run in every file
    std::string experiment;  // the experiment that asked for it; not part of the key
    std::string kind;        // what was run: "ridge"
    std::uint64_t seed = 0;
    // All settings with one seed, as the field list names them; values as plain text ("0.05", "orf", "auto").
    SettingsText config;
    std::string data_sha256;  // of the parsed tables
    // By name: d, m, D, log_ratio, accuracy, gram_error. Empty when the run failed.
    std::map<std::string, double> results;
    std::string error;  // the sentence of a failed run; empty: it succeeded
    std::string imka_version;
    std::string build;            // compiler, build type, BLAS
    std::string instruction_set;  // that the ops chose
    double wall_seconds = 0.0;
    double peak_memory_mb = 0.0;  // of the process, until the run ended
    std::string finished;         // "2026-01-31T12:00:00Z"

    bool ok() const { return error.empty(); }
    // "" when there is no such setting.
    std::string setting(const std::string& name) const;
};

// SHA-256 over all that determines the result: schema, revision of the results, kind, data, and the settings
// (with the seed) that differ from their defaults. A setting that is added later, with a default that means
// what the program did before, changes no key (docs/adr/0014-run-keys.md).
std::string run_key(std::string_view kind, const SettingsText& config, std::string_view data_sha256,
                    const SettingsText& defaults = default_settings_text());
// To be raised when the program means to give other numbers, or when a default changes.
inline constexpr int kResultRevision = 1;

// One line without its line break.
std::string to_json_line(const Record& record);

// What a reader could not use, and where.
struct RecordProblem {
    enum class Kind { torn, other_schema, malformed, disagrees };
    Kind kind = Kind::malformed;
    std::filesystem::path file;
    std::uint64_t line = 0;  // from 1
    std::string what;
};

// One line of a records file: the record, or what is wrong with it. Never fails.
struct RecordLine {
    std::optional<Record> record;
    RecordProblem::Kind problem = RecordProblem::Kind::malformed;
    std::string what;
};
RecordLine parse_record(std::string_view line);

struct RecordSet {
    // One a key and experiment: the first that succeeded, else the last that failed.
    std::vector<Record> records;
    std::vector<RecordProblem> problems;
};

// A file, or all *.jsonl files of a folder and its folder `records`, in the order of their names. A line cut
// short at the end of a file is `torn`; two records of one key with other results are `disagrees`. Nothing in
// a line can make the reader fail; Error{io} only for what cannot be opened.
RecordSet read_records(const std::filesystem::path& path);
// Several of them as one: a run that stands in two is one record, and one for each experiment that asked for
// it.
RecordSet read_records(std::span<const std::filesystem::path> paths);

// One row a record; columns: key, experiment, kind, seed, then all settings, all results (result_<name> where
// a setting has that name), the rest. RFC 4180.
std::string to_csv(const std::vector<Record>& records);

}  // namespace imka
