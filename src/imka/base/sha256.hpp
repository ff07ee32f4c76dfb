// Incremental SHA-256.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace imka {

class Sha256 {
public:
    Sha256();
    ~Sha256();
    Sha256(const Sha256&) = delete;
    Sha256& operator=(const Sha256&) = delete;
    void update(std::span<const std::byte> bytes);
    void update(std::string_view text) { update(std::as_bytes(std::span(text.data(), text.size()))); }
    std::string hex();  // finishes the hash; 64 lower-case hex digits

private:
    struct State;
    std::unique_ptr<State> state_;
};

std::string sha256_hex(std::string_view text);

}  // namespace imka
