// Sweeps from the command line: killed, stopped, on a full disk, in several processes, under mpirun.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "imka/base/random.hpp"
#include "imka/experiment/spec.hpp"
#include "support/command.hpp"
#include "support/paths.hpp"
#include "support/records.hpp"
#include "support/temp_dir.hpp"

namespace {

using nlohmann::json;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

// 540 runs on generated data, and the same within a sweep too long to finish before it is stopped.
const std::string kWork = "sweep smoke --set seeds=0..9 --set log_ratio=[0,1,2] --quiet --output ";
const std::string kEndless = "sweep smoke --set seeds=0..999 --set log_ratio=[0,1,2] --quiet --output ";
constexpr std::size_t kRuns = 540;

std::string in_quotes(const std::filesystem::path& path) {
    return "'" + path.string() + "'";
}

// A background process; killed when it goes out of scope.
class Process {
public:
    explicit Process(const std::string& command) : pid_(fork()) {
        if (pid_ == 0) {
            // Without a shell in between, so that a signal reaches the program.
            const auto line = "exec " + command + " > /dev/null 2>&1 < /dev/null";
            execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
            _exit(127);
        }
    }
    ~Process() {
        if (pid_ > 0) end(SIGKILL);
    }
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;

    bool running() {
        if (pid_ > 0 && waitpid(pid_, &status_, WNOHANG) == pid_) pid_ = -1;
        return pid_ > 0;
    }
    void signal(int number) const {
        if (pid_ > 0) kill(pid_, number);
    }
    // True if the signal ended it.
    bool end(int number) {
        signal(number);
        wait();
        return WIFSIGNALED(status_) && WTERMSIG(status_) == number;
    }
    int wait() {
        if (pid_ > 0) waitpid(pid_, &status_, 0);
        pid_ = -1;
        return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
    }

private:
    pid_t pid_;
    int status_ = 0;
};

std::string imka_sweep(const std::filesystem::path& output, const std::string& work = kWork) {
    return "'" + binary_dir() + "/imka' " + work + in_quotes(output);
}

// The records of an undisturbed sweep and its duration; computed once for all tests.
struct Undisturbed {
    TempDir dir;
    std::map<std::string, RecordFacts> facts;
    double seconds = 0.0;
    Undisturbed() {
        const auto begin = Clock::now();
        EXPECT_EQ(Process(imka_sweep(dir / "out")).wait(), 0);
        seconds = std::chrono::duration<double>(Clock::now() - begin).count();
        facts = record_facts(dir / "out");
    }
};
const Undisturbed& undisturbed() {
    static const Undisturbed once;
    return once;
}

void expect_complete(const std::filesystem::path& output) {
    EXPECT_EQ(undisturbed().facts.size(), kRuns);
    EXPECT_EQ(record_facts(output), undisturbed().facts);
    EXPECT_EQ(record_lines(output), kRuns) << "a run was recorded twice";
    EXPECT_TRUE(std::filesystem::is_empty(output / "claims"));
}

// Checks a stopped endless sweep: its records contain all of these runs, and every run at most once. A killed
// process may leave claims of other runs, which the next endless sweep would take over.
void expect_contains_all(const std::filesystem::path& output) {
    const auto facts = record_facts(output);
    EXPECT_EQ(record_lines(output), facts.size()) << "a run was recorded twice";
    for (const auto& [key, fact] : undisturbed().facts) {
        const auto found = facts.find(key);
        ASSERT_NE(found, facts.end()) << key;
        EXPECT_EQ(found->second, fact) << key;
        EXPECT_FALSE(std::filesystem::exists(output / "claims" / key)) << key;
    }
}

TEST(SweepCli, RunsAnExperimentByNameAndSaysWhereTheTimeWent) {
    const TempDir dir;
    const auto out = in_quotes(dir / "out");
    const auto dry = run_imka("sweep smoke --dry-run --json --output " + out);
    ASSERT_EQ(dry.exit_code, 0) << dry.err;
    EXPECT_EQ(json::parse(dry.out).at("to_do"), 108);
    EXPECT_FALSE(std::filesystem::exists(dir / "out")) << "a dry run leaves nothing behind";
    const auto text = run_imka("sweep smoke --dry-run --output " + out).out;
    EXPECT_THAT(text, HasSubstr("estimated time"));
    EXPECT_THAT(text, HasSubstr("disk"));

    const auto first = run_imka("sweep smoke --json --output " + out);
    ASSERT_EQ(first.exit_code, 0) << first.err;
    const auto j = json::parse(first.out);
    EXPECT_EQ(j.at("done"), 108);
    EXPECT_EQ(j.at("failed"), 0);
    EXPECT_GT(j.at("thread_seconds").at("products"), 0.0);
    const auto again = run_imka("sweep smoke --output " + out);
    EXPECT_THAT(again.out, HasSubstr("108 runs: 108 done before, 0 done now"));
    const auto more = run_imka("sweep smoke --set seeds=0..3 --output " + out);
    EXPECT_THAT(more.out, HasSubstr("144 runs: 108 done before, 36 done now"));
    EXPECT_THAT(more.out, HasSubstr("products ZᵀZ"));
    EXPECT_THAT(run_imka("sweep list").out, HasSubstr("ridge_fp32"));
    EXPECT_EQ(json::parse(run_imka("sweep --list --json").out).at("experiments").size(),
              imka::known_experiments().size());
}

TEST(SweepCli, BadInputIsReportedBeforeAnyRun) {
    const TempDir dir;
    const auto fails = [&](const std::string& arguments, int code, const std::string& message) {
        const auto r = run_imka("sweep " + arguments + " --output " + in_quotes(dir / "out"));
        EXPECT_EQ(r.exit_code, code) << arguments << r.err;
        EXPECT_THAT(r.err, HasSubstr(message)) << arguments;
        EXPECT_FALSE(std::filesystem::exists(dir / "out"));
    };
    fails("", 2, "expected the name of an experiment or a file");
    fails("smoek", 2, "neither a known experiment");
    fails("smoke --set gamma", 2, "KEY=VALUE");
    fails("smoke --set gamme=1", 2, "not a known setting");
    fails("smoke --set kernel=laplace", 2, "radial law");
    fails("smoke --set dataset=lettre", 2, "lettre");
    std::ofstream(dir / "bad.yaml") << "name: a\ngrid:\n  kernel: [rbx]\n";
    fails(in_quotes(dir / "bad.yaml"), 2, "bad.yaml: line 3: 'rbx' is not a known kernel");
    const auto unwritable = run_imka("sweep smoke --output /dev/null/x");
    EXPECT_EQ(unwritable.exit_code, 3);
    EXPECT_THAT(unwritable.err, HasSubstr("/dev/null/x"));
}

TEST(SweepCli, FailedRunsAreExitCode1AndTheOthersFinish) {
    const TempDir dir;
    const auto r = run_imka("sweep smoke --set dataset=[ringnorm,letter] --set log_ratio=1 --data-dir " +
                            in_quotes(dir.path()) + " --output " + in_quotes(dir / "out"));
    EXPECT_EQ(r.exit_code, 1) << r.err;
    EXPECT_THAT(r.out, HasSubstr("36 runs: 0 done before, 18 done now, 18 failed; this process recorded 36"));
    EXPECT_THAT(r.out, HasSubstr("imka data fetch letter"));
}

TEST(SweepKilled, TwentyTimesAtRandomPointsGivesTheSameRecordsAsUndisturbed) {
    const double seconds = undisturbed().seconds;
    int kills = 0;
    std::uint64_t draws = 0;
    // If the sweep ends before it is killed, its records are checked and another one starts.
    while (kills < 20) {
        const TempDir dir;
        bool ended = false;
        while (kills < 20 && !ended) {
            Process sweep(imka_sweep(dir / "out"));
            const double delay = imka::uniform(7, imka::Stream::subsample, draws++) * seconds / 10.0;
            std::this_thread::sleep_for(std::chrono::duration<double>(delay));
            ended = !sweep.end(SIGKILL);
            kills += ended ? 0 : 1;
        }
        EXPECT_EQ(Process(imka_sweep(dir / "out")).wait(), 0);
        expect_complete(dir / "out");
    }
}

TEST(SweepKilled, ByCtrlCExitsWith130AndResumes) {
    const TempDir dir;
    {
        Process sweep(imka_sweep(dir / "out", kEndless));
        while (sweep.running() && record_lines(dir / "out") == 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        sweep.signal(SIGINT);
        EXPECT_EQ(sweep.wait(), 130);
    }
    EXPECT_TRUE(std::filesystem::is_empty(dir / "out/claims"));
    EXPECT_GE(record_lines(dir / "out"), 1U);
    EXPECT_EQ(Process(imka_sweep(dir / "out")).wait(), 0);
    expect_contains_all(dir / "out");
}

TEST(SweepShared, TwoProcessesShareTheRuns) {
    const TempDir dir;
    {
        Process first(imka_sweep(dir / "out"));
        Process second(imka_sweep(dir / "out"));
        EXPECT_EQ(first.wait(), 0);
        EXPECT_EQ(second.wait(), 0);
    }
    expect_complete(dir / "out");
}

TEST(SweepShared, ASurvivorTakesOverTheRunsOfAKilledProcess) {
    const TempDir dir;
    {
        Process first(imka_sweep(dir / "out", kEndless));
        while (first.running() && record_lines(dir / "out") == 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        Process second(imka_sweep(dir / "out"));
        first.end(SIGKILL);
        EXPECT_EQ(second.wait(), 0);
    }
    expect_contains_all(dir / "out");
}

TEST(SweepFullDisk, IsAnErrorAndKeepsTheRecords) {
    const TempDir dir;
    // File size limit of 40 blocks of 512 bytes: the last record is truncated.
    const auto full = run_imka(kWork + in_quotes(dir / "out"), "ulimit -f 40;");
    EXPECT_EQ(full.exit_code, 3) << full.err;
    EXPECT_THAT(full.err, HasSubstr("a record could not be written; earlier records are kept"));
    const auto lines = record_lines(dir / "out");
    EXPECT_GE(lines, 5U);
    EXPECT_LT(lines, kRuns);
    const auto set = imka::read_records(dir / "out");
    EXPECT_EQ(set.records.size(), lines);
    EXPECT_TRUE(set.problems.empty()) << "the truncated line was removed";
    EXPECT_EQ(Process(imka_sweep(dir / "out")).wait(), 0);
    expect_complete(dir / "out");
}

bool has_mpirun() {
    return std::system("command -v mpirun > /dev/null 2>&1") == 0;
}

std::string mpi_sweep(int ranks, const std::filesystem::path& output, const std::string& work = kWork) {
    return "mpirun --allow-run-as-root --oversubscribe -n " + std::to_string(ranks) + " " +
           imka_sweep(output, work);
}

TEST(SweepRanks, OneTwoAndFourGiveTheSameRecords) {
    if (!has_mpirun()) GTEST_SKIP() << "no mpirun: apt-get install openmpi-bin";
    for (const int ranks : {1, 2, 4}) {
        const TempDir dir;
        EXPECT_EQ(Process(mpi_sweep(ranks, dir / "out")).wait(), 0) << ranks;
        expect_complete(dir / "out");
    }
}

TEST(SweepRanks, OneKilledAndTheJobRelaunchedGiveTheSameRecords) {
    if (!has_mpirun()) GTEST_SKIP() << "no mpirun: apt-get install openmpi-bin";
    const TempDir dir;
    {
        Process job(mpi_sweep(4, dir / "out", kEndless));
        while (job.running() && record_files(dir / "out").size() < 2)
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        // A rank's file is named <host>-<process>-<time>.jsonl.
        const auto name = record_files(dir / "out").back().filename().string();
        const auto dash = name.find('-');
        const auto rank = std::stoi(name.substr(dash + 1, name.find('-', dash + 1) - dash - 1));
        EXPECT_EQ(kill(rank, SIGKILL), 0);
        EXPECT_NE(job.wait(), 0) << "mpirun reports a dead rank";
    }
    EXPECT_EQ(Process(mpi_sweep(4, dir / "out")).wait(), 0);
    expect_contains_all(dir / "out");
}

TEST(SweepRanks, OfSlurmAndPmiAreQuietExceptTheFirst) {
    for (const auto* environment : {"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2", "PMI_RANK=1 PMI_SIZE=2"}) {
        const TempDir dir;
        const auto r = run_imka("sweep smoke --output " + in_quotes(dir / "out"), environment);
        EXPECT_EQ(r.exit_code, 0) << r.err;
        EXPECT_EQ(r.out + r.err, "") << environment;
        EXPECT_EQ(record_lines(dir / "out"), 108U);
    }
}

}  // namespace
