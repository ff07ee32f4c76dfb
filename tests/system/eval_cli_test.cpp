// imka eval, and checkpoints of Performers as models of other commands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "imka/io/npy.hpp"
#include "imka/train/performer.hpp"
#include "support/command.hpp"
#include "support/small_performer.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

// A model of the generated task, before training.
class EvalCli : public testing::Test {
protected:
    EvalCli() { save_performer(model_, untrained_tiny()); }
    std::string eval(const std::string& arguments) const {
        return "eval --checkpoint '" + model_.string() + "' " + arguments;
    }

    TempDir dir_;
    std::filesystem::path model_ = dir_ / "model.safetensors";
};

TEST_F(EvalCli, PrintsAccuraciesOfEveryMode) {
    const auto j =
        json_of(eval("--mode fp32,attention,all,all-but-last --samples 60 --seeds 0..1 --backend hermes "
                     "--calibration-examples 50"));
    EXPECT_EQ(j["task"], "tiny");
    EXPECT_EQ(j["examples"], 60);
    EXPECT_EQ(j["omega"], "drawn");
    EXPECT_EQ(j["backend"], "hermes");
    ASSERT_EQ(j["modes"].size(), 4U);
    for (const auto& mode : j["modes"]) {
        EXPECT_EQ(mode["accuracy"]["values"].size(), 2U);
        EXPECT_GT(mode["loss"]["mean"], 0.5);
        std::uint64_t counted = 0;
        for (const auto& row : mode["confusion"]) {
            for (const std::uint64_t n : row) counted += n;
        }
        EXPECT_EQ(counted, 120U);
        EXPECT_EQ(mode.contains("difference"), mode["mode"] != "fp32");
    }
    const double fp32 = j["modes"][0]["accuracy"]["mean"];
    const double all = j["modes"][2]["accuracy"]["mean"];
    EXPECT_NEAR(j["modes"][2]["difference"]["mean"], all - fp32, 1e-12);
}

TEST_F(EvalCli, OneModeHasItsAccuracyAtTheTop) {
    const auto j = json_of(eval("--samples 40 --part valid --saved-omega"));
    EXPECT_EQ(j["accuracy"], j["modes"][0]["accuracy"]);
    EXPECT_EQ(j["part"], "valid");
    EXPECT_EQ(j["omega"], "saved");
    EXPECT_EQ(j["backend"], "fp32");
    const auto text = run_imka(eval("--samples 40 --mode fp32,all --calibration-examples 50"));
    EXPECT_EQ(text.exit_code, 0) << text.err;
    EXPECT_THAT(text.out, HasSubstr("minus fp32"));
    EXPECT_THAT(text.out, HasSubstr("chip hermes, read 0 s after programming"));
}

TEST_F(EvalCli, DumpsWhatAttentionReads) {
    const auto file = (dir_ / "qkv.npy").string();
    const auto r = run_imka(eval("--samples 40 --dump-qkv '" + file + "' --dump-examples 3"));
    EXPECT_EQ(r.exit_code, 0) << r.err;
    const auto array = read_npy_array(file);
    ASSERT_EQ(array.shape.size(), 4U);
    EXPECT_EQ(array.shape[0], 6U);
    const auto j = json_of("attention --input '" + file + "' --n-directions 16");
    EXPECT_GT(j["output_error"]["mean"], 0.0);
}

TEST_F(EvalCli, RefusesWhatCannotWork) {
    expect_fails(eval("--mode none"), 2, "not a known mode");
    expect_fails(eval("--mode all,all"), 2, "mode all is given twice");
    expect_fails(eval("--task imdb"), 2, "a model for the task 'tiny', not 'imdb'");
    expect_fails(eval("--backend hermes"), 2, "--backend has no effect");
    expect_fails(eval("--dump-examples 3"), 2, "--dump-examples has no effect");
    expect_fails(eval("--dump-qkv x.txt"), 2, "expected a file *.npy");
    expect_fails(eval("--samples 0"), 2, "samples");
    expect_fails(eval("--device cuda:77"), 4, "imka: ");
    expect_fails("eval --checkpoint /none.safetensors", 2, "/none.safetensors");
    write_text(dir_ / "text.safetensors", "not a model");
    expect_fails("eval --checkpoint '" + (dir_ / "text.safetensors").string() + "'", 3, "text.safetensors");
    auto bytes = read_file(model_, 1U << 24U);
    bytes.back() ^= 1;
    write_text(dir_ / "damaged.safetensors", bytes);
    expect_fails("eval --checkpoint '" + (dir_ / "damaged.safetensors").string() + "'", 3, "checksum");
    auto other = load_performer(model_);
    other.task = "imdb";
    other.config.classes = 4;
    save_performer(dir_ / "other.safetensors", other);
    expect_fails("eval --checkpoint '" + (dir_ / "other.safetensors").string() + "' --data-dir '" +
                     dir_.path().string() + "'",
                 4, "imdb");
    other.task = "chess";
    save_performer(dir_ / "other.safetensors", other);
    expect_fails("eval --checkpoint '" + (dir_ / "other.safetensors").string() + "'", 2, "chess");
}

TEST_F(EvalCli, CheckpointsAreDeployedLikeOtherModels) {
    const auto j = json_of("deploy '" + model_.string() + "'");
    EXPECT_EQ(j["cores"], 1);
    const auto described = json_of("run '" + model_.string() + "'");
    EXPECT_EQ(described["matrices"].size(), 16U);
    EXPECT_EQ(described["inputs"][0]["type"], "u8[batch, 64]");
}

}  // namespace
}  // namespace imka
