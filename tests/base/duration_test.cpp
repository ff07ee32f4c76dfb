#include "imka/base/duration.hpp"

#include <gtest/gtest.h>

#include "imka/base/error.hpp"

namespace imka {
namespace {

TEST(Duration, ReadsNumbersAndUnits) {
    EXPECT_EQ(parse_duration("90", "--at"), 90.0);
    EXPECT_EQ(parse_duration("1e6", "--at"), 1e6);
    EXPECT_EQ(parse_duration("0.5s", "--at"), 0.5);
    EXPECT_EQ(parse_duration("30min", "--at"), 1800.0);
    EXPECT_EQ(parse_duration("1 h", "--at"), 3600.0);
    EXPECT_EQ(parse_duration("7d", "--at"), 604800.0);
    EXPECT_EQ(parse_duration("1y", "--at"), 31557600.0);
}

TEST(Duration, RefusesWhatIsNone) {
    for (const auto* text : {"", "h", "1m", "1 month", "-1h", "1e13", "nan", "1h30"}) {
        try {
            parse_duration(text, "--at");
            ADD_FAILURE() << text;
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), ErrorCode::bad_config) << text;
            EXPECT_NE(std::string(e.what()).find("--at"), std::string::npos) << e.what();
        }
    }
}

TEST(Duration, IsWrittenInTheLongestUnitThatFits) {
    EXPECT_EQ(duration_text(0.5), "0.5 s");
    EXPECT_EQ(duration_text(60.0), "1 min");
    EXPECT_EQ(duration_text(216000.0), "2.5 d");
    EXPECT_EQ(duration_text(31557600.0), "1 y");
}

}  // namespace
}  // namespace imka
