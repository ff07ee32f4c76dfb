// Reading published results, comparing, going on after a stop.
#include "imka/experiment/validate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "support/data_dir.hpp"
#include "support/error.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

const std::string kHeader = "dataset,kernel,sampler,log_ratio,m_over_d,m,seed,backend,metric,value\n";

TEST(ReadPublished, GroupsSeedsAndLeavesOtherExperimentsOut) {
    const TempDir dir;
    write_file_atomic(dir / "m.csv", kHeader +
                                         "letter,rbf,rff,1,2,31,0,fp32,acc,0.5\n"
                                         "letter,rbf,rff,1,2,31,1,fp32,acc,0.7\n"
                                         "letter,rbf,rff,1,2,31,0,hermes,acc,0.1\n"
                                         "attention,softmax,favor+,1,1,63,0,fp32,err,0.1\n"
                                         "letter,rbf,rff,1,2,31,0,fp32,err,0.25\n");
    const auto cells = read_published(dir / "m.csv");
    ASSERT_EQ(cells.size(), 2U);
    EXPECT_EQ(cells[0].metric, Metric::acc);
    EXPECT_NEAR(cells[0].published.mean, 0.6, 1e-12);
    EXPECT_EQ(cells[0].m, 31);
    EXPECT_EQ(cells[1].metric, Metric::err);
}

TEST(ReadPublished, NamesTheLineThatIsWrong) {
    const TempDir dir;
    for (const std::string line :
         {"letter,rbf,rff,1,2,31,0,fp32,acc", "letter,rbf,rff,1,2,31,0,fp32,acc,nan",
          "letter,rbx,rff,1,2,31,0,fp32,acc,0.5", "letter,rbf,rff,1,2,31,0,fp32,acc,0.5x"}) {
        write_file_atomic(dir / "m.csv", kHeader + line + "\n");
        EXPECT_THROW((void)read_published(dir / "m.csv"), Error) << line;
    }
    write_file_atomic(dir / "m.csv", "a,b\n");
    EXPECT_THROW((void)read_published(dir / "m.csv"), Error);
    EXPECT_THROW((void)read_published(dir / "absent.csv"), Error);
}

TEST(Cell, AgreesWithinThreeCombinedStandardErrors) {
    Cell cell;
    cell.published = summarize({1.0, 1.2, 0.8, 1.0});
    cell.ours = cell.published;
    EXPECT_EQ(cell.deviation(), 0.0);
    EXPECT_TRUE(cell.agrees());
    const double error = std::sqrt(2.0) * standard_error(cell.published);
    for (auto& v : cell.ours.values) v += 2.9 * error;
    cell.ours = summarize(cell.ours.values);
    EXPECT_NEAR(cell.deviation(), 2.9, 1e-9);
    EXPECT_TRUE(cell.agrees());
    for (auto& v : cell.ours.values) v += 0.2 * error;
    cell.ours = summarize(cell.ours.values);
    EXPECT_FALSE(cell.agrees());
}

TEST(Validate, NamesACellThatNoExperimentRuns) {
    const TempDir dir;
    write_file_atomic(dir / "m.csv", kHeader + "letter,rbf,rff,1,2,33,0,fp32,acc,0.5\n");
    EXPECT_EQ(
        error_of([&] { (void)validate_fp32({.measured = dir / "m.csv", .output = dir / "runs"}, Exec{}); }),
        "bad_data: the experiment ridge_measured has no run for letter, rbf, rff, m = 33");
}

// Real data, two seeds, the smallest cells of letter; then a record cut in the middle of its line.
TEST(Validate, GoesOnFromRecordsWithoutChangingAResult) {
    IMKA_NEED_REAL_DATA(data_dir);
    const TempDir dir;
    std::string csv = kHeader;
    for (const auto* sampler : {"rff", "orf", "sorf"}) {
        for (const auto* seed : {"0", "1"}) {
            csv += std::string("letter,rbf,") + sampler + ",1,2,31," + seed + ",fp32,acc,0.7\n";
        }
    }
    write_file_atomic(dir / "m.csv", csv);
    ValidateConfig config{
        .measured = dir / "m.csv", .data_dir = data_dir, .output = dir / "runs", .seeds = {0, 1}};
    const auto first = validate_fp32(config, Exec{});
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(dir / "runs/ridge_measured/records"))
        files.push_back(entry.path());
    ASSERT_EQ(files.size(), 1U);
    const auto records = read_file(files[0], 1U << 20U);
    EXPECT_EQ(std::count(records.begin(), records.end(), '\n'), 6);
    write_file_atomic(files[0], records.substr(0, records.size() - 30));
    const auto second = validate_fp32(config, Exec{.threads = 1});
    ASSERT_EQ(first.size(), second.size());
    for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].ours.values, second[i].ours.values);
    EXPECT_GT(first[0].ours.mean, 0.6);
}

}  // namespace
}  // namespace imka
