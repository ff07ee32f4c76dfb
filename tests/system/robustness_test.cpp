// The program under bad options, closed and full streams, limits and signals.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "support/command.hpp"
#include "support/paths.hpp"
#include "support/temp_dir.hpp"

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// Exit code of a shell command in which $imka is the program; 128 + the signal that ended it.
int shell(const std::string& command) {
    const int status = std::system(("imka='" + binary_dir() + "/imka'; " + command).c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(Options, EmptyValuesAreErrors) {
    const TempDir dir;
    const auto before = fs::current_path();
    fs::current_path(dir.path());
    expect_fails("ridge --save= --quiet --dataset ringnorm", 2, "'--save=' has no value");
    expect_fails("ridge --save '' --dataset ringnorm", 2, "the argument after '--save' is empty");
    expect_fails("chip mvm --figure= --json", 2, "'--figure=' has no value");
    expect_fails("sweep ''", 2, "is empty");
    expect_fails("ridge --save --quiet --dataset ringnorm", 2, "'--save' has no value");
    expect_fails("report x --csv --quiet", 2, "'--csv' has no value");
    expect_fails("chip fit x.csv --output", 2, "'--output' has no value");
    fs::current_path(before);
    EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(Options, IntegersHaveRanges) {
    expect_fails("ridge --threads -1", 2, "--threads: -1 is out of range");
    expect_fails("ridge --threads 1025", 2, "--threads: 1025 is out of range; it must be >= 0 and <= 1024");
    expect_fails("ridge --seed -1", 2,
                 "seed: '-1' is out of range; it must be from 0 to 18446744073709551615");
    expect_fails("ridge --seed 18446744073709551616", 2, "is out of range; it must be from 0 to");
    expect_fails("ridge --seed 1.5", 2, "'1.5' is not an integer");
    expect_fails("ridge --seed 1,5", 2, "'1,5' is not an integer");
    expect_fails("gram --n-components 9223372036854775808", 2, "is out of range");
    expect_fails("chip mvm --rows -1", 2, "--rows: '-1' is out of range");
    expect_fails("chip mvm --inputs 1e3", 2, "--inputs: '1e3' is not an integer");
    expect_fails("chip program --seed -1", 2, "--seed: '-1' is out of range");
    expect_fails("chip program --draws 0", 2, "--draws: 0 is out of range");
    expect_fails("chip age --seed 1,2", 2, "'1,2' is not an integer");
    expect_fails("bench stream --rows -5", 2, "--rows: '-5' is out of range");
}

TEST(Options, NumbersAreFinite) {
    for (const std::string value : {"nan", "NaN", "inf", "-inf", "1e999"}) {
        expect_fails("chip mvm --weight-sigmas " + value, 2, "--weight-sigmas: '" + value + "' is");
        expect_fails("chip mvm --input-law sparse --sparsity " + value, 2, "--sparsity");
        expect_fails("chip mvm --chip-set core.adc_noise=" + value, 2, "core.adc_noise");
        expect_fails("ridge --alpha " + value, 2, "alpha");
        expect_fails("chip mvm --at " + value, 2, "--at");
    }
    const TempDir dir;
    write_text(dir / "pairs.csv", "target,read\n1,1\n2,2\n3,3\n");
    expect_fails("chip fit --g-max nan '" + (dir / "pairs.csv").string() + "'", 2, "--g-max");
}

TEST(Options, WithoutEffectAreErrors) {
    const TempDir dir;
    expect_fails("ridge --dataset ringnorm --at 1h", 2, "--at has no effect: the backend is not a chip");
    expect_fails("gram --dataset ringnorm --chip-seed 3", 2, "--chip-seed has no effect");
    expect_fails("gram --dataset ringnorm --set lost_rows=1", 2, "--lost-rows has no effect");
    expect_fails("ridge --dataset ringnorm --label-column 2", 2,
                 "--label-column has no effect: ringnorm is not a file");
    expect_fails("gram --dataset ringnorm --format csv", 2, "--format has no effect");
    expect_fails("gram --dataset ringnorm --kernel arccos0 --gamma 2", 2,
                 "--gamma has no effect: the arccos0 kernel");
    expect_fails("gram --dataset ringnorm --sampler rff --norms chi", 2, "--norms has no effect");
    expect_fails("data show ringnorm --drop-columns 1", 2,
                 "--drop-columns has no effect: ringnorm is not a file");
    expect_fails("data export ringnorm --label-column 1 --output " + (dir / "x.csv").string(), 2,
                 "--label-column has no effect");
    expect_fails("chip mvm --sparsity 0.5", 2, "--sparsity has no effect");
    expect_fails("chip mvm --weights uniform --weight-sigmas 2", 2, "--weight-sigmas has no effect");
    expect_fails("chip mvm --replication average", 2, "--replication has no effect");
    expect_fails("chip explain --dataset ringnorm --rows 8", 2, "--rows has no effect");
    expect_fails("chip fit --cells", 2, "--measured");
    expect_fails("chip info hermes --backend hermes", 2, "--backend has no effect");
    expect_fails("bench features --rows 5000", 2, "--rows has no effect");
    expect_fails("reproduce liu --measured /dev/null", 2, "--check");
}

TEST(Options, TheSameKeyTwiceIsAnError) {
    expect_fails("chip mvm --chip-set core.adc_noise=1 --chip-set core.adc_noise=2", 2,
                 "--chip-set: duplicate key 'core.adc_noise'");
    expect_fails("gram --dataset ringnorm --set gamma=1 --set gamma=2", 2, "--set: duplicate key 'gamma'");
    expect_fails("chip mvm --chip-set core.adc_noise=1,core.adc_noise=2", 2,
                 "--chip-set: duplicate key 'core.adc_noise'");
    expect_fails("gram --backend hermes --chip-set core.adc_noise=1,core.adc_noise=2", 2, "duplicate key");
    expect_fails("gram --backend hermes --chip-set core.adc_noise=1 --chip-set core.adc_noise=2", 2,
                 "chip_set: duplicate key 'core.adc_noise'");
    expect_fails("sweep smoke --set seeds=0 --set seeds=1", 2, "duplicate key 'seeds'");
    expect_fails("chip fit --measured /dev/null --free core.adc_noise=0..5/5 --free core.adc_noise=0..5/5", 2,
                 "--free: duplicate key 'core.adc_noise'");
}

TEST(Options, UnknownWordsGetASuggestion) {
    expect_fails("rigde", 2, "unknown command 'rigde'; nearest: ridge");
    expect_fails("chip explian", 2, "unknown command 'explian'; nearest: explain");
    expect_fails("ridge --kernal rbf", 2, "unknown option '--kernal'; nearest: --kernel");
    expect_fails("ridge --kernal=rbf", 2, "unknown option '--kernal'; nearest: --kernel");
}

TEST(Options, OfferOnlyWhatCanBeUsed) {
    const auto help = run_imka("chip mvm --help").out;
    EXPECT_NE(help.find("max|quantile|deviation|search"), std::string::npos);
    EXPECT_EQ(help.find("|given"), std::string::npos);
    expect_fails("chip mvm --input-range given", 2, "'given' is not a known");
}

TEST(Chip, ConstantsWithoutMeaningAreErrors) {
    expect_fails("chip mvm --chip-set core.output_headroom=1e300", 2, "core.output_headroom");
    expect_fails("chip mvm --chip-set core.counts_per_us=1e-300", 2, "core.counts_per_us");
    expect_fails("chip mvm --chip-set device.programming_scale=1e300", 2, "device.programming_scale");
    expect_fails("chip mvm --chip-set core.offset_mean=-1e300", 2, "core.offset_mean");
    const TempDir dir;
    const auto curve = [&](const std::string& coefficients) {
        write_text(
            dir / "x.yaml",
            "name: x\ndescription: x\nextends: pcm-like\ndevice:\n  programming_error:\n    unit: uS\n    "
            "pieces:\n"
            "      - {form: polynomial, coefficients: " +
                coefficients + "}\n");
        return "chip mvm --rows 8 --cols 8 --backend '" + (dir / "x.yaml").string() + "'";
    };
    EXPECT_EQ(run_imka(curve("[0.5, 1]") + " --seed 0").exit_code, 0);
    expect_fails(curve("[-1, -1]"), 2, "device.programming_error: -1 at u = 0 is out of range");
    expect_fails(curve("[1e308, 1e308]"), 2, "device.programming_error");
    expect_fails(curve("[1e12]"), 2, "device.programming_error");
}

TEST(Chip, ExplainGivesSharesOnlyOfAnErrorThatIsThere) {
    const auto found = [](const std::string& arguments) {
        const auto r = run_imka("chip explain --json " + arguments);
        EXPECT_EQ(r.exit_code, 0) << r.err;
        const auto j = json::parse(r.out);
        EXPECT_EQ(j.at("nonidealities")[0].at("alone_share").is_null(),
                  !j.at("distinguishable_from_ideal").get<bool>());
        return j.at("distinguishable_from_ideal").get<bool>();
    };
    EXPECT_TRUE(found("--rows 20 --cols 20 --inputs 50 --seeds 0..1"));
    EXPECT_TRUE(found("--rows 20 --cols 20 --inputs 50 --seed 0"));
    // The features themselves have a far larger error.
    EXPECT_FALSE(found("--dataset ringnorm --log-ratio 1 --seeds 0..2 --gram-rows 100"));
    EXPECT_NE(run_imka("chip explain --dataset ringnorm --log-ratio 1 --seed 0 --gram-rows 100")
                  .out.find("not distinguishable from that of an ideal chip"),
              std::string::npos);
}

TEST(Report, WithoutARecordIsAnError) {
    const TempDir dir;
    const auto page = (dir / "p.html").string();
    for (const std::string text : {"", "\n", "{\"a\": 1}\n", "not json\n"}) {
        write_text(dir / "r.jsonl", text);
        expect_fails("report '" + (dir / "r.jsonl").string() + "' --output '" + page + "'", 3, "no records");
        EXPECT_FALSE(fs::exists(page));
    }
}

TEST(Output, ErrorsThatCannotBePrintedKeepTheExitCode) {
    EXPECT_EQ(shell("$imka ridge --kernel x 2>/dev/full"), 2);
    EXPECT_EQ(shell("$imka ridge --kernel x 2>&-"), 2);
    EXPECT_EQ(shell("$imka rigde 2>&-"), 2);
    EXPECT_EQ(shell("$imka gram --dataset ringnorm --n-components 8 --seed 0 >/dev/null 2>&-"), 0);
}

TEST(Output, ThatCannotBeWrittenIsExitCode3) {
    for (const std::string arguments : {"--help", "ridge --help", "--version", "doctor", "sweep list",
                                        "gram --dataset ringnorm --n-components 8 --seed 0", "chip info",
                                        "data list --json", "completion bash"}) {
        EXPECT_EQ(shell("$imka " + arguments + " >/dev/full 2>/dev/null"), 3) << arguments;
        EXPECT_EQ(shell("$imka " + arguments + " >&- 2>/dev/null"), 3) << arguments;
        EXPECT_EQ(shell("$imka " + arguments + " >/dev/full 2>&1"), 3) << arguments;
    }
}

// A file that gets the descriptor of a closed stream would receive the text of that stream.
TEST(Output, ClosedStreamsDoNotEndUpInFiles) {
    const TempDir dir;
    const auto file = (dir / "x.csv").string();
    EXPECT_EQ(shell("$imka data generate ringnorm --rows 10 --output '" + file + "' >/dev/null 2>&- <&-"), 0);
    EXPECT_EQ(
        run_imka("data generate ringnorm --rows 10 --output '" + (dir / "y.csv").string() + "'").exit_code,
        0);
    EXPECT_EQ(imka::read_file(file, 1U << 20U), imka::read_file(dir / "y.csv", 1U << 20U));
}

bool has_control_characters(const std::string& text) {
    return std::any_of(text.begin(), text.end(), [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
    });
}

TEST(Output, TextFromFilesCannotControlTheTerminal) {
    const TempDir dir;
    const std::string evil = "\x1b[31mred\x1b]0;title\x07";
    const auto path = [&](const std::string& name) { return "'" + (dir / name).string() + "'"; };
    write_text(dir / "x.csv", "1,2," + evil + "\n3,4," + evil + "\n5,6,b\n7,8,b\n");
    write_text(dir / "x.yaml", "name: \"" + std::string("\\e[31m") + "\"\nextends: hermes\n");
    write_text(dir / "bad.yaml", "name: x\n" + evil + ": 1\n");
    write_text(dir / "r.jsonl", "{\"key\": \"\\u001b[31m\"}\n" + evil + "\n");
    for (const auto& arguments :
         {"ridge --json --n-components 4 --seed 0 --dataset " + path("x.csv"), "data info " + path("x.csv"),
          "data show " + path("x.csv"), "chip info " + path("x.yaml"), "chip info " + path("bad.yaml"),
          "ridge --config " + path("bad.yaml"), "sweep " + path("bad.yaml"),
          "report --json " + path("r.jsonl"), std::string("ridge --kernel '\x1b[31m'"),
          std::string("'\x1b[31m'"), std::string("ridge '--\x1b[31m'")}) {
        const auto r = run_imka(arguments);
        EXPECT_FALSE(has_control_characters(r.out)) << arguments << "\n" << r.out;
        EXPECT_FALSE(has_control_characters(r.err)) << arguments << "\n" << r.err;
    }
}

TEST(Output, LongArgumentsAreShortened) {
    const std::string text(50'000, 'x');
    for (const auto& arguments :
         {"ridge --kernel " + text, "ridge --dataset " + text, "chip mvm --at " + text, "chip info " + text,
          "sweep " + text, text, "ridge --" + text, "gram --set " + text, "gram --set gamma=" + text,
          "chip fit --experiment " + text}) {
        const auto r = run_imka(arguments);
        EXPECT_EQ(r.exit_code, 2) << r.err;
        EXPECT_LT(r.err.size(), 3000U) << arguments.substr(0, 30);
    }
}

TEST(Output, ResultsAreFinite) {
    const TempDir dir;
    const auto path = [&](const std::string& name) { return "'" + (dir / name).string() + "'"; };
    write_text(dir / "big.csv", "1,2\n1e38,3e38\n2e38,-3e38\n");
    expect_fails("features --kernel arccos2 --n-components 4 --label-column none --quiet --input " +
                     path("big.csv") + " --output " + path("z.npy"),
                 3, "its features are not finite");
    EXPECT_FALSE(fs::exists(dir / "z.npy"));
    write_text(dir / "train.csv", "1,2,a\n3,4,b\n5,6,a\n7,8,b\n");
    ASSERT_EQ(run_imka("ridge --kernel arccos2 --n-components 8 --dataset " + path("train.csv") + ":" +
                       path("train.csv") + " --save " + path("m"))
                  .exit_code,
              0);
    const auto r = run_imka("ridge --load " + path("m") + " --predict " + path("big.csv") + " --output " +
                            path("p.csv"));
    EXPECT_EQ(r.exit_code, 3);
    EXPECT_NE(r.err.find("the prediction is not finite"), std::string::npos) << r.err;
    EXPECT_FALSE(fs::exists(dir / "p.csv"));
}

TEST(Limits, TooLittleAddressSpaceIsAnError) {
    // Sanitizers reserve more address space than that.
    if (!std::string(IMKA_SANITIZE).empty()) GTEST_SKIP() << "built with a sanitizer";
    // At some limits, which thread gets the last memory depends on their order, hence several tries.
    for (const auto* limit : {"150000", "250000", "250000", "250000", "250000", "250000", "400000"}) {
        const auto r = run_imka("gram --dataset ringnorm --seed 0 --threads 2",
                                std::string("ulimit -v ") + limit + "; timeout 60");
        // Some limits may be enough; the program must never hang.
        EXPECT_TRUE(r.exit_code == 3 || r.exit_code == 0) << limit << ": " << r.exit_code << "\n" << r.err;
        EXPECT_TRUE(r.exit_code == 0 || r.err.find("out of memory") != std::string::npos) << r.err;
    }
}

// A program in the background that cannot finish by itself.
class Running {
public:
    explicit Running(const std::vector<std::string>& arguments, int ignored_signal = 0) : pid_(fork()) {
        if (pid_ != 0) return;
        auto program = binary_dir() + "/imka";
        std::vector<char*> argv = {program.data()};
        auto copy = arguments;
        for (auto& a : copy) argv.push_back(a.data());
        argv.push_back(nullptr);
        for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) std::signal(signal, SIG_DFL);
        if (ignored_signal != 0) std::signal(ignored_signal, SIG_IGN);
        const int null = open("/dev/null", O_RDWR);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        execv(argv[0], argv.data());
        _exit(127);
    }
    void send(int signal) const { kill(pid_, signal); }
    bool ended() {
        if (!ended_) ended_ = waitpid(pid_, &status_, WNOHANG) == pid_;
        return ended_;
    }
    // Exit code, after waiting at most a minute; -1 if it still runs.
    int wait() {
        for (int i = 0; i < 6000 && !ended(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
        if (!ended_) {
            kill(pid_, SIGKILL);
            waitpid(pid_, &status_, 0);
            return -1;
        }
        return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
    }

private:
    pid_t pid_;
    int status_ = 0;
    bool ended_ = false;
};

// Waits until the program writes its temporary file.
bool writes_in(const fs::path& dir, Running& program) {
    while (fs::is_empty(dir)) {
        if (program.ended()) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
}

std::vector<std::string> endless_work(const fs::path& file) {
    return {"data", "generate", "ringnorm", "--rows", "100000000", "--output", file.string(), "--quiet"};
}

TEST(Signals, EndTheProgramAndLeaveNoFile) {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
        const TempDir dir;
        Running program(endless_work(dir / "x.csv"));
        ASSERT_TRUE(writes_in(dir.path(), program));
        program.send(signal);
        EXPECT_EQ(program.wait(), 130) << signal;
        EXPECT_TRUE(fs::is_empty(dir.path())) << signal;
    }
}

// Both signals arrive as soon as the file exists, at slightly different moments.
TEST(Signals, ASecondOneLeavesNoFileEither) {
    for (int attempt = 0; attempt < 20; ++attempt) {
        const TempDir dir;
        Running program(endless_work(dir / "x.csv"));
        while (fs::is_empty(dir.path())) ASSERT_FALSE(program.ended());
        program.send(SIGTERM);
        program.send(SIGINT);
        EXPECT_EQ(program.wait(), 130);
        EXPECT_TRUE(fs::is_empty(dir.path())) << attempt;
    }
}

// As after nohup.
TEST(Signals, ThatTheCallerIgnoresStayIgnored) {
    const TempDir dir;
    Running program(endless_work(dir / "x.csv"), SIGHUP);
    ASSERT_TRUE(writes_in(dir.path(), program));
    program.send(SIGHUP);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    EXPECT_FALSE(program.ended());
    program.send(SIGTERM);
    EXPECT_EQ(program.wait(), 130);
    EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(Signals, EndAProgramThatWaitsForAPipe) {
    const TempDir dir;
    ASSERT_EQ(mkfifo((dir / "pipe").c_str(), 0600), 0);
    const int keep = open((dir / "pipe").c_str(), O_RDWR);  // so that opening does not wait, but reading does
    Running program({"ridge", "--dataset", (dir / "pipe").string(), "--format", "csv"});
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    if (!program.ended()) program.send(SIGTERM);
    EXPECT_NE(program.wait(), -1);
    close(keep);
}

TEST(Signals, TheNextRunRemovesWhatAKilledOneLeft) {
    const TempDir dir;
    Running program(endless_work(dir / "x.csv"));
    ASSERT_TRUE(writes_in(dir.path(), program));
    program.send(SIGKILL);
    EXPECT_EQ(program.wait(), 128 + SIGKILL);
    EXPECT_FALSE(fs::is_empty(dir.path()));
    EXPECT_EQ(
        run_imka("data generate ringnorm --rows 10 --output '" + (dir / "x.csv").string() + "'").exit_code,
        0);
    EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), {}), 1);
}

TEST(Doctor, FlagsAMissingDataDirectory) {
    EXPECT_NE(run_imka("doctor --data-dir /nonexistent").out.find("there is no such folder"),
              std::string::npos);
    EXPECT_EQ(json::parse(run_imka("doctor --json --data-dir /nonexistent").out).at("data_dir_exists"),
              false);
}

}  // namespace
