// imka run from the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "imka/graph/onnx_import.hpp"
#include "imka/graph/tensor_file.hpp"
#include "imka/io/npy.hpp"
#include "support/command.hpp"
#include "support/onnx.hpp"
#include "support/paths.hpp"
#include "support/temp_dir.hpp"

namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string model(const std::string& name) {
    return (std::filesystem::path(source_dir()) / "tests/models" / name).string();
}

imka::graph::Tensor stored(const std::string& name) {
    return imka::graph::load_onnx_tensor(model(name));
}

TEST(RunCli, GivesTheOutputsOfPyTorch) {
    IMKA_NEED_ONNX();
    const TempDir dir;
    const auto x = (dir / "x.npy").string();
    const auto y = (dir / "y.npy").string();
    imka::graph::write_tensor(x, stored("cnn_opset17_input_0.pb"));
    const auto r =
        run_imka("run " + model("cnn_opset17.onnx") + " --input " + x + " --output " + y + " --json");
    ASSERT_EQ(r.exit_code, 0) << r.err;
    const auto j = json::parse(r.out);
    EXPECT_EQ(j.at("outputs").size(), 1U);
    EXPECT_GT(j.at("peak_bytes"), 0);
    const auto expected = stored("cnn_opset17_output_0.pb");
    const auto got = imka::graph::read_tensor(y, {.name = "y", .type = {.type = expected.type}});
    ASSERT_EQ(got.shape, expected.shape);
    for (std::size_t i = 0; i < expected.values<float>().size(); ++i)
        EXPECT_NEAR(got.values<float>()[i], expected.values<float>()[i], 1e-5);
}

TEST(RunCli, DescribesAModel) {
    IMKA_NEED_ONNX();
    const auto text = run_imka("run " + model("mlp_opset13.onnx")).out;
    EXPECT_THAT(text, HasSubstr("matrix that can be placed on a chip"));
    const auto j = json::parse(run_imka("run " + model("encoder_opset17.onnx") + " --json").out);
    EXPECT_EQ(j.at("inputs").size(), 1U);
    EXPECT_GE(j.at("matrices").size(), 4U);
}

TEST(RunCli, RefusesWhatDoesNotFit) {
    IMKA_NEED_ONNX();
    const TempDir dir;
    const auto x = (dir / "x.npy").string();
    const auto y = (dir / "y.npy").string();
    const auto command = "run " + model("mlp_opset13.onnx") + " --output " + y;
    imka::write_npy_array(x, {.type = "f4", .shape = {2, 3}, .bytes = std::vector<char>(24)});
    expect_fails(command + " --input " + x, 3, "");
    EXPECT_FALSE(std::filesystem::exists(y));
    expect_fails(command, 2, "--input");
    expect_fails(command + " --input nowhere.npy", 3, "nowhere.npy");
    expect_fails("run " + x, 3, "x.npy");
    expect_fails("run " + model("mlp_opset13.onnx") + " --device cuda", 2, "--device has no effect");
    expect_fails("run " + model("mlp_opset13.onnx") + " --device gpu", 2, "expected cpu, cuda or cuda:N");
    const auto tokens = (dir / "t.npy").string();
    imka::write_npy_array(tokens, {.type = "f4", .shape = {1, 2}, .bytes = std::vector<char>(8)});
    expect_fails("run " + model("encoder_opset17.onnx") + " --output " + y + " --input " + tokens, 3,
                 "f32 values");
}

}  // namespace
