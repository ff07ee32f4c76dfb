// Settings: every type, its range and its messages; JSON and plain text.
#include "imka/base/config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "imka/base/error.hpp"

namespace imka {

enum class Colour { violet, blue };
template <>
struct EnumNames<Colour> {
    static constexpr std::string_view what = "colour";
    static constexpr std::string_view values[] = {"violet", "blue"};
};

namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

struct Settings {
    double alpha = 0.5;
    double gamma = 1.0;
    double share = 0.25;
    std::int64_t offset = -3;
    std::uint64_t seed = 0;
    bool centre = false;
    std::string name = "none";
    Colour colour = Colour::violet;
    std::optional<std::int64_t> components;
    std::vector<std::uint64_t> seeds = {0};
};

Fields fields(Settings& s) {
    return {field("alpha", s.alpha, {.help = "penalty", .min = 0.0}),
            field("gamma", s.gamma, {.help = "width", .min = 0.0, .above_min = true}),
            field("share", s.share, {.help = "share", .min = 0.0, .max = 1.0}),
            field("offset", s.offset, {.help = "offset", .max = 9.0}),
            field("seed", s.seed, {.help = "seed"}),
            field("centre", s.centre, {.help = "centre"}),
            field("name", s.name, {.help = "name"}),
            field("colour", s.colour, {.help = "colour"}),
            field("components", s.components, {.help = "components", .min = 1.0}),
            field("seeds", s.seeds, {.help = "seeds"})};
}

std::string message_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::bad_config) << e.what();
        return e.what();
    }
    return "no error";
}

std::string set_message(std::string_view name, std::string_view text) {
    Settings s;
    return message_of([&] { set_field(fields(s), name, text); });
}

std::vector<std::uint64_t> seeds(std::string_view text) {
    return Codec<std::vector<std::uint64_t>>::parse(text, "seeds");
}

TEST(SetField, SetsEveryType) {
    Settings s;
    const auto list = fields(s);
    set_field(list, "alpha", "1e-3");
    set_field(list, "offset", "-9223372036854775808");
    set_field(list, "seed", "18446744073709551615");
    set_field(list, "centre", "true");
    set_field(list, "name", "a \"b\"");
    set_field(list, "colour", "blue");
    set_field(list, "components", "64");
    set_field(list, "seeds", "1,4..6");
    EXPECT_EQ(s.alpha, 1e-3);
    EXPECT_EQ(s.offset, std::numeric_limits<std::int64_t>::min());
    EXPECT_EQ(s.seed, std::numeric_limits<std::uint64_t>::max());
    EXPECT_TRUE(s.centre);
    EXPECT_EQ(s.name, "a \"b\"");
    EXPECT_EQ(s.colour, Colour::blue);
    EXPECT_EQ(s.components, 64);
    EXPECT_THAT(s.seeds, ElementsAre(1, 4, 5, 6));
    set_field(list, "components", "auto");
    EXPECT_FALSE(s.components.has_value());
}

TEST(SetField, RefusesWhatIsNotOfItsType) {
    for (const auto* text : {"", "x", "1x", " 1", "1 ", "+1", "nan", "inf", "-inf", "1e999", "0x10", "1,5"}) {
        EXPECT_THAT(set_message("alpha", text), StartsWith("alpha: '")) << text;
    }
    for (const auto* text : {"", "1.5", "1e3", "- 1", "-", "--1", "0x10"}) {
        EXPECT_THAT(set_message("offset", text), HasSubstr("is not an integer")) << text;
        EXPECT_THAT(set_message("seed", text), HasSubstr("is not an integer")) << text;
    }
    for (const auto* text : {"9223372036854775808", "-9223372036854775809"})
        EXPECT_THAT(set_message("offset", text),
                    HasSubstr("out of range; it must be from -9223372036854775808 to "
                              "9223372036854775807"))
            << text;
    for (const auto* text : {"-1", "18446744073709551616"})
        EXPECT_THAT(set_message("seed", text),
                    HasSubstr("out of range; it must be from 0 to 18446744073709551615"))
            << text;
    for (const auto* text : {"", "yes", "1", "True"}) {
        EXPECT_THAT(set_message("centre", text), HasSubstr("is neither true nor false")) << text;
    }
    EXPECT_EQ(set_message("colour", "Blue"), "'Blue' is not a known colour; known: violet, blue");
}

TEST(SetField, NamesTheRange) {
    EXPECT_EQ(set_message("alpha", "-1"), "alpha: -1 is out of range; it must be >= 0");
    EXPECT_EQ(set_message("gamma", "0"), "gamma: 0 is out of range; it must be > 0");
    EXPECT_EQ(set_message("share", "1.5"), "share: 1.5 is out of range; it must be >= 0 and <= 1");
    EXPECT_EQ(set_message("offset", "10"), "offset: 10 is out of range; it must be <= 9");
    EXPECT_EQ(set_message("components", "0"), "components: 0 is out of range; it must be >= 1");
    EXPECT_EQ(set_message("alpha", "0"), "no error");
    EXPECT_EQ(set_message("share", "1"), "no error");
}

TEST(SetField, KeepsTheOldValueWhenTheNewOneIsWrong) {
    Settings s;
    EXPECT_THROW(set_field(fields(s), "alpha", "-1"), Error);
    EXPECT_THROW(set_field(fields(s), "seeds", "1,1"), Error);
    EXPECT_EQ(s.alpha, 0.5);
    EXPECT_THAT(s.seeds, ElementsAre(0));
}

TEST(SetField, ListsTheKnownNamesForAnUnknownOne) {
    EXPECT_THAT(set_message("alhpa", "1"), AllOf(HasSubstr("'alhpa' is not a known setting"),
                                                 HasSubstr("known: alpha, gamma, share, offset")));
}

TEST(CheckRanges, FindsAValueThatCodeSetWrongly) {
    Settings s;
    check_ranges(fields(s));
    s.share = std::numeric_limits<double>::quiet_NaN();
    EXPECT_THAT(message_of([&] { check_ranges(fields(s)); }), StartsWith("share: nan is out of range"));
    s = {};
    s.seeds.clear();
    EXPECT_EQ(message_of([&] { check_ranges(fields(s)); }), "seeds: the list is empty");
}

TEST(CheckRanges, RefusesWhatIsNotFinite) {
    constexpr double kInfinite = std::numeric_limits<double>::infinity();
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    double limit = kInfinite;
    const Fields unlimited = {field("limit", limit, {.help = "", .min = 0.0, .unlimited = true})};
    EXPECT_NO_THROW(check_ranges(unlimited));
    for (const double bad : {kNan, -kInfinite, -1.0}) {
        limit = bad;  // NOLINT(clang-analyzer-deadcode.DeadStores): read through the field
        EXPECT_THAT(message_of([&] { check_ranges(unlimited); }), HasSubstr("limit: ")) << bad;
    }
    double value = 0.0;
    const Fields any = {field("value", value, {.help = ""})};
    const Fields positive = {field("value", value, range::positive(""))};
    for (const double bad : {kNan, kInfinite, -kInfinite}) {
        value = bad;  // NOLINT(clang-analyzer-deadcode.DeadStores): read through the field
        EXPECT_THAT(message_of([&] { check_ranges(any); }), HasSubstr("it must be a finite number")) << bad;
        EXPECT_THAT(message_of([&] { check_ranges(positive); }), HasSubstr("it must be > 0")) << bad;
    }
}

TEST(ParseAssignment, SplitsAtTheFirstEqualsSign) {
    const auto a = parse_assignment("chip_set=core.adc_noise=2", "--set");
    EXPECT_EQ(a.key, "chip_set");
    EXPECT_EQ(a.value, "core.adc_noise=2");
    EXPECT_EQ(parse_assignment("name=", "--set").value, "");
    for (const auto* text : {"", "gamma", "=1"}) {
        EXPECT_EQ(message_of([&] { (void)parse_assignment(text, "--set"); }),
                  "--set '" + std::string(text) + "': expected KEY=VALUE");
    }
}

TEST(PlainText, IsWhatSetReads) {
    Settings s;
    s.name = "a \"b\"";
    s.gamma = 3.0;
    s.seeds = {0, 3, 4};
    std::vector<std::string> texts;
    for (const auto& f : fields(s)) {
        texts.push_back(plain_text(f));
        EXPECT_NO_THROW(f.set(texts.back())) << f.name;
        EXPECT_EQ(plain_text(f), texts.back());
    }
    EXPECT_THAT(texts,
                ElementsAre("0.5", "3", "0.25", "-3", "0", "false", "a \"b\"", "violet", "auto", "0,3,4"));
}

TEST(Seeds, FollowTheGrammar) {
    EXPECT_THAT(seeds("7"), ElementsAre(7));
    EXPECT_THAT(seeds("0..3"), ElementsAre(0, 1, 2, 3));
    EXPECT_THAT(seeds("5..5"), ElementsAre(5));
    EXPECT_THAT(seeds("0,3,5..8"), ElementsAre(0, 3, 5, 6, 7, 8));
    EXPECT_THAT(seeds("18446744073709551614..18446744073709551615"),
                ElementsAre(18446744073709551614U, 18446744073709551615U));
}

TEST(Seeds, RefuseWhatTheGrammarDoesNotHave) {
    for (const auto* text : {"", ",", "1,", ",1", "1,,2", "..", "1..", "..3", "1...3", "1..2..3", "a", "-1",
                             "1 2", "1, 2", "0x3", "1.5"}) {
        EXPECT_THAT(message_of([&] { seeds(text); }), StartsWith("seeds: '")) << text;
    }
    EXPECT_EQ(message_of([] { seeds("3..1"); }), "seeds: '3..1' counts backwards");
    EXPECT_EQ(set_message("seeds", "1,2,1..3"), "seeds: duplicate value");
}

TEST(Seeds, HaveALimitThatCostsNoMemory) {
    EXPECT_EQ(seeds("0..99999").size(), 100'000U);
    for (const auto* text : {"0..100000", "0..999999", "0..18446744073709551615", "0..99998,5,7"}) {
        EXPECT_EQ(message_of([&] { seeds(text); }), "seeds: more than 100000 values in the list") << text;
    }
}

TEST(ToJson, KeepsTheOrderOfTheListAndIsValidJson) {
    Settings s;
    s.name = "quote \" and \xff byte";
    const auto text = to_json(fields(s));
    EXPECT_THAT(text, StartsWith(R"({"alpha": 0.5, "gamma": 1.0, "share": 0.25, "offset": -3, "seed": 0, )"
                                 R"("centre": false, "name": "quote \" and )"));
    EXPECT_THAT(text, testing::EndsWith(R"("colour": "violet", "components": null, "seeds": [0]})"));
    const auto parsed = nlohmann::json::parse(text);
    EXPECT_EQ(parsed.size(), 10U);
}

TEST(ToJson, RoundTripsNumbersExactly) {
    Settings s;
    s.alpha = 0.1 + 0.2;
    s.seed = std::numeric_limits<std::uint64_t>::max();
    const auto parsed = nlohmann::json::parse(to_json(fields(s)));
    EXPECT_EQ(parsed["alpha"].get<double>(), s.alpha);
    EXPECT_EQ(parsed["seed"].get<std::uint64_t>(), s.seed);
}

TEST(Field, TellsItsTypeAndHelp) {
    Settings s;
    const auto list = fields(s);
    EXPECT_EQ(list[0].type, "number");
    EXPECT_EQ(list[0].info.help, "penalty");
    EXPECT_EQ(list[3].type, "integer");
    EXPECT_EQ(list[5].type, "true|false");
    EXPECT_EQ(list[7].type, "violet|blue");
    EXPECT_EQ(list[8].type, "integer");
}

}  // namespace
}  // namespace imka
