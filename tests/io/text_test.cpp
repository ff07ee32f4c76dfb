#include "imka/io/text.hpp"

#include <gtest/gtest.h>

namespace imka {
namespace {

TEST(Text, CsvFieldsAreQuotedWhereAReaderWouldChangeThem) {
    EXPECT_EQ(csv_field("plain"), "plain");
    EXPECT_EQ(csv_field("two words"), "two words");
    EXPECT_EQ(csv_field("a,b"), "\"a,b\"");
    EXPECT_EQ(csv_field("say \"a\""), "\"say \"\"a\"\"\"");
    EXPECT_EQ(csv_field(" leading"), "\" leading\"");
    EXPECT_EQ(csv_field("trailing\t"), "\"trailing\t\"");
    EXPECT_EQ(csv_field("two\nlines"), "\"two\nlines\"");
    EXPECT_EQ(csv_field(""), "");
}

TEST(Text, PrintableKeepsTextAndEscapesControlCharacters) {
    EXPECT_EQ(printable("Ω = 3 µS, 文\n\tnext"), "Ω = 3 µS, 文\n\tnext");
    EXPECT_EQ(printable("\x1b[31mred\x1b[0m"), "\\u001b[31mred\\u001b[0m");
    EXPECT_EQ(printable("over\rwrite\b\x7f"), "over\\u000dwrite\\u0008\\u007f");
    EXPECT_EQ(printable("\xc2\x9b"
                        "31m"),
              "\\u009b31m");  // CSI as one character of C1
    // A right-to-left override. NOLINTNEXTLINE(misc-misleading-bidirectional)
    EXPECT_EQ(printable("\xe2\x80\xae"
                        "abc"),
              "\\u202eabc");
    EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\u0000b");
}

TEST(Text, PrintableEscapesBytesThatAreNotUtf8) {
    EXPECT_EQ(printable("\x9b"
                        "31m"),
              "\\u009b31m");
    EXPECT_EQ(printable("\xc3("), "\\u00c3(");
    EXPECT_EQ(printable("\xe2\x82"), "\\u00e2\\u0082");             // cut short
    EXPECT_EQ(printable("\xc0\x9b"), "\\u00c0\\u009b");             // overlong
    EXPECT_EQ(printable("\xed\xa0\x80"), "\\u00ed\\u00a0\\u0080");  // a surrogate
    EXPECT_EQ(printable("\xf5\x80\x80\x80"), "\\u00f5\\u0080\\u0080\\u0080");
}

}  // namespace
}  // namespace imka
