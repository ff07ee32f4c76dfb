// Records: settings, data, program version and results of a finished run. One JSON line each
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

// Changes with the format of a line or of its key. Records of an unknown schema are kept and flagged, but not
// used.
inline constexpr std::string_view kRecordSchema = "imka-record-2";
// The earlier schema: keys were hashes of all settings. The key of such a line is recomputed when it is read.
inline constexpr std::string_view kFirstRecordSchema = "imka-record-1";

struct Record {
    std::string key;         // run_key(): identifies the run in every file
    std::string experiment;  // not part of the key
    std::string kind;        // kind of run: "ridge"
    std::uint64_t seed = 0;
    // All settings with one seed, named as in the field list; values as plain text ("0.05", "orf", "auto").
    SettingsText config;
    std::string data_sha256;  // of the parsed tables
    // By name: d, m, D, log_ratio, accuracy, gram_error. Empty if the run failed.
    std::map<std::string, double> results;
    std::string error;  // error message of a failed run; empty: success
    std::string imka_version;
    std::string build;            // compiler, build type, BLAS
    std::string instruction_set;  // used by the ops
    double wall_seconds = 0.0;
    double peak_memory_mb = 0.0;  // of the process, up to the end of the run
    std::string finished;         // "2026-01-31T12:00:00Z"

    bool ok() const { return error.empty(); }
    // "" if there is no such setting.
    std::string setting(const std::string& name) const;
};

// SHA-256 over everything that determines the result: schema, revision of the results, kind, data, and the
// settings (with the seed) that differ from their defaults. Adding a setting whose default keeps the previous
// behaviour changes no key (docs/adr/0014-run-keys.md).
std::string run_key(std::string_view kind, const SettingsText& config, std::string_view data_sha256);
std::string run_key(std::string_view kind, const SettingsText& config, std::string_view data_sha256,
                    const SettingsText& defaults);
// Increment when results change on purpose, or when a default changes.
inline constexpr int kResultRevision = 1;

// One line without the line break. It ends with a checksum of the text before.
std::string to_json_line(const Record& record);

// A line that the reader could not use.
struct RecordProblem {
    enum class Kind { torn, other_schema, malformed, disagrees };
    Kind kind = Kind::malformed;
    std::filesystem::path file;
    std::uint64_t line = 0;  // from 1
    std::string what;
};

// One line of a records file: the record, or the problem with it. Never throws.
struct RecordLine {
    std::optional<Record> record;
    RecordProblem::Kind problem = RecordProblem::Kind::malformed;
    std::string what;
};
RecordLine parse_record(std::string_view line);

struct RecordSet {
    // One per key and experiment: the first that succeeded, otherwise the last that failed.
    std::vector<Record> records;
    std::vector<RecordProblem> problems;
};

// A file, or all *.jsonl files of a folder and its subfolder `records`, sorted by name. An incomplete last
// line is `torn`; two records with the same key but different results are `disagrees`. Invalid lines never
// throw; Error{io} only if a file cannot be opened.
RecordSet read_records(const std::filesystem::path& path);
// Merges several sets: a run present in two sets becomes one record per experiment that requested it.
RecordSet read_records(std::span<const std::filesystem::path> paths);

// One row per record; columns: key, experiment, kind, seed, then all settings, all results (result_<name> if
// a setting has the same name), then the other values. RFC 4180.
std::string to_csv(const std::vector<Record>& records);

}  // namespace imka
