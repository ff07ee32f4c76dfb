// Tasks of Long Range Arena that come from files: parts, seeds, bad files. Texts here are made up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>

#include "imka/base/file.hpp"
#include "imka/data/lra/show.hpp"
#include "imka/data/lra/task.hpp"
#include "support/compress.hpp"
#include "support/data_dir.hpp"
#include "support/error.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

// A data directory that is written by the test.
class DataDir {
public:
    void write(const std::string& name, std::string_view bytes) const {
        fs::create_directories((dir_ / name).parent_path());
        write_file_atomic(dir_ / name, bytes);
    }
    LraData load(LraTask task, LraPart part, std::optional<std::size_t> examples = {},
                 std::uint64_t seed = 0) const {
        return load_lra(task, part, {.data_dir = dir_.path(), .seed = seed, .examples = examples}, {});
    }
    std::string error(LraTask task, LraPart part = LraPart::test) const {
        return error_of([&] { load(task, part); });
    }
    const fs::path& path() const { return dir_.path(); }

private:
    TempDir dir_;
};

std::string text_of(const LraData& data, std::uint32_t document) {
    const auto tokens = document_tokens(data, document);
    return {tokens.begin(), tokens.end()};
}

// 25,000 reviews "review <i>"; change may edit a line.
std::string reviews(
    std::size_t count, const std::function<void(std::size_t, std::string&)>& change = [](auto, auto&) {}) {
    std::string all;
    for (std::size_t i = 0; i < count; ++i) {
        std::string line =
            std::to_string(i % 2) + "\t" + std::to_string(i) + "\t7\treview " + std::to_string(i);
        change(i, line);
        all += line + "\n";
    }
    return all;
}

TEST(Imdb, PartsAreDisjointAndCoverTheTrainingFile) {
    const DataDir dir;
    dir.write("imdb/imdb_train.tsv.xz", xz_bytes(reviews(25'000)));
    std::set<std::string> seen;
    for (const auto part : {LraPart::train, LraPart::valid}) {
        const auto data = dir.load(LraTask::imdb, part);
        EXPECT_EQ(data.examples.size(), part == LraPart::train ? 22'500U : 2'500U);
        for (const auto& example : data.examples) {
            const auto text = text_of(data, example.first);
            ASSERT_TRUE(seen.insert(text).second);
            ASSERT_EQ(std::stoi(text.substr(7)) % 2, example.label);
        }
    }
    EXPECT_EQ(seen.size(), 25'000U);
    const auto valid = dir.load(LraTask::imdb, LraPart::valid);
    EXPECT_TRUE(valid.tokens == dir.load(LraTask::imdb, LraPart::valid).tokens);
    EXPECT_FALSE(valid.tokens == dir.load(LraTask::imdb, LraPart::valid, {}, 1).tokens);
}

// Files are read only once as long as they do not change.
TEST(Imdb, AFileThatIsWrittenAgainIsReadAgain) {
    const DataDir dir;
    dir.write("imdb/imdb_test.tsv", reviews(25'000));
    const auto first = dir.load(LraTask::imdb, LraPart::test);
    EXPECT_TRUE(dir.load(LraTask::imdb, LraPart::test).tokens == first.tokens);
    dir.write("imdb/imdb_test.tsv", reviews(25'000, [](std::size_t i, std::string& line) {
                  line.back() = i == 7 ? 'x' : line.back();
              }));
    EXPECT_EQ(text_of(dir.load(LraTask::imdb, LraPart::test), 7), "review x");
    dir.write("imdb/imdb_test.tsv", "no review");
    EXPECT_THAT(dir.error(LraTask::imdb), HasSubstr("imdb_test.tsv"));
    const DataDir other;
    EXPECT_THAT(other.error(LraTask::imdb), HasSubstr("no file"));
}

TEST(Imdb, TextIsCutAt4000BytesAndKeepsTabs) {
    const DataDir dir;
    dir.write("imdb/imdb_test.tsv", reviews(25'000, [](std::size_t i, std::string& line) {
                  if (i == 3) line = "1\t3\t9\ta\tb";
                  if (i == 4) line = "0\t4\t1\t" + std::string(9000, 'x');
              }));
    const auto data = dir.load(LraTask::imdb, LraPart::test);
    EXPECT_EQ(text_of(data, 3), "a\tb");
    EXPECT_EQ(data.lengths[4], 4000U);
    EXPECT_EQ(data.tokens.cols(), 4000U);
    EXPECT_EQ(data.tokens(3, 3), 0);
}

TEST(Imdb, ExamplesAreDrawnBySeedWithoutRepetition) {
    const DataDir dir;
    dir.write("imdb/imdb_test.tsv", reviews(25'000));
    const auto some = dir.load(LraTask::imdb, LraPart::test, 500, 4);
    const auto fewer = dir.load(LraTask::imdb, LraPart::test, 100, 4);
    std::set<std::string> seen;
    for (std::uint32_t i = 0; i < 500; ++i) {
        seen.insert(text_of(some, some.examples[i].first));
        if (i >= 100) continue;
        EXPECT_EQ(text_of(some, some.examples[i].first), text_of(fewer, fewer.examples[i].first));
    }
    EXPECT_EQ(seen.size(), 500U);
    EXPECT_EQ(some.tokens.rows(), 500U);
    EXPECT_FALSE(some.tokens == dir.load(LraTask::imdb, LraPart::test, 500, 5).tokens);
    EXPECT_THAT(error_of([&] { dir.load(LraTask::imdb, LraPart::test, 25'001); }),
                HasSubstr("bad_config: imdb: part test has 25000 examples, not 25001"));
}

TEST(Imdb, BadFilesAreErrorsWithTheirPlace) {
    const DataDir dir;
    EXPECT_THAT(dir.error(LraTask::imdb), AllOf(HasSubstr("missing_part"), HasSubstr("imdb_test.tsv")));
    EXPECT_THAT(error_of([] { load_lra(LraTask::imdb, LraPart::test, {}, {}); }),
                HasSubstr("missing_part: task imdb: no data directory is set"));
    const auto error_with = [&](std::size_t at, const std::string& line) {
        dir.write("imdb/imdb_test.tsv",
                  reviews(25'000, [&](std::size_t i, std::string& text) { text = i == at ? line : text; }));
        return dir.error(LraTask::imdb);
    };
    EXPECT_THAT(error_with(6, "2\t1\t7\tx"),
                AllOf(HasSubstr("bad_data"), HasSubstr("line 7: invalid label '2'; expected 0 or 1")));
    EXPECT_THAT(error_with(9, "0\t1\tx"), HasSubstr("line 10: too few fields"));
    EXPECT_THAT(error_with(0, ""), HasSubstr("line 1: too few fields"));
    EXPECT_THAT(error_with(1, "0\t1\t7\t"), HasSubstr("line 2: the text is empty"));
    dir.write("imdb/imdb_test.tsv", reviews(24'999));
    EXPECT_THAT(dir.error(LraTask::imdb), HasSubstr("expected 25000 reviews, found 24999"));
    dir.write("imdb/imdb_test.tsv", reviews(25'001));
    EXPECT_THAT(dir.error(LraTask::imdb), HasSubstr("expected 25000 reviews, found more"));
    const auto whole = xz_bytes(reviews(25'000));
    fs::remove(dir.path() / "imdb/imdb_test.tsv");
    dir.write("imdb/imdb_test.tsv.xz", std::string_view(whole).substr(0, whole.size() / 2));
    EXPECT_THAT(dir.error(LraTask::imdb), HasSubstr("bad_data"));
}

// Image i has label i % 10 and all pixels i % 256.
std::string images(std::size_t count) {
    std::string all;
    for (std::size_t i = 0; i < count; ++i) {
        all += static_cast<char>(i % 10);
        all.append(1024, static_cast<char>(i % 256));
    }
    return all;
}

// 49,999, 49,998, ..., 0
std::string reversed_split() {
    std::string all;
    for (unsigned i = 50'000; i-- > 0;) {
        all += static_cast<char>(i % 256);
        all += static_cast<char>(i / 256);
    }
    return all;
}

TEST(Cifar10, PartsFollowTheSplitFile) {
    const DataDir dir;
    dir.write("cifar10/gray.bin.xz", xz_bytes(images(60'000)));
    dir.write("cifar10/split_perm50000.u16", reversed_split());
    const auto train = dir.load(LraTask::cifar10, LraPart::train);
    const auto valid = dir.load(LraTask::cifar10, LraPart::valid);
    const auto test = dir.load(LraTask::cifar10, LraPart::test, 10'000);
    EXPECT_EQ(train.examples.size(), 45'000U);
    EXPECT_EQ(valid.examples.size(), 5'000U);
    EXPECT_EQ(train.tokens(0, 7), 49'999 % 256);
    EXPECT_EQ(train.examples[0].label, 9);
    EXPECT_EQ(valid.tokens(0, 0), 4'999 % 256);
    EXPECT_EQ(valid.tokens(4'999, 0), 0);
    EXPECT_EQ(test.examples.size(), 10'000U);
    EXPECT_EQ(test.lengths[0], 1024U);
}

TEST(Cifar10, BadFilesAreErrorsWithTheirPlace) {
    const DataDir dir;
    EXPECT_THAT(dir.error(LraTask::cifar10), AllOf(HasSubstr("missing_part"), HasSubstr("gray.bin")));
    dir.write("cifar10/gray.bin", images(3));
    EXPECT_THAT(dir.error(LraTask::cifar10), AllOf(HasSubstr("missing_part"), HasSubstr("split_perm")));
    auto split = reversed_split();
    dir.write("cifar10/split_perm50000.u16", split.substr(1));
    EXPECT_THAT(dir.error(LraTask::cifar10), HasSubstr("expected 100000 bytes, found 99999"));
    dir.write("cifar10/split_perm50000.u16", split + "x");
    EXPECT_THAT(dir.error(LraTask::cifar10), HasSubstr("expected 100000 bytes, found more"));
    std::copy_n(split.begin(), 2, split.begin() + 6);
    dir.write("cifar10/split_perm50000.u16", split);
    EXPECT_THAT(dir.error(LraTask::cifar10), HasSubstr("entry 3: 49999 is not a new number below 50000"));
    dir.write("cifar10/split_perm50000.u16", reversed_split());
    EXPECT_THAT(dir.error(LraTask::cifar10), HasSubstr("the file ends in image 3"));
    auto bad = images(4);
    bad[1025] = 10;
    dir.write("cifar10/gray.bin", bad);
    EXPECT_THAT(dir.error(LraTask::cifar10), HasSubstr("image 1: label 10 is not in 0..9"));
    dir.write("cifar10/gray.bin", images(60'000) + "x");
    EXPECT_THAT(dir.error(LraTask::cifar10), HasSubstr("expected 60000 images, found more"));
}

TEST(Retrieval, ReadsPairsOfDocumentsOnce) {
    const DataDir dir;
    dir.write("citations/peerread/docs.tsv", "0\ta\tone\n1\tb\ttwo\n2\tc\tone\n3\td\tnever used\n");
    dir.write("citations/peerread/pairs.test.tsv", "1\t1\t0\n0\t2\t1\n");
    const auto data = dir.load(LraTask::retrieval, LraPart::test);
    EXPECT_THAT(data.origin, HasSubstr("PeerRead"));
    EXPECT_EQ(data.tokens.rows(), 2U);  // texts 0 and 2 are the same, 3 is not used
    ASSERT_EQ(data.examples.size(), 2U);
    EXPECT_EQ(text_of(data, data.examples[0].first), "two");
    EXPECT_EQ(text_of(data, data.examples[0].second), "one");
    EXPECT_EQ(data.examples[0].label, 1);
    EXPECT_EQ(text_of(data, data.examples[1].first), "one");
    EXPECT_EQ(data.examples[1].label, 0);
    EXPECT_EQ(dir.load(LraTask::retrieval, LraPart::test, 1).examples.size(), 1U);
}

TEST(Retrieval, FilesOfLraComeFirst) {
    const DataDir dir;
    dir.write("aan/new_aan_pairs.eval.tsv",
              "1.0\tP1\tP2\tfirst\t" + std::string(5000, 'y') + "\n0\tP1\tP3\tfirst\tthird\n");
    const auto data = dir.load(LraTask::retrieval, LraPart::valid);
    EXPECT_EQ(data.origin, "AAN of Long Range Arena");
    EXPECT_EQ(data.tokens.rows(), 3U);
    EXPECT_EQ(data.lengths, (std::vector<std::uint32_t>{5, 4000, 5}));
    EXPECT_EQ(data.examples[0].label, 1);
    EXPECT_EQ(data.examples[1].first, 0U);
    EXPECT_EQ(data.examples[1].second, 2U);
}

TEST(Retrieval, BadFilesAreErrorsWithTheirPlace) {
    const DataDir dir;
    EXPECT_THAT(dir.error(LraTask::retrieval), AllOf(HasSubstr("missing_part"), HasSubstr("docs.tsv")));
    const auto error_of_files = [&](std::string_view docs, std::string_view pairs) {
        dir.write("citations/peerread/docs.tsv", docs);
        dir.write("citations/peerread/pairs.test.tsv", pairs);
        return dir.error(LraTask::retrieval);
    };
    EXPECT_THAT(error_of_files("1\ta\tx\n", "1\t0\t0\n"), HasSubstr("line 1: document '1'; expected 0"));
    EXPECT_THAT(error_of_files("0\ta\n", "1\t0\t0\n"), HasSubstr("line 1: too few fields"));
    EXPECT_THAT(error_of_files("0\ta\t\n", "1\t0\t0\n"), HasSubstr("line 1: the text is empty"));
    EXPECT_THAT(error_of_files("0\ta\tx\n", "1\t0\t1\n"),
                HasSubstr("line 1: invalid document '1'; expected a number below 1"));
    EXPECT_THAT(error_of_files("0\ta\tx\n", "1\t-1\t0\n"), HasSubstr("invalid document '-1'"));
    EXPECT_THAT(error_of_files("0\ta\tx\n", "1\t0\t99999999999\n"), HasSubstr("invalid document"));
    EXPECT_THAT(error_of_files("0\ta\tx\n", "yes\t0\t0\n"), HasSubstr("invalid label 'yes'"));
    EXPECT_THAT(error_of_files("0\ta\tx\n", ""), HasSubstr("part test has no pairs"));
    dir.write("aan/new_aan_pairs.test.tsv", "1\tP1\tP2\tfirst\n");
    EXPECT_THAT(dir.error(LraTask::retrieval), HasSubstr("line 1: too few fields"));
}

TEST(LraRealData, Cifar10) {
    IMKA_NEED_REAL_DATA(dir);
    if (!fs::exists(dir / "cifar10")) GTEST_SKIP() << (dir / "cifar10").string() + " is absent";
    const auto test = load_lra(LraTask::cifar10, LraPart::test, {.data_dir = dir}, {});
    const std::vector<std::uint8_t> first = {3, 8, 8, 0, 6};
    for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(test.examples[i].label, first[i]);
    const auto train = load_lra(LraTask::cifar10, LraPart::train, {.data_dir = dir}, {});
    const auto s = lra_statistics(train);
    EXPECT_EQ(s.examples, 45'000U);
    EXPECT_NEAR(s.pixels->mean / 255, 0.4809, 0.001);
    EXPECT_NEAR(s.pixels->standard_deviation / 255, 0.2392, 0.001);
}

TEST(LraRealData, Imdb) {
    IMKA_NEED_REAL_DATA(dir);
    if (!fs::exists(dir / "imdb")) GTEST_SKIP() << (dir / "imdb").string() + " is absent";
    const auto s = lra_statistics(load_lra(LraTask::imdb, LraPart::test, {.data_dir = dir}, {}));
    EXPECT_EQ(s.class_counts, (std::vector<std::size_t>{12'500, 12'500}));
    EXPECT_EQ(s.lengths[2], 4000U);
}

TEST(LraRealData, Retrieval) {
    IMKA_NEED_REAL_DATA(dir);
    if (!fs::exists(dir / "citations")) GTEST_SKIP() << (dir / "citations").string() + " is absent";
    const auto s = lra_statistics(load_lra(LraTask::retrieval, LraPart::valid, {.data_dir = dir}, {}));
    EXPECT_EQ(s.examples, 5'224U);
    EXPECT_EQ(s.class_counts, (std::vector<std::size_t>{2'612, 2'612}));
}

}  // namespace
}  // namespace imka
