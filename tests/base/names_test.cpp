// Names of enumerators, and the error that lists the known names.
#include "imka/base/names.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "imka/base/error.hpp"

namespace imka {

enum class Fruit { apple, pear, quince };
template <>
struct EnumNames<Fruit> {
    static constexpr std::string_view what = "fruit";
    static constexpr std::string_view values[] = {"apple", "pear", "quince"};
};

namespace {

TEST(Names, RoundTrip) {
    for (const auto fruit : {Fruit::apple, Fruit::pear, Fruit::quince}) {
        EXPECT_EQ(parse_enum<Fruit>(to_string(fruit)), fruit);
    }
    EXPECT_EQ(to_string(Fruit::pear), "pear");
}

TEST(Names, ListWhatIsKnown) {
    for (const auto* text : {"", "Pear", "pear ", "pea", "pears"}) {
        try {
            parse_enum<Fruit>(text);
            ADD_FAILURE() << "no error for '" << text << "'";
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), ErrorCode::bad_config);
            EXPECT_EQ(e.what(),
                      "'" + std::string(text) + "' is not a known fruit; known: apple, pear, quince");
        }
    }
}

TEST(Names, JoinPutsTheSeparatorBetween) {
    EXPECT_EQ(join({}), "");
    const std::vector<std::string_view> one = {"a"};
    EXPECT_EQ(join(one), "a");
    EXPECT_EQ(join(EnumNames<Fruit>::values, "|"), "apple|pear|quince");
    const std::vector<std::string_view> with_empty = {"", "b"};
    EXPECT_EQ(join(with_empty), ", b");
}

}  // namespace
}  // namespace imka
