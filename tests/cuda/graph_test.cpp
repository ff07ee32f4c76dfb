// Graphs on a GPU compared with the same graphs on the processor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cuda/devices.hpp"
#include "graph/graphs.hpp"
#include "imka/cuda/gpu.hpp"
#include "imka/graph/executor.hpp"
#include "support/error.hpp"

namespace imka::graph {
namespace {

using testing::HasSubstr;

using Attributes = decltype(Node::attributes);

// One node with its inputs.
struct NodeCase {
    std::string name;
    std::string op;
    std::vector<Tensor> inputs;  // constant if `constants` has the index; shape {0}: omitted
    Attributes attributes = {};
    std::vector<std::size_t> constants = {};
    double tolerance = 0.0;  // relative to the largest result
    std::size_t outputs = 1;
};

Tensor f32(const Shape& shape, std::uint64_t seed = 1) {
    return random_tensor(shape, seed);
}
Tensor positive(const Shape& shape, std::uint64_t seed = 1) {
    auto t = f32(shape, seed);
    for (auto& v : t.values<float>()) v = std::abs(v) + 0.01F;
    return t;
}
template <class T>
Tensor integers(const Shape& shape, std::int64_t least, std::int64_t count, std::uint64_t seed = 3) {
    Tensor t(dtype_of<T>(), shape);
    const auto values = t.values<T>();
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<T>(least + static_cast<std::int64_t>(uniform_int(
                                               seed, Stream::test, i, static_cast<std::uint64_t>(count))));
    return t;
}
Tensor scaled(Tensor t, float factor) {
    for (auto& v : t.values<float>()) v *= factor;
    return t;
}
const Tensor kOmitted;

// Sizes of imka.Attention.
struct Heads {
    std::int64_t sequences = 2;
    std::int64_t heads = 2;
    std::int64_t key_heads = 2;
    std::int64_t queries = 20;
    std::int64_t keys = 20;
    std::int64_t directions = 7;
    std::int64_t size = 4;
    bool causal = false;
    float epsilon = 0.0F;
};
NodeCase attention(const std::string& name, const std::string& form, const Heads& h, bool masked = false,
                   float factor = 3.0F) {
    const Shape q{h.sequences, h.heads, h.queries, h.directions};
    const Shape k{h.sequences, h.key_heads, h.keys, h.directions};
    const Shape v{h.sequences, h.key_heads, h.keys, h.size};
    auto mask = integers<std::uint8_t>({h.sequences, h.keys}, 0, 2);
    // The first sequence has no keys.
    std::fill_n(mask.values<std::uint8_t>().begin(), h.keys, std::uint8_t{0});
    const bool norms = form == "positive" || form == "single";
    return {.name = "attention_" + name,
            .op = "imka.Attention",
            .inputs = {scaled(f32(q, 5), factor), scaled(f32(k, 6), factor), f32(v, 7),
                       norms ? f32(v, 8) : kOmitted, masked ? mask : kOmitted},
            .attributes = {{"form", form},
                           {"epsilon", form == "relu" ? 1e-3F : h.epsilon},
                           {"causal", std::int64_t{h.causal}}},
            .tolerance = 3e-6};
}

std::vector<NodeCase> elementwise_cases() {
    std::vector<NodeCase> list;
    for (const auto* op : {"Add", "Sub", "Mul", "Div", "Max", "Min"})
        list.push_back({op, op, {f32({3, 4, 8}), positive({3, 4, 8}, 2)}});
    list.push_back({"bias", "Add", {f32({6, 5, 64}), f32({64}, 2)}});
    list.push_back({"odd_bias", "Add", {f32({6, 5, 7}), f32({7}, 2)}});
    list.push_back({"column", "Mul", {f32({6, 5, 64}), f32({6, 5, 1}, 2)}});
    list.push_back({"scalar", "Mul", {f32({6, 5, 64}), scalar(0.37F)}, {}, {1}});
    list.push_back({"both_repeated", "Add", {f32({4, 1, 8}), f32({1, 3, 8}, 2)}});
    list.push_back({"outer", "Add", {f32({5, 1}), f32({1, 12}, 2)}});
    list.push_back({"single", "Add", {scalar(1.5F), scalar(0.25F)}});
    list.push_back({"integers", "Max", {integers<std::int64_t>({9}, -3, 9), ints({1})}, {}, {1}});
    list.push_back({"less", "Less", {ints({0, 1, 2, 3, 4}), integers<std::int64_t>({6, 1}, 0, 6)}});
    list.push_back(
        {"equal", "Equal", {integers<std::int32_t>({40}, 0, 3), integers<std::int32_t>({40}, 0, 3, 8)}});
    list.push_back({"greater", "GreaterOrEqual", {f32({40}), f32({40}, 2)}});
    for (const auto* op : {"Relu", "Neg", "Abs"}) list.push_back({op, op, {scaled(f32({3, 100}), 4.0F)}});
    for (const auto* op : {"Gelu", "Sigmoid", "Tanh", "Erf", "Exp"})
        list.push_back({op, op, {scaled(f32({3, 101}), 4.0F)}, {}, {}, 1e-6});
    for (const auto* op : {"Sqrt", "Log", "Reciprocal"})
        list.push_back({op, op, {positive({3, 100})}, {}, {}, 1e-6});
    list.push_back(
        {"gelu_tanh", "Gelu", {scaled(f32({300}), 4.0F)}, {{"approximate", std::string("tanh")}}, {}, 1e-6});
    list.push_back({"square", "Pow", {f32({30}), scalar(2.0F)}, {}, {1}});
    list.push_back({"clip", "Clip", {f32({3, 17}), scalar(-0.5F), scalar(0.25F)}, {}, {1, 2}});
    list.push_back({"clip_above", "Clip", {f32({3, 16}), kOmitted, scalar(0.25F)}, {}, {2}});
    list.push_back(
        {"where", "Where", {integers<bool>({2, 1, 1, 9}, 0, 2), f32({2, 2, 3, 9}), scalar(-1e30F)}, {}, {2}});
    list.push_back({"not", "Not", {integers<bool>({33}, 0, 2)}});
    return list;
}

NodeCase cast(const std::string& name, Tensor from, std::int64_t onnx_type) {
    return {"cast_" + name, "Cast", {std::move(from)}, {{"to", onnx_type}}};
}

std::vector<NodeCase> shape_cases() {
    using Ints = std::vector<std::int64_t>;
    constexpr std::int64_t kFloat = 1;
    constexpr std::int64_t kInt32 = 6;
    constexpr std::int64_t kInt64 = 7;
    const auto perm = [](Ints p) { return Attributes{{"perm", std::move(p)}}; };
    return {
        cast("bytes", integers<std::uint8_t>({5, 21}, 0, 256), kInt32),
        cast("mask", integers<bool>({5, 16}, 0, 2), kFloat),
        cast("lengths", integers<std::int64_t>({9}, 0, 5000), kFloat),
        cast("narrow", integers<std::int32_t>({9}, -50, 100), kInt64),
        {"heads", "Transpose", {f32({3, 10, 2, 8})}, perm({0, 2, 1, 3})},
        {"odd_heads", "Transpose", {f32({3, 10, 2, 5})}, perm({0, 2, 1, 3})},
        {"keys", "Transpose", {f32({3, 2, 10, 8})}, perm({0, 1, 3, 2})},
        {"reversed", "Transpose", {integers<std::int64_t>({3, 4, 5}, 0, 100)}},
        {"five_axes", "Transpose", {f32({2, 3, 4, 5, 6})}, perm({4, 2, 0, 3, 1})},
        {"concat", "Concat", {f32({6, 3}), f32({6, 8}, 2), f32({6, 1}, 3)}, {{"axis", std::int64_t{1}}}},
        {"concat_first", "Concat", {f32({2, 8}), f32({3, 8}, 2)}, {{"axis", std::int64_t{0}}}},
        {.name = "split",
         .op = "Split",
         .inputs = {f32({4, 12, 2})},
         .attributes = {{"axis", std::int64_t{1}}},
         .outputs = 3},
        {"expand", "Expand", {f32({3, 1, 4}), ints({2, 3, 5, 4})}, {}, {1}},
        {"embedding", "Gather", {f32({11, 64}), integers<std::int32_t>({3, 20}, 0, 11)}, {}, {0}},
        {"odd_embedding", "Gather", {f32({11, 7}), integers<std::int64_t>({3, 20}, -11, 22)}, {}, {0}},
        {"gather_axis", "Gather", {f32({3, 6, 8}), ints({5, 0})}, {{"axis", std::int64_t{1}}}, {1}},
    };
}

std::vector<NodeCase> row_cases() {
    std::vector<NodeCase> list;
    for (const std::int64_t size : {5, 64, 300, 1000}) {
        const auto name = std::to_string(size);
        list.push_back({"norm_" + name,
                        "LayerNormalization",
                        {f32({37, size}), f32({size}, 2), f32({size}, 3)},
                        {},
                        {1, 2},
                        2e-6});
        list.push_back({"softmax_" + name, "Softmax", {scaled(f32({37, size}), 8.0F)}, {}, {}, 2e-6});
    }
    list.push_back({"norm_without_bias", "LayerNormalization", {f32({37, 64}), f32({64}, 2)}, {}, {1}, 2e-6});
    const Attributes drop{{"keepdims", std::int64_t{0}}};
    list.push_back({"mean_of_tokens", "ReduceMean", {f32({5, 130, 64}), ints({1})}, drop, {1}, 1e-7});
    list.push_back({"sum_of_tokens", "ReduceSum", {f32({5, 130, 7}), ints({1})}, drop, {1}, 1e-7});
    list.push_back({"mean_of_rows", "ReduceMean", {f32({5, 3, 70}), ints({-1})}, {}, {1}, 1e-7});
    list.push_back({"mean_of_images", "ReduceMean", {f32({5, 3, 7, 8}), ints({2, 3})}, {}, {1}, 1e-7});
    return list;
}

std::vector<NodeCase> product_cases() {
    return {
        {"small", "MatMul", {f32({3, 5}), f32({5, 7}, 2)}, {}, {1}, 1e-6},
        {"linear", "MatMul", {f32({2, 200, 64}), f32({64, 64}, 2)}, {}, {1}, 1e-6},
        {"odd", "MatMul", {f32({129, 17}), f32({17, 65}, 2)}, {}, {1}, 1e-6},
        {"wide", "MatMul", {f32({300, 132}), f32({132, 200}, 2)}, {}, {1}, 1e-6},
        {"vector", "MatMul", {f32({12}), f32({12, 8}, 2)}, {}, {1}, 1e-6},
        {"scores", "MatMul", {f32({2, 3, 40, 8}), f32({2, 3, 8, 40}, 2)}, {}, {}, 1e-6},
        {"odd_scores", "MatMul", {f32({2, 3, 41, 7}), f32({2, 3, 7, 43}, 2)}, {}, {}, 1e-6},
        {"gemm", "Gemm", {f32({70, 33}), f32({33, 20}, 2), f32({20}, 3)}, {}, {1, 2}, 1e-6},
        {"gemm_transposed",
         "Gemm",
         {f32({70, 36}), f32({50, 36}, 2), f32({50}, 3)},
         {{"transB", std::int64_t{1}}},
         {1, 2},
         1e-6},
        {"gemm_odd", "Gemm", {f32({7, 35}), f32({5, 35}, 2)}, {{"transB", std::int64_t{1}}}, {1}, 1e-6},
    };
}

std::vector<NodeCase> attention_cases() {
    return {
        attention("small", "positive", {}),
        attention("masked", "positive", {}, true),
        attention("large", "positive", {.queries = 600, .keys = 1100, .directions = 128, .size = 32}),
        attention("large_masked", "positive", {.queries = 1100, .keys = 1100, .directions = 128, .size = 32},
                  true),
        attention("far", "positive", {.keys = 600, .directions = 33}, false, 60.0F),
        attention("many_directions", "positive", {.directions = 300, .size = 16}),
        attention("wide_values", "positive", {.directions = 40, .size = 80}),
        attention("shared_keys", "positive", {.heads = 4, .directions = 16}),
        attention("one_sign", "single", {.keys = 530, .directions = 130, .size = 48}),
        attention("exp", "exp", {.directions = 20}),
        attention("relu", "relu", {.queries = 70, .keys = 600, .directions = 128, .size = 32}),
        attention("relu_masked", "relu", {.keys = 40, .directions = 9}, true),
        attention("elu", "elu", {.queries = 70, .keys = 600, .directions = 65, .size = 36}),
        attention("square", "square", {.keys = 40, .directions = 9}, true),
        attention("epsilon", "positive", {.keys = 600, .directions = 33, .epsilon = 1e-2F}, true),
        attention("causal", "positive",
                  {.queries = 300, .keys = 300, .directions = 33, .size = 70, .causal = true}),
        attention("causal_masked", "relu", {.queries = 200, .keys = 200, .causal = true}, true),
        attention("causal_epsilon", "exp",
                  {.heads = 4, .queries = 200, .keys = 200, .causal = true, .epsilon = 1e-2F}, true),
    };
}

std::vector<NodeCase> all_cases() {
    std::vector<NodeCase> all;
    for (const auto& list :
         {elementwise_cases(), shape_cases(), row_cases(), product_cases(), attention_cases()})
        all.insert(all.end(), list.begin(), list.end());
    return all;
}

Graph graph_of(const NodeCase& c) {
    GraphBuilder b;
    std::vector<std::string> inputs;
    for (std::size_t k = 0; k < c.inputs.size(); ++k) {
        const auto& t = c.inputs[k];
        const bool omitted = t.bytes.empty();
        inputs.push_back(omitted ? "" : "x" + std::to_string(k));
        if (omitted) continue;
        if (std::ranges::find(c.constants, k) != c.constants.end()) {
            b.constant(inputs.back(), t);
        } else {
            b.input(inputs.back(), *type_of(t.view()).dims, t.type);
        }
    }
    while (inputs.back().empty()) inputs.pop_back();
    std::vector<std::string> outputs;
    for (std::size_t k = 0; k < c.outputs; ++k) outputs.push_back("y" + std::to_string(k));
    b.node(c.op, inputs, outputs, c.attributes, c.op.starts_with("imka.") ? 1 : 22);
    auto graph = b.build("y0");
    for (std::size_t k = 1; k < c.outputs; ++k) graph.outputs.push_back(*find_value(graph, outputs[k]));
    return graph;
}

std::vector<TensorView> views_of(const NodeCase& c) {
    std::vector<TensorView> views;
    for (std::size_t k = 0; k < c.inputs.size(); ++k) {
        if (!c.inputs[k].bytes.empty() && std::ranges::find(c.constants, k) == c.constants.end())
            views.push_back(c.inputs[k].view());
    }
    return views;
}

void expect_near(const Tensor& a, const Tensor& b, double tolerance) {
    ASSERT_EQ(a.type, b.type);
    ASSERT_EQ(a.shape, b.shape);
    if (a.type != DType::f32) {
        EXPECT_EQ(a.bytes, b.bytes);
        return;
    }
    double scale = 0.0;
    double difference = 0.0;
    std::size_t where = 0;
    for (std::size_t i = 0; i < a.values<float>().size(); ++i) {
        const double x = a.values<float>()[i];
        const double d = std::abs(x - double{b.values<float>()[i]});
        ASSERT_TRUE(std::isfinite(d)) << i << ": " << x << ", " << b.values<float>()[i];
        scale = std::max(scale, std::abs(x));
        if (d > difference) where = i;
        difference = std::max(difference, d);
    }
    EXPECT_GT(scale, 0.0);
    EXPECT_LE(difference, tolerance * scale)
        << where << ": " << a.values<float>()[where] << ", " << b.values<float>()[where];
}

class CudaGraph : public testing::TestWithParam<NodeCase> {};

TEST_P(CudaGraph, AgreesWithTheProcessor) {
    if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    Executor executor(graph_of(GetParam()));
    const auto inputs = views_of(GetParam());
    const auto cpu = executor.run(inputs, nullptr, kCpu);
    const auto gpu = executor.run(inputs, nullptr, kGpu);
    EXPECT_THAT(gpu.on_processor, testing::IsEmpty());
    ASSERT_EQ(gpu.outputs.size(), cpu.outputs.size());
    for (std::size_t k = 0; k < cpu.outputs.size(); ++k)
        expect_near(cpu.outputs[k], gpu.outputs[k], GetParam().tolerance);
    EXPECT_EQ(executor.run(inputs, nullptr, kGpu).outputs, gpu.outputs);
}

INSTANTIATE_TEST_SUITE_P(Operators, CudaGraph, testing::ValuesIn(all_cases()),
                         [](const auto& tested) { return tested.param.name; });

// x -> Relu -> CumSum -> Add: CumSum has no variant for GPUs.
Graph mixed() {
    GraphBuilder b;
    b.input("x", {{4}, {6}}).constant("axis", ints({1})).constant("one", scalar(1.0F));
    b.node("Relu", {"x"}, {"a"});
    b.node("CumSum", {"a", "axis"}, {"b"});
    b.node("Add", {"b", "one"}, {"c"});
    return b.build("c");
}

TEST(CudaGraphs, NodesWithoutAVariantRunOnTheProcessor) {
    if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    Executor executor(mixed());
    const auto x = f32({4, 6});
    const std::vector<TensorView> inputs{x.view()};
    const auto gpu = executor.run(inputs, nullptr, kGpu);
    EXPECT_EQ(gpu.on_processor, std::vector<std::size_t>{1});
    expect_near(executor.run(inputs, nullptr, kCpu).outputs[0], gpu.outputs[0], 1e-6);
    EXPECT_GT(gpu.peak_bytes, 0U);
}

TEST(CudaGraphs, SharedMemoryIsKeptWhileItIsUsed) {
    if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    // y is a view of a, which another node reads later.
    GraphBuilder b;
    b.input("x", {{4}, {6}}).constant("shape", ints({6, 4})).constant("back", ints({4, 6}));
    b.node("Neg", {"x"}, {"a"});
    b.node("Reshape", {"a", "shape"}, {"y"});
    b.node("Relu", {"x"}, {"c"});
    b.node("Reshape", {"y", "back"}, {"d"});
    b.node("Add", {"c", "d"}, {"e"});
    b.node("Add", {"e", "a"}, {"f"});
    Executor executor(b.build("f"));
    const auto x = f32({4, 6});
    const std::vector<TensorView> inputs{x.view()};
    expect_near(executor.run(inputs, nullptr, kCpu).outputs[0],
                executor.run(inputs, nullptr, kGpu).outputs[0], 0.0);
}

TEST(CudaGraphs, ErrorsAreThoseOfTheProcessor) {
    if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    NodeCase wrong{"", "Gather", {f32({11, 8}), ints({3, 11, 2, 40})}, {}, {0}};
    Executor gather(graph_of(wrong));
    EXPECT_THAT(error_of([&] { (void)gather.run(views_of(wrong), nullptr, kGpu); }),
                testing::AllOf(testing::StartsWith("bad_data"), HasSubstr("node_y0"),
                               HasSubstr("the index at position 1 is out of range")));
    auto zero = attention("", "relu", {});
    zero.attributes["epsilon"] = 0.0F;
    for (auto& v : zero.inputs[0].values<float>()) v = std::abs(v);
    const Heads h;
    // Query 3 of head 1 of the second sequence has no positive projection.
    const auto row = static_cast<std::size_t>(((h.heads + 1) * h.queries + 3) * h.directions);
    for (std::size_t i = 0; i < 7; ++i) zero.inputs[0].values<float>()[row + i] = -1.0F;
    Executor heads(graph_of(zero));
    const auto expected = error_of([&] { (void)heads.run(views_of(zero), nullptr, kCpu); });
    EXPECT_THAT(expected, HasSubstr("query 3 of head 1"));
    EXPECT_EQ(error_of([&] { (void)heads.run(views_of(zero), nullptr, kGpu); }), expected);
}

// Counts the calls and leaves the products to the graph.
class Watching : public MatrixHook {
public:
    bool multiply(const MatrixCall&, MatrixView<const float>, const Exec&, MatrixView<float>) override {
        ++on_host;
        return false;
    }
    bool takes_gpu_rows() const override { return takes; }
    bool multiply_on_gpu(const MatrixCall& call, const cuda::ProductRows& rows, const Exec&) override {
        seen.push_back(call.matrix);
        rows_seen = rows.rows;
        return false;
    }
    bool takes = true;
    int on_host = 0;
    std::vector<std::size_t> seen;
    std::size_t rows_seen = 0;
};

TEST(CudaGraphs, HooksGetRowsInTheMemoryThatTheyTake) {
    if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    GraphBuilder b;
    b.input("x", {{2}, {9}, {12}}).constant("v", f32({12, 8}, 2)).constant("w", f32({8, 5}, 3));
    b.node("MatMul", {"x", "v"}, {"a"}).node("MatMul", {"a", "w"}, {"b"});
    Executor executor(b.build("b"));
    const auto x = f32({2, 9, 12});
    const std::vector<TensorView> inputs{x.view()};
    const auto cpu = executor.run(inputs, nullptr, kCpu).outputs[0];
    Watching hook;
    expect_near(cpu, executor.run(inputs, &hook, kGpu).outputs[0], 1e-6);
    EXPECT_EQ(hook.seen, (std::vector<std::size_t>{0, 1}));
    EXPECT_EQ(hook.rows_seen, 18U);
    EXPECT_EQ(hook.on_host, 0);
    hook.takes = false;
    const auto result = executor.run(inputs, &hook, kGpu);
    EXPECT_EQ(result.outputs[0], cpu);
    EXPECT_EQ(result.on_processor.size(), 2U);
    EXPECT_EQ(hook.on_host, 2);
}

}  // namespace
}  // namespace imka::graph
