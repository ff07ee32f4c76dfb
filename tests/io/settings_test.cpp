// Settings from YAML: accepted files, rejected files, and the lines in messages.
#include "imka/io/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

struct Settings {
    double alpha = 0.5;
    double gamma = 1.0;
    std::string name = "none";
    std::optional<std::int64_t> components = 3;
    std::vector<std::uint64_t> seeds = {0};
};

Fields fields(Settings& s) {
    return {field("alpha", s.alpha, {.help = "penalty", .min = 0.0}),
            field("gamma", s.gamma, {.help = "width", .min = 0.0, .above_min = true}),
            field("name", s.name, {.help = "name"}),
            field("components", s.components, {.help = "components", .min = 1.0}),
            field("seeds", s.seeds, {.help = "seeds"})};
}

std::string yaml_message(std::string_view text) {
    Settings s;
    try {
        load_yaml_text(text, "a.yaml", fields(s));
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::bad_config) << e.what();
        return e.what();
    }
    return "no error";
}

TEST(LoadYaml, SetsNamedFieldsAndKeepsOthers) {
    Settings s;
    load_yaml_text("# a comment\nalpha: 2\nseeds: [0, 3, 5..6]\nname: \"blue\"\ncomponents: auto\n", "a.yaml",
                   fields(s));
    EXPECT_EQ(s.alpha, 2.0);
    EXPECT_EQ(s.gamma, 1.0);
    EXPECT_THAT(s.seeds, ElementsAre(0, 3, 5, 6));
    EXPECT_EQ(s.name, "blue");
    EXPECT_FALSE(s.components.has_value());
}

TEST(LoadYaml, AnEmptyFileSetsNothing) {
    Settings s;
    load_yaml_text("", "a.yaml", fields(s));
    load_yaml_text("# nothing\n", "a.yaml", fields(s));
    load_yaml_text("{}", "a.yaml", fields(s));
    EXPECT_EQ(s.alpha, 0.5);
}

TEST(LoadYaml, ReportsFileAndLineOfAnError) {
    EXPECT_THAT(yaml_message("alpha: 1\nbeta: 2\n"),
                StartsWith("a.yaml: line 2: 'beta' is not a known setting"));
    EXPECT_EQ(yaml_message("alpha: 1\n\nalpha: 1\n"), "a.yaml: line 3: duplicate key 'alpha'");
    EXPECT_EQ(yaml_message("alpha: -1\n"), "a.yaml: line 1: alpha: -1 is out of range; it must be >= 0");
    EXPECT_THAT(yaml_message("seeds: []\n"), StartsWith("a.yaml: line 1: seeds: '' is not"));
}

TEST(LoadYaml, RefusesNestedValues) {
    EXPECT_EQ(yaml_message("alpha:\n  value: 1\n"),
              "a.yaml: line 1: alpha: expected a scalar or a list, not a map");
    EXPECT_EQ(yaml_message("seeds: [1, [2]]\n"), "a.yaml: line 1: seeds: expected a list of scalars");
    EXPECT_EQ(yaml_message("seeds: [1, {a: 2}]\n"), "a.yaml: line 1: seeds: expected a list of scalars");
    EXPECT_EQ(yaml_message("alpha:\n"), "a.yaml: line 1: 'alpha' has no value; expected a scalar or a list");
    EXPECT_THAT(yaml_message("alpha: ~\n"), StartsWith("a.yaml: line 1: 'alpha' has no value"));
    EXPECT_EQ(yaml_message("- 1\n"), "a.yaml: line 1: expected 'key: value' pairs");
    EXPECT_EQ(yaml_message("alpha\n"), "a.yaml: line 1: expected 'key: value' pairs");
    EXPECT_THAT(yaml_message("? {a: 1}\n: 2\n"), StartsWith("a.yaml: line 1: a list or map as a key"));
    EXPECT_THAT(yaml_message("? [a]\n: 2\n"), StartsWith("a.yaml: line 1: a list or map as a key"));
    EXPECT_THAT(yaml_message("alpha: 1\n---\nalpha: 2\n"), HasSubstr("line 2: a second document"));
}

TEST(LoadYaml, RefusesAnchorsAndAliases) {
    EXPECT_THAT(yaml_message("alpha: &a 1\ngamma: *a\n"), StartsWith("a.yaml: line 1: anchor '&a'"));
    EXPECT_THAT(yaml_message("alpha: *a\n"), StartsWith("a.yaml: "));
    EXPECT_THAT(yaml_message("<<: {alpha: 1}\n"), StartsWith("a.yaml: line 1: <<: expected a scalar"));
}

TEST(LoadYaml, RefusesTextThatIsNotYaml) {
    for (const auto* text : {"alpha: [1", "alpha: \"1", "\talpha: 1", "alpha: 1\n gamma: 2",
                             "%YAML 9.9 x\n---\na: 1", "alpha: !<tag 1", "{alpha: 1"}) {
        EXPECT_THAT(yaml_message(text), StartsWith("a.yaml: ")) << text;
    }
}

// Nested brackets, an alias bomb and a long list: each must be rejected in linear time. Processor time is
// measured, since it does not depend on the load of the machine.
TEST(LoadYaml, RefusesBombsQuickly) {
    const std::clock_t begin = std::clock();
    const std::size_t most = std::size_t{1} << 20U;
    std::string deep_map;
    for (int i = 0; i < 400; ++i) deep_map += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
    std::string bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n";
    for (char c = 'b'; c < 'z'; ++c) {
        const char before = static_cast<char>(c - 1);
        bomb += std::string(1, c) + ": &" + c + " [";
        for (int i = 0; i < 9; ++i) bomb += std::string(i > 0 ? "," : "") + "*" + before;
        bomb += "]\n";
    }
    for (const auto& text :
         {"seeds: " + std::string(100'000, '['), "seeds: " + std::string(100'000, '{'), deep_map, bomb,
          "name: " + std::string(most, 'x') + "\nbeta: 1", std::string(100'000, '-')}) {
        EXPECT_THAT(yaml_message(text), StartsWith("a.yaml: "));
    }
    EXPECT_LT(std::clock() - begin, 20 * CLOCKS_PER_SEC);
}

TEST(LoadYaml, ReadsFilesAndReportsWhyItCannot) {
    const TempDir dir;
    Settings s;
    write_file_atomic(dir / "a.yaml", "alpha: 3\n");
    load_yaml(dir / "a.yaml", fields(s));
    EXPECT_EQ(s.alpha, 3.0);
    try {
        load_yaml(dir / "none.yaml", fields(s));
        ADD_FAILURE() << "no error";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::io);
        EXPECT_THAT(e.what(), AllOf(HasSubstr("none.yaml"), HasSubstr("No such file")));
    }
    write_file_atomic(dir / "big.yaml", std::string((1U << 20U) + 1, '#'));
    EXPECT_THROW(load_yaml(dir / "big.yaml", fields(s)), Error);
}

}  // namespace
}  // namespace imka
