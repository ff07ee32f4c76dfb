// Raw bytes of an input: a file, a pipe, bytes in memory, or a copy of a pipe on disk. For byte_stream.cpp.
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

namespace imka {

// An open file, pipe or device. Waiting for a pipe ends with Error{interrupted} if exec.cancel is set.
class InputDescriptor {
public:
    explicit InputDescriptor(const std::filesystem::path& path);
    ~InputDescriptor();
    InputDescriptor(InputDescriptor&& other) noexcept;
    InputDescriptor(const InputDescriptor&) = delete;
    InputDescriptor& operator=(const InputDescriptor&) = delete;
    InputDescriptor& operator=(InputDescriptor&&) = delete;

    std::size_t read(std::span<char> out, const Exec& exec);  // 0 only at the end
    const std::string& name() const { return name_; }
    std::optional<std::uint64_t> file_bytes() const { return file_bytes_; }  // nullopt: not a regular file

private:
    void wait(const Exec& exec) const;
    [[noreturn]] void fail_errno() const;

    std::string name_;
    int descriptor_ = -1;
    std::optional<std::uint64_t> file_bytes_;
};

// A pipe that can be read more than once: what was read is kept in an unnamed temporary file. For one thread
// at a time.
class Spool {
public:
    Spool() = default;
    ~Spool();
    Spool(const Spool&) = delete;
    Spool& operator=(const Spool&) = delete;

    // Copies go to an unnamed file in the folder; Error{io} if it cannot be created. Call once.
    void start(InputDescriptor pipe, std::filesystem::path folder);
    bool started() const { return pipe_.has_value(); }
    // Reads bytes from `offset`, which is at most the number of bytes read so far. Returns 0 only at the end.
    // Error{io} if the folder has no space left.
    std::size_t read_at(std::uint64_t offset, const Exec& exec, std::span<char> out);
    const std::string& name() const { return pipe_->name(); }

private:
    void keep(std::string_view bytes);
    [[noreturn]] void fail_errno() const;

    std::optional<InputDescriptor> pipe_;
    std::filesystem::path folder_;
    int file_ = -1;
    std::uint64_t bytes_ = 0;
    bool at_end_ = false;
};

class RawInput {
public:
    static constexpr std::size_t kBytes = std::size_t{64} << 10U;  // read at a time

    RawInput(std::string name, std::string_view bytes) : name_(std::move(name)), rest_(bytes) {}
    RawInput(InputDescriptor file, const Exec& exec);
    RawInput(std::shared_ptr<Spool> spool, const Exec& exec);

    // The next bytes, at most kBytes; empty only at the end.
    std::string_view pending();
    // The first bytes, at least `count` unless the file is shorter. Only before consume().
    std::string_view peek(std::size_t count);
    void consume(std::size_t count);
    std::uint64_t offset() const { return offset_; }
    const std::string& name() const { return name_; }
    // Number of bytes, if known before the end.
    std::optional<std::uint64_t> size() const;

private:
    bool refill(std::size_t keep);

    std::string name_;
    Exec exec_;
    std::optional<InputDescriptor> file_;
    std::shared_ptr<Spool> spool_;
    std::vector<char> buffer_;
    std::string_view rest_;     // of the buffer or of the bytes in memory
    std::uint64_t offset_ = 0;  // of rest_ in the input
};

}  // namespace imka
