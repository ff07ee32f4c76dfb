// imka bench deploy: a whole network, run digitally, compared with PyTorch and ONNX Runtime, and on an
// emulated chip. All three read the file that PyTorch exports.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <utility>

#include "bench/bench.hpp"
#include "imka/base/error.hpp"
#include "imka/chip/simulate/emulator.hpp"
#include "imka/chip/spec/chip.hpp"
#include "imka/deploy/deployed_model.hpp"
#include "imka/deploy/model_error.hpp"
#include "imka/graph/executor.hpp"
#include "imka/graph/onnx_import.hpp"
#include "imka/graph/tensor_file.hpp"

namespace imka::app {
namespace {

constexpr std::uint64_t kEncoderSeed = 1;

// An encoder Transformer.
struct EncoderSize {
    int layers;
    int width;
    int heads;
    int hidden;  // width of the hidden layer after the attention
    int length;  // tokens
    int batch;
};
constexpr EncoderSize kFullEncoder{
    .layers = 6, .width = 512, .heads = 8, .hidden = 2048, .length = 512, .batch = 8};
constexpr EncoderSize kQuickEncoder{
    .layers = 2, .width = 32, .heads = 4, .hidden = 64, .length = 16, .batch = 2};

Sizes sizes_of(const EncoderSize& e, const Exec& exec) {
    return {{"layers", e.layers},           {"width", e.width},   {"heads", e.heads},
            {"hidden", e.hidden},           {"length", e.length}, {"batch", e.batch},
            {"threads", thread_count(exec)}};
}

// Operations of all matrix products: four projections, two products with the hidden layer, and two products
// between tokens.
double operations(const EncoderSize& e) {
    const double tokens = 1.0 * e.batch * e.length;
    const double weights = 4.0 * e.width * e.width + 2.0 * e.width * e.hidden;
    return 2.0 * e.layers * tokens * (weights + 2.0 * e.length * e.width);
}

// The exported network with its input.
struct Network {
    graph::Graph graph;
    graph::Tensor input;
};

std::vector<Rival> peers_of(const std::filesystem::path& folder) {
    return {{.name = "PyTorch", .peer = "torch_encoder", .package = "torch", .folder = folder.string()},
            {.name = "ONNX Runtime",
             .peer = "onnxruntime_encoder",
             .package = "onnxruntime",
             .folder = folder.string()}};
}

// The result with the reason why there is no network to run.
BenchResult without_network(BenchResult result, PeerAnswer answer) {
    auto& rival = result.rivals.emplace_back();
    rival.name = "PyTorch";
    rival.missing = std::move(answer.missing);
    rival.error = answer.value ? "exported no file" : std::move(answer.error);
    result.note = graph::has_onnx() ? "not run: PyTorch exports the network"
                                    : "not run: this build does not read ONNX files";
    result.check = {.what = "not run", .ok = true};
    return result;
}

void set_targets(const EncoderSize& size, BenchResult& result) {
    constexpr std::array kWanted = {1.0, 0.9};
    for (std::size_t k = 0; k < kWanted.size(); ++k) {
        const auto& rival = result.rivals[k];
        if (!rival.seconds.empty())
            result.targets.push_back(
                {.what = "ratio to " + rival.name, .wanted = kWanted[k], .reached = rival.ratio.median});
    }
    const double work = operations(size);
    const double gflops = work / median(result.seconds) * 1e-9;
    result.note = fmt::format("{:.3g} GFLOP/s; outputs differ by {:.2g}", gflops, result.check.value);
    result.more = {{"gflops", gflops}};
    result.limit = "matrix products";
    result.limit_time = [=](const MachineLimits& l) { return work / l.sgemm_all; };
}

graph::Tensor run_digital(graph::Executor& executor, const graph::Tensor& input, const Exec& exec) {
    const std::array inputs = {input.view()};
    return std::move(executor.run(inputs, nullptr, exec).outputs.front());
}

DeployedModel deployed(const Network& network, const ChipSpec& chip, const Exec& exec) {
    BuildConfig config;
    config.calibration_inputs = network.input.shape[0];
    return deploy(place_model(network.graph, chip, {.input_shapes = {network.input.shape}}), chip, config,
                  std::span(&network.input, 1), kEncoderSeed, exec);
}

BenchResult bench_emulated(const BenchSetup& setup, const Network& network, BenchResult result) {
    const auto exec = without_progress(setup.exec);
    const auto model = deployed(network, linear_chip(), exec);
    const auto emulator = make_emulator(model.chip, Simulator::fast, exec);
    ModelRunner runner(model);
    graph::Executor executor(network.graph);
    graph::Tensor exact;
    graph::Tensor y;
    run_rounds(
        setup,
        [&] {
            y = std::move(
                runner.run(*emulator, std::span(&network.input, 1), kEncoderSeed, exec).outputs.front());
        },
        {{.name = "digital", .body = [&] { exact = run_digital(executor, network.input, exec); }}}, result);
    // Outputs that are unrelated to the exact ones have an error of 1.4.
    result.check =
        check_at_most("relative error of the outputs", std::sqrt(squared_error({&y, 1}, {&exact, 1})), 0.7);
    const double multiple = 1.0 / result.rivals.front().ratio.median;
    result.targets = {{.what = "time / digital", .wanted = 5.0, .reached = multiple, .at_most = true}};
    result.note = fmt::format("{} cores, error {:.2g}", core_count(model.chip.plan), result.check.value);
    result.more = {{"times_of_digital", multiple}, {"cores", core_count(model.chip.plan)}};
    return result;
}

}  // namespace

std::vector<BenchResult> bench_deploy(const BenchSetup& setup) {
    const auto size = setup.quick ? kQuickEncoder : kFullEncoder;
    const auto exec = without_progress(setup.exec);
    const ScratchFolder folder;
    BenchResult result{.name = "deploy",
                       .title = fmt::format("encoder, {} layers, d = {}, {} x {} tokens", size.layers,
                                            size.width, size.batch, size.length),
                       .sizes = sizes_of(size, exec)};
    auto emulated = result;
    emulated.title = "the same on an emulated chip, linear converter";
    const auto rivals = peers_of(folder.path());
    PeerAnswer exported{.missing = "python3"};
    if (setup.peer != nullptr)
        exported = setup.peer->run("torch_encoder", request_json(setup, rivals[0], result.sizes));
    const auto file = folder.path() / "model.onnx";
    if (!graph::has_onnx() || !std::filesystem::exists(file))
        return {without_network(std::move(result), std::move(exported))};
    Network network{.graph = graph::load_onnx(file), .input = {}};
    network.input =
        graph::read_tensor(folder.path() / "x.npy", network.graph.values[network.graph.inputs.front()]);
    graph::Executor executor(network.graph);
    graph::write_tensor(folder.path() / "imka.npy", run_digital(executor, network.input, exec));
    run_rounds(
        setup, [&] { (void)run_digital(executor, network.input, exec); }, rivals, result);
    result.check = check_peers(result, 1e-4);
    set_targets(size, result);
    return {std::move(result), bench_emulated(setup, network, std::move(emulated))};
}

}  // namespace imka::app
