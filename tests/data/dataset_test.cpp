// Loading: registered sets in both protocols, generators, files.
#include "imka/data/dataset.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/data/registry.hpp"
#include "imka/data/synthetic.hpp"
#include "imka/io/npy.hpp"
#include "support/data_dir.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Failure {
    ErrorCode code;
    std::string message;
};

Failure failure_of(const std::string& name, const LoadOptions& options) {
    try {
        load_dataset(name, options, {});
    } catch (const Error& e) {
        return {e.code(), e.what()};
    }
    return {ErrorCode::numeric, "no error"};
}

std::uint64_t count(const std::vector<std::int32_t>& y, std::int32_t c) {
    return static_cast<std::uint64_t>(std::count(y.begin(), y.end(), c));
}

// Mean 0 and standard deviation 1 in every column, up to float rounding.
void expect_standardized(MatrixView<const float> x, const std::string& what) {
    const auto s = compute_standardization(x, {});
    for (std::size_t c = 0; c < x.cols(); ++c) {
        EXPECT_NEAR(s.mean[c], 0.0, 1e-5) << what << " column " << c;
        EXPECT_NEAR(s.std[c], 1.0, 1e-5) << what << " column " << c;
    }
}

TEST(Dataset, UnknownNameListsTheKnownOnes) {
    const auto f = failure_of("mnist", {});
    EXPECT_EQ(f.code, ErrorCode::bad_usage);
    EXPECT_THAT(f.message, HasSubstr("mnist"));
    EXPECT_THAT(f.message, HasSubstr("cod-rna, eeg, ijcnn1, letter, magic, skin"));
    EXPECT_THAT(f.message, HasSubstr("ringnorm, twonorm, waveform"));
}

TEST(Dataset, MissingFilesSayHowToGetThem) {
    const TempDir dir;
    const auto f = failure_of("magic", {.data_dir = dir.path()});
    EXPECT_EQ(f.code, ErrorCode::missing_part);
    EXPECT_THAT(f.message, HasSubstr("run 'imka data fetch magic' or set --data-dir"));
    EXPECT_EQ(failure_of("magic", {}).code, ErrorCode::missing_part);
}

TEST(Dataset, WrongTableIsRefusedWithBothHashes) {
    const TempDir dir;
    std::filesystem::create_directories(dir / "skin");
    write_file_atomic(dir / "skin/Skin_NonSkin.txt", "74\t85\t123\t1\n1\t2\t3\t2\n");
    const auto f = failure_of("skin", {.data_dir = dir.path()});
    EXPECT_EQ(f.code, ErrorCode::bad_data);
    EXPECT_THAT(f.message, HasSubstr(find_set("skin")->files[0].table_sha256));
}

TEST(Dataset, GeneratorHasItsSizesAndBayesError) {
    const auto data = load_dataset("waveform", {.split_seed = 3}, {});
    EXPECT_EQ(data.train.x.rows(), 2500U);
    EXPECT_EQ(data.test.x.rows(), 2500U);
    EXPECT_EQ(data.train.x.cols(), 21U);
    EXPECT_THAT(data.classes, ElementsAre("1", "2", "3"));
    EXPECT_EQ(data.bayes_error, generator_info(Generator::waveform).bayes_error);
    EXPECT_EQ(data.source_sha256.size(), 64U);
    expect_standardized(data.train.x.view(), "train");
    ASSERT_TRUE(data.standardization);
}

TEST(Dataset, GeneratorRowsAreThoseOfTheSeed) {
    const auto data = load_dataset(
        "twonorm", {.split_seed = 5, .standardize = false, .train_rows = 30, .test_rows = 20}, {});
    Matrix<float> x(50, 20);
    std::vector<std::int32_t> y(50);
    generate_rows(Generator::twonorm, 5, 0, x.view(), y);
    EXPECT_TRUE(std::ranges::equal(data.train.x.values(), x.values().first(600)));
    EXPECT_TRUE(std::ranges::equal(data.test.x.values(), x.values().subspan(600)));
    EXPECT_FALSE(data.standardization);
}

TEST(Dataset, AbsurdGeneratorSizeIsAnError) {
    EXPECT_EQ(failure_of("twonorm", {.train_rows = 1ULL << 60U}).code, ErrorCode::bad_config);
}

TEST(Dataset, FileIsSplitInHalvesAndStandardisedByItsTrainingPart) {
    const TempDir dir;
    std::string text = "f0,f1,label\n";
    for (int i = 0; i < 101; ++i)
        text += std::to_string(i) + "," + std::to_string(i * i) + (i % 3 == 0 ? ",yes\n" : ",no\n");
    write_file_atomic(dir / "a.csv", text);
    const auto data = load_dataset((dir / "a.csv").string(), {.split_seed = 1}, {});
    EXPECT_EQ(data.train.x.rows(), 50U);
    EXPECT_EQ(data.test.x.rows(), 51U);
    EXPECT_THAT(data.classes, ElementsAre("no", "yes"));
    EXPECT_EQ(count(data.train.y, 1) + count(data.test.y, 1), 34U);
    expect_standardized(data.train.x.view(), "train");
    // Undoing the standardisation restores the rows of the file: column 1 is the square of column 0.
    const auto& s = data.standardization.value();
    for (std::size_t r = 0; r < 51; ++r) {
        const double a = data.test.x(r, 0) * s.std[0] + s.mean[0];
        const double b = data.test.x(r, 1) * s.std[1] + s.mean[1];
        EXPECT_NEAR(a, std::round(a), 1e-4);
        EXPECT_NEAR(b, a * a, 1e-2);
        EXPECT_EQ(data.test.y[r], static_cast<int>(std::lround(a)) % 3 == 0 ? 1 : 0);
    }
    const auto other = load_dataset((dir / "a.csv").string(), {.split_seed = 2}, {});
    EXPECT_FALSE(other.train.x == data.train.x);
    EXPECT_EQ(other.source_sha256, data.source_sha256);
}

TEST(Dataset, MeasuredFileIsStandardisedAsAWhole) {
    const TempDir dir;
    std::string text;
    for (int i = 0; i < 40; ++i) text += std::to_string(i * i) + (i % 2 == 0 ? ",0\n" : ",1\n");
    write_file_atomic(dir / "a.csv", text);
    const auto data = load_dataset((dir / "a.csv").string(), {.protocol = Protocol::measured}, {});
    Matrix<float> all(40, 1);
    std::ranges::copy(data.train.x.values(), all.values().begin());
    std::ranges::copy(data.test.x.values(), all.values().begin() + 20);
    expect_standardized(all.view(), "all");
    EXPECT_FALSE(data.standardization);
}

TEST(Dataset, NumbersAreSortedByValue) {
    const TempDir dir;
    std::string text;
    for (int i = 0; i < 60; ++i) text += std::to_string(i % 3 == 0 ? 10 : (i % 3 == 1 ? 9 : -1)) + " 1:2\n";
    write_file_atomic(dir / "a.libsvm", text);
    EXPECT_THAT(load_dataset((dir / "a.libsvm").string(), {}, {}).classes, ElementsAre("-1", "9", "10"));
}

TEST(Dataset, PairOfFilesKeepsItsParts) {
    const TempDir dir;
    write_file_atomic(dir / "a.libsvm", "1 1:1 3:2\n-1 2:1\n1 1:5\n");
    write_file_atomic(dir / "b.libsvm", "-1 1:1\n+1 2:4\n");
    const auto name = (dir / "a.libsvm").string() + ":" + (dir / "b.libsvm").string();
    const auto data = load_dataset(name, {.standardize = false}, {});
    EXPECT_EQ(data.train.x.rows(), 3U);
    EXPECT_EQ(data.test.x.rows(), 2U);
    EXPECT_EQ(data.test.x.cols(), 3U);
    EXPECT_EQ(data.test.x(1, 1), 4.0F);
    EXPECT_THAT(data.test.y, ElementsAre(0, 1));
}

TEST(Dataset, TestFileMayNotHaveMoreFeatures) {
    const TempDir dir;
    write_file_atomic(dir / "a.libsvm", "1 1:1 3:2\n-1 2:1\n");
    write_file_atomic(dir / "b.libsvm", "-1 1:1\n+1 4:4\n");
    const auto f = failure_of((dir / "a.libsvm").string() + ":" + (dir / "b.libsvm").string(), {});
    EXPECT_EQ(f.code, ErrorCode::bad_data);
    EXPECT_THAT(f.message, HasSubstr("b.libsvm: line 2: feature index 4 exceeds the expected 3"));
    write_file_atomic(dir / "a.csv", "1,2,x\n1,3,y\n");
    write_file_atomic(dir / "b.csv", "1,2,3,x\n1,3,4,y\n");
    EXPECT_THAT(failure_of((dir / "a.csv").string() + ":" + (dir / "b.csv").string(), {}).message,
                HasSubstr("3 features, but the training file"));
}

TEST(Dataset, ClassMissingFromTheTrainingPartIsAnErrorThatNamesIt) {
    const TempDir dir;
    write_file_atomic(dir / "a.libsvm", "1 1:1\n-1 1:2\n");
    write_file_atomic(dir / "b.libsvm", "7 1:1\n");
    const auto f = failure_of((dir / "a.libsvm").string() + ":" + (dir / "b.libsvm").string(), {});
    EXPECT_EQ(f.code, ErrorCode::bad_data);
    EXPECT_THAT(f.message, HasSubstr("the test part has the class '7'"));
}

TEST(Dataset, RefusesWhatCannotBeLearned) {
    const TempDir dir;
    write_file_atomic(dir / "one.csv", "1,a\n2,a\n3,a\n");
    EXPECT_THAT(failure_of((dir / "one.csv").string(), {}).message, HasSubstr("all rows have the class 'a'"));
    std::string many;
    for (int i = 0; i < 3000; ++i) many += "1," + std::to_string(i) + "\n";
    write_file_atomic(dir / "many.csv", many);
    EXPECT_THAT(failure_of((dir / "many.csv").string(), {}).message,
                HasSubstr("more than 1000 different labels"));
    write_file_atomic(dir / "short.csv", "1,a\n");
    EXPECT_EQ(failure_of((dir / "short.csv").string(), {}).code, ErrorCode::bad_data);
    write_file_atomic(dir / "empty.csv", "");
    EXPECT_EQ(failure_of((dir / "empty.csv").string(), {}).code, ErrorCode::bad_data);
}

TEST(Dataset, NamesTheMissingFileOfAPair) {
    const TempDir dir;
    write_file_atomic(dir / "a.csv", "1,x\n2,y\n");
    const auto there = (dir / "a.csv").string();
    const auto absent = (dir / "none.csv").string();
    EXPECT_THAT(failure_of(there + ":" + absent, {}).message,
                HasSubstr("the test file '" + absent + "' does not exist"));
    EXPECT_THAT(failure_of(absent + ":" + there, {}).message,
                HasSubstr("the training file '" + absent + "' does not exist"));
}

TEST(Dataset, NumbersToPredictAreNamedAsSuch) {
    const TempDir dir;
    std::string text;
    for (int i = 0; i < 40; ++i) text += std::to_string(i) + "," + std::to_string(i) + ".25\n";
    write_file_atomic(dir / "a.csv", text);
    EXPECT_THAT(failure_of((dir / "a.csv").string(), {}).message, HasSubstr("(regression)"));
    text.clear();
    for (int i = 0; i < 3000; ++i) text += "1," + std::to_string(i) + ".25\n";
    write_file_atomic(dir / "a.csv", text);
    EXPECT_THAT(failure_of((dir / "a.csv").string(), {}).message, HasSubstr("such as '1000.25'"));
}

TEST(Dataset, MissingValuesGetTheMeanOfTheTrainingPart) {
    const TempDir dir;
    write_file_atomic(dir / "a.csv", "f,y\n1,a\n3,b\nNA,a\n");
    write_file_atomic(dir / "b.csv", "f,y\n100,a\n?,b\n");
    const auto name = (dir / "a.csv").string() + ":" + (dir / "b.csv").string();
    const LoadOptions options{.standardize = false, .read = {.missing = Missing::mean}};
    const auto data = load_dataset(name, options, {});
    EXPECT_THAT(data.train.x.values(), ElementsAre(1, 3, 2));
    EXPECT_THAT(data.test.x.values(), ElementsAre(100, 2));
    EXPECT_EQ(failure_of(name, {}).code, ErrorCode::bad_data);
    EXPECT_EQ(load_dataset(name, {.read = {.missing = Missing::drop}}, {}).test.x.rows(), 1U);
}

TEST(Dataset, NpyTakesItsLabelsFromTheFileBeside) {
    const TempDir dir;
    Matrix<float> x(6, 2);
    Matrix<float> y(6, 1);
    for (std::size_t r = 0; r < 6; ++r) {
        x(r, 0) = static_cast<float>(r);
        y(r, 0) = static_cast<float>(r % 2);
    }
    write_npy(dir / "x.npy", x.view());
    EXPECT_THAT(failure_of((dir / "x.npy").string(), {}).message, HasSubstr("x.labels.npy"));
    write_npy(dir / "x.labels.npy", y.view());
    const auto data = load_dataset((dir / "x.npy").string(), {.split_seed = 1, .standardize = false}, {});
    EXPECT_THAT(data.classes, ElementsAre("0", "1"));
    for (std::size_t r = 0; r < 3; ++r)
        EXPECT_EQ(data.train.y[r], static_cast<int>(std::lround(data.train.x(r, 0))) % 2);
    write_npy(dir / "x.labels.npy", y.view().slice_rows(0, 5));
    EXPECT_THAT(failure_of((dir / "x.npy").string(), {}).message,
                HasSubstr("one label for each of the 6 rows"));
}

class RealSets : public testing::TestWithParam<Protocol> {};
INSTANTIATE_TEST_SUITE_P(Protocols, RealSets, testing::Values(Protocol::default_, Protocol::measured),
                         [](const auto& p) { return std::string(to_string(p.param)); });

TEST_P(RealSets, HaveTheSizesOfTheManifest) {
    IMKA_NEED_REAL_DATA(dir);
    for (const auto& set : registered_sets()) {
        const auto data = load_dataset(set.name, {.protocol = GetParam(), .data_dir = dir}, {});
        const auto& sizes = GetParam() == Protocol::measured ? set.measured_sizes : set.default_sizes;
        EXPECT_EQ(data.train.x.cols(), sizes.features) << set.name;
        EXPECT_EQ(data.train.x.rows(), sizes.train) << set.name;
        EXPECT_EQ(data.test.x.rows(), sizes.test) << set.name;
        EXPECT_EQ(data.train.y.size(), sizes.train) << set.name;
        EXPECT_EQ(data.test.y.size(), sizes.test) << set.name;
        EXPECT_EQ(data.standardization.has_value(), GetParam() == Protocol::default_) << set.name;
        if (GetParam() == Protocol::default_) expect_standardized(data.train.x.view(), set.name);
    }
}

// Class 1 is class 1 of the published runs, with the published counts.
TEST(RealProblems, MeasuredClassesAndCounts) {
    IMKA_NEED_REAL_DATA(dir);
    struct Expected {
        std::string name;
        std::vector<std::string> classes;
        std::uint64_t positives;  // in both parts
        std::uint64_t rows;
    };
    for (const auto& e :
         {Expected{"cod-rna", {"-1", "1"}, 19845 + 90539, 59535 + 271617},
          Expected{"eeg", {"0", "1"}, 6723, 14980},
          Expected{"ijcnn1", {"-1", "1"}, 3415 + 1438 + 8712, 141691},
          Expected{"letter", {"N-Z", "A-M"}, 5937 + 2995, 18000}, Expected{"magic", {"h", "g"}, 12332, 19020},
          Expected{"skin", {"2", "1"}, 50859, 175393}}) {
        const auto data = load_dataset(e.name, {.protocol = Protocol::measured, .data_dir = dir}, {});
        EXPECT_EQ(data.classes, e.classes);
        EXPECT_EQ(count(data.train.y, 1) + count(data.test.y, 1), e.positives) << e.name;
        EXPECT_EQ(data.train.y.size() + data.test.y.size(), e.rows) << e.name;
        if (e.name == "ijcnn1") {
            EXPECT_EQ(count(data.train.y, 1), 3415U);
            const std::vector<std::int32_t> val(data.test.y.begin(), data.test.y.begin() + 14990);
            EXPECT_EQ(count(val, 1), 1438U);
            const auto test = data.test.x.view();
            expect_standardized(data.train.x.view(), "tr");
            expect_standardized(test.slice_rows(0, 14990), "val");
            expect_standardized(test.slice_rows(14990, 91701), "t");
        }
        if (e.name == "letter" || e.name == "cod-rna") {
            expect_standardized(data.train.x.view(), e.name);
            expect_standardized(data.test.x.view(), e.name);
        }
        if (e.name == "letter") {
            EXPECT_EQ(count(data.train.y, 1), 5937U);
        }
    }
}

// The first row of the file is "-1.0 6:1 11:-0.731854 12:0.173431 13:0.0 14:0.00027 ... 22:-0.00081".
TEST(RealProblems, MeasuredIjcnn1HasThePhaseAsANumber) {
    IMKA_NEED_REAL_DATA(dir);
    const auto data =
        load_dataset("ijcnn1", {.protocol = Protocol::measured, .data_dir = dir, .standardize = false}, {});
    EXPECT_EQ(data.train.x(0, 0), 6.0F);
    EXPECT_EQ(data.train.x(0, 1), -0.731854F);
    EXPECT_EQ(data.train.x(0, 4), 0.00027F);
    EXPECT_EQ(data.train.x(0, 12), -0.00081F);
    std::vector<bool> seen(11);
    for (std::size_t r = 0; r < data.train.x.rows(); ++r) {
        const float phase = data.train.x(r, 0);
        ASSERT_TRUE(phase >= 1.0F && phase <= 10.0F && phase == std::floor(phase));
        seen[static_cast<std::size_t>(phase)] = true;
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 10);
}

// magic, eeg and the first 175,393 rows of skin are standardised as a whole before they are split.
TEST(RealProblems, MeasuredHalvesAreStandardisedTogether) {
    IMKA_NEED_REAL_DATA(dir);
    for (const auto* name : {"magic", "eeg", "skin"}) {
        const auto data = load_dataset(name, {.protocol = Protocol::measured, .data_dir = dir}, {});
        Matrix<float> all(data.train.x.rows() + data.test.x.rows(), data.train.x.cols());
        std::ranges::copy(data.train.x.values(), all.values().begin());
        std::ranges::copy(data.test.x.values(),
                          all.values().begin() + static_cast<std::ptrdiff_t>(data.train.x.values().size()));
        expect_standardized(all.view(), name);
    }
}

TEST(RealProblems, EegKeepsItsOutliers) {
    IMKA_NEED_REAL_DATA(dir);
    const auto data = load_dataset("eeg", {.protocol = Protocol::measured, .data_dir = dir}, {});
    float most = 0.0F;
    for (const auto* part : {&data.train, &data.test}) {
        for (const float v : part->x.values()) most = std::max(most, std::abs(v));
    }
    EXPECT_NEAR(most, 122.0F, 1.0F);  // standard deviations; known from the published runs
}

TEST(RealProblems, LetterHas26ClassesByDefault) {
    IMKA_NEED_REAL_DATA(dir);
    const auto data = load_dataset("letter", {.data_dir = dir}, {});
    EXPECT_EQ(data.classes.size(), 26U);
    EXPECT_EQ(data.classes.front(), "A");
    EXPECT_EQ(data.classes.back(), "Z");
}

}  // namespace
}  // namespace imka
