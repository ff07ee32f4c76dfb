// Records without the values that differ between runs: times, memory, machine.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "imka/experiment/record.hpp"

using RecordFacts = std::tuple<std::string, std::uint64_t, std::map<std::string, std::string>, std::string,
                               std::map<std::string, double>, std::string>;

// By key: experiment, seed, settings, data, results, error.
inline std::map<std::string, RecordFacts> record_facts(const std::filesystem::path& folder) {
    std::map<std::string, RecordFacts> facts;
    for (const auto& r : imka::read_records(folder).records)
        facts[r.key] = {r.experiment, r.seed, r.config, r.data_sha256, r.results, r.error};
    return facts;
}

inline std::vector<std::filesystem::path> record_files(const std::filesystem::path& folder) {
    std::vector<std::filesystem::path> files;
    const auto records = folder / "records";
    if (!std::filesystem::exists(records)) return files;
    for (const auto& entry : std::filesystem::directory_iterator(records)) files.push_back(entry.path());
    std::ranges::sort(files);
    return files;
}

// Number of complete lines in all record files of a folder: a run that was done twice counts twice.
inline std::size_t record_lines(const std::filesystem::path& folder) {
    std::size_t lines = 0;
    for (const auto& file : record_files(folder)) {
        std::ifstream in(file);
        lines += static_cast<std::size_t>(std::count(std::istreambuf_iterator<char>(in), {}, '\n'));
    }
    return lines;
}
