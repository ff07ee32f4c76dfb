// The records of a folder that several processes write: each appends to a file of its own, all read all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <unordered_map>

#include "imka/experiment/record.hpp"

namespace imka {

// Where this process writes: <host>-<process>-<time>.jsonl, made with the first record. A line is on the disk
// when append returns; a line that cannot be written whole is taken back. Error{io}.
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

// What the records of all say about each run; refresh() reads what was added since.
class RecordIndex {
public:
    enum class State { none, failed, done };
    struct Entry {
        State state = State::none;
        int failures = 0;           // records of failure seen
        double wall_seconds = 0.0;  // of the run that succeeded
    };

    explicit RecordIndex(std::filesystem::path folder) : folder_(std::move(folder)) {}

    // Leaves out the file `own`, whose records come through add().
    void refresh(const std::filesystem::path& own = {});
    void add(const Record& record);
    Entry find(const std::string& key) const;
    std::uint64_t unusable_lines() const { return unusable_; }

private:
    void read_new_lines(const std::filesystem::path& file);

    std::filesystem::path folder_;
    std::map<std::filesystem::path, std::uint64_t> offsets_;  // behind the last whole line
    std::unordered_map<std::string, Entry> entries_;
    std::uint64_t unusable_ = 0;
};

}  // namespace imka
