// imka deploy and imka run of deployed models, from the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

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

json deploy_json(const std::string& command) {
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
        deploy_json("deploy " + model("mlp_opset17.onnx") + " --calibrate " + x + " --output " + plan);
    for (const auto* key :
         {"cores", "lower_bound", "optimal", "chips", "utilisation", "latency_seconds", "energy_joules"})
        EXPECT_TRUE(j.contains(key)) << key;
    EXPECT_EQ(j.at("cores"), 1);
    EXPECT_GE(j.at("latency_seconds"), j.at("latency_bound_seconds"));
    EXPECT_GT(j.at("offloaded_share"), 0.9);
    EXPECT_LT(j.at("offloaded_share"), 1.0);
    const auto run = [&](const std::string& options, const std::string& name) {
        const auto y = (dir / name).string();
        const auto out = deploy_json("run " + plan + " --input " + x + " --output " + y + " " + options);
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
    deploy_json("run " + model("mlp_opset17.onnx") + " --input " + x + " --output " + exact);
    EXPECT_GT(relative_error(y, exact), 1e-3);
    EXPECT_LT(relative_error(y, exact), 0.05);
    const auto once = (dir / "once.npy").string();
    deploy_json("run " + model("mlp_opset17.onnx") + " --backend hermes --calibrate " + x + " --input " + x +
                " --output " + once);
    EXPECT_EQ(imka::read_file(once, 1 << 24), imka::read_file(y, 1 << 24)) << "deployed and run at once";
    EXPECT_THAT(run_imka("run " + plan).out,
                HasSubstr("on hermes: 3 of 3 matrices, 1 core; programmed; chip seed 0"));
    EXPECT_THAT(run_imka("deploy --verify " + plan).out, HasSubstr("verified"));
    EXPECT_EQ(run_imka("deploy --diff " + plan + " " + plan).exit_code, 0);
}

// An option takes one value, so that the model may come after it; the page shows repeated options.
TEST(DeployCli, TakesTheModelLast) {
    IMKA_NEED_ONNX();
    const TempDir dir;
    const auto mlp = model("mlp_opset17.onnx");
    const auto x = write_rows(dir / "x.npy", 20);
    const auto y = (dir / "y.npy").string();
    EXPECT_EQ(deploy_json("deploy --calibrate " + x + " " + mlp).at("state"), "programmed");
    EXPECT_EQ(deploy_json("deploy --chip-set core.rows=64 " + mlp).at("cores"), 1);
    EXPECT_EQ(deploy_json("run --input " + x + " --output " + y + " " + mlp).at("outputs").size(), 1U);
    const auto page = (dir / "p.html").string();
    deploy_json("deploy --chip-set core.rows=64 --chip-set core.cols=32 " + mlp + " --page " + page);
    EXPECT_THAT(imka::read_file(page, 1 << 24),
                HasSubstr("mlp_opset17.onnx --chip-set core.rows=64 --chip-set core.cols=32 --page"));
    EXPECT_EQ(run_imka("deploy " + mlp + " --chip-set core.rows=64 core.cols=32").exit_code, 2);
}

TEST(DeployCli, PlansWithoutAModel) {
    const auto j = deploy_json("deploy --shapes \"640x128 128x128 128x640\"");
    EXPECT_EQ(j.at("cores"), j.at("lower_bound"));
    EXPECT_TRUE(j.at("optimal"));
    EXPECT_GT(j.at("energy_joules"), 0.0);
    EXPECT_EQ(run_imka("deploy --shapes 4096x4096 --chips 1").exit_code, 2);
}

TEST(DeployCli, UsesAGivenMapping) {
    IMKA_NEED_ONNX();
    const TempDir dir;
    const auto x = write_rows(dir / "x.npy", 100);
    const auto mlp = model("mlp_opset17.onnx");
    const auto file = [&](const char* name) { return (dir / name).string(); };
    const auto deploy = "deploy " + mlp + " --chip-set core.cols=10 --calibrate " + x;
    deploy_json(deploy + " --cuts even --mapping " + file("m.json") + " --output " + file("a.plan"));
    const auto bytes = imka::read_file(file("a.plan"), 1 << 24);
    for (const auto* from : {"m.json", "a.plan"}) {
        const auto j = deploy_json(deploy + " --from-mapping " + file(from) + " --output " + file("b.plan"));
        EXPECT_EQ(imka::read_file(file("b.plan"), 1 << 24), bytes) << from;
        EXPECT_EQ(j.at("cuts"), "given");
        EXPECT_TRUE(j.at("objective").is_null());
    }
    const auto given = "deploy " + mlp + " --from-mapping " + file("m.json");
    EXPECT_THAT(run_imka(given + " --on-chip all-but-last").err, HasSubstr("the mapping places a matrix"));
    EXPECT_THAT(run_imka(given + " --cuts free").err, HasSubstr("--cuts has no effect"));
    EXPECT_THAT(run_imka(given + " --pareto").err, HasSubstr("--pareto has no effect"));
    EXPECT_THAT(run_imka("deploy " + mlp + " --from-mapping " + file("a.plan")).err,
                HasSubstr("the mapping is for 64 cores of 256 x 10 per chip"));
    EXPECT_THAT(run_imka("deploy --shapes 3x3 --from-mapping " + file("m.json")).err,
                HasSubstr("--from-mapping has no effect"));
}

TEST(DeployCli, ComparesChips) {
    IMKA_NEED_ONNX();
    const TempDir dir;
    const auto x = write_rows(dir / "x.npy", 60);
    const auto deploy = "deploy " + model("mlp_opset17.onnx") + " --calibrate " + x + " --explain-chips 2 ";
    const auto j = deploy_json(deploy + "--what-if node=14,7 --what-if tiers=1,2");
    ASSERT_EQ(j.at("chips").size(), 4U);
    EXPECT_LT(j.at("chips")[2].at("energy_joules").at("value"),
              j.at("chips")[0].at("energy_joules").at("value"));
    EXPECT_EQ(j.at("chips")[0].at("area_mm2").at("value"), 144.0);
    EXPECT_EQ(j.at("assumptions")[0].at("source").get<std::string>().substr(0, 10), "assumption");
    EXPECT_TRUE(deploy_json(deploy + "--what-if core.adc_noise=1").at("assumptions").empty());
    EXPECT_THAT(run_imka(deploy + "--what-if node=14,7").out,
                testing::AllOf(HasSubstr("mm2 (interval)"), HasSubstr("analog_energy_exponent")));
    EXPECT_THAT(run_imka(deploy + "--what-if node=7 --host-link-rate 1e9").err,
                HasSubstr("--host-link-rate has no effect"));
    EXPECT_THAT(run_imka(deploy + "--what-if node=7 --page " + (dir / "p.html").string() + " --chart-js " +
                         (dir / "none.js").string())
                    .err,
                HasSubstr("the page needs Chart.js"));
    EXPECT_THAT(run_imka(deploy + "--chart-js none.js").err, HasSubstr("--chart-js has no effect"));
}

TEST(DeployCli, SchedulesTheHostLink) {
    IMKA_NEED_ONNX();
    const auto deploy = "deploy " + model("mlp_opset17.onnx");
    const auto without = deploy_json(deploy);
    EXPECT_TRUE(without.at("schedule").at("host_link").is_null());
    const auto slow = deploy_json(deploy + " --host-link-rate 1e6 --host-link-latency 0.001");
    EXPECT_EQ(slow.at("schedule").at("host_link").at("latency_seconds"), 0.001);
    // 12 inputs and 5 outputs of one byte, and the latency each way.
    EXPECT_NEAR(slow.at("latency_seconds").get<double>(),
                without.at("latency_seconds").get<double>() + 17e-6 + 2e-3, 1e-9);
    EXPECT_EQ(
        deploy_json(deploy + " --host-link-rate 1e9").at("schedule").at("host_link").at("latency_seconds"),
        1e-6)
        << "of costs.yaml";
    EXPECT_THAT(run_imka(deploy + " --host-link-rate 1e6 --timeline-text").out, HasSubstr("host link"));
    EXPECT_THAT(run_imka(deploy + " --host-link-latency 1").err, HasSubstr("without --host-link-rate"));
    expect_fails("map --shapes 64x64 --host-link-rate -1", 2, "host_link_rate: -1 is out of range");
    expect_fails("map --shapes 64x64 --host-link-rate 1e6 --host-link-latency -1", 2,
                 "host_link_latency: -1 is out of range");
    EXPECT_EQ(deploy_json("map --shapes 64x64 --host-link-rate 0"), deploy_json("map --shapes 64x64"));
    const auto list = deploy_json("map --shapes 64x64@10 --host-link-rate 1e6");
    EXPECT_GT(list.at("schedule").at("makespan_seconds"), 1e-3);
}

TEST(DeployCli, MapsAndCostsOnASecondChip) {
    const auto map = deploy_json("map --network resnet32-cifar --backend neurram");
    EXPECT_EQ(map.at("backend"), "neurram");
    EXPECT_GT(map.at("energy_joules"), 0.0);
    const auto cost = deploy_json("cost --shapes 256x256@10 --backend neurram");
    ASSERT_EQ(cost.at("cases").size(), 2U) << "one read mode, one copy and filled";
    EXPECT_EQ(cost.at("cases")[0].at("read_mode"), "one_phase");
    EXPECT_TRUE(cost.at("cases")[0].at("area_mm2").is_null());
    const auto paper = deploy_json("cost paper");
    EXPECT_LT(paper.at("neurram_median_tops_error"), 0.1);
    EXPECT_NEAR(paper.at("neurram_preset").at("model_tops"), 0.744, 0.02);
}

// The aim is 10 %; fewest cores take at least twenty times as long.
TEST(DeployCli, LeastTimeOfTrainedPerformersIsNearItsBound) {
    for (const auto* name : {"cifar10-vanilla", "cifar10_relu-hwa", "imdb-hwa", "listops-vanilla"}) {
        const auto deploy = "deploy '" + source_dir() + "/models/" + name + ".safetensors'";
        const auto fast = deploy_json(deploy + " --objective least_time");
        const double seconds = fast.at("latency_seconds");
        EXPECT_GE(seconds, fast.at("latency_bound_seconds")) << name;
        EXPECT_LE(seconds, 1.1 * fast.at("latency_bound_seconds").get<double>()) << name;
        EXPECT_GT(deploy_json(deploy).at("latency_seconds"), 20.0 * seconds) << name;
    }
}

TEST(DeployCli, ExplainsTheError) {
    IMKA_NEED_ONNX();
    const TempDir dir;
    const auto x = write_rows(dir / "x.npy", 100);
    const auto j = deploy_json("deploy " + model("mlp_opset17.onnx") + " --calibrate " + x +
                               " --calibration-inputs 80 --explain --explain-chips 2 --at 1d");
    const auto& error = j.at("error");
    double sum = 0.0;
    for (const auto& m : error.at("matrices")) sum += m.at("added_squared").at("mean").get<double>();
    EXPECT_NEAR(sum, error.at("squared_error").at("mean"), 1e-9);
    EXPECT_GT(error.at("causes").size(), 5U);
    EXPECT_EQ(j.at("state"), "aged");
    EXPECT_EQ(error.at("inferences"), 20) << "those that were not used for calibration";
    EXPECT_FALSE(error.at("inferences_of_calibration"));
    EXPECT_THAT(run_imka("deploy " + model("mlp_opset17.onnx") + " --calibrate " + x +
                         " --explain --explain-chips 1 --explain-inputs 7")
                    .out,
                HasSubstr("over 1 chip and 7 inferences of the calibration\n"));
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
    const auto svg = (dir / "floor.svg").string();
    EXPECT_THAT(message("deploy " + mlp + " --calibrate " + wrong + " --svg " + svg),
                HasSubstr("input 'x' is f32[batch, 12]; it cannot have shape 10x13"));
    EXPECT_FALSE(std::filesystem::exists(svg)) << "written before the error";
    EXPECT_THAT(message("deploy " + mlp + " --input-shape 1x13"), HasSubstr("it cannot have shape 1x13"));
    EXPECT_THAT(message("deploy " + mlp + " --input-shape 1x12x1"), HasSubstr("cannot have shape 1x12x1"));
    EXPECT_THAT(message("deploy " + mlp + " --output " + plan), HasSubstr("--calibrate"));
    EXPECT_THAT(message("deploy " + mlp + " --on-chip nothing"), HasSubstr("no matrix or node 'nothing'"));
    EXPECT_THAT(message("deploy " + mlp + " --shapes 3x3"), HasSubstr("expected a model, or one of"));
    EXPECT_THAT(message("deploy"), HasSubstr("expected a model"));
    EXPECT_THAT(message("deploy --shapes 3x3 --calibrate " + x), HasSubstr("--calibrate has no effect"));
    EXPECT_THAT(message("deploy --verify " + x + " --cuts free"), HasSubstr("--cuts has no effect"));
    EXPECT_THAT(message("deploy " + mlp + " --pareto --svg f.svg"), HasSubstr("--svg has no effect"));
    EXPECT_THAT(message("deploy " + mlp + " --figure f.svg"), HasSubstr("--figure has no effect"));
    EXPECT_THAT(message("deploy " + mlp + " --at 1d"),
                HasSubstr("--at has no effect: nothing is programmed"));
    EXPECT_THAT(message("deploy " + mlp + " --explain --at 1d"), HasSubstr("add --calibrate"));
    EXPECT_THAT(message("deploy " + mlp + " --calibrate " + x + " --explain-chips 2"),
                HasSubstr("only --explain and --what-if need it"));
    EXPECT_THAT(message("deploy " + mlp + " --calibrate " + x + " --device cuda"),
                HasSubstr("only --explain and --what-if need it"));
    for (const auto* needs : {" --explain --svg ", " --what-if node=14,7 --figure "}) {
        EXPECT_EQ(
            run_imka("deploy " + mlp + " --calibrate " + x + needs + svg + " --device cuda:77").exit_code, 4);
        EXPECT_FALSE(std::filesystem::exists(svg)) << "written before the error";
    }
    ASSERT_EQ(run_imka("deploy " + mlp + " --calibrate " + x + " --output " + plan).exit_code, 0);
    EXPECT_THAT(message("run " + plan + " --backend ideal"), HasSubstr("--backend has no effect"));
    EXPECT_THAT(message("cost " + plan + " --backend ideal"), HasSubstr("--backend has no effect"));
    EXPECT_THAT(message("cost " + plan + " --divisions 3"), HasSubstr("--divisions has no effect"));
    EXPECT_THAT(message("cost " + mlp), HasSubstr("'imka deploy " + mlp + "' shows the cost of a model"));
    EXPECT_THAT(message("deploy " + plan), HasSubstr("is already deployed"));
    const auto renamed = (dir / "a.bin").string();
    EXPECT_THAT(message("deploy " + mlp + " --calibrate " + x + " --output " + renamed),
                HasSubstr("expected a name that ends with .plan"));
    std::filesystem::copy_file(plan, renamed);
    EXPECT_THAT(message("run " + renamed), HasSubstr("is a deployed model; its name must end with .plan"));
    EXPECT_THAT(message("run " + plan + " --input " + x + " --output z=y.npy"),
                HasSubstr("expected y=FILE.npy or FILE.npy"));
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
    const auto file = (dir / "ridge.imka").string();  // any name
    ASSERT_EQ(run_imka("ridge --dataset ringnorm --kernel rbf --log-ratio 3 --save " + file).exit_code, 0);
    const auto x = write_rows(dir / "x.npy", 300, 20);
    const auto plan = (dir / "ridge.plan").string();
    const auto j =
        deploy_json("deploy " + file + " --on-chip projection --calibrate " + x + " --output " + plan);
    EXPECT_EQ(j.at("matrices"), 1);
    const auto scores = (dir / "s.npy").string();
    const auto classes = (dir / "c.npy").string();
    const auto run = deploy_json("run " + plan + " --input " + x + " --output scores=" + scores +
                                 " --output class=" + classes);
    EXPECT_EQ(run.at("outputs")[1].at("type"), "i64");
}

// Lines of a CSV file after its header: the last column, and the others as floats.
struct Table {
    imka::graph::Tensor rows;
    std::vector<std::string> labels;
};
Table read_table(const std::string& file) {
    Table table;
    std::vector<float> values;
    std::ifstream in(file);
    std::string line;
    std::getline(in, line);
    while (std::getline(in, line)) {
        std::istringstream fields(line);
        std::string field;
        while (std::getline(fields, field, ',') && !fields.eof()) values.push_back(std::stof(field));
        table.labels.push_back(field);
    }
    const auto rows = static_cast<std::int64_t>(table.labels.size());
    table.rows =
        imka::graph::make_tensor<float>({rows, static_cast<std::int64_t>(values.size()) / rows}, values);
    return table;
}

// The rows of the training part calibrate the chip of both commands.
TEST(DeployCli, ARidgeModelClassifiesAsOnTheChipOfImkaRidge) {
    const TempDir dir;
    const auto file = [&](const char* name) { return (dir / name).string(); };
    ASSERT_EQ(
        run_imka("data export ringnorm --raw --train-rows 1500 --output " + file("train.csv")).exit_code, 0);
    ASSERT_EQ(run_imka("data export ringnorm --raw --part test --output " + file("test.csv")).exit_code, 0);
    const auto ridge = deploy_json(
        "ridge --dataset " + file("train.csv") + ":" + file("test.csv") +
        " --label-column label --kernel rbf --n-components 640 --seed 4 --backend hermes --save " +
        file("ridge.imka"));
    const auto test = read_table(file("test.csv"));
    imka::graph::write_tensor(file("train.npy"), read_table(file("train.csv")).rows);
    imka::graph::write_tensor(file("test.npy"), test.rows);
    deploy_json("deploy " + file("ridge.imka") + " --on-chip projection --cuts even --seed 4 --calibrate " +
                file("train.npy") + " --output " + file("ridge.plan"));
    deploy_json("run " + file("ridge.plan") + " --seed 4 --input " + file("test.npy") +
                " --output scores=" + file("scores.npy") + " --output class=" + file("class.npy"));
    const auto classes =
        imka::graph::read_tensor(file("class.npy"), {.name = "class", .type = {.type = DType::i64}});
    const std::set<std::string> names(test.labels.begin(), test.labels.end());
    std::size_t right = 0;
    for (std::size_t r = 0; r < test.labels.size(); ++r)
        right += *std::next(names.begin(), classes.values<std::int64_t>()[r]) == test.labels[r] ? 1 : 0;
    EXPECT_EQ(static_cast<double>(right) / static_cast<double>(test.labels.size()),
              ridge.at("accuracy").at("values")[0]);
}

}  // namespace
