// Causes of an error over chips: their order, and when a chip counts as no worse than an ideal one.
#include "imka/deploy/error_causes.hpp"

#include <gtest/gtest.h>

namespace imka {
namespace {

TEST(ErrorCauses, AreSummarizedInOrderAndSortedBySaving) {
    const auto items = nonidealities();
    const ErrorAttribution attribution{
        .errors = {},
        .items = {
            {.item = items.data(), .alone_error = {0.1, 0.3}, .alone = {0.2, 0.4}, .saved = {0.25, 0.25}},
            {.item = &items[1], .alone_error = {0.5, 0.5}, .alone = {0.6, 0.6}, .saved = {0.7, 0.9}},
            {.item = &items[2], .alone_error = {0.0, 0.0}, .alone = {0.0, 0.0}, .saved = {0.25, 0.25}}}};
    const auto causes = summarize_causes(attribution);
    ASSERT_EQ(causes.size(), 3U);
    EXPECT_EQ(causes[0].item, items.data());
    EXPECT_DOUBLE_EQ(causes[0].alone_error.mean, 0.2);
    EXPECT_DOUBLE_EQ(causes[0].alone.mean, 0.3);
    EXPECT_DOUBLE_EQ(causes[1].saved.mean, 0.8);
    const auto sorted = by_saving(causes);
    EXPECT_EQ(sorted[0].item, &items[1]);
    EXPECT_EQ(sorted[1].item, items.data()) << "equal savings keep their order";
    EXPECT_EQ(sorted[2].item, &items[2]);
}

TEST(ErrorCauses, RootErrorIsTheMeanOfTheRoots) {
    const std::vector<CaseErrors> errors = {{.full = 4.0, .none = 1.0}, {.full = 16.0, .none = 9.0}};
    EXPECT_DOUBLE_EQ(root_error(errors, &CaseErrors::full).mean, 3.0);
    EXPECT_DOUBLE_EQ(root_error(errors, &CaseErrors::none).mean, 2.0);
}

TEST(ErrorCauses, AChipIsAboveAnIdealOneByAFifthOrByItsInterval) {
    const auto above = [](const std::vector<CaseErrors>& errors) { return is_above_ideal(errors); };
    EXPECT_TRUE(above({{.full = 1.3, .none = 1.0}}));
    EXPECT_FALSE(above({{.full = 1.1, .none = 1.0}})) << "one chip has no interval";
    // Added errors: 0.10, 0.11, 0.09. The half-width is 4.30 * 0.01 / sqrt(3) = 0.025.
    EXPECT_TRUE(
        above({{.full = 1.10, .none = 1.0}, {.full = 1.11, .none = 1.0}, {.full = 1.09, .none = 1.0}}));
    EXPECT_FALSE(above({{.full = 1.5, .none = 1.0}, {.full = 0.6, .none = 1.0}, {.full = 1.1, .none = 1.0}}));
}

}  // namespace
}  // namespace imka
