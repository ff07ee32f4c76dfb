#include "imka/base/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <fstream>
#include <system_error>
#include <utility>

#include "imka/base/error.hpp"

namespace imka {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20U;

// The counter makes names unique within a process, the process ID between processes.
std::string next_suffix() {
    static std::atomic<unsigned> counter{0};
    return fmt::format(".{}.{}.tmp", getpid(), counter++);
}

// Paths of the temporary files, in memory that a signal handler may read at any time: a slot is taken, its
// path is written, then the slot is marked ready.
struct TemporarySlot {
    std::atomic<bool> taken{false};
    std::atomic<bool> ready{false};
    std::array<char, PATH_MAX> path{};
};
std::array<TemporarySlot, 64> temporary_slots;
static_assert(std::atomic<bool>::is_always_lock_free, "read in a signal handler");

// Index of the slot taken for the path; the number of slots if none is free or the path is too long.
std::size_t take_slot(const std::string& path) {
    for (std::size_t i = 0; i < temporary_slots.size() && path.size() < PATH_MAX; ++i) {
        auto& slot = temporary_slots[i];
        if (slot.taken.exchange(true)) continue;
        path.copy(slot.path.data(), path.size());
        slot.path[path.size()] = '\0';
        slot.ready = true;
        return i;
    }
    return temporary_slots.size();
}

void free_slot(std::size_t i) {
    if (i >= temporary_slots.size()) return;
    temporary_slots[i].ready = false;
    temporary_slots[i].taken = false;
}

// Whether the descriptor holds the lock and its file still has this name.
bool owns(int descriptor, const std::filesystem::path& path) {
    struct stat named {};
    struct stat opened {};
    return flock(descriptor, LOCK_EX | LOCK_NB) == 0 && stat(path.c_str(), &named) == 0 &&
           fstat(descriptor, &opened) == 0 && named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
}

// Is `name` the file name `stem` followed by a suffix of next_suffix()?
bool is_temporary_of(std::string_view name, std::string_view stem) {
    constexpr std::string_view kEnd = ".tmp";
    if (!name.starts_with(stem) || !name.ends_with(kEnd) || name.size() < stem.size() + kEnd.size())
        return false;
    const auto middle = name.substr(stem.size(), name.size() - stem.size() - kEnd.size());
    const auto dot = middle.rfind('.');
    return middle.size() > 3 && middle.front() == '.' && dot > 1 && dot + 1 < middle.size() &&
           middle.find_first_not_of(".0123456789") == std::string_view::npos;
}

void remove_left_overs(const std::filesystem::path& path) {
    std::error_code error;
    const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
        if (!is_temporary_of(entry.path().filename().string(), path.filename().string())) continue;
        const int d = open(entry.path().c_str(), O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
        if (d < 0) continue;
        if (owns(d, entry.path())) unlink(entry.path().c_str());
        close(d);
    }
}

// The end of a chain of symbolic links, because a rename over a link would replace the link. The target need
// not exist.
std::filesystem::path link_target(std::filesystem::path path) {
    constexpr int kLinks = 40;  // as many as Linux follows
    std::error_code error;
    for (int i = 0; i < kLinks; ++i) {
        if (!std::filesystem::is_symlink(path, error)) return path;
        const auto target = std::filesystem::read_symlink(path, error);
        if (error) break;
        path = target.is_absolute() ? target : path.parent_path() / target;
    }
    fail(ErrorCode::io, fmt::format("{}: cannot be written: too many symbolic links", path.string()));
}

}  // namespace

std::string errno_text() {
    return std::generic_category().message(errno);
}

void remove_temporary_files() noexcept {
    for (auto& slot : temporary_slots) {
        if (slot.ready) unlink(slot.path.data());
    }
}

std::string read_file(const std::filesystem::path& path, std::size_t max_bytes) {
    std::ifstream in(path, std::ios::binary);
    if (!in) fail(ErrorCode::io, fmt::format("{}: cannot be read: {}", path.string(), errno_text()));
    std::string text;
    std::error_code error;
    if (const auto size = std::filesystem::file_size(path, error); !error && size <= max_bytes)
        text.reserve(static_cast<std::size_t>(size));  // growing would take twice the memory
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

void check_folder(const std::filesystem::path& file) {
    std::error_code error;
    const auto folder = file.parent_path();
    if (!folder.empty() && !std::filesystem::is_directory(folder, error))
        fail(ErrorCode::io,
             fmt::format("{}: cannot be written: no folder {}", file.string(), folder.string()));
}

AtomicFile::AtomicFile(std::filesystem::path path) : path_(link_target(std::move(path))) {
    namespace fs = std::filesystem;
    check_folder(path_);
    std::error_code error;
    // A rename over a device or a pipe would replace it.
    const auto status = fs::status(path_, error);
    if (path_.filename().empty() || (fs::exists(status) && !fs::is_regular_file(status))) {
        fail(ErrorCode::io,
             fmt::format("{}: is not a regular file, so it cannot be written", path_.string()));
    }
    remove_left_overs(path_);
    constexpr int kAttempts = 1000;
    for (int i = 0; i < kAttempts; ++i) {
        if (open_temporary()) return;
        if (errno != EEXIST) break;
    }
    fail_errno("cannot be written");
}

// False if the file cannot be created; errno EEXIST if another name may work.
bool AtomicFile::open_temporary() {
    temporary_ = path_;
    temporary_ += next_suffix();
    // Take the slot before the file exists: otherwise a signal in between would leave the file behind.
    slot_ = take_slot(temporary_.string());
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (descriptor_ < 0) {
        free_slot(slot_);
        return false;
    }
    // Another process may have mistaken the new file for a leftover before it was locked. Without locks in
    // the file system, leftovers are kept.
    if (!owns(descriptor_, temporary_) && (errno == EWOULDBLOCK || errno == ENOENT)) {
        close(std::exchange(descriptor_, -1));
        unlink(temporary_.c_str());
        free_slot(slot_);
        errno = EEXIST;
        return false;
    }
    return true;
}

AtomicFile::~AtomicFile() {
    if (descriptor_ < 0) return;
    close(descriptor_);
    unlink(temporary_.c_str());
    free_slot(slot_);
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
    free_slot(slot_);
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
