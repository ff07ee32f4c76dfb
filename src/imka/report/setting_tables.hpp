// Training settings and sizes of the tasks, next to those in the paper.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "imka/base/exec.hpp"

namespace imka::report {

// A table of experiments/published/settings.yaml.
struct PublishedSetting {
    std::string setting;
    std::string name;                 // shown; default: the setting
    std::vector<std::string> values;  // by task; "-": none
};
struct SettingReason {
    std::string setting;
    std::vector<std::string> tasks;  // empty: all
    std::string text;
};
struct PublishedSettings {
    std::string name;
    std::string title;
    std::string source;
    std::vector<std::string> tasks;
    std::vector<PublishedSetting> rows;
    std::vector<SettingReason> reasons;
};
// Error{bad_config} with the line.
std::vector<PublishedSettings> parse_settings(std::string_view yaml);
const std::vector<PublishedSettings>& published_settings();

// Our values, by task and setting.
using TaskSettings = std::map<std::string, std::map<std::string, std::string>>;

struct SettingCell {
    std::string imka;       // "-": none
    std::string published;  // "-": none
    bool differs = false;   // the two values differ, or only the paper has one
    std::string reason;     // why it differs; may be empty
};
struct SettingRow {
    std::string name;
    std::vector<SettingCell> cells;  // by task
};
struct SettingTable {
    std::string name;
    std::string title;
    std::string source;
    std::vector<std::string> tasks;
    std::vector<SettingRow> rows;  // first those of the paper, then those that only we have
    std::vector<std::string> notes;
};
// Numbers are compared as numbers.
SettingTable compare_settings(const PublishedSettings& published, const TaskSettings& ours);

// The recipes of the tasks.
SettingTable hyper_parameter_table();
// The tasks as loaded from data_dir or generated. Tasks with missing files get a note.
SettingTable data_table(const std::filesystem::path& data_dir, const Exec& exec);

}  // namespace imka::report
