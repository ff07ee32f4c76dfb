// Performers on a GPU compared with the processor: as graphs, digitally and on a chip.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "cuda/devices.hpp"
#include "imka/base/random.hpp"
#include "imka/cuda/gpu.hpp"
#include "imka/graph/executor.hpp"
#include "imka/graph/simplify.hpp"
#include "imka/train/evaluate.hpp"
#include "imka/train/performer_graph.hpp"
#include "support/small_performer.hpp"

namespace imka {
namespace {

struct Variant {
    std::string name;
    void (*change)(PerformerConfig&) = [](PerformerConfig&) {};
    bool clipped = false;
};

// Weights that differ from their initial values everywhere, also norms and biases.
Performer model_of(const Variant& variant) {
    auto config = small_performer();
    variant.change(config);
    auto model = initial_performer(config, "tiny", 5);
    std::uint64_t i = 0;
    for (auto& [name, w] : model.weights) {
        for (auto& x : w.values()) x += 0.2F * normal(9, Stream::test, i++);
    }
    if (variant.clipped) {
        for (const auto& name : static_weights(config)) model.input_ranges[name] = 0.9F;
        model.input_ranges["omega0"] = 0.5F;
    }
    return model;
}

const std::vector<Variant>& variants() {
    static const std::vector<Variant> list = {
        {"favor"},
        {"relu", [](PerformerConfig& c) { c.attention = ModelAttention::relu; }},
        {"exact", [](PerformerConfig& c) { c.attention = ModelAttention::exact; }},
        {"pre_norm", [](PerformerConfig& c) { c.norm = NormOrder::pre; }},
        {"pixels",
         [](PerformerConfig& c) {
             c.embedding = Embedding::affine;
             c.activation = Activation::silu;
         }},
        {"exact_pixels",
         [](PerformerConfig& c) {
             c.embedding = Embedding::affine;
             c.attention = ModelAttention::exact;
         }},
        {"pairs",
         [](PerformerConfig& c) {
             c.documents = 2;
             c.classes = 2;
             c.tied = true;
         }},
        {"no_bias", [](PerformerConfig& c) { c.qkv_bias = false; }},
        {"relu_network", [](PerformerConfig& c) { c.activation = Activation::relu; }},
        {"shared_omega", [](PerformerConfig& c) { c.shared_omega = true; }},
        {"ranges", [](PerformerConfig&) {}, true},
        {"usual_sizes",
         [](PerformerConfig& c) {
             c.width = 64;
             c.hidden = 128;
             c.length = 600;
             c.n_directions = 128;
         }},
    };
    return list;
}

// Documents of random lengths, or images.
std::vector<graph::Tensor> inputs_of(const PerformerConfig& config, std::int64_t batch) {
    std::vector<graph::Tensor> inputs;
    const bool pixels = config.embedding == Embedding::affine;
    for (std::int64_t d = 0; d < config.documents; ++d) {
        const auto seed = static_cast<std::uint64_t>(d);
        graph::Tensor tokens(graph::DType::u8, {batch, config.length});
        const auto symbols = static_cast<std::uint64_t>(pixels ? 256 : config.vocabulary - 1);
        std::uint64_t i = 0;
        for (auto& t : tokens.values<std::uint8_t>())
            t = static_cast<std::uint8_t>(uniform_int(seed, Stream::test, i++, symbols));
        inputs.push_back(std::move(tokens));
        if (pixels) continue;
        graph::Tensor lengths(graph::DType::i64, {batch});
        for (auto& n : lengths.values<std::int64_t>())
            n = 1 + static_cast<std::int64_t>(
                        uniform_int(seed + 7, Stream::test, i++, static_cast<std::uint64_t>(config.length)));
        inputs.push_back(std::move(lengths));
    }
    return inputs;
}

graph::RunResult run(const graph::Graph& graph, const std::vector<graph::Tensor>& inputs, const Exec& exec) {
    std::vector<graph::Shape> shapes;
    std::vector<graph::TensorView> views;
    for (const auto& t : inputs) {
        shapes.push_back(t.shape);
        views.push_back(t.view());
    }
    graph::Executor executor(graph::simplified(graph::with_input_shapes(graph, shapes)));
    return executor.run(views, nullptr, exec);
}

class CudaPerformer : public testing::TestWithParam<Variant> {};

TEST_P(CudaPerformer, HasTheLogitsOfTheProcessor) {
    if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    const auto model = model_of(GetParam());
    const auto graph = graph_of(model, model.omega);
    const auto inputs = inputs_of(model.config, 9);
    const auto cpu = run(graph, inputs, kCpu).outputs[0];
    const auto gpu = run(graph, inputs, kGpu);
    EXPECT_THAT(gpu.on_processor, testing::IsEmpty());
    ASSERT_EQ(gpu.outputs[0].shape, cpu.shape);
    double scale = 0.0;
    double difference = 0.0;
    for (std::size_t i = 0; i < cpu.values<float>().size(); ++i) {
        const double a = cpu.values<float>()[i];
        scale = std::max(scale, std::abs(a));
        difference = std::max(difference, std::abs(a - double{gpu.outputs[0].values<float>()[i]}));
    }
    EXPECT_GT(scale, 0.01);
    EXPECT_LE(difference, 1e-5 * scale);
}

TEST_P(CudaPerformer, HasTheSameBitsInAnyBatch) {
    if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    const auto model = model_of(GetParam());
    const auto graph = graph_of(model, model.omega);
    const auto inputs = inputs_of(model.config, 5);
    const auto all = run(graph, inputs, kGpu).outputs[0];
    for (std::size_t e = 0; e < 5; ++e) {
        std::vector<graph::Tensor> one;
        for (const auto& t : inputs) {
            auto shape = t.shape;
            shape[0] = 1;
            const auto bytes = t.bytes.size() / 5;
            auto& part = one.emplace_back(t.type, shape);
            std::copy_n(t.bytes.begin() + static_cast<std::ptrdiff_t>(e * bytes), bytes, part.bytes.begin());
        }
        const auto single = run(graph, one, kGpu).outputs[0];
        const auto classes = single.values<float>().size();
        EXPECT_TRUE(
            std::ranges::equal(single.values<float>(), all.values<float>().subspan(e * classes, classes)))
            << e;
    }
}

INSTANTIATE_TEST_SUITE_P(Variants, CudaPerformer, testing::ValuesIn(variants()),
                         [](const auto& tested) { return tested.param.name; });

// Large weights of the classifier, so that examples get different classes.
Performer tiny_model() {
    auto model = untrained_tiny();
    for (auto& x : model.weights.at("classifier.output.weight").values()) x *= 8.0F;
    for (auto& x : model.weights.at("classifier.hidden.weight").values()) x *= 4.0F;
    return model;
}

Evaluation evaluated(const Performer& model, std::size_t batch_tokens, const Exec& exec) {
    static const auto test = load_lra(LraTask::tiny, LraPart::test, {.examples = 60}, kCpu);
    static const auto training = load_lra(LraTask::tiny, LraPart::train, {.examples = 80}, kCpu);
    using enum EvalMode;
    return evaluate(model, {test, training},
                    {.modes = {fp32, attention, all, all_but_last},
                     .seeds = {0, 1},
                     .chip = chip_preset("hermes"),
                     .batch_tokens = batch_tokens},
                    exec);
}

// A different order of float operations moves some inputs and results of the chip by one step: the losses
// differ by far less than those of two chips.
TEST(CudaEvaluation, AgreesWithTheProcessor) {
    if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    const auto model = tiny_model();
    const auto cpu = evaluated(model, 0, kCpu);
    const auto gpu = evaluated(model, 0, kGpu);
    for (std::size_t m = 0; m < cpu.modes.size(); ++m) {
        const auto& a = cpu.modes[m];
        const auto& b = gpu.modes[m];
        EXPECT_EQ(a.cores, b.cores);
        EXPECT_NEAR(a.saturated_share, b.saturated_share, 1e-4);
        const double between_chips = std::abs(a.seeds[0].loss - a.seeds[1].loss);
        EXPECT_GT(between_chips, 0.0);
        for (std::size_t s = 0; s < 2; ++s) {
            const double difference = std::abs(a.seeds[s].loss - b.seeds[s].loss);
            RecordProperty(std::string(to_string(a.mode)) + std::to_string(s), std::to_string(difference));
            EXPECT_LE(difference, (m == 0 ? 1e-6 : 2e-3) * a.seeds[s].loss) << to_string(a.mode);
            if (m == 0) {
                EXPECT_EQ(a.seeds[s].predicted, b.seeds[s].predicted);
            }
        }
    }
}

TEST(CudaEvaluation, BatchesChangeNothing) {
    if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    const auto model = tiny_model();
    const auto small = evaluated(model, 100, kGpu);
    const auto large = evaluated(model, 0, kGpu);
    for (std::size_t m = 0; m < small.modes.size(); ++m) {
        for (std::size_t s = 0; s < 2; ++s) {
            EXPECT_EQ(small.modes[m].seeds[s].loss, large.modes[m].seeds[s].loss)
                << to_string(small.modes[m].mode);
            EXPECT_EQ(small.modes[m].seeds[s].predicted, large.modes[m].seeds[s].predicted);
        }
        EXPECT_EQ(small.modes[m].saturated_share, large.modes[m].saturated_share);
    }
}

}  // namespace
}  // namespace imka
