// Location of the real data sets: IMKA_DATA, or ../shared/data next to the repository. Without them, tests
// skip with a message.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "support/paths.hpp"

inline std::filesystem::path real_data_dir() {
    if (const char* dir = std::getenv("IMKA_DATA")) return dir;
    const std::filesystem::path beside = std::filesystem::path(source_dir()) / "../shared/data";
    return std::filesystem::exists(beside) ? beside : std::filesystem::path();
}

#define IMKA_NEED_REAL_DATA(dir)      \
    const auto dir = real_data_dir(); \
    if (dir.empty()) GTEST_SKIP() << "no real data sets: set IMKA_DATA"
