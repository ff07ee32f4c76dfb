// Replays the seeds of a fuzzer, including past findings, as a test.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "imka/base/file.hpp"
#include "support/paths.hpp"

// Calls feed(bytes) for every file in fuzz/corpus/<name>; any exception is a failure.
template <class Feed>
void feed_seeds(const std::string& name, const Feed& feed) {
    int files = 0;
    const auto folder = std::filesystem::path(source_dir()) / "fuzz/corpus" / name;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        const auto bytes = imka::read_file(entry.path(), 1 << 20);
        EXPECT_NO_THROW(feed(std::string_view(bytes))) << entry.path();
        ++files;
    }
    EXPECT_GT(files, 2) << folder;
}
