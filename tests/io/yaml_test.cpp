// The strict YAML tree and its reader.
#include "imka/io/yaml.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "imka/io/yaml_list.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The message of reading `text` with `read`.
template <class Read>
std::string error_in(const std::string& text, Read read) {
    return error_of([&] {
        const auto tree = parse_yaml(text, "a.yaml");
        YamlReader reader(tree);
        read(reader);
    });
}

TEST(Yaml, TreesHaveKindsAndLines) {
    const auto tree = parse_yaml("a: 1\n\nb:\n  - x\n  - {c: \"\"}\n", "a.yaml");
    ASSERT_TRUE(tree.root.is_map());
    ASSERT_EQ(tree.root.keys.size(), 2U);
    EXPECT_EQ(tree.root.keys[1].text, "b");
    EXPECT_EQ(tree.root.keys[1].line, 3);
    EXPECT_TRUE(tree.root.children[0].is_scalar());
    EXPECT_EQ(tree.root.children[0].text, "1");
    const auto& list = tree.root.children[1];
    ASSERT_TRUE(list.is_list());
    EXPECT_EQ(list.children[0].text, "x");
    EXPECT_EQ(list.children[1].line, 5);
    EXPECT_EQ(list.children[1].children[0].text, "");
}

TEST(Yaml, AnEmptyFileIsAnEmptyMap) {
    for (const auto* text : {"", "# a comment\n", "\n\n"}) {
        const auto tree = parse_yaml(text, "a.yaml");
        EXPECT_TRUE(tree.root.is_map()) << text;
        EXPECT_TRUE(tree.root.keys.empty()) << text;
    }
    EXPECT_EQ(error_of([] { (void)parse_yaml("---\n", "a.yaml"); }),
              "bad_config: a.yaml: line 2: empty value");
}

TEST(Yaml, AMissingBracketIsNotAMissingValue) {
    const auto error = [](const std::string& text) {
        return error_of([&] { (void)parse_yaml(text, "a.yaml"); });
    };
    EXPECT_THAT(error("name: [a\n"), HasSubstr("not valid YAML"));
    EXPECT_THAT(error("a: 1\nb: [x\n"), HasSubstr("a.yaml: line "));
    EXPECT_THAT(error("a: 1\n b: 2\n"), testing::Not(HasSubstr("yaml-cpp")));
    EXPECT_EQ(error("a:\nb: ~\n"),
              "bad_config: a.yaml: line 1: 'a' has no value; expected a scalar or a list");
    EXPECT_EQ(error("~: 1\n"), "bad_config: a.yaml: line 1: empty key");
    EXPECT_EQ(error("l: [1, ~]\n"), "bad_config: a.yaml: line 1: empty value");
}

TEST(Yaml, RefusesDuplicateKeysOnEveryLevel) {
    const auto error = [](const std::string& text) {
        return error_of([&] { (void)parse_yaml(text, "a.yaml"); });
    };
    EXPECT_EQ(error("a: 1\nb: 2\na: 3\n"), "bad_config: a.yaml: line 3: duplicate key 'a'");
    EXPECT_EQ(error("m:\n  a: 1\n  a: 2\n"), "bad_config: a.yaml: line 3: duplicate key 'a'");
    EXPECT_EQ(error("a: {b: 1}\nb: {a: 1}\n"), "no error");
    EXPECT_EQ(error("l: [{a: 1}, {a: 1}]\n"), "no error");
}

TEST(Yaml, HasLimits) {
    const auto error = [](const std::string& text) {
        return error_of([&] { (void)parse_yaml(text, "a.yaml"); });
    };
    EXPECT_EQ(error("a: " + std::string(7, '[') + "1" + std::string(7, ']')), "no error");
    EXPECT_THAT(error("a: " + std::string(8, '[') + "1" + std::string(8, ']')),
                HasSubstr("more than 8 levels deep"));
    EXPECT_THAT(error("a: " + std::string(100'000, '[')), HasSubstr("a.yaml: line 1: "));
    EXPECT_EQ(error("#" + std::string(kMaxYamlBytes - 1, 'x')), "no error");
    EXPECT_THAT(error("#" + std::string(kMaxYamlBytes, 'x')), HasSubstr("1048577 bytes; at most 1048576"));
}

TEST(YamlReader, ReadsKeysByKind) {
    const auto tree =
        parse_yaml("t: text\nn: 2.5\nw: 7\nl: [1, 2]\nm: {k: v}\nms: [{a: 1}, {a: 2}]\n", "a.yaml");
    YamlReader reader(tree);
    EXPECT_EQ(reader.text("t"), "text");
    EXPECT_EQ(reader.find_text("none"), std::nullopt);
    EXPECT_EQ(reader.find_number("n"), 2.5);
    EXPECT_EQ(reader.find_number("none"), std::nullopt);
    EXPECT_EQ(reader.number("n"), 2.5);
    EXPECT_EQ(reader.whole_number("w", 7), 7U);
    EXPECT_THAT(reader.texts("l"), ElementsAre("1", "2"));
    EXPECT_THAT(reader.numbers("l"), ElementsAre(1.0, 2.0));
    EXPECT_EQ(reader.map("m").text("k"), "v");
    EXPECT_EQ(reader.maps("ms")[1].path("a"), "ms[2].a");
    EXPECT_NO_THROW(reader.done());
}

TEST(YamlReader, ReportsFileLineAndPath) {
    const std::string text = "a: 1\nm:\n  k: [1]\n  n: x\n  w: 300\n";
    const auto in_m = [&](auto read) {
        return error_in(text, [&](YamlReader& r) {
            auto m = r.map("m");
            read(m);
        });
    };
    EXPECT_EQ(in_m([](YamlReader& m) { m.text("k"); }), "bad_config: a.yaml: line 3: m.k: expected a scalar");
    EXPECT_EQ(in_m([](YamlReader& m) { m.text("z"); }), "bad_config: a.yaml: line 3: m: 'z' is missing");
    EXPECT_EQ(in_m([](YamlReader& m) { m.texts("n"); }),
              "bad_config: a.yaml: line 4: m.n: expected a list of scalars");
    EXPECT_EQ(in_m([](YamlReader& m) { m.find_number("n"); }),
              "bad_config: a.yaml: line 4: m.n: 'x' is not a number");
    EXPECT_EQ(in_m([](YamlReader& m) { m.number("n"); }),
              "bad_config: a.yaml: line 4: m.n: 'x' is not a number");
    EXPECT_EQ(in_m([](YamlReader& m) { m.number("z"); }), "bad_config: a.yaml: line 3: m: 'z' is missing");
    EXPECT_EQ(in_m([](YamlReader& m) { m.whole_number("w", 255); }),
              "bad_config: a.yaml: line 5: m.w: 300 is out of range; it must be <= 255");
    EXPECT_EQ(in_m([](YamlReader& m) { m.maps("k"); }),
              "bad_config: a.yaml: line 3: m.k[1]: expected 'key: value' pairs");
    EXPECT_EQ(error_in(text, [](YamlReader& r) { r.map("a"); }),
              "bad_config: a.yaml: line 1: a: expected 'key: value' pairs");
    EXPECT_EQ(error_in("[1]\n", [](YamlReader&) {}),
              "bad_config: a.yaml: line 1: expected 'key: value' pairs");
}

TEST(YamlReader, ReportsUnknownKeysWithTheNearestKnownOnes) {
    EXPECT_EQ(error_in("m:\n  colour: 1\n  szie: 2\n",
                       [](YamlReader& r) {
                           auto m = r.map("m");
                           m.find("colour");
                           m.find("size");
                           m.done();
                       }),
              "bad_config: a.yaml: line 3: 'm.szie' is not a known key; nearest: size");
}

TEST(YamlList, HasEveryEntryAndNoOtherKeys) {
    const auto read = [](YamlReader& entry) { return entry.number("a"); };
    const auto error = [&](const std::string& text) {
        return error_of([&] { (void)parse_yaml_list(text, "a.yaml", "l", read); });
    };
    EXPECT_THAT(parse_yaml_list("l: [{a: 1}, {a: 2}]\n", "a.yaml", "l", read), ElementsAre(1.0, 2.0));
    EXPECT_EQ(error("l:\n  - {a: 1}\n  - {a: 2, b: 3}\n"),
              "bad_config: a.yaml: line 3: 'l[2].b' is not a known key; nearest: a");
    EXPECT_THAT(error("l: [{a: 1}]\nm: 2\n"), HasSubstr("a.yaml: line 2: 'm' is not a known key"));
    EXPECT_THAT(error("m: 2\n"), HasSubstr("'l' is missing"));
}

}  // namespace
}  // namespace imka
