// imka train as a user calls it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <string>

#include "imka/train/performer.hpp"
#include "imka/train/progress.hpp"
#include "support/command.hpp"
#include "support/paths.hpp"
#include "support/temp_dir.hpp"

namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

bool can_train() {
    return json_of("doctor")["training"].get<bool>();
}

std::string tiny(const fs::path& output) {
    return "train --task tiny --set steps=150 --set validate_every=10 --set dropout=0.1 --output " +
           output.string();
}

TEST(Train, ListsRecipesAndPrintsSettings) {
    EXPECT_THAT(run_imka("train --list").out, HasSubstr("pathfinder32"));
    const auto yaml = run_imka("train --task cifar10 --set lr=0.125 --dry-run");
    EXPECT_EQ(yaml.exit_code, 0) << yaml.err;
    EXPECT_THAT(yaml.out, HasSubstr("\nlr: 0.125\n"));
    EXPECT_THAT(yaml.out, HasSubstr("activation: silu"));
}

TEST(Train, HardwareAwareIsAShortFormOfARecipe) {
    const auto settings = [](const std::string& arguments) {
        return run_imka("train --dry-run --task " + arguments).out;
    };
    EXPECT_EQ(settings("cifar10 --hardware-aware"), settings("cifar10_hwa"));
    EXPECT_EQ(settings("cifar10_hwa_fitted --hardware-aware"), settings("cifar10_hwa_fitted"));
    // A recipe without a hardware-aware variant.
    EXPECT_EQ(settings("cifar10_exact --hardware-aware"),
              settings("cifar10_exact --set weight_noise=sample"));
}

TEST(Train, SaysWhatIsWrong) {
    const TempDir dir;
    const auto out = " --output " + (dir / "out").string();
    expect_fails("train" + out, 2, "expected --task");
    expect_fails("train --task tiny", 2, "expected --output");
    expect_fails("train --task cifar9" + out, 2, "unknown recipe 'cifar9'");
    expect_fails("train --task tiny --set lr=-1" + out, 2, "lr");
    expect_fails("train --task tiny --set heads=3" + out, 2, "does not divide the width");
    expect_fails("train --task tiny --device gpu" + out, 2, "gpu");
    expect_fails("train --task tiny_hwa --set chip_noise=hermse" + out, 2, "chip_noise: 'hermse'");
    if (!can_train()) {
        expect_fails("train --task tiny" + out, 4, "built without LibTorch");
        return;
    }
    expect_fails("train --task imdb --data-dir " + dir.path().string() + out, 4, "imdb");
    expect_fails("train --task tiny --device cuda:77" + out, 4, "--device cpu trains on the processor");
    EXPECT_FALSE(fs::exists(dir / "out" / "last.safetensors"));
}

TEST(Train, GivesTheSameWeightsAfterKill) {
    if (!can_train()) GTEST_SKIP() << "built without LibTorch";
    const TempDir dir;
    const auto whole = run_imka(tiny(dir / "whole"));
    ASSERT_EQ(whole.exit_code, 0) << whole.err;
    EXPECT_THAT(whole.err,
                testing::ContainsRegex("step 150: validation accuracy .* %, loss .*; training .* tokens/s"));
    // Killed as soon as a checkpoint exists; if that is too late, the training has ended and nothing changes.
    const auto script = "\"" + binary_dir() + "/imka" + "\" " + tiny(dir / "killed") +
                        " >/dev/null 2>&1 & pid=$!; while [ ! -f " +
                        (dir / "killed" / "last.safetensors").string() +
                        " ] && kill -0 $pid; do sleep 0.02; done; kill -9 $pid; wait $pid 2>/dev/null; true";
    ASSERT_EQ(std::system(script.c_str()), 0);
    const auto resumed = run_imka(tiny(dir / "killed") + " --json --quiet");
    ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_EQ(resumed.err, "");
    const auto a = imka::load_performer(dir / "whole" / "last.safetensors");
    const auto b = imka::load_performer(dir / "killed" / "last.safetensors");
    EXPECT_EQ(a.weights, b.weights);
    EXPECT_EQ(a.omega, b.omega);
    EXPECT_EQ(imka::progress_of(b).step, 150);
    EXPECT_TRUE(b.state.empty());
}

TEST(Train, SaysWhichBatchFitsIntoTheMemory) {
    if (!can_train()) GTEST_SKIP() << "built without LibTorch";
    const TempDir dir;
    // A batch of 250 needs 1.6 GB, one of 500 more than 2 GB. With an arena per thread, the amount would
    // vary.
    const auto trained = [&](const std::string& batch) {
        return run_imka(
            "train --task tiny --threads 1 --set hidden=2048 --set steps=2 --set validation_examples=8 "
            "--set batch=" +
                batch + " --output " + (dir / ("batch" + batch)).string(),
            "ulimit -v 1900000; export MALLOC_ARENA_MAX=1;");
    };
    if (trained("2").exit_code != 0) GTEST_SKIP() << "this LibTorch alone needs more memory";
    const auto failed = trained("2000");
    EXPECT_EQ(failed.exit_code, 2);
    EXPECT_EQ(failed.out, "");
    EXPECT_FALSE(fs::exists(dir / "batch2000" / "last.safetensors"));
    std::smatch fits;
    ASSERT_TRUE(std::regex_search(
        failed.err, fits, std::regex("not enough memory for a batch of 2000; ([0-9]+) fits: --set batch=")))
        << failed.err;
    EXPECT_EQ(trained(fits[1]).exit_code, 0) << fits[1];
}

TEST(Train, RefusesADamagedCheckpoint) {
    if (!can_train()) GTEST_SKIP() << "built without LibTorch";
    const TempDir dir;
    fs::create_directories(dir / "out");
    write_text(dir / "out" / "last.safetensors", "not a model");
    expect_fails(tiny(dir / "out"), 3, "last.safetensors");
}

}  // namespace
