// Files: whole reads, and writes that appear complete or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace imka {

// The whole file. Error{io} when it cannot be read, Error{bad_data} when it is larger than max_bytes.
std::string read_file(const std::filesystem::path& path, std::size_t max_bytes);

// A file that appears under its name only at commit(): bytes go to a temporary file beside it, which is
// synced and renamed. Without commit() nothing is left. A full or read-only disk is Error{io} and leaves an
// old file untouched.
class AtomicFile {
public:
    // Creates the temporary file at once, so that an unwritable place is an error before the work and not
    // after it.
    explicit AtomicFile(std::filesystem::path path);
    ~AtomicFile();
    AtomicFile(const AtomicFile&) = delete;
    AtomicFile& operator=(const AtomicFile&) = delete;

    void write(std::span<const std::byte> bytes);
    void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
    // Overwrites bytes that were written before (a header whose sizes are known last).
    void rewrite(std::size_t offset, std::string_view text);
    void commit();

private:
    [[noreturn]] void fail_errno(std::string_view action) const;
    void flush();

    std::filesystem::path path_;
    std::filesystem::path temporary_;
    std::string buffer_;
    int descriptor_ = -1;
};

void write_file_atomic(const std::filesystem::path& path, std::string_view text);

}  // namespace imka
