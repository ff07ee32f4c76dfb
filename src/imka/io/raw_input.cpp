#include "imka/io/raw_input.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"

namespace imka {
namespace {

// An unnamed file disappears with the process, however the process ends.
int open_unnamed(const std::filesystem::path& folder) {
    const int descriptor = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return descriptor;
    // Not every file system has unnamed files.
    auto name = (folder / ("imka-" + std::string(6, 'X'))).string();  // mkostemp replaces the six letters
    const int named = mkostemp(name.data(), O_CLOEXEC);
    if (named >= 0) unlink(name.c_str());
    return named;
}

}  // namespace

// Without O_NONBLOCK, opening a FIFO would wait for its writer and could not be interrupted.
InputDescriptor::InputDescriptor(const std::filesystem::path& path) : name_(path.string()) {
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    // A socket cannot be opened by its name in /dev.
    if (descriptor_ < 0 && errno == ENXIO && name_ == "/dev/stdin")
        descriptor_ = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
    struct stat status {};
    if (descriptor_ < 0 || fstat(descriptor_, &status) != 0) fail_errno();
    if (S_ISDIR(status.st_mode)) {
        close(std::exchange(descriptor_, -1));
        fail(ErrorCode::io, fmt::format("{}: cannot be read: it is a folder", name_));
    }
    if (S_ISREG(status.st_mode)) file_bytes_ = static_cast<std::uint64_t>(status.st_size);
}

InputDescriptor::~InputDescriptor() {
    if (descriptor_ >= 0) close(descriptor_);
}

InputDescriptor::InputDescriptor(InputDescriptor&& other) noexcept
    : name_(std::move(other.name_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      file_bytes_(other.file_bytes_) {}

void InputDescriptor::fail_errno() const {
    const auto text = errno_text();
    if (descriptor_ >= 0) close(descriptor_);
    fail(ErrorCode::io, fmt::format("{}: cannot be read: {}", name_, text));
}

// Waits until there are bytes or the writer has closed the pipe.
void InputDescriptor::wait(const Exec& exec) const {
    constexpr int kMilliseconds = 100;
    pollfd waiting{.fd = descriptor_, .events = POLLIN, .revents = 0};
    while (poll(&waiting, 1, kMilliseconds) <= 0) check_cancelled(exec);
    check_cancelled(exec);
}

std::size_t InputDescriptor::read(std::span<char> out, const Exec& exec) {
    while (true) {
        if (!file_bytes_) wait(exec);
        const ssize_t n = ::read(descriptor_, out.data(), out.size());
        if (n >= 0) return static_cast<std::size_t>(n);
        if (errno == EINTR || errno == EAGAIN) continue;
        fail(ErrorCode::io, fmt::format("{}: cannot be read: {}", name_, errno_text()));
    }
}

void Spool::start(InputDescriptor pipe, std::filesystem::path folder) {
    pipe_.emplace(std::move(pipe));
    folder_ = std::move(folder);
    file_ = open_unnamed(folder_);
    if (file_ < 0) fail_errno();
}

Spool::~Spool() {
    if (file_ >= 0) close(file_);
}

void Spool::fail_errno() const {
    fail(ErrorCode::io, fmt::format("{}: is a pipe that is read more than once, but it cannot be copied to a "
                                    "temporary file in {}: {}",
                                    name(), folder_.string(), errno_text()));
}

std::size_t Spool::read_at(std::uint64_t offset, const Exec& exec, std::span<char> out) {
    while (offset < bytes_) {
        const ssize_t n = pread(file_, out.data(), out.size(), static_cast<off_t>(offset));
        if (n > 0) return static_cast<std::size_t>(n);
        if (n == 0) errno = EIO;  // shorter than what was written
        if (errno != EINTR) fail_errno();
    }
    if (at_end_) return 0;
    const auto count = pipe_->read(out, exec);
    at_end_ = count == 0;
    keep(std::string_view(out.data(), count));
    return count;
}

void Spool::keep(std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t n = pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(bytes_));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) fail_errno();
        bytes.remove_prefix(static_cast<std::size_t>(n));
        bytes_ += static_cast<std::uint64_t>(n);
    }
}

RawInput::RawInput(InputDescriptor file, const Exec& exec)
    : name_(file.name()), exec_(exec), file_(std::move(file)), buffer_(kBytes) {}

RawInput::RawInput(std::shared_ptr<Spool> spool, const Exec& exec)
    : name_(spool->name()), exec_(exec), spool_(std::move(spool)), buffer_(kBytes) {}

std::string_view RawInput::pending() {
    if (rest_.empty()) refill(0);
    return rest_.substr(0, kBytes);
}

std::string_view RawInput::peek(std::size_t count) {
    while (rest_.size() < count && refill(rest_.size())) {
    }
    return rest_.substr(0, count);
}

void RawInput::consume(std::size_t count) {
    rest_.remove_prefix(count);
    offset_ += count;
}

std::optional<std::uint64_t> RawInput::size() const {
    if (spool_) return std::nullopt;
    return file_ ? file_->file_bytes() : offset_ + rest_.size();
}

// Reads after the `keep` bytes at the front of the buffer.
bool RawInput::refill(std::size_t keep) {
    if (!file_ && !spool_) return false;
    const auto out = std::span(buffer_).subspan(keep);
    const auto count = file_ ? file_->read(out, exec_) : spool_->read_at(offset_ + keep, exec_, out);
    rest_ = std::string_view(buffer_.data(), keep + count);
    return count > 0;
}

}  // namespace imka
