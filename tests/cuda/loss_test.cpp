// A real GPU failure in the middle of a sweep, in a separate process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <optional>

#include "imka/cuda/gpu.hpp"
#include "imka/cuda/linear_algebra.hpp"
#include "imka/cuda/memory.hpp"
#include "imka/cuda/status.hpp"
#include "imka/experiment/sweep.hpp"
#include "imka/ops/feature_row/gpu_features.hpp"
#include "support/error.hpp"
#include "support/records.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

const Exec kFourThreads{.threads = 4, .device = {DeviceKind::cuda, 0}};
constexpr auto kFolder = "IMKA_TEST_LOSS_FOLDER";

// A kernel reads from address 0; after that, no GPU call of the process succeeds.
void lose_gpu() {
    ops::scale_rows({.rows = 1}, {.d = 1});
    cuda::wait();
}

SweepPlan small_plan() {
    return plan_sweep(
        parse_experiment("name: small\n"
                         "base: {gram_rows: 100, log_ratio: 2, dataset: ringnorm}\n"
                         "grid: {backend: [fp32, hermes], kernel: [rbf, arccos0], seeds: 0..5}\n",
                         "small.yaml"),
        {}, kFourThreads);
}

std::atomic<int> runs_before_loss = 8;
SeedResult run_until_loss(const RunConfig& config, std::uint64_t seed, RunData& data, const Exec& exec) {
    if (runs_before_loss-- == 0) (void)error_of(lose_gpu);
    return run_kind("ridge").run(config, seed, data, exec);
}

// Ends the process as the program does.
[[noreturn]] void sweep_until_loss(const std::filesystem::path& folder) {
    alarm(60);  // a call that waits forever for a lost GPU fails the test
    auto kind = run_kind("ridge");
    kind.run = run_until_loss;
    try {
        (void)run_sweep(small_plan(), kind, {.output = folder}, kFourThreads);
    } catch (const cuda::DeviceLost& e) {
        std::cerr << e.what() << "\n";
        std::quick_exit(4);
    }
    std::exit(0);
}

// Every kind of call reports the loss.
[[noreturn]] void use_after_loss() {
    const cuda::Buffer<float> memory(0, 8);
    std::vector<float> values(8);
    const auto is_lost = [](auto&& action) {
        try {
            action();
        } catch (const cuda::DeviceLost& e) {
            return std::string(e.what()).find("can no longer use cuda:0") != std::string::npos;
        } catch (const Error& e) {
            std::cerr << e.what() << "\n";
        }
        return false;
    };
    bool lost = is_lost(lose_gpu);
    lost = is_lost([&] { memory.download(values); }) && lost;
    lost = is_lost([] { cuda::Memory(0, 8); }) && lost;
    lost = is_lost([] { cuda::Memory(0, 8, cuda::MemorySource::pooled); }) && lost;
    if (cuda::linear_algebra_obstacle().empty())
        lost = is_lost([] { cuda::LinearAlgebra::of_this_thread(0); }) && lost;
    std::exit(lost ? 4 : 1);
}

class GpuLoss : public testing::Test {
protected:
    void SetUp() override {
        if (cuda::gpu_count() == 0) GTEST_SKIP() << "needs a CUDA GPU";
        GTEST_FLAG_SET(death_test_style, "threadsafe");  // starts a new process instead of forking this one
    }
};

TEST_F(GpuLoss, IsReportedByEveryLaterCall) {
    EXPECT_EXIT(use_after_loss(), testing::ExitedWithCode(4), "");
}

TEST_F(GpuLoss, StopsASweepAndTheNextStartGoesOn) {
    std::optional<TempDir> dir;
    if (std::getenv(kFolder) == nullptr) setenv(kFolder, dir.emplace().path().c_str(), 1);
    const std::filesystem::path folder = std::getenv(kFolder);
    EXPECT_EXIT(sweep_until_loss(folder / "lost"), testing::ExitedWithCode(4),
                "this process can no longer use cuda:0; start the same command again, or use the device cpu. "
                "[0-9]+ of 24 runs are done and kept");
    unsetenv(kFolder);
    const auto lines = record_lines(folder / "lost");
    EXPECT_GE(lines, 5U) << "three of the first eight may still be running";
    EXPECT_LT(lines, 24U);
    for (const auto& record : read_records(folder / "lost").records) EXPECT_EQ(record.error, "");
    EXPECT_TRUE(std::filesystem::is_empty(folder / "lost/claims"));
    const auto rest = run_sweep(small_plan(), {.output = folder / "lost"}, kFourThreads);
    EXPECT_EQ(rest.status.before, lines);
    EXPECT_EQ(rest.recorded, 24U - lines);
    EXPECT_EQ(rest.status.failed, 0U);
    (void)run_sweep(small_plan(), {.output = folder / "undisturbed"}, kFourThreads);
    EXPECT_EQ(record_facts(folder / "lost"), record_facts(folder / "undisturbed"));
}

}  // namespace
}  // namespace imka
