// Reading whole files, and atomic writes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace imka {

// Why the last system call failed, for a message.
std::string errno_text();

// The whole file. Error{io} if it cannot be read, Error{bad_data} if it is larger than max_bytes.
std::string read_file(const std::filesystem::path& path, std::size_t max_bytes);

// Error{io} that names the folder of `file` if it does not exist: output files never create folders.
void check_folder(const std::filesystem::path& file);

// Writes to a temporary file in the same folder; commit() syncs it and renames it to `path`. Without commit()
// the temporary file is deleted. If a write fails (Error{io}), an existing file at `path` is unchanged.
// Temporary files of `path` left by a killed process are deleted; a lock distinguishes them from files in
// use. Links are followed.
class AtomicFile {
public:
    // Creates the temporary file at once, so that an unwritable location fails before the work.
    explicit AtomicFile(std::filesystem::path path);
    ~AtomicFile();
    AtomicFile(const AtomicFile&) = delete;
    AtomicFile& operator=(const AtomicFile&) = delete;

    void write(std::span<const std::byte> bytes);
    void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
    // Overwrites earlier bytes (a header whose sizes are known only at the end).
    void rewrite(std::size_t offset, std::string_view text);
    void commit();

private:
    [[noreturn]] void fail_errno(std::string_view action) const;
    bool open_temporary();
    void flush();

    std::filesystem::path path_;
    std::filesystem::path temporary_;
    std::string buffer_;
    int descriptor_ = -1;
    std::size_t slot_ = 0;  // in the list of remove_temporary_files()
};

// Deletes the temporary files of this process. Safe in a signal handler; the process must end next.
void remove_temporary_files() noexcept;

void write_file_atomic(const std::filesystem::path& path, std::string_view text);

}  // namespace imka
