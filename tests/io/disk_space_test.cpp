// Outputs that cannot fit on the disk.
#include "imka/io/disk_space.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/error.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

TEST(DiskSpace, RefusesWhatCannotFit) {
    const TempDir dir;
    EXPECT_EQ(error_of([&] { check_disk_space(dir / "a", 1.0); }), "no error");
    EXPECT_THAT(error_of([&] { check_disk_space(dir / "a", 1e18); }),
                testing::AllOf(testing::StartsWith("io: "), testing::HasSubstr("/a: needs about 1 EB, but")));
    EXPECT_EQ(error_of([&] { check_disk_space(dir / "none/a", 1e18); }), "no error") << "unknown";
}

}  // namespace
}  // namespace imka
