// imka ridge over the processes of a job: the same bits for any number of processes, and no hang if one
// fails.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "imka/base/file.hpp"
#include "imka/experiment/mpi.hpp"
#include "support/command.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

constexpr std::size_t kMaxModel = 1 << 24;

class MpiTest : public ::testing::Test {
protected:
    void SetUp() override {
        if (!has_mpi()) GTEST_SKIP() << "this build has no MPI (libopenmpi-dev)";
        if (std::system("command -v mpirun > /dev/null") != 0) {
            GTEST_SKIP() << "mpirun is not installed (openmpi-bin)";
        }
    }
    // The environment variables let root start jobs, as tests in containers do.
    static CommandResult job(int processes, const std::string& arguments) {
        return run_imka(
            arguments,
            "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n " +
                std::to_string(processes));
    }
};

TEST_F(MpiTest, AnyNumberOfProcessesGivesTheSameModel) {
    const TempDir dir;
    const std::string run =
        "ridge --dataset twonorm --kernel rbf --n-components 300 --seeds 0..1 --json --quiet";
    const auto alone = run_imka(run + " --save " + (dir / "alone.imka").string());
    ASSERT_EQ(alone.exit_code, 0) << alone.err;
    const auto wanted = read_file(dir / "alone.imka", kMaxModel);
    for (const int processes : {1, 2, 3, 4}) {
        const auto file = dir / (std::to_string(processes) + ".imka");
        const auto result = job(processes, run + " --save " + file.string());
        ASSERT_EQ(result.exit_code, 0) << result.err;
        EXPECT_EQ(result.out, alone.out) << processes << " processes";
        EXPECT_EQ(read_file(file, kMaxModel), wanted) << processes << " processes";
    }
}

TEST_F(MpiTest, AFailureEndsAllProcesses) {
    // Before the fit: all processes fail.
    const auto missing = job(2, "ridge --dataset letter --data-dir /none --quiet");
    EXPECT_NE(missing.exit_code, 0);
    EXPECT_NE(missing.err.find("imka data fetch letter"), std::string::npos) << missing.err;
    // In the fit: only the first process solves the system, and the others wait for its weights. A zero
    // column has no solution without a penalty.
    const TempDir dir;
    std::string rows = "a,b,label\n";
    for (int i = 0; i < 40; ++i) rows += i % 2 == 0 ? "0,0,x\n" : "0,0,y\n";
    write_file_atomic(dir / "zero.csv", rows);
    const auto singular = job(2, "ridge --dataset '" + (dir / "zero.csv").string() +
                                     "' --kernel arccos0 --alpha 0 --n-components 4 --quiet --gram-rows 0");
    EXPECT_NE(singular.exit_code, 0);
    EXPECT_NE(singular.err.find("process 0 of 2"), std::string::npos) << singular.err;
}

}  // namespace
}  // namespace imka
