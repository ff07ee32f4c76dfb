// Claims: which process works on which run in a shared folder. A claim is a locked file; the operating system
// releases the lock if the process dies (docs/adr/0009-claims.md).
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace imka {

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
