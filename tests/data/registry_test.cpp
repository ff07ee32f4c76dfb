// The manifest, compared with the real files.
#include "imka/data/registry.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/data/fetch.hpp"
#include "imka/data/registry_io.hpp"
#include "support/data_dir.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

std::string message_of(const std::string& manifest) {
    try {
        parse_manifest(manifest, "m.yaml");
    } catch (const Error& e) {
        return e.what();
    }
    return "no error";
}

constexpr const char* kSmall = R"(sets:
  a:
    title: A
    description: B
    folder: a
    split: random
    page: https://example.org
    licence: C
    citation: D
    protocols:
      default: {features: 1, train: 2, test: 3}
      measured: {features: 1, train: 2, test: 3}
    files:
      - names: [x.csv]
        url: https://example.org/x.csv
        read: {format: csv}
        bytes: 1
        raw_sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
        table_sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
        rows: 1
        classes: {b: 1}
)";

std::string replaced(const std::string& from, const std::string& to) {
    std::string text = kSmall;
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos);
    return text.replace(at, from.size(), to);
}

TEST(Registry, KnowsTheSets) {
    std::vector<std::string> names;
    for (const auto& set : registered_sets()) names.push_back(set.name);
    EXPECT_THAT(names, testing::ElementsAre("cod-rna", "eeg", "ijcnn1", "letter", "magic", "skin"));
    EXPECT_EQ(find_set("mnist"), nullptr);
}

TEST(Registry, EverySetHasARecipe) {
    for (const auto& set : registered_sets()) EXPECT_TRUE(has_recipe(set)) << set.name;
}

TEST(Registry, ClassesAddUpAndDownloadsAreFoundAgain) {
    for (const auto& set : registered_sets()) {
        for (const auto& file : set.files) {
            std::uint64_t rows = 0;
            for (const auto& c : file.classes) rows += c.rows;
            EXPECT_EQ(rows, file.rows) << set.name;
            const TempDir dir;
            std::filesystem::create_directories(dir / set.folder);
            const auto target = dir.path() / set.folder / url_file_name(file.url);
            write_file_atomic(target, "x");
            EXPECT_EQ(find_source(set, file, dir.path()), target);
        }
    }
}

TEST(Registry, FindsAFileUnderAnyNameAndCompression) {
    const auto& set = *find_set("eeg");
    const TempDir dir;
    EXPECT_EQ(find_source(set, set.files[0], dir.path()), std::nullopt);
    EXPECT_EQ(find_source(set, set.files[0], {}), std::nullopt);
    std::filesystem::create_directories(dir / "eeg");
    write_file_atomic(dir / "eeg/eeg_eye_state.arff.zst", "x");
    EXPECT_EQ(find_source(set, set.files[0], dir.path()), dir / "eeg/eeg_eye_state.arff.zst");
}

TEST(Manifest, IsReadStrictly) {
    EXPECT_EQ(message_of(kSmall), "no error");
    EXPECT_EQ(message_of(replaced("title: A", "titel: A")), "m.yaml: line 3: sets.a: 'title' is missing");
    EXPECT_EQ(message_of(replaced("rows: 1", "rows: 1\n        colour: red")),
              "m.yaml: line 21: 'sets.a.files[1].colour' is not a known key; nearest: url, rows, names");
    EXPECT_EQ(message_of(replaced("title: A", "title: A\n    title: A")),
              "m.yaml: line 4: duplicate key 'title'");
    EXPECT_THAT(message_of(replaced("rows: 1", "rows: many")), HasSubstr("rows: 'many' is not an integer"));
    EXPECT_THAT(message_of(replaced("table_sha256: 0123", "table_sha256: x123")),
                HasSubstr("64 hexadecimal"));
    EXPECT_THAT(message_of(replaced("folder: a", "folder: ../a")), HasSubstr("not a plain file name"));
    EXPECT_THAT(message_of(replaced("[x.csv]", "[/etc/passwd]")), HasSubstr("not a plain file name"));
    EXPECT_THAT(message_of(replaced("format: csv", "format: xls")), HasSubstr("'xls' is not a known format"));
    EXPECT_THAT(message_of("sets: ["), HasSubstr("not valid YAML"));
    EXPECT_THAT(message_of("[1, 2]"), HasSubstr("expected 'key: value' pairs"));
}

TEST(Registry, RefusesAnotherTable) {
    const auto& set = *find_set("skin");
    const TempDir dir;
    write_file_atomic(dir / "Skin_NonSkin.txt", "74\t85\t123\t1\n1\t2\t3\t2\n");
    try {
        read_known_table(dir / "Skin_NonSkin.txt", set.files[0]);
        FAIL() << "a table of two rows was taken";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::bad_data);
        EXPECT_THAT(e.what(), HasSubstr(set.files[0].table_sha256));
        EXPECT_THAT(e.what(), HasSubstr("2 rows"));
    }
    const auto check = check_source(dir / "Skin_NonSkin.txt", set.files[0]);
    EXPECT_FALSE(check.right);
    EXPECT_NE(check.raw_sha256, set.files[0].raw_sha256);
}

TEST(RealData, FilesAreAsTheManifestSays) {
    IMKA_NEED_REAL_DATA(dir);
    for (const auto& set : registered_sets()) {
        for (const auto& file : set.files) {
            const auto path = find_source(set, file, dir);
            ASSERT_TRUE(path) << set.name;
            const auto check = check_source(*path, file);
            EXPECT_EQ(check.raw_sha256, file.raw_sha256) << *path;
            EXPECT_EQ(check.bytes, file.bytes) << *path;
            EXPECT_EQ(check.table_sha256, file.table_sha256) << *path;
            EXPECT_TRUE(check.right) << check.problem;
            const auto table = read_table(*path, file.read);
            EXPECT_EQ(table.x.rows(), file.rows) << *path;
            std::map<std::string, std::uint64_t> counts;
            for (const auto& label : table.labels) ++counts[label];
            EXPECT_EQ(counts.size(), file.classes.size()) << *path;
            for (const auto& c : file.classes) EXPECT_EQ(counts[c.label], c.rows) << *path << " " << c.label;
        }
    }
}

// The split was published as files; our row numbers must give exactly these rows in order.
TEST(RealData, LetterSplitGivesThePublishedRows) {
    IMKA_NEED_REAL_DATA(dir);
    const auto folder = dir / "letter";
    if (!std::filesystem::exists(folder / "letter_binary_train.csv.xz"))
        GTEST_SKIP() << (folder / "letter_binary_train.csv.xz").string() + " is absent";
    const auto& set = *find_set("letter");
    for (const auto protocol : {Protocol::default_, Protocol::measured}) {
        const auto a = arrange(set, read_tables(set, dir, {}), {.protocol = protocol});
        std::size_t row = 0;
        for (const auto* name : {"letter_binary_train.csv.xz", "letter_binary_test.csv.xz"}) {
            // Columns: binary label, letter, 16 features.
            const bool binary = protocol == Protocol::measured;
            ReadOptions read;
            read.format = Format::csv;
            read.label_column = binary ? "1" : "2";
            read.drop_columns = {binary ? "2" : "1"};
            read.header = Header::no;
            const auto expected = read_table(folder / name, read);
            for (std::size_t r = 0; r < expected.x.rows(); ++r, ++row) {
                ASSERT_TRUE(std::ranges::equal(expected.x.row(r), a.table.x.row(row)))
                    << name << " row " << r;
                const std::string label =
                    binary ? (expected.labels[r] == "1" ? "A-M" : "N-Z") : expected.labels[r];
                ASSERT_EQ(a.table.labels[row], label) << name << " row " << r;
            }
        }
        EXPECT_EQ(row, 18000U);
    }
}

}  // namespace
}  // namespace imka
