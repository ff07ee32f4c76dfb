// Models on a chip: choice of matrices, batches, calibration, noise, errors, files.
#include "imka/deploy/deployed_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "../../fuzz/feed_plan.hpp"
#include "deploy/models.hpp"
#include "imka/base/file.hpp"
#include "imka/chip/simulate/emulator.hpp"
#include "imka/chip/spec/chip.hpp"
#include "imka/deploy/map_verify.hpp"
#include "imka/deploy/model_calibration.hpp"
#include "imka/deploy/model_error.hpp"
#include "imka/deploy/on_chip.hpp"
#include "imka/deploy/plan_file.hpp"
#include "imka/deploy/recording.hpp"
#include "imka/graph/onnx_import.hpp"
#include "imka/graph/static_matrices.hpp"
#include "imka/io/sealed_tensors.hpp"
#include "support/error.hpp"
#include "support/fuzz_seeds.hpp"
#include "support/onnx.hpp"
#include "support/paths.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using graph::Graph;
using graph::Tensor;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

const Exec kExec{.threads = 2};

DeployedModel deployed(const Graph& graph, const std::string& chip = "hermes", const BuildConfig& build = {},
                       std::uint64_t seed = 7) {
    const auto spec = chip_preset(chip);
    return deploy(place_model(graph, spec, {}), spec, build, inputs_of(graph, 300, 11), seed, kExec);
}

std::vector<Tensor> run_on(const DeployedModel& model, std::span<const Tensor> inputs,
                           std::uint64_t seed = 3) {
    const auto driver = make_emulator(model.chip, Simulator::fast, kExec);
    return run_model(model, *driver, inputs, seed, kExec).outputs;
}

std::vector<Tensor> run_digital(const Graph& graph, std::span<const Tensor> inputs) {
    return run_batches({.graph = graph, .matrices = {}, .inputs = inputs}, nullptr, kExec);
}

double relative_error(const Tensor& a, const Tensor& b) {
    double difference = 0.0;
    double norm = 0.0;
    for (std::size_t i = 0; i < a.values<float>().size(); ++i) {
        difference += std::pow(double{a.values<float>()[i]} - b.values<float>()[i], 2.0);
        norm += std::pow(double{b.values<float>()[i]}, 2.0);
    }
    return std::sqrt(difference / norm);
}

TEST(OnChip, ChoosesMatrices) {
    const auto graph = small_network();
    EXPECT_THAT(choose_matrices(graph, "all"), ElementsAre("w1", "w2", "w3"));
    EXPECT_THAT(choose_matrices(graph, "all-but-last"), ElementsAre("w1", "w2"));
    EXPECT_THAT(choose_matrices(graph, "w3,node_h1"), ElementsAre("w1", "w3")) << "names of nodes work too";
    EXPECT_THAT(choose_matrices(small_cnn(), "k"), ElementsAre("k.g0", "k.g1"));
    EXPECT_THAT(error_of([&] { (void)choose_matrices(graph, "w4"); }),
                HasSubstr("no matrix or node 'w4'; matrices of the model: w1, w2, w3"));
    EXPECT_THAT(error_of([&] { (void)choose_matrices(graph, "projection"); }), HasSubstr("no matrix fits"));
    graph::GraphBuilder b;
    b.input("x", {{2}}).node("Relu", {"x"}, {"y"});
    EXPECT_THAT(error_of([&] { (void)choose_matrices(b.build("y"), "all"); }), HasSubstr("no matrix"));
}

TEST(OnChip, ListsSizesAndVectors) {
    const auto cnn = with_one_inference(small_cnn(), {});
    const auto list = matrix_list(cnn, choose_matrices(cnn, "all"));
    ASSERT_EQ(list.size(), 3U);
    EXPECT_EQ(list[0], (ListedMatrix{"k.g0", 18, 3, 1, 16}));
    EXPECT_EQ(list[2], (ListedMatrix{"w", 96, 3, 1, 1}));
    const auto net = with_one_inference(small_network(), {});
    EXPECT_EQ(matrix_list(net, choose_matrices(net, "w2"))[0].calls, 2U) << "placed once, used twice";
}

TEST(OnChip, NamesASizeThatIsNotKnown) {
    graph::GraphBuilder b;
    b.input("tokens", {{graph::Dim::kUnknown, "batch"}, {graph::Dim::kUnknown, "length"}, {3}})
        .constant("w", graph::random_tensor({3, 2}, 1))
        .node("MatMul", {"tokens", "w"}, {"y"});
    const auto graph = b.build("y");
    EXPECT_THAT(error_of([&] { (void)with_one_inference(graph, {}); }),
                HasSubstr("input 'tokens' is f32[batch, length, 3]: the size of axis 1 is unknown"));
    const auto one = with_one_inference(graph, {{64, 9, 3}});
    EXPECT_EQ(matrix_list(one, std::vector<std::string>{"w"})[0].vectors, 9U);
}

TEST(Batches, AGraphOfAFixedBatchGivesTheSameResults) {
    const auto free = small_network();
    const auto fixed = small_network(8);
    for (const std::int64_t inferences : {1, 8, 21}) {
        const auto inputs = inputs_of(free, inferences, 5);
        EXPECT_EQ(run_digital(free, inputs)[0], run_digital(fixed, inputs)[0]) << inferences;
    }
}

TEST(Batches, NoiseDoesNotDependOnTheBatch) {
    const auto model = deployed(small_network());
    auto fixed = model;
    fixed.graph = small_network(8);
    const auto inputs = inputs_of(model.graph, 21, 5);
    EXPECT_EQ(run_on(model, inputs)[0], run_on(fixed, inputs)[0]);
    EXPECT_NE(run_on(model, inputs, 3)[0], run_on(model, inputs, 4)[0]) << "another seed is other noise";
}

TEST(Batches, RefusesInputsThatDoNotFit) {
    const auto graph = small_network();
    const std::vector<Tensor> wide{graph::random_tensor({4, 21}, 1)};
    EXPECT_THAT(error_of([&] { (void)run_digital(graph, wide); }), HasSubstr("cannot have shape 4x21"));
    const std::vector<Tensor> none{graph::random_tensor({0, 20}, 1)};
    EXPECT_THAT(error_of([&] { (void)run_digital(graph, none); }), HasSubstr("holds no inference"));
    EXPECT_THAT(error_of([&] { (void)run_digital(graph, {}); }), HasSubstr("has 1 inputs, got 0"));
}

// On a chip whose only error is that of 8-bit inputs and outputs, outputs differ from FP32 by a few steps.
TEST(DeployedModel, AnIdealChipIsFp32UpToIntegerSteps) {
    for (const auto& graph : {small_network(), small_cnn()}) {
        const auto model = deployed(graph, "ideal");
        const auto inputs = inputs_of(graph, 50, 12);
        EXPECT_LT(relative_error(run_on(model, inputs)[0], run_digital(graph, inputs)[0]), 0.02);
    }
}

TEST(DeployedModel, HermesIsNoisyButRight) {
    const auto graph = small_network();
    const auto inputs = inputs_of(graph, 50, 12);
    const auto error = relative_error(run_on(deployed(graph), inputs)[0], run_digital(graph, inputs)[0]);
    EXPECT_GT(error, 0.01);
    EXPECT_LT(error, 0.2);
}

TEST(DeployedModel, SharedWeightsHaveOnePlaceAndNoiseOfTheirOwn) {
    const auto model = deployed(small_network());
    EXPECT_EQ(model.chip.plan.matrices.size(), 3U);
    const auto driver = make_emulator(model.chip, Simulator::fast, kExec);
    ChipHook hook(*driver, 3);
    Matrix<float> x(1, 12);
    x(0, 0) = 0.5F;
    Matrix<float> first(1, 12);
    Matrix<float> second(1, 12);
    hook.multiply({.matrix = 1, .use = 0, .first_row = 0}, x.view(), kExec, first.view());
    hook.multiply({.matrix = 1, .use = 1, .first_row = 0}, x.view(), kExec, second.view());
    EXPECT_FALSE(first == second);
}

TEST(DeployedModel, IsTheSameForTheSameSeed) {
    const auto graph = small_network();
    const auto inputs = inputs_of(graph, 9, 12);
    EXPECT_EQ(run_on(deployed(graph), inputs)[0], run_on(deployed(graph), inputs)[0]);
    EXPECT_NE(run_on(deployed(graph, "hermes", {}, 8), inputs)[0], run_on(deployed(graph), inputs)[0]);
    const auto model = deployed(graph);
    const auto again = rebuilt(model, {model.chip.plan.spec, model.build, 8}, kExec);
    EXPECT_NE(run_on(again, inputs)[0], run_on(model, inputs)[0]);
    const auto same = rebuilt(model, {model.chip.plan.spec, model.build, 7}, kExec);
    EXPECT_LT(relative_error(run_on(same, inputs)[0], run_on(model, inputs)[0]), 0.05);
}

TEST(DeployedModel, AChipThatIsReadLaterHasALargerError) {
    const auto graph = small_network();
    const auto inputs = inputs_of(graph, 100, 12);
    const auto exact = run_digital(graph, inputs);
    const auto error_at = [&](double seconds) {
        return relative_error(run_on(deployed(graph, "hermes", {.read_seconds = seconds}), inputs)[0],
                              exact[0]);
    };
    EXPECT_GT(error_at(86400.0), 1.2 * error_at(0.0));
}

TEST(DeployedModel, WhatDoesNotFitIsRefused) {
    const auto spec = chip_preset("hermes");
    graph::GraphBuilder b;
    b.input("x", {{graph::Dim::kUnknown, "batch"}, {2048}})
        .constant("w", Tensor(graph::DType::f32, {2048, 4096}))
        .node("MatMul", {"x", "w"}, {"y"});
    DeployOptions options;
    options.map.chips = 1;
    EXPECT_THAT(error_of([&] { (void)place_model(b.build("y"), spec, options); }), HasSubstr("bad_config"));
}

// Rows as the chip gets them: inputs of later matrices contain the rounding of earlier ones.
TEST(ModelCalibration, SamplesEveryMatrix) {
    const auto graph = small_network();
    const auto model = deployed(graph);
    const auto& matrices = model.chip.plan.matrices;
    EXPECT_EQ(matrices[0].inputs.rows(), 300U);
    EXPECT_EQ(matrices[1].inputs.rows(), 600U) << "both uses";
    const auto few = deployed(graph, "hermes", {.calibration_inputs = 40});
    EXPECT_EQ(few.chip.plan.matrices[0].inputs.rows(), 40U);
    EXPECT_EQ(few.chip.plan.matrices[1].inputs.rows(), 40U);
}

TEST(ModelCalibration, NamesAMatrixWithoutInputs) {
    auto graph = small_network();
    auto inputs = inputs_of(graph, 10, 1);
    inputs[0] = Tensor(graph::DType::f32, {10, 20});
    const auto spec = chip_preset("hermes");
    EXPECT_THAT(error_of([&] { (void)deploy(place_model(graph, spec, {}), spec, {}, inputs, 1, kExec); }),
                HasSubstr("matrix 'w1' has only inputs of 0"));
    inputs[0].values<float>()[3] = std::nanf("");
    EXPECT_THAT(error_of([&] { (void)deploy(place_model(graph, spec, {}), spec, {}, inputs, 1, kExec); }),
                HasSubstr("matrix 'w1' has inputs that are not finite"));
}

// A row of tiles whose inputs are never active must not stop the deployment.
TEST(ModelCalibration, ATileWithoutInputsIsDeployed) {
    graph::GraphBuilder b;
    b.input("x", {{graph::Dim::kUnknown, "batch"}, {300}})
        .constant("w", graph::random_tensor({300, 4}, 1))
        .node("MatMul", {"x", "w"}, {"y"});
    const auto graph = b.build("y");
    auto inputs = inputs_of(graph, 100, 2);
    for (std::size_t r = 0; r < 100; ++r) {
        for (std::size_t c = 256; c < 300; ++c) inputs[0].values<float>()[r * 300 + c] = 0.0F;
    }
    const auto spec = chip_preset("hermes");
    const auto model = deploy(place_model(graph, spec, {}), spec, {}, inputs, 1, kExec);
    EXPECT_LT(relative_error(run_on(model, inputs)[0], run_digital(graph, inputs)[0]), 0.2);
}

TEST(ModelCalibration, NoConversionOfTheSampleSaturates) {
    const auto graph = small_network();
    const auto model = deployed(graph);
    const auto driver = make_emulator(model.chip, Simulator::fast, kExec);
    const auto run = run_model(model, *driver, inputs_of(graph, 300, 11), 3, kExec);
    EXPECT_EQ(run.trace.saturated, 0U);
    EXPECT_EQ(run.trace.core_products[0], 4U * 300U) << "two matrices once, one twice";
}

TEST(ModelError, AddsUpToTheTotal) {
    const auto model = deployed(small_network());
    const auto inputs = inputs_of(model.graph, 40, 12);
    const std::vector<std::uint64_t> seeds{0, 1, 2};
    const auto error = model_error(model, inputs, seeds, kExec);
    ASSERT_EQ(error.matrices.size(), 3U);
    double sum = 0.0;
    for (const auto& m : error.matrices) {
        sum += m.added.mean;
        EXPECT_GT(m.own.mean, 0.005);
        EXPECT_GT(m.alone.mean, 0.0);
    }
    EXPECT_NEAR(sum, error.total.mean, 1e-9);
    EXPECT_DOUBLE_EQ(error.matrices[0].own.mean, error.matrices[0].accumulated.mean)
        << "nothing comes before the first";
    EXPECT_GT(error.matrices[2].accumulated.mean, error.matrices[2].own.mean);
    const auto outputs =
        run_on(rebuilt(model, {model.chip.plan.spec, model.build, 0}, kExec), inputs, product_seed(0));
    EXPECT_NEAR(std::sqrt(error.total.values[0]),
                relative_error(outputs[0], run_digital(model.graph, inputs)[0]), 1e-6)
        << "the error of an ordinary run";
}

TEST(ModelError, FindsACauseThatWasAdded) {
    auto spec = chip_preset("hermes");
    spec.core.adc.noise_counts *= 20.0;
    const auto graph = small_network();
    const auto model = deploy(place_model(graph, spec, {}), spec, {}, inputs_of(graph, 300, 11), 7, kExec);
    const std::vector<std::uint64_t> seeds{0};
    const auto causes = attribute_model_error(model, inputs_of(graph, 40, 12), seeds, kExec);
    const auto found = std::ranges::max_element(causes.items, {}, [](const auto& a) { return a.saved[0]; });
    EXPECT_EQ(found->item->name, "adc_noise");
    EXPECT_GT(found->saved[0], 0.8);
}

TEST(PlanFile, ComputesTheSameBitsAfterLoading) {
    const TempDir dir;
    for (const auto& graph : {small_network(), small_cnn()}) {
        const auto model =
            deployed(graph, "hermes", {.read_seconds = 3600.0, .compensation = AgeCompensation::global});
        save_model(dir / "a.plan", model);
        const auto loaded = load_deployed(dir / "a.plan");
        const auto inputs = inputs_of(graph, 20, 12);
        EXPECT_EQ(run_on(loaded, inputs)[0], run_on(model, inputs)[0]);
        EXPECT_EQ(loaded.chip.time.seconds, 3600.0);
        EXPECT_EQ(loaded.build.compensation, AgeCompensation::global);
        save_model(dir / "b.plan", loaded);
        EXPECT_EQ(read_file(dir / "a.plan", 1 << 24), read_file(dir / "b.plan", 1 << 24));
        EXPECT_EQ(mapping_of(loaded), mapping_of(model));
        verify_products(mapping_of(loaded));
    }
}

TEST(PlanFile, HoldsTheWeightsOnce) {
    const auto model = deployed(small_network());
    const auto file = to_tensors(model);
    std::size_t same = 0;
    for (const auto& [name, tensor] : file.f32) same += tensor.values().size() == 240 ? 1 : 0;
    EXPECT_EQ(same, 1U + 6U) << "w1 in the graph; three values per device of two polarities";
}

// The error for a changed file with an updated checksum.
std::string message_of(const std::function<void(TensorFile&)>& change) {
    static const auto model = deployed(small_network());
    auto file = to_tensors(model);
    change(file);
    return error_of([&] { (void)model_from_tensors(std::move(file)); });
}

TEST(PlanFile, RefusesWhatWasChanged) {
    EXPECT_THAT(message_of([](TensorFile& f) { f.f32["graph.0"](0, 0) += 1.0F; }),
                HasSubstr("checksum mismatch"));
    EXPECT_THAT(message_of([](TensorFile& f) { f.metadata["schema"] = "9"; }),
                HasSubstr("deploy the model again"));
    EXPECT_THAT(message_of([](TensorFile& f) { f.metadata.erase("graph"); }), StartsWith("bad_data: "));
    const FileKind kind{.format = "imka-plan", .schema = "1", .renew = ""};
    EXPECT_THAT(message_of([&](TensorFile& f) {
                    f.f32["graph.0"](0, 0) += 1.0F;
                    seal(kind, f);
                }),
                HasSubstr("checksum mismatch"))
        << "the weights of the graph are those that were programmed";
    EXPECT_THAT(message_of([&](TensorFile& f) {
                    f.metadata["model"] =
                        R"({"matrices": ["w1", "w2", "w9"], "input_shapes": [[1, 20]], "build": {}})";
                    seal(kind, f);
                }),
                HasSubstr("no matrix 'w9'"));
    EXPECT_THAT(
        message_of([&](TensorFile& f) {
            f.metadata["model"] =
                R"({"matrices": ["w1", "w2", "w3"], "input_shapes": [[1, 20]], "build": {"read_seconds": -1}})";
            seal(kind, f);
        }),
        HasSubstr("read_seconds"));
}

TEST(PlanFile, RefusesRegionsThatOverlap) {
    auto model = deployed(small_network());
    auto& regions = model.chip.plan.regions;
    regions[1].core = regions[0].core;
    regions[1].row = regions[0].row;
    regions[1].col = regions[0].col;
    EXPECT_THAT(error_of([&] { (void)model_from_tensors(to_tensors(model)); }), HasSubstr("overlap"));
}

TEST(PlanFile, EveryTruncationIsAnError) {
    const TempDir dir;
    save_model(dir / "a.plan", deployed(small_network()));
    const auto good = read_file(dir / "a.plan", 1 << 24);
    for (std::size_t length = 0; length < good.size(); length += 1 + length / 7) {
        write_file_atomic(dir / "b.plan", good.substr(0, length));
        EXPECT_THAT(error_of([&] { (void)load_deployed(dir / "b.plan"); }), HasSubstr("b.plan")) << length;
    }
}

TEST(DeployedModel, ARecordedRunReplaysWithoutTheChip) {
    const TempDir dir;
    const auto model = deployed(small_cnn());
    const auto inputs = inputs_of(model.graph, 6, 12);
    RecordingDriver recorder(make_emulator(model.chip, Simulator::fast, kExec));
    const auto run = run_model(model, recorder, inputs, 5, kExec);
    save_recording(dir / "run.rec", recorder.recording());
    ReplayingDriver replay(load_recording(dir / "run.rec"));
    const auto again = run_model(model, replay, inputs, 5, kExec);
    EXPECT_EQ(again.outputs[0], run.outputs[0]);
    EXPECT_EQ(again.trace, run.trace);
    EXPECT_THAT(error_of([&] { (void)run_model(model, replay, inputs, 6, kExec); }),
                StartsWith("bad_usage: "));
}

TEST(PlanFuzzSeeds, GiveModelsOrOurErrors) {
    int models = 0;
    feed_seeds("plan", [&](std::string_view bytes) { models += fuzz::feed_plan(bytes) ? 1 : 0; });
    EXPECT_GE(models, 2) << "the seeds no longer get past the reader";
}

// Writes the seeds of the fuzzer of deployed models: test_deploy --gtest_also_run_disabled_tests
// --gtest_filter=*WritesFuzzSeeds.
TEST(PlanFile, DISABLED_WritesFuzzSeeds) {
    const auto folder = std::filesystem::path(source_dir()) / "fuzz/corpus/plan";
    const auto spec = chip_preset("ideal");
    graph::GraphBuilder b;
    b.input("x", {{graph::Dim::kUnknown, "batch"}, {3}})
        .constant("w", graph::random_tensor({3, 2}, 1))
        .constant("axes", graph::ints({1}))
        .node("MatMul", {"x", "w"}, {"h"})
        .node("Softmax", {"h"}, {"s"}, {{"axis", std::int64_t{-1}}})
        .node("Unsqueeze", {"s", "axes"}, {"y"});
    graph::GraphBuilder c;
    c.input("x", {{2}, {1}, {3}, {3}})
        .constant("k", graph::random_tensor({1, 1, 2, 2}, 2))
        .node("Conv", {"x", "k"}, {"y"});
    for (const auto& [name, graph] : {std::pair{"layer", b.build("y")}, std::pair{"conv", c.build("y")}})
        save_model(folder / name,
                   deploy(place_model(graph, spec, {}), spec, {}, inputs_of(graph, 4, 1), 1, kExec));
    const auto bytes = read_file(folder / "layer", std::size_t{1} << 20U);
    std::ofstream(folder / "cut", std::ios::binary) << bytes.substr(0, bytes.size() - 20);
}

// Ω of an exported Performer layer is found, placed once for queries and keys, and runs on the chip.
TEST(Deploy, OmegaOfAnExportedPerformerIsAMatrix) {
    IMKA_NEED_ONNX();
    for (const auto* opset : {"13", "17", "22"}) {
        const auto base = source_dir() + std::string("/tests/models/performer_opset") + opset;
        const auto graph = graph::load_onnx(base + ".onnx");
        const auto omega = graph::matrices_by_name(graph).at("attention.omega");
        EXPECT_EQ(omega.inputs, 8U);
        EXPECT_EQ(omega.outputs, 24U);
        EXPECT_EQ(omega.uses.size(), 2U);
        EXPECT_THAT(choose_matrices(graph, "projection"), ElementsAre("attention.omega"));

        const std::vector<Tensor> inputs{graph::load_onnx_tensor(base + "_input_0.pb")};
        const auto spec = chip_preset("hermes");
        auto placement = place_model(graph, spec, {.on_chip = "projection"});
        EXPECT_EQ(placement.result.mapping.matrices[0].shape.calls, 2U);
        const auto model = deploy(std::move(placement), spec, {}, inputs, 7, kExec);
        const auto driver = make_emulator(model.chip, Simulator::fast, kExec);
        const auto run = run_model(model, *driver, inputs, 3, kExec);
        EXPECT_GT(run.trace.conversions, 0U);
        const double error = relative_error(run.outputs[0], run_digital(graph, inputs)[0]);
        EXPECT_GT(error, 0.0);
        EXPECT_LT(error, 0.3);
    }
}

// Counts of a run: one exponential per tanh, additions of biases and residuals; the rest is on the chip.
TEST(Deploy, ARunCountsDigitalOperationsByKind) {
    const auto graph = small_network();
    const auto model = deployed(graph);
    const auto driver = make_emulator(model.chip, Simulator::fast, kExec);
    const auto run = run_model(model, *driver, inputs_of(graph, 70, 4), 3, kExec);
    EXPECT_EQ(run.multiply_adds, 70.0 * (20 * 12 + 2 * 12 * 12 + 12 * 5));
    EXPECT_EQ(run.host_bytes, 70.0 * (20 + 5)) << "one byte per input and output";
    EXPECT_EQ(run.digital.exponentials, 70.0 * 24);
    EXPECT_EQ(run.digital.divisions, 70.0 * 24);
    EXPECT_EQ(run.digital.additions, 70.0 * (12 + 2 * 24 + 12));
    EXPECT_EQ(run.digital.multiplications, 0.0);
    EXPECT_EQ(offloaded_share(run.multiply_adds, run.digital), 1.0);
}

// A runner reuses what it prepared, also for inputs of a different size and for several chunks of a fixed
// batch.
TEST(Deploy, ARunnerGivesTheBitsOfSingleRuns) {
    const auto graph = small_network(4);
    const auto model = deployed(graph);
    const auto driver = make_emulator(model.chip, Simulator::fast, kExec);
    ModelRunner runner(model);
    for (const std::int64_t n : {6, 9, 6}) {
        const auto inputs = inputs_of(graph, n, 4);
        const auto run = runner.run(*driver, inputs, 3, kExec);
        const auto single = run_model(model, *driver, inputs, 3, kExec);
        EXPECT_EQ(run.outputs, single.outputs);
        EXPECT_EQ(run.trace, single.trace);
        EXPECT_EQ(run.digital.exponentials, (n == 6 ? 2.0 : 3.0) * 4 * 24);
    }
}

}  // namespace
}  // namespace imka
