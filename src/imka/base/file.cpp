#include "imka/base/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include "imka/base/error.hpp"

namespace imka {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20U;

std::string errno_text() {
    return std::generic_category().message(errno);
}

// The counter makes names unique within a process, the process ID between processes.
std::string next_suffix() {
    static std::atomic<unsigned> counter{0};
    return fmt::format(".{}.{}.tmp", getpid(), counter++);
}

}  // namespace

std::string read_file(const std::filesystem::path& path, std::size_t max_bytes) {
    std::ifstream in(path, std::ios::binary);
    if (!in) fail(ErrorCode::io, fmt::format("{}: cannot be read: {}", path.string(), errno_text()));
    std::string text;
    std::string block(65536, '\0');
    while (in.read(block.data(), static_cast<std::streamsize>(block.size())) || in.gcount() > 0) {
        text.append(block, 0, static_cast<std::size_t>(in.gcount()));
        if (text.size() > max_bytes) {
            fail(ErrorCode::bad_data,
                 fmt::format("{}: larger than the limit of {} bytes", path.string(), max_bytes));
        }
    }
    if (in.bad()) fail(ErrorCode::io, fmt::format("{}: cannot be read: {}", path.string(), errno_text()));
    return text;
}

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
    namespace fs = std::filesystem;
    std::error_code error;
    // A rename over a symbolic link would replace the link instead of its target.
    if (fs::is_symlink(path_, error)) {
        auto target = fs::weakly_canonical(path_, error);
        if (error) {
            fail(ErrorCode::io, fmt::format("{}: cannot be written: {}", path_.string(), error.message()));
        }
        path_ = std::move(target);
    }
    // A rename over a device or a pipe would replace it.
    const auto status = fs::status(path_, error);
    if (path_.filename().empty() || (fs::exists(status) && !fs::is_regular_file(status))) {
        fail(ErrorCode::io,
             fmt::format("{}: is not a regular file, so it cannot be written", path_.string()));
    }
    // A killed process with the same ID, or a process on another machine, may already use a name.
    constexpr int kAttempts = 1000;
    for (int i = 0; i < kAttempts && descriptor_ < 0; ++i) {
        temporary_ = path_;
        temporary_ += next_suffix();
        descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (descriptor_ < 0 && errno != EEXIST) break;
    }
    if (descriptor_ < 0) fail_errno("cannot be written");
}

AtomicFile::~AtomicFile() {
    if (descriptor_ < 0) return;
    close(descriptor_);
    unlink(temporary_.c_str());
}

void AtomicFile::fail_errno(std::string_view action) const {
    fail(ErrorCode::io, fmt::format("{}: {}: {}", path_.string(), action, errno_text()));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
    buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (buffer_.size() >= kBufferBytes) flush();
}

void AtomicFile::flush() {
    std::string_view rest = buffer_;
    while (!rest.empty()) {
        const ssize_t n = ::write(descriptor_, rest.data(), rest.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) fail_errno("write failed");
        rest.remove_prefix(static_cast<std::size_t>(n));
    }
    buffer_.clear();
}

void AtomicFile::rewrite(std::size_t offset, std::string_view text) {
    flush();
    while (!text.empty()) {
        const ssize_t n = pwrite(descriptor_, text.data(), text.size(), static_cast<off_t>(offset));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) fail_errno("write failed");
        text.remove_prefix(static_cast<std::size_t>(n));
        offset += static_cast<std::size_t>(n);
    }
}

void AtomicFile::commit() {
    flush();
    if (fsync(descriptor_) != 0) fail_errno("sync failed");
    if (rename(temporary_.c_str(), path_.c_str()) != 0) fail_errno("rename failed");
    close(std::exchange(descriptor_, -1));
    // Sync the folder too, so that the new name reaches the disk. Failure is ignored: some file systems do
    // not support it.
    const auto folder = path_.has_parent_path() ? path_.parent_path() : std::filesystem::path(".");
    const int d = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d >= 0) {
        fsync(d);
        close(d);
    }
}

void write_file_atomic(const std::filesystem::path& path, std::string_view text) {
    AtomicFile file(path);
    file.write(text);
    file.commit();
}

}  // namespace imka
