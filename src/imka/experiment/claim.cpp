#include "imka/experiment/claim.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "imka/base/error.hpp"

namespace imka {
namespace {

[[noreturn]] void fail_errno(const std::filesystem::path& path, std::string_view action) {
    fail(ErrorCode::io,
         fmt::format("{}: {}: {}", path.string(), action, std::generic_category().message(errno)));
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
