// Every seed of the fuzzers, and every past finding kept among them, gives a value or an imka::Error.
#include <gtest/gtest.h>

#include <filesystem>

#include "../../fuzz/feed.hpp"
#include "imka/base/file.hpp"

namespace imka {
namespace {

void feed_all(const std::string& name, void (*feed)(std::string_view)) {
    int files = 0;
    const auto folder = std::filesystem::path(IMKA_SOURCE_DIR) / "fuzz/corpus" / name;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        const auto bytes = read_file(entry.path(), 1 << 20);
        EXPECT_NO_THROW(feed(bytes)) << entry.path();
        ++files;
    }
    EXPECT_GT(files, 2) << folder;
}

TEST(FuzzSeeds, GiveOnlyOurErrors) {
    feed_all("libsvm", fuzz::feed_libsvm);
    feed_all("arff", fuzz::feed_arff);
    feed_all("csv", fuzz::feed_csv);
    feed_all("npy", fuzz::feed_npy);
    feed_all("safetensors", fuzz::feed_safetensors);
    feed_all("config", fuzz::feed_config);
}

}  // namespace
}  // namespace imka
