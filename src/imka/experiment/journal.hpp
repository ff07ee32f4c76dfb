// The records in a folder shared by several processes: each appends to its own file and reads all files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <unordered_map>

#include "imka/experiment/record.hpp"

namespace imka {

// The file of this process: <host>-<process>-<time>.jsonl, created with the first record. A line is on disk
// when append returns; an incomplete line is removed again. Error{io} if a line cannot be written.
class RecordWriter {
public:
    explicit RecordWriter(const std::filesystem::path& folder);
    ~RecordWriter();
    RecordWriter(const RecordWriter&) = delete;
    RecordWriter& operator=(const RecordWriter&) = delete;

    void append(const Record& record);
    const std::filesystem::path& path() const { return path_; }

private:
    void create();

    std::filesystem::path path_;
    int descriptor_ = -1;
    std::uint64_t bytes_ = 0;  // whole lines
};

// State of each run from all records; refresh() reads the lines added since the last call.
class RecordIndex {
public:
    enum class State { none, failed, done };
    struct Entry {
        State state = State::none;
        int failures = 0;           // failure records seen
        double wall_seconds = 0.0;  // of the run that succeeded
    };

    explicit RecordIndex(std::filesystem::path folder) : folder_(std::move(folder)) {}

    // Skips the file `own`, whose records come through add().
    void refresh(const std::filesystem::path& own = {});
    void add(const Record& record);
    Entry find(const std::string& key) const;
    std::uint64_t unusable_lines() const { return unusable_; }

private:
    void read_new_lines(const std::filesystem::path& file);

    std::filesystem::path folder_;
    std::map<std::filesystem::path, std::uint64_t> offsets_;  // after the last complete line
    std::unordered_map<std::string, Entry> entries_;
    std::uint64_t unusable_ = 0;
};

}  // namespace imka
