// README.md shows the same code as the repository.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "imka/base/file.hpp"
#include "support/paths.hpp"

namespace {

using testing::HasSubstr;

TEST(Readme, ShowsTheExampleThatTheTestsRun) {
    const auto readme = imka::read_file(source_dir() + "/README.md", 1U << 20U);
    const auto example = imka::read_file(source_dir() + "/examples/first_use.cpp", 1U << 20U);
    EXPECT_THAT(readme, HasSubstr("```cpp\n" + example + "```\n"));
}

}  // namespace
