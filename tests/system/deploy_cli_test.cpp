// imka deploy and imka run of deployed models, from the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "imka/base/file.hpp"
#include "imka/base/random.hpp"
#include "imka/graph/tensor_file.hpp"
#include "support/command.hpp"
#include "support/onnx.hpp"
#include "support/paths.hpp"
#include "support/temp_dir.hpp"

namespace {

using imka::graph::DType;
using imka::graph::Tensor;
using nlohmann::json;
using testing::HasSubstr;

std::string model(const std::string& name) {
    return (std::filesystem::path(source_dir()) / "tests/models" / name).string();
}

// Normal inputs for the MLP: 12 per row.
std::string write_rows(const std::filesystem::path& file, std::int64_t rows, std::int64_t width = 12) {
    Tensor x(DType::f32, {rows, width});
    imka::fill_normal(7, imka::Stream::test, 0, x.values<float>());
    imka::graph::write_tensor(file, x);
    return file.string();
}

json run_json(const std::string& command) {
    const auto r = run_imka(command + " --json --quiet");
    EXPECT_EQ(r.exit_code, 0) << command << "\n" << r.err;
    return json::parse(r.out);
}

double relative_error(const std::string& a, const std::string& b) {
    const imka::graph::Value value{.name = "y", .type = {.type = DType::f32}};
    const auto x = imka::graph::read_tensor(a, value);
    const auto y = imka::graph::read_tensor(b, value);
    EXPECT_EQ(x.shape, y.shape);
    double difference = 0.0;
    double norm = 0.0;
    for (std::size_t i = 0; i < x.values<float>().size(); ++i) {
        difference += std::pow(double{x.values<float>()[i]} - y.values<float>()[i], 2.0);
        norm += std::pow(double{y.values<float>()[i]}, 2.0);
    }
    return std::sqrt(difference / norm);
}

TEST(DeployCli, CompilesRunsRecordsAndReplays) {
    IMKA_NEED_ONNX();
    const TempDir dir;
    const auto x = write_rows(dir / "x.npy", 400);
    const auto plan = (dir / "mlp.plan").string();
    const auto j =
        run_json("deploy " + model("mlp_opset17.onnx") + " --calibrate " + x + " --output " + plan);
    for (const auto* key :
         {"cores", "lower_bound", "optimal", "chips", "utilisation", "latency_seconds", "energy_joules"})
        EXPECT_TRUE(j.contains(key)) << key;
    EXPECT_EQ(j.at("cores"), 1);
    EXPECT_GE(j.at("latency_seconds"), j.at("latency_bound_seconds"));
    EXPECT_GT(j.at("offloaded_share"), 0.9);
    EXPECT_LT(j.at("offloaded_share"), 1.0);
    const auto run = [&](const std::string& options, const std::string& name) {
        const auto y = (dir / name).string();
        const auto out = run_json("run " + plan + " --input " + x + " --output " + y + " " + options);
        EXPECT_GT(out.at("trace").at("conversions"), 0);
        EXPECT_EQ(out.at("trace").at("multiply_adds"), 400 * (12 * 24 + 24 * 16 + 16 * 5));
        EXPECT_EQ(out.at("trace").at("digital").at("exponentials"), 400 * 5);
        EXPECT_NEAR(out.at("offloaded_share"), j.at("offloaded_share"), 1e-12);
        EXPECT_GT(out.at("seconds"), 0.0);
        EXPECT_EQ(out.at("read_seconds"), 0.0);
        return y;
    };
    const auto record = (dir / "run.rec").string();
    const auto y = run("--record " + record, "y.npy");
    EXPECT_EQ(imka::read_file(run("", "again.npy"), 1 << 24), imka::read_file(y, 1 << 24));
    EXPECT_EQ(imka::read_file(run("--replay " + record, "replay.npy"), 1 << 24), imka::read_file(y, 1 << 24));
    EXPECT_NE(imka::read_file(run("--seed 4", "seed.npy"), 1 << 24), imka::read_file(y, 1 << 24));
    EXPECT_NE(imka::read_file(run("--chip-seed 4", "chip.npy"), 1 << 24), imka::read_file(y, 1 << 24));
    const auto exact = (dir / "exact.npy").string();
    run_json("run " + model("mlp_opset17.onnx") + " --input " + x + " --output " + exact);
    EXPECT_GT(relative_error(y, exact), 1e-3);
    EXPECT_LT(relative_error(y, exact), 0.05);
    const auto once = (dir / "once.npy").string();
    run_json("run " + model("mlp_opset17.onnx") + " --backend hermes --calibrate " + x + " --input " + x +
             " --output " + once);
    EXPECT_EQ(imka::read_file(once, 1 << 24), imka::read_file(y, 1 << 24)) << "deployed and run at once";
    EXPECT_THAT(run_imka("run " + plan).out, HasSubstr("on hermes: 3 of 3 matrices, 1 cores"));
    EXPECT_THAT(run_imka("deploy --verify " + plan).out, HasSubstr("verified"));
    EXPECT_EQ(run_imka("deploy --diff " + plan + " " + plan).exit_code, 0);
}

TEST(DeployCli, PlansWithoutAModel) {
    const auto j = run_json("deploy --shapes \"640x128 128x128 128x640\"");
    EXPECT_EQ(j.at("cores"), j.at("lower_bound"));
    EXPECT_TRUE(j.at("optimal"));
    EXPECT_GT(j.at("energy_joules"), 0.0);
    EXPECT_EQ(run_imka("deploy --shapes 4096x4096 --chips 1").exit_code, 2);
}

TEST(DeployCli, ExplainsTheError) {
    IMKA_NEED_ONNX();
    const TempDir dir;
    const auto x = write_rows(dir / "x.npy", 100);
    const auto j = run_json("deploy " + model("mlp_opset17.onnx") + " --calibrate " + x +
                            " --calibration-inputs 80 --explain --explain-chips 2 --at 1d");
    const auto& error = j.at("error");
    double sum = 0.0;
    for (const auto& m : error.at("matrices")) sum += m.at("added_squared").at("mean").get<double>();
    EXPECT_NEAR(sum, error.at("squared_error").at("mean"), 1e-9);
    EXPECT_GT(error.at("causes").size(), 5U);
    EXPECT_EQ(j.at("state"), "aged");
}

TEST(DeployCli, RefusesWhatDoesNotFit) {
    IMKA_NEED_ONNX();
    const TempDir dir;
    const auto message = [](const std::string& command) {
        const auto r = run_imka(command);
        EXPECT_NE(r.exit_code, 0) << command;
        return r.err;
    };
    const auto mlp = model("mlp_opset17.onnx");
    const auto wrong = write_rows(dir / "wrong.npy", 10, 13);
    const auto x = write_rows(dir / "x.npy", 10);
    const auto plan = (dir / "a.plan").string();
    EXPECT_THAT(message("deploy " + mlp + " --calibrate " + wrong), HasSubstr("x"));
    EXPECT_THAT(message("deploy " + mlp + " --output " + plan), HasSubstr("--calibrate"));
    EXPECT_THAT(message("deploy " + mlp + " --on-chip nothing"), HasSubstr("no matrix or node 'nothing'"));
    EXPECT_THAT(message("deploy " + mlp + " --shapes 3x3"), HasSubstr("expected a model, or one of"));
    EXPECT_THAT(message("deploy"), HasSubstr("expected a model"));
    EXPECT_THAT(message("deploy --shapes 3x3 --calibrate " + x), HasSubstr("--calibrate has no effect"));
    EXPECT_THAT(message("deploy --verify " + x + " --cuts free"), HasSubstr("--cuts has no effect"));
    EXPECT_THAT(message("deploy " + mlp + " --pareto --svg f.svg"), HasSubstr("--svg has no effect"));
    EXPECT_THAT(message("deploy " + mlp + " --figure f.svg"), HasSubstr("--figure has no effect"));
    ASSERT_EQ(run_imka("deploy " + mlp + " --calibrate " + x + " --output " + plan).exit_code, 0);
    EXPECT_THAT(message("run " + plan + " --backend ideal"), HasSubstr("--backend has no effect"));
    EXPECT_THAT(message("run " + mlp + " --seed 3"), HasSubstr("--seed has no effect"));
    EXPECT_THAT(
        message("run " + mlp + " --backend hermes --input " + x + " --output " + (dir / "y.npy").string()),
        HasSubstr("add --calibrate"));
    auto bytes = imka::read_file(plan, 1 << 24);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    std::ofstream(plan, std::ios::binary) << bytes;
    EXPECT_THAT(message("run " + plan), HasSubstr("checksum mismatch"));
    EXPECT_FALSE(std::filesystem::exists(dir / "y.npy"));
}

TEST(DeployCli, DeploysARidgeModel) {
    const TempDir dir;
    const auto file = (dir / "ridge.safetensors").string();
    ASSERT_EQ(run_imka("ridge --dataset ringnorm --kernel rbf --log-ratio 3 --save " + file).exit_code, 0);
    const auto x = write_rows(dir / "x.npy", 300, 20);
    const auto plan = (dir / "ridge.plan").string();
    const auto j =
        run_json("deploy " + file + " --on-chip projection --calibrate " + x + " --output " + plan);
    EXPECT_EQ(j.at("matrices"), 1);
    const auto scores = (dir / "s.npy").string();
    const auto classes = (dir / "c.npy").string();
    const auto run = run_json("run " + plan + " --input " + x + " --output scores=" + scores +
                              " --output class=" + classes);
    EXPECT_EQ(run.at("outputs")[1].at("type"), "i64");
}

}  // namespace
