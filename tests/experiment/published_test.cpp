// Reading published results in both forms.
#include "imka/experiment/published.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "support/error.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

const std::string kColumns = "dataset,kernel,sampler,log_ratio,m_over_d,m,seed,backend,metric,value\n";

TEST(ReadPublished, GroupsSeedsAndSkipsOtherExperiments) {
    const TempDir dir;
    write_file_atomic(dir / "m.csv", kColumns +
                                         "letter,rbf,rff,1,2,31,0,fp32,acc,0.5\n"
                                         "letter,rbf,rff,1,2,31,1,fp32,acc,0.7\n"
                                         "letter,rbf,rff,1,2,31,0,hermes,acc,0.1\n"
                                         "attention,softmax,favor+,1,1,63,0,fp32,err,0.1\n"
                                         "ijcnn1-liu-replication,rbf,rff,1,2,26,0,fp32,acc,0.9\r\n"
                                         "letter,rbf,rff,1,2,31,0,fp32,err,0.25\n");
    const auto values = read_published(dir / "m.csv");
    ASSERT_EQ(values.size(), 4U);
    EXPECT_EQ(values[0].quantity, Quantity::accuracy);
    EXPECT_NEAR(values[0].value.mean, 0.6, 1e-12);
    EXPECT_EQ(values[0].value.values, (std::vector<double>{0.5, 0.7}));
    EXPECT_EQ(values[0].value.n, 2U);
    EXPECT_EQ(values[0].m, 31);
    EXPECT_EQ(values[0].table, "ridge");
    EXPECT_EQ(values[1].backend, "hermes");
    EXPECT_EQ(values[2].table, "liu");
    EXPECT_EQ(values[2].dataset, "ijcnn1");
    EXPECT_EQ(values[3].quantity, Quantity::gram_error);
}

TEST(ReadPublished, ReadsMeans) {
    const auto values = parse_published(
        "dataset,kernel,sampler,backend,log_ratio,m,metric,mean,std,n\n"
        "letter,rbf,orf,hermes,1,31,gram_error,0.5,0.1,4\n",
        "m.csv");
    ASSERT_EQ(values.size(), 1U);
    EXPECT_EQ(values[0].quantity, Quantity::gram_error);
    EXPECT_EQ(values[0].value.mean, 0.5);
    EXPECT_EQ(values[0].value.error(), 0.05);
    EXPECT_TRUE(values[0].value.values.empty());
}

TEST(ReadPublished, ReportsTheInvalidLine) {
    const TempDir dir;
    for (const std::string line :
         {"letter,rbf,rff,1,2,31,0,fp32,acc", "letter,rbf,rff,1,2,31,0,fp32,acc,nan",
          "letter,rbx,rff,1,2,31,0,fp32,acc,0.5", "letter,rbf,rff,1,2,31,0,fp32,acc,0.5x",
          "letter,rbf,rff,1,2,31,0,fp32,acd,0.5"}) {
        write_file_atomic(dir / "m.csv", kColumns + line + "\n");
        EXPECT_THROW((void)read_published(dir / "m.csv"), Error) << line;
    }
    EXPECT_THAT(error_of([&] { (void)read_published(dir / "m.csv"); }), testing::HasSubstr("m.csv: line 2"));
    write_file_atomic(dir / "m.csv", "a,b\n");
    EXPECT_THROW((void)read_published(dir / "m.csv"), Error);
    EXPECT_THROW((void)read_published(dir / "absent.csv"), Error);
}

}  // namespace
}  // namespace imka
