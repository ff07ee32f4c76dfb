// A folder shared by several processes: the records that they append, and the claims on runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "imka/experiment/record.hpp"

namespace imka {

// The records in a folder shared by several processes: each appends to its own file and reads all files.

// The file of this process: <host>-<process>-<time>.jsonl, created with the first record. An incomplete line
// is removed again. Error{io} if a line cannot be written.
class RecordWriter {
public:
    explicit RecordWriter(const std::filesystem::path& folder);
    ~RecordWriter();
    RecordWriter(const RecordWriter&) = delete;
    RecordWriter& operator=(const RecordWriter&) = delete;

    // Other processes can read the line when it returns, but it may not be on disk yet.
    void append(const Record& record);
    // All lines appended before are on disk when it returns. Other threads may append meanwhile; one write to
    // the disk serves all threads that wait for it.
    void sync();
    const std::filesystem::path& path() const { return path_; }

private:
    void create();

    std::filesystem::path path_;
    std::atomic<int> descriptor_ = -1;
    std::atomic<std::uint64_t> bytes_ = 0;  // whole lines
    std::mutex syncing_;
    std::uint64_t synced_ = 0;  // bytes on disk
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

// Claims: which process works on which run in a shared folder. A claim is a locked file; the operating system
// releases the lock if the process dies (docs/adr/0009-claims.md).

// Held until it goes out of scope. The file is removed first and unlocked after that.
class Claim {
public:
    // nullopt if another live process holds it. Error{io} if the folder is not writable or does not support
    // locks.
    static std::optional<Claim> try_take(const std::filesystem::path& folder, const std::string& key);

    Claim(Claim&& other) noexcept;
    Claim& operator=(Claim&& other) noexcept;
    ~Claim();
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;

private:
    Claim(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
    void release() noexcept;

    std::filesystem::path path_;
    int descriptor_ = -1;
};

}  // namespace imka
