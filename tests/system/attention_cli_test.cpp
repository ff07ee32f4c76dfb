// imka attention as a command: results, aliases, pictures, options without effect, sizes that do not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "imka/base/file.hpp"
#include "support/command.hpp"
#include "support/temp_dir.hpp"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

const std::string kSmallAttention = "attention --length 64 --head-dim 8 --n-directions 16";

TEST(AttentionCommand, PrintsErrorsOverSeeds) {
    const auto j = json_of(kSmallAttention + " --sampler orf --norms sqrt --seeds 0..6");
    for (const auto* name : {"output_mse", "output_error", "matrix_error"}) {
        EXPECT_EQ(j.at(name).at("values").size(), 7U) << name;
        EXPECT_GT(j.at(name).at("mean"), 0.0) << name;
        EXPECT_GT(j.at(name).at("std"), 0.0) << name;
    }
    EXPECT_EQ(j.at("m"), 16);
    EXPECT_EQ(j.at("D"), 32);
    EXPECT_EQ(j.at("length"), 64);
    EXPECT_EQ(j.at("norms"), "sqrt");
    EXPECT_FALSE(j.contains("offload"));
    const auto text = run_imka(kSmallAttention + " --sampler orf --norms sqrt --seeds 0..6").out;
    EXPECT_THAT(text, AllOf(HasSubstr("16 directions by orf with sqrt norms"), HasSubstr("7 seeds; median")));
}

TEST(AttentionCommand, PrintsTheShareOfTheChip) {
    const auto j = json_of(kSmallAttention + " --backend hermes --form relu");
    // 2 d m (L + L) of all: relu has one feature per direction.
    const double chip = 2.0 * 8 * 16 * 128;
    const double digital = (16 + 16) * 128 + 2.0 * 16 * 9 * 128 + 8 * 64;
    EXPECT_NEAR(j.at("offload").at("share"), chip / (chip + digital), 1e-12);
    EXPECT_EQ(j.at("offload").at("core_products"), 128);
    EXPECT_EQ(j.at("chip").at("name"), "hermes");
    EXPECT_THAT(run_imka(kSmallAttention + " --backend hermes").out, HasSubstr("operations on the chip"));
}

TEST(AttentionCommand, AcceptsTheWordsOfPerformerLibraries) {
    const auto a = json_of("attention --length 64 --head-dim 8 --nb-features 16 --kernel-epsilon 0.001");
    const auto b = json_of(kSmallAttention + " --kernel-epsilon 0.001");
    EXPECT_EQ(a.at("output_mse"), b.at("output_mse"));
    EXPECT_NE(a.at("output_mse"), json_of(kSmallAttention).at("output_mse"));
    (void)json_of(kSmallAttention + " --sequences 2 --feature-redraw-interval 1");
    expect_fails(kSmallAttention + " --nb-features 8", 2, "--nb-features");
}

TEST(AttentionCommand, WritesPictures) {
    const TempDir dir;
    const auto path = dir.path() / "maps.svg";
    const auto r =
        run_imka(kSmallAttention + " --dataset text --backend hermes --heat-map '" + path.string() + "'");
    ASSERT_EQ(r.exit_code, 0) << r.err;
    const auto svg = imka::read_file(path, 1U << 24U);
    EXPECT_THAT(svg,
                AllOf(HasSubstr(">exact<"), HasSubstr(">FP32<"), HasSubstr(">hermes<"), HasSubstr("</svg>")));
    expect_fails(kSmallAttention + " --heat-map a.gif", 2, "expected a file *.svg");
}

TEST(AttentionCommand, WritesADeployedLayer) {
    const TempDir dir;
    const auto plan = " '" + (dir.path() / "layer.plan").string() + "'";
    const auto r = run_imka(kSmallAttention + " --backend hermes --plan" + plan);
    ASSERT_EQ(r.exit_code, 0) << r.err;
    EXPECT_THAT(r.out, HasSubstr("deployed layer in"));
    const auto described = run_imka("run" + plan);
    ASSERT_EQ(described.exit_code, 0) << described.err;
    EXPECT_THAT(described.out, AllOf(HasSubstr("omega"), HasSubstr("on hermes: 1 of 1 matrix, 1 core")));
    expect_fails(kSmallAttention + " --plan" + plan, 2, "expected a chip as --backend");
}

TEST(AttentionCommand, RefusesWhatHasNoEffectOrNoRoom) {
    expect_fails(kSmallAttention + " --sampler rff --norms chi", 2, "--norms has no effect");
    expect_fails(kSmallAttention + " --at 1h", 2, "--at has no effect");
    expect_fails("attention --length 1000000000 --head-dim 8192", 2, "GB");
    expect_fails(kSmallAttention + " --form offset_cos", 2, "form");
    expect_fails(kSmallAttention + " --form cos_sin --kernel-epsilon 0.1", 2, "kernel_epsilon");
    expect_fails(kSmallAttention + " --dataset ringnorm", 2, "neither normal, text nor a file");
    expect_fails(kSmallAttention + " --device gpu", 2, "expected cpu, cuda or cuda:N");
    expect_fails(kSmallAttention + " --device cuda:77", 4, "imka: ");
    expect_fails("gram --set length=3", 2, "length");
}

TEST(AttentionCommand, IsRepeatedByTheCommandOfAReport) {
    const TempDir dir;
    imka::write_file_atomic(dir.path() / "e.yaml",
                            "name: e\nkind: attention\nbase: {head_dim: 8, length: 64}\n"
                            "grid: {n_directions: [8, 16], backend: [fp32, hermes], seeds: 0..1}\n");
    const auto at = [&](const std::string& name) { return " '" + (dir.path() / name).string() + "'"; };
    ASSERT_EQ(run_imka("sweep" + at("e.yaml") + " --output" + at("runs")).exit_code, 0);
    const auto r = run_imka("report" + at("runs") + " --json --output" + at("page.html"));
    ASSERT_EQ(r.exit_code, 0) << r.err;
    const auto section = json::parse(r.out).at("experiments").at(0);
    EXPECT_EQ(section.at("attention").size(), 3U) << "output MSE, output error, matrix error";
    EXPECT_EQ(section.at("heat_maps").at(0).at("maps").size(), 3U);
    EXPECT_THAT(imka::read_file(dir.path() / "page.html", 1U << 26U), HasSubstr("heat_maps"));
}

}  // namespace
