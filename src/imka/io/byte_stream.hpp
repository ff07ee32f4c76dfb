// Bytes and lines of a file, plain or compressed. Memory use does not depend on the file size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/names.hpp"

namespace imka {

// Detected from the first bytes of a file, never from its name.
enum class Compression { none, gzip, bzip2, xz, zstd };
template <>
struct EnumNames<Compression> {
    static constexpr std::string_view what = "compression";
    static constexpr std::string_view values[] = {"none", "gzip", "bzip2", "xz", "zstd"};
};

struct StreamOptions {
    std::uint64_t max_bytes = 1ULL << 40U;                // limit after decompression
    std::size_t max_line_bytes = std::size_t{64} << 20U;  // limit per line; >= 1
    bool decompress = true;                               // false: read the raw bytes
    std::filesystem::path spool_folder = "/tmp";          // for copies of pipes (InputFile)
};

class RawInput;    // raw bytes
class ByteSource;  // decoded bytes; one implementation per compression
class Spool;       // copy of a pipe

// A file that can be read more than once. A pipe or device is copied to an unnamed file in
// StreamOptions::spool_folder while it is read; copies of an InputFile share it.
class InputFile {
public:
    InputFile(std::filesystem::path path);  // NOLINT(google-explicit-constructor): a path is an input file
    const std::filesystem::path& path() const { return path_; }

private:
    friend class ByteStream;
    std::filesystem::path path_;
    std::shared_ptr<Spool> spool_;  // copies of an InputFile read the same pipe
};

// Reads files with several compressed members, as the command-line tools do. Error{io} if a file cannot be
// opened or read; Error{bad_data} if it is truncated, damaged or beyond the limits, or if xz or zstd data
// need too much memory. Messages begin with the name.
class ByteStream {
public:
    // Waiting for a pipe ends with Error{interrupted} if exec.cancel is set.
    ByteStream(const std::filesystem::path& path, StreamOptions options, const Exec& exec = {});
    ByteStream(const InputFile& file, const StreamOptions& options, const Exec& exec = {});
    // Bytes in memory, which must outlive the stream; `name` is used in messages.
    ByteStream(std::string name, std::string_view bytes, StreamOptions options);
    ~ByteStream();
    ByteStream(ByteStream&&) noexcept;
    ByteStream& operator=(ByteStream&&) = delete;

    // The next line without its line end (LF or CRLF); the first also without a UTF-8 byte order mark. False
    // at the end. The view is valid until the next call.
    bool next_line(std::string_view& line);
    // Returns fewer bytes than requested only at the end.
    std::size_t read(std::span<char> out);

    const std::string& name() const { return name_; }
    Compression compression() const { return compression_; }
    std::uint64_t line() const { return line_; }             // 1-based number of the last line
    std::string_view line_end() const { return line_end_; }  // of the last line; empty at the end of the file
    // Number of remaining bytes, if known: for uncompressed regular files and memory.
    std::optional<std::uint64_t> remaining() const;

    // Error{bad_data} "<name>: <message>" and "<name>: line <n>: <message>".
    [[noreturn]] void fail_file(std::string_view message) const;
    [[noreturn]] void fail_line(std::string_view message) const;

private:
    void open(RawInput input);
    bool fill();  // reads more bytes into the buffer; false at the end
    std::size_t decode(std::span<char> out);

    std::string name_;
    StreamOptions options_;
    Compression compression_ = Compression::none;
    std::optional<std::uint64_t> plain_bytes_;
    std::unique_ptr<ByteSource> source_;
    std::vector<char> buffer_;
    std::size_t begin_ = 0;  // bytes not yet returned: [begin_, end_)
    std::size_t end_ = 0;
    std::uint64_t decoded_ = 0;
    std::uint64_t line_ = 0;
    std::string_view line_end_;
};

}  // namespace imka
