#include "imka/experiment/journal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <system_error>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/base/machine.hpp"

namespace imka {
namespace {

[[noreturn]] void fail_errno(const std::filesystem::path& path, std::string_view action) {
    fail(ErrorCode::io, fmt::format("{}: {}: {}", path.string(), action, errno_text()));
}

// Letters and digits of the host name, for a file name.
std::string plain_host() {
    std::string host = host_name();
    std::erase_if(host, [](char c) {
        return !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'));
    });
    return host.substr(0, 32);
}

// Unique among processes, even if a process ID is reused, and within a process.
std::string writer_name() {
    static std::atomic<unsigned> counter{0};
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return fmt::format("{}-{}-{:x}{:02x}.jsonl", plain_host(), getpid(),
                       std::chrono::duration_cast<std::chrono::microseconds>(now).count(), counter++);
}

// A lock on the open file, not on the process: it also excludes other threads, and closing another descriptor
// of the same file does not release it.
bool try_lock(int descriptor, const std::filesystem::path& path) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    while (fcntl(descriptor, F_OFD_SETLK, &lock) != 0) {
        if (errno == EINTR) continue;
        if (errno == EAGAIN || errno == EACCES) return false;
        fail_errno(path, "cannot be locked, which shared runs need; put the output on another file system");
    }
    return true;
}

// Whether the path still refers to the locked file.
bool is_linked(int descriptor, const std::filesystem::path& path) {
    struct stat ours {};
    struct stat there {};
    if (fstat(descriptor, &ours) != 0) fail_errno(path, "cannot be examined");
    if (stat(path.c_str(), &there) != 0) return false;
    return ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

}  // namespace

RecordWriter::RecordWriter(const std::filesystem::path& folder) : path_(folder / writer_name()) {}

RecordWriter::~RecordWriter() {
    if (descriptor_ >= 0) close(descriptor_);
}

void RecordWriter::create() {
    descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    if (descriptor_ < 0) fail_errno(path_, "cannot be written");
    // Syncs the folder entry too; not all file systems support it, so errors are ignored.
    const int folder = open(path_.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
        fsync(folder);
        close(folder);
    }
}

void RecordWriter::append(const Record& record) {
    if (descriptor_ < 0) create();
    const std::string line = to_json_line(record) + "\n";
    // One write usually suffices. After a short write, the next one gives the reason (full disk, limit).
    for (std::string_view rest = line; !rest.empty();) {
        const ssize_t written = write(descriptor_, rest.data(), rest.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) {
            const int reason = errno;
            // Readers skip an incomplete line, so it does no harm if it cannot be removed.
            if (rest.size() < line.size() && ftruncate(descriptor_, static_cast<off_t>(bytes_)) != 0)
                close(descriptor_.exchange(-1));
            errno = reason;
            fail_errno(path_, "a record could not be written; earlier records are kept");
        }
        rest.remove_prefix(static_cast<std::size_t>(written));
    }
    bytes_ += line.size();
}

void RecordWriter::sync() {
    const std::uint64_t asked = bytes_;
    const std::scoped_lock lock(syncing_);
    if (synced_ >= asked) return;
    const std::uint64_t now = bytes_;
    if (fsync(descriptor_) != 0) fail_errno(path_, "a record could not be synced to the disk");
    synced_ = now;
}

void RecordIndex::refresh(const std::filesystem::path& own) {
    std::error_code error;
    const auto files = std::filesystem::directory_iterator(folder_, error);
    if (error) fail(ErrorCode::io, fmt::format("{}: cannot be read: {}", folder_.string(), error.message()));
    for (const auto& entry : files) {
        if (entry.path().extension() == ".jsonl" && entry.path() != own) read_new_lines(entry.path());
    }
}

void RecordIndex::read_new_lines(const std::filesystem::path& file) {
    auto& offset = offsets_[file];
    std::error_code ignored;
    const auto size = std::filesystem::file_size(file, ignored);
    if (ignored || size <= offset) return;
    std::ifstream in(file, std::ios::binary);
    if (!in) fail(ErrorCode::io, fmt::format("{}: cannot be read", file.string()));
    in.seekg(static_cast<std::streamoff>(offset));
    // A last line without a line break is still being written, or its writer died.
    for (std::string line; std::getline(in, line) && !in.eof();) {
        offset += line.size() + 1;
        const auto parsed = parse_record(line);
        if (parsed.record) {
            add(*parsed.record);
        } else {
            ++unusable_;
        }
    }
}

void RecordIndex::add(const Record& record) {
    auto& entry = entries_[record.key];
    if (record.ok()) {
        entry.state = State::done;
        entry.wall_seconds = record.wall_seconds;
    } else {
        ++entry.failures;
        if (entry.state == State::none) entry.state = State::failed;
    }
}

RecordIndex::Entry RecordIndex::find(const std::string& key) const {
    const auto place = entries_.find(key);
    return place == entries_.end() ? Entry{} : place->second;
}

std::optional<Claim> Claim::try_take(const std::filesystem::path& folder, const std::string& key) {
    const auto path = folder / key;
    while (true) {
        const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        if (descriptor < 0) fail_errno(path, "cannot be written");
        Claim claim(path, descriptor);
        if (!try_lock(descriptor, path)) {
            close(std::exchange(claim.descriptor_, -1));
            return std::nullopt;
        }
        if (is_linked(descriptor, path)) return claim;
        // The previous holder removed the file between our open and our lock: we locked an unlinked file.
        close(std::exchange(claim.descriptor_, -1));
    }
}

Claim::Claim(Claim&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

Claim& Claim::operator=(Claim&& other) noexcept {
    if (this != &other) {
        release();
        path_ = std::move(other.path_);
        descriptor_ = std::exchange(other.descriptor_, -1);
    }
    return *this;
}

Claim::~Claim() {
    release();
}

void Claim::release() noexcept {
    if (descriptor_ < 0) return;
    // In this order: another process could claim a file that is unlocked first, and the file would then be
    // removed.
    unlink(path_.c_str());
    close(std::exchange(descriptor_, -1));
}

}  // namespace imka
