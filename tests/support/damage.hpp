// Files with one changed byte, for tests of checksums.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/base/random.hpp"

// Changes one byte at a time in a copy of the file at `path`, 300 times (or every byte once). Each time,
// `read` must throw an imka::Error or give the result of the original file; it must throw in more than half
// of the cases.
template <class Read>
void expect_damage_is_found(const std::filesystem::path& path, const Read& read) {
    constexpr std::size_t kMost = 300;
    const auto bytes = imka::read_file(path, std::size_t{1} << 26U);
    const auto whole = read(path);
    auto damaged = path;
    damaged += ".damaged";
    const std::size_t trials = std::min(kMost, bytes.size());
    std::size_t found = 0;
    for (std::size_t i = 0; i < trials; ++i) {
        auto changed = bytes;
        const auto at = bytes.size() <= kMost ? i : imka::uniform_int(1, imka::Stream::test, i, bytes.size());
        const auto flips = 1 + imka::uniform_int(2, imka::Stream::test, i, 255);
        changed[at] = static_cast<char>(static_cast<unsigned char>(changed[at]) ^ flips);
        imka::write_file_atomic(damaged, changed);
        try {
            EXPECT_TRUE(read(damaged) == whole) << "byte " << at << " changed by " << flips;
        } catch (const imka::Error&) {
            ++found;
        }
    }
    EXPECT_GT(2 * found, trials);
}
