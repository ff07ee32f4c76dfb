// Exec: threads, cancellation, progress and notes; build information.
#include "imka/base/exec.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/base/version.hpp"

namespace imka {
namespace {

using testing::ElementsAre;

struct Recorder : ProgressSink, LogSink {
    void start(std::string_view label, std::uint64_t total, std::uint64_t done) override {
        calls.push_back("start " + std::string(label) + " " + std::to_string(done) + " of " +
                        std::to_string(total));
    }
    void update(std::uint64_t done) override { calls.push_back("update " + std::to_string(done)); }
    void finish() override { calls.emplace_back("finish"); }
    void note(std::string_view text) override { calls.push_back("note " + std::string(text)); }
    std::vector<std::string> calls;
};

TEST(Exec, HasAtLeastOneThread) {
    EXPECT_GE(thread_count({}), 1);
    EXPECT_EQ(thread_count({.threads = 3}), 3);
}

TEST(Exec, StopsOnlyWhenAsked) {
    check_cancelled({});
    std::atomic<bool> cancel{false};
    check_cancelled({.cancel = &cancel});
    cancel = true;
    try {
        check_cancelled({.cancel = &cancel});
        ADD_FAILURE() << "no error";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::interrupted);
    }
}

TEST(Exec, ProgressFinishesItselfAlsoOnAnException) {
    Recorder recorder;
    const Exec exec{.progress = &recorder, .log = &recorder};
    try {
        Progress progress(exec, "fit", 10, 3);
        progress.update(4);
        note(exec, "slow");
        throw std::runtime_error("stop");
    } catch (const std::runtime_error&) {
    }
    EXPECT_THAT(recorder.calls, ElementsAre("start fit 3 of 10", "update 4", "note slow", "finish"));
}

TEST(Exec, NeedsNoSinks) {
    note({}, "nobody hears");
    Progress progress({}, "fit", 0);
    progress.update(1);
}

TEST(BuildInfo, NamesVersionAndCompiler) {
    EXPECT_THAT(std::string(build_info().version), testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
    EXPECT_FALSE(build_info().compiler.empty());
    EXPECT_EQ(build_info().sanitize, IMKA_SANITIZE);
}

}  // namespace
}  // namespace imka
