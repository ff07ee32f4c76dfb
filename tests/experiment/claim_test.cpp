// Claims exclude each other within and across processes, and end with their holder.
#include "imka/experiment/journal.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <atomic>
#include <fstream>
#include <thread>
#include <vector>

#include "support/error.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

TEST(Claim, HasOneHolderAtATime) {
    const TempDir dir;
    auto first = Claim::try_take(dir.path(), "a");
    ASSERT_TRUE(first);
    EXPECT_TRUE(std::filesystem::exists(dir / "a"));
    EXPECT_FALSE(Claim::try_take(dir.path(), "a"));
    EXPECT_TRUE(Claim::try_take(dir.path(), "b"));
    first.reset();
    EXPECT_FALSE(std::filesystem::exists(dir / "a"));
    EXPECT_TRUE(Claim::try_take(dir.path(), "a"));
}

TEST(Claim, AFileOfADeadHolderCanBeClaimed) {
    const TempDir dir;
    std::ofstream(dir / "a") << "";
    EXPECT_TRUE(Claim::try_take(dir.path(), "a"));
}

TEST(Claim, EndsWithItsHoldersProcess) {
    const TempDir dir;
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        const auto claim = Claim::try_take(dir.path(), "a");
        const char taken = claim ? 'y' : 'n';
        if (write(ready[1], &taken, 1) == 1) pause();
        _exit(1);
    }
    char taken = 0;
    ASSERT_EQ(read(ready[0], &taken, 1), 1);
    EXPECT_EQ(taken, 'y');
    EXPECT_FALSE(Claim::try_take(dir.path(), "a"));
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    EXPECT_TRUE(std::filesystem::exists(dir / "a"));
    EXPECT_TRUE(Claim::try_take(dir.path(), "a"));
    close(ready[0]);
    close(ready[1]);
}

// The file is removed and created again all the time, but never has two holders.
TEST(Claim, NeverHasTwoHoldersWhileItsFileComesAndGoes) {
    const TempDir dir;
    std::atomic<int> holders{0};
    std::atomic<int> taken{0};
    std::atomic<bool> two{false};
    {
        std::vector<std::jthread> threads;
        for (int t = 0; t < 4; ++t) {
            threads.emplace_back([&] {
                for (int i = 0; i < 3000; ++i) {
                    const auto claim = Claim::try_take(dir.path(), "a");
                    if (!claim) continue;
                    if (++holders > 1) two = true;
                    ++taken;
                    std::this_thread::yield();
                    --holders;
                }
            });
        }
    }
    EXPECT_FALSE(two);
    EXPECT_GT(taken, 10);
}

TEST(Claim, AMissingFolderIsAnError) {
    const TempDir dir;
    EXPECT_EQ(error_of([&] { (void)Claim::try_take(dir / "none", "a"); }).substr(0, 4), "io: ");
}

}  // namespace
}  // namespace imka
