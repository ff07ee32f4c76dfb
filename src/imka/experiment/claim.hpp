// Claims: which process works on which run of a folder that several share. A claim is a locked file; the
// system frees the lock when its holder dies, however it dies (docs/adr/0009-claims.md).
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace imka {

// Held until it goes out of scope; then the file is removed, and only after that unlocked.
class Claim {
public:
    // Nothing when a living holder has it. Error{io} when the folder cannot be written or cannot lock files.
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
