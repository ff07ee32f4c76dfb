// Files: writes are atomic, also when the disk is full, and leave no temporary files.
#include "imka/base/file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "imka/base/error.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::vector<std::string> names_in(const fs::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder))
        names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
}

std::string io_message(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::io) << e.what();
        return e.what();
    }
    return "no error";
}

std::string read_all(const fs::path& path) {
    return read_file(path, std::size_t{1} << 30U);
}

// Simulates a full disk: writes beyond `bytes` fail during its lifetime.
class FileSizeLimit {
public:
    explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
        getrlimit(RLIMIT_FSIZE, &old_);
        const rlimit limit{.rlim_cur = bytes, .rlim_max = old_.rlim_max};
        setrlimit(RLIMIT_FSIZE, &limit);
    }
    ~FileSizeLimit() {
        setrlimit(RLIMIT_FSIZE, &old_);
        std::signal(SIGXFSZ, handler_);
    }
    FileSizeLimit(const FileSizeLimit&) = delete;
    FileSizeLimit& operator=(const FileSizeLimit&) = delete;

private:
    rlimit old_{};
    void (*handler_)(int);
};

TEST(ReadFile, ReturnsEveryByte) {
    const TempDir dir;
    std::string bytes;
    for (int i = 0; i < 200'000; ++i) bytes += static_cast<char>(i * 7);
    write_file_atomic(dir / "a", bytes);
    EXPECT_EQ(read_file(dir / "a", bytes.size()), bytes);
    write_file_atomic(dir / "empty", "");
    EXPECT_EQ(read_file(dir / "empty", 0), "");
}

TEST(ReadFile, RefusesAFileThatIsTooLarge) {
    const TempDir dir;
    write_file_atomic(dir / "a", "12345");
    try {
        read_file(dir / "a", 4);
        ADD_FAILURE() << "no error";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::bad_data);
        EXPECT_THAT(e.what(), HasSubstr("larger than the limit of 4 bytes"));
    }
    EXPECT_THROW(read_file("/dev/zero", 100'000), Error);
}

TEST(ReadFile, SaysWhyItCannotRead) {
    const TempDir dir;
    write_file_atomic(dir / "a", "x");
    EXPECT_THAT(io_message([&] { read_all(dir / "none"); }),
                AllOf(StartsWith((dir / "none").string()), HasSubstr("No such file or directory")));
    EXPECT_THAT(io_message([&] { read_all(dir / "a" / "b"); }), HasSubstr("Not a directory"));
    EXPECT_THAT(io_message([&] { read_all(dir.path()); }), HasSubstr("Is a directory"));
}

// /proc/self/mem opens, but reading address 0 fails.
TEST(ReadFile, DoesNotTakeAReadErrorForTheEnd) {
    EXPECT_THAT(io_message([] { read_all("/proc/self/mem"); }), HasSubstr("cannot be read"));
}

TEST(AtomicFile, AppearsAtCommitOnly) {
    const TempDir dir;
    AtomicFile file(dir / "a");
    file.write("hello");
    EXPECT_FALSE(fs::exists(dir / "a"));
    file.commit();
    EXPECT_EQ(read_all(dir / "a"), "hello");
    EXPECT_THAT(names_in(dir.path()), ElementsAre("a"));
}

TEST(AtomicFile, ReplacesAnOldFileWhole) {
    const TempDir dir;
    write_file_atomic(dir / "a", "a longer old text");
    write_file_atomic(dir / "a", "new");
    EXPECT_EQ(read_all(dir / "a"), "new");
}

TEST(AtomicFile, WritesMoreThanItsBufferInOrder) {
    const TempDir dir;
    std::string expected;
    AtomicFile file(dir / "a");
    for (int i = 0; i < 300'000; ++i) {
        const auto piece = std::to_string(i) + "\n";
        file.write(piece);
        expected += piece;
    }
    file.commit();
    EXPECT_EQ(read_all(dir / "a"), expected);
}

TEST(AtomicFile, RewritesEarlierBytes) {
    const TempDir dir;
    AtomicFile file(dir / "a");
    file.write("head....");
    file.write(std::string(3U << 20U, 'x'));
    file.rewrite(4, "1234");
    file.write("tail");
    file.commit();
    const auto text = read_all(dir / "a");
    EXPECT_EQ(text.size(), 8U + (3U << 20U) + 4U);
    EXPECT_THAT(text, StartsWith("head1234xxx"));
    EXPECT_THAT(text, testing::EndsWith("xtail"));
}

TEST(AtomicFile, LeavesTheOldFileAndNothingElseAfterAnException) {
    const TempDir dir;
    write_file_atomic(dir / "a", "old");
    try {
        AtomicFile file(dir / "a");
        file.write(std::string(2U << 20U, 'x'));
        throw std::runtime_error("the work failed");
    } catch (const std::runtime_error&) {
    }
    EXPECT_EQ(read_all(dir / "a"), "old");
    EXPECT_THAT(names_in(dir.path()), ElementsAre("a"));
}

TEST(AtomicFile, LeavesTheOldFileWhenTheDiskIsFull) {
    const TempDir dir;
    write_file_atomic(dir / "a", "old");
    for (const std::size_t size : {std::size_t{5'000}, std::size_t{5'000'000}}) {
        const FileSizeLimit limit(4096);
        EXPECT_THAT(io_message([&] { write_file_atomic(dir / "a", std::string(size, 'x')); }),
                    AllOf(StartsWith((dir / "a").string()), HasSubstr("File too large")));
    }
    EXPECT_EQ(read_all(dir / "a"), "old");
    EXPECT_THAT(names_in(dir.path()), ElementsAre("a"));
}

TEST(AtomicFile, FailsBeforeTheWorkWhereItCannotWrite) {
    const TempDir dir;
    write_file_atomic(dir / "a", "x");
    EXPECT_THAT(io_message([&] { AtomicFile file(dir / "a" / "b"); }), HasSubstr("no folder"));
    EXPECT_THAT(io_message([&] { AtomicFile file(dir / "none" / "b"); }), HasSubstr("no folder"));
    EXPECT_THAT(io_message([&] { AtomicFile file("/proc/imka-test"); }),
                StartsWith("/proc/imka-test: cannot be written"));
    EXPECT_THAT(io_message([&] { AtomicFile file(dir / std::string(300, 'n')); }),
                HasSubstr("File name too long"));
    EXPECT_THAT(io_message([&] { AtomicFile file(""); }), HasSubstr("not a regular file"));
    EXPECT_THAT(names_in(dir.path()), ElementsAre("a"));
}

TEST(AtomicFile, RefusesWhatIsNotARegularFile) {
    const TempDir dir;
    ASSERT_EQ(mkfifo((dir / "pipe").c_str(), 0600), 0);
    fs::create_symlink("loop", dir / "loop");
    for (const auto& path :
         {fs::path("/dev/null"), fs::path("/dev/full"), dir.path(), dir / "pipe", dir / ""}) {
        EXPECT_THAT(io_message([&] { AtomicFile file(path); }), HasSubstr("is not a regular file")) << path;
    }
    EXPECT_THAT(io_message([&] { AtomicFile file(dir / "loop"); }), HasSubstr("symbolic links"));
    EXPECT_TRUE(fs::is_character_file("/dev/null"));
    EXPECT_THAT(names_in(dir.path()), ElementsAre("loop", "pipe"));
}

TEST(AtomicFile, WritesThroughALink) {
    const TempDir dir;
    fs::create_directory(dir / "real");
    write_file_atomic(dir / "real" / "a", "old");
    fs::create_symlink("real/a", dir / "link");
    write_file_atomic(dir / "link", "new");
    EXPECT_TRUE(fs::is_symlink(dir / "link"));
    EXPECT_EQ(read_all(dir / "real" / "a"), "new");
    EXPECT_THAT(names_in(dir / "real"), ElementsAre("a"));
}

TEST(AtomicFile, WritesThroughADanglingLink) {
    const TempDir dir;
    fs::create_directory(dir / "real");
    fs::create_symlink("real/a", dir / "middle");
    fs::create_symlink("middle", dir / "link");
    write_file_atomic(dir / "link", "new");
    EXPECT_TRUE(fs::is_symlink(dir / "link"));
    EXPECT_TRUE(fs::is_symlink(dir / "middle"));
    EXPECT_EQ(read_all(dir / "real" / "a"), "new");
}

TEST(AtomicFile, RefusesLinksInACircle) {
    const TempDir dir;
    fs::create_symlink("b", dir / "a");
    fs::create_symlink("a", dir / "b");
    EXPECT_THROW(AtomicFile(dir / "a"), Error);
    EXPECT_THAT(names_in(dir.path()), ElementsAre("a", "b"));
}

TEST(AtomicFile, TwoWritersOfOneNameDoNotMix) {
    const TempDir dir;
    AtomicFile first(dir / "a");
    AtomicFile second(dir / "a");
    first.write("first");
    second.write("second");
    second.commit();
    first.commit();
    EXPECT_EQ(read_all(dir / "a"), "first");
    EXPECT_THAT(names_in(dir.path()), ElementsAre("a"));
}

// As left by killed processes, one of them with the same ID.
TEST(AtomicFile, RemovesTheTemporaryFilesOfKilledProcesses) {
    const TempDir dir;
    const auto own = "a.txt." + std::to_string(getpid());
    for (const auto& name : {own + ".0.tmp", own + ".7.tmp", std::string("a.txt.1.12.tmp")})
        std::ofstream(dir / name) << "dead";
    write_file_atomic(dir / "a.txt", "new");
    EXPECT_EQ(read_file(dir / "a.txt", 100), "new");
    EXPECT_THAT(names_in(dir.path()), ElementsAre("a.txt"));
}

TEST(AtomicFile, KeepsFilesThatOnlyLookLikeItsOwn) {
    const TempDir dir;
    const std::vector<std::string> names = {"a.tmp", "a.txt.1.tmp", "a.txt.old.tmp", "b.txt.1.2.tmp"};
    for (const auto& name : names) std::ofstream(dir / name) << "mine";
    write_file_atomic(dir / "a.txt", "new");
    for (const auto& name : names) EXPECT_TRUE(fs::exists(dir / name)) << name;
}

TEST(AtomicFile, KeepsTheTemporaryFilesInUse) {
    const TempDir dir;
    AtomicFile first(dir / "a");
    first.write("first");
    write_file_atomic(dir / "a", "second");
    first.commit();
    EXPECT_EQ(read_all(dir / "a"), "first");
}

TEST(AtomicFile, TemporaryFilesCanBeRemovedFromASignalHandler) {
    const TempDir dir;
    const auto child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        AtomicFile kept(dir / "a");
        AtomicFile done(dir / "b");
        done.commit();
        remove_temporary_files();
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_THAT(names_in(dir.path()), ElementsAre("b"));
}

}  // namespace
}  // namespace imka
