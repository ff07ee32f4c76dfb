#include "imka/experiment/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/base/sha256.hpp"
#include "imka/experiment/kinds.hpp"
#include "imka/io/text.hpp"

namespace imka {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json as_object(const std::map<std::string, T>& values) {
    Json j = Json::object();
    for (const auto& [name, value] : values) j[name] = value;
    return j;
}

constexpr std::size_t kKeys = 15;  // of a line, without the checksum
// A line ends with a checksum of the text before it.
constexpr std::string_view kCheckBegin = R"(,"check":")";
constexpr std::string_view kCheckEnd = R"("})";
constexpr std::size_t kCheckDigits = 16;

// `body`: a JSON object without its closing brace.
std::string with_check(std::string_view body) {
    return fmt::format("{}{}{}{}", body, kCheckBegin, sha256_hex(body).substr(0, kCheckDigits), kCheckEnd);
}

bool check_matches(std::string_view line) {
    constexpr std::size_t kTail = kCheckBegin.size() + kCheckDigits + kCheckEnd.size();
    return line.size() > kTail && line == with_check(line.substr(0, line.size() - kTail));
}

// The message of a JSON error without the library's prefix "[json.exception.type_error.302] ".
std::string plain_message(const nlohmann::json::exception& e) {
    const std::string_view text = e.what();
    const auto end = text.find("] ");
    return std::string(end == std::string_view::npos ? text : text.substr(end + 2));
}

Record from_json(const nlohmann::json& j) {
    if (!j.at("seed").is_number_unsigned()) fail(ErrorCode::bad_data, "the seed is not an integer >= 0");
    Record r{.key = j.at("key"),
             .experiment = j.at("experiment"),
             .kind = j.at("kind"),
             .seed = j.at("seed"),
             .config = j.at("config"),
             .data_sha256 = j.at("data_sha256"),
             .results = j.at("results"),
             .error = j.at("error"),
             .imka_version = j.at("imka_version"),
             .build = j.at("build"),
             .instruction_set = j.at("instruction_set"),
             .wall_seconds = j.at("wall_seconds"),
             .peak_memory_mb = j.at("peak_memory_mb"),
             .finished = j.at("finished")};
    if (r.key.empty()) fail(ErrorCode::bad_data, "the key is empty");
    return r;
}

// Merges records with the same key while reading.
class Collector {
public:
    void add(Record record, const std::filesystem::path& file, std::uint64_t line) {
        const auto [place, is_new] =
            places_.try_emplace(fmt::format("{}\n{}", record.experiment, record.key), set_.records.size());
        if (is_new) {
            set_.records.push_back(std::move(record));
            return;
        }
        Record& known = set_.records[place->second];
        if (record.ok() && known.ok()) {
            if (record.results != known.results && !recorded_kind(record.kind).measures_time) {
                add_problem(RecordProblem::Kind::disagrees, file, line,
                            fmt::format("run {} has an earlier record with different results", record.key));
            }
        } else if (record.ok() || !known.ok()) {
            known = std::move(record);
        }
    }
    void add_problem(RecordProblem::Kind kind, const std::filesystem::path& file, std::uint64_t line,
                     std::string what) {
        set_.problems.push_back({.kind = kind, .file = file, .line = line, .what = std::move(what)});
    }
    RecordSet take() { return std::move(set_); }

private:
    RecordSet set_;
    std::unordered_map<std::string, std::size_t> places_;
};

void read_one_file(const std::filesystem::path& file, Collector& all) {
    std::ifstream in(file);
    if (!in) fail(ErrorCode::io, fmt::format("{}: cannot be read", file.string()));
    std::uint64_t line = 0;
    for (std::string text; std::getline(in, text);) {
        ++line;
        if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
        auto parsed = parse_record(text);
        if (parsed.record) {
            all.add(std::move(*parsed.record), file, line);
        } else if (in.eof()) {
            all.add_problem(RecordProblem::Kind::torn, file, line, "incomplete line");
        } else {
            all.add_problem(parsed.problem, file, line, std::move(parsed.what));
        }
    }
}

std::vector<std::filesystem::path> record_files(const std::filesystem::path& folder) {
    std::vector<std::filesystem::path> files;
    for (const auto& place : {folder, folder / "records"}) {
        if (!std::filesystem::is_directory(place)) continue;
        for (const auto& entry : std::filesystem::directory_iterator(place)) {
            if (entry.is_regular_file() && entry.path().extension() == ".jsonl")
                files.push_back(entry.path());
        }
    }
    std::ranges::sort(files);
    return files;
}

template <class T>
std::set<std::string> names_of(const std::vector<Record>& records, std::map<std::string, T> Record::*part) {
    std::set<std::string> names;
    for (const auto& r : records) {
        for (const auto& [name, value] : r.*part) names.insert(name);
    }
    return names;
}

}  // namespace

std::string Record::setting(const std::string& name) const {
    const auto place = config.find(name);
    return place == config.end() ? std::string() : place->second;
}

std::string run_key(std::string_view kind, const SettingsText& config, std::string_view data_sha256) {
    return run_key(kind, config, data_sha256, default_settings_text(kind));
}

std::string run_key(std::string_view kind, const SettingsText& config, std::string_view data_sha256,
                    const SettingsText& defaults) {
    const Json j = {{"schema", kRecordSchema},
                    {"revision", kResultRevision},
                    {"kind", kind},
                    {"config", as_object(changed_settings(config, defaults))},
                    {"data_sha256", data_sha256}};
    return sha256_hex(j.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string to_json_line(const Record& r) {
    const Json j = {{"schema", kRecordSchema},
                    {"key", r.key},
                    {"experiment", r.experiment},
                    {"kind", r.kind},
                    {"seed", r.seed},
                    {"config", as_object(r.config)},
                    {"data_sha256", r.data_sha256},
                    {"results", as_object(r.results)},
                    {"error", r.error},
                    {"imka_version", r.imka_version},
                    {"build", r.build},
                    {"instruction_set", r.instruction_set},
                    {"wall_seconds", r.wall_seconds},
                    {"peak_memory_mb", r.peak_memory_mb},
                    {"finished", r.finished}};
    // Replaces invalid UTF-8: a message may quote bytes of a damaged file.
    auto text = j.dump(-1, ' ', false, Json::error_handler_t::replace);
    text.pop_back();
    return with_check(text);
}

RecordLine parse_record(std::string_view line) {
    using Kind = RecordProblem::Kind;
    const auto problem = [](Kind kind, std::string what) {
        return RecordLine{.record = {}, .problem = kind, .what = std::move(what)};
    };
    line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
    const auto j = nlohmann::json::parse(line, nullptr, false);
    if (!j.is_object()) return problem(Kind::malformed, "not a JSON object");
    const auto place = j.find("schema");
    const auto schema = place != j.end() && place->is_string() ? place->get<std::string>() : "";
    if (schema != kRecordSchema && schema != kFirstRecordSchema) {
        return problem(Kind::other_schema,
                       fmt::format("not a record of the schema {} or {}", kRecordSchema, kFirstRecordSchema));
    }
    const bool checked = check_matches(line);
    if (j.contains("check") && !checked)
        return problem(Kind::malformed, "checksum mismatch: the line is damaged or was edited");
    try {
        auto record = from_json(j);
        // A line without a checksum is old, or the key of its checksum is damaged.
        if (!checked && j.size() != kKeys) return problem(Kind::malformed, "unexpected key");
        if (schema == kFirstRecordSchema)
            record.key = run_key(record.kind, record.config, record.data_sha256);
        return {.record = std::move(record), .what = {}};
    } catch (const nlohmann::json::exception& e) {
        return problem(Kind::malformed, plain_message(e));
    } catch (const std::exception& e) {
        return problem(Kind::malformed, e.what());
    }
}

RecordSet read_records(const std::filesystem::path& path) {
    return read_records(std::span(&path, 1));
}

RecordSet read_records(std::span<const std::filesystem::path> paths) {
    Collector all;
    for (const auto& path : paths) {
        if (std::filesystem::is_directory(path)) {
            for (const auto& file : record_files(path)) read_one_file(file, all);
        } else {
            read_one_file(path, all);
        }
    }
    return all.take();
}

std::string to_csv(const std::vector<Record>& records) {
    const auto settings = names_of(records, &Record::config);
    const auto results = names_of(records, &Record::results);
    std::vector<std::string> header = {"key", "experiment", "kind", "seed"};
    std::ranges::copy(settings, std::back_inserter(header));
    // A result may have the name of a setting: log_ratio is both requested and computed.
    for (const auto& name : results) header.push_back(settings.contains(name) ? "result_" + name : name);
    for (const auto* name : {"error", "data_sha256", "imka_version", "build", "instruction_set",
                             "wall_seconds", "peak_memory_mb", "finished"}) {
        header.emplace_back(name);
    }
    std::string out = fmt::format("{}\n", fmt::join(header, ","));
    for (const auto& r : records) {
        std::vector<std::string> row = {r.key, csv_field(r.experiment), csv_field(r.kind),
                                        std::to_string(r.seed)};
        for (const auto& name : settings) row.push_back(csv_field(r.setting(name)));
        for (const auto& name : results) {
            const auto place = r.results.find(name);
            row.push_back(place == r.results.end() ? "" : fmt::format("{}", place->second));
        }
        for (const auto& text :
             {r.error, r.data_sha256, r.imka_version, r.build, r.instruction_set,
              fmt::format("{}", r.wall_seconds), fmt::format("{}", r.peak_memory_mb), r.finished}) {
            row.push_back(csv_field(text));
        }
        out += fmt::format("{}\n", fmt::join(row, ","));
    }
    return out;
}

}  // namespace imka
