// Nodes that run slice by slice or in place: which ones, and the same results as one node at a time.
#include "imka/graph/chains.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "graphs.hpp"
#include "imka/graph/executor.hpp"

namespace imka::graph {
namespace {

// More threads than slices: nodes run one after the other.
constexpr int kManyThreads = 64;

bool has_constant_matrix(const Graph& graph, const Node& node) {
    if (node.op != "MatMul" && node.op != "Gemm") return false;
    const auto& weights = graph.values[node.inputs[1]].constant;
    return weights && weights->shape.size() == 2;
}

std::vector<Chain> chains_of(const Graph& graph) {
    return find_chains(graph, [&](std::size_t n) { return has_constant_matrix(graph, graph.nodes[n]); });
}

std::vector<Tensor> outputs_of(const Graph& graph, const std::vector<Tensor>& inputs, int threads) {
    std::vector<TensorView> views;
    for (const auto& t : inputs) views.push_back(t.view());
    Executor executor(graph);
    return executor.run(views, nullptr, {.threads = threads}).outputs;
}

// Runs every node alone, with separate memory.
std::vector<Tensor> one_by_one(const Graph& graph, const std::vector<Tensor>& inputs) {
    std::map<ValueId, Tensor> values;
    for (ValueId id = 0; id < graph.values.size(); ++id) {
        if (graph.values[id].constant) values[id] = *graph.values[id].constant;
    }
    for (std::size_t k = 0; k < inputs.size(); ++k) values[graph.inputs[k]] = inputs[k];
    for (const auto& node : graph.nodes) {
        std::vector<TensorView> views;
        for (const auto id : node.inputs) views.push_back(std::as_const(values.at(id)).view());
        std::vector<const TensorView*> pointers;
        for (const auto& v : views) pointers.push_back(&v);
        auto results = run_node(node, pointers, std::size_t{1} << 30U, {.threads = 1});
        for (std::size_t k = 0; k < results.size(); ++k) values[node.outputs[k]] = std::move(results[k]);
    }
    std::vector<Tensor> outputs;
    for (const auto id : graph.outputs) outputs.push_back(values.at(id));
    return outputs;
}

// Chained and unchained runs have the same bits and agree with single nodes.
void expect_same(const Graph& graph, const std::vector<Tensor>& inputs) {
    const auto chained = outputs_of(graph, inputs, 1);
    const auto expected = one_by_one(graph, inputs);
    EXPECT_EQ(chained, outputs_of(graph, inputs, kManyThreads));
    ASSERT_EQ(chained.size(), expected.size());
    for (std::size_t k = 0; k < chained.size(); ++k) {
        const auto found = chained[k].values<float>();
        ASSERT_EQ(chained[k].shape, expected[k].shape);
        EXPECT_GT(std::ranges::max(found), 0.01F);
        for (std::size_t i = 0; i < found.size(); ++i)
            ASSERT_NEAR(found[i], expected[k].values<float>()[i], 1e-5) << k << ", " << i;
    }
}

// Two products with bias and activation, a residual and a norm; 600 rows: two slices and a partial one.
GraphBuilder feed_forward() {
    GraphBuilder b;
    b.input("x", {{2}, {300}, {24}});
    b.constant("w1", random_tensor({24, 40}, 1)).constant("b1", random_tensor({40}, 2));
    b.constant("w2", random_tensor({40, 24}, 3)).constant("b2", random_tensor({24}, 4));
    b.constant("scale", random_tensor({24}, 5)).constant("shift", random_tensor({24}, 6));
    b.node("MatMul", {"x", "w1"}, {"h"}).node("Add", {"b1", "h"}, {"hb"}).node("Gelu", {"hb"}, {"g"});
    b.node("MatMul", {"g", "w2"}, {"o"}).node("Add", {"o", "b2"}, {"ob"}).node("Add", {"x", "ob"}, {"r"});
    b.node("LayerNormalization", {"r", "scale", "shift"}, {"y"}, {{"axis", std::int64_t{-1}}});
    return b;
}

TEST(GraphChains, RowsGoThroughAFeedForwardBlock) {
    const auto graph = feed_forward().build("y");
    const auto chains = chains_of(graph);
    ASSERT_EQ(chains.size(), 1U);
    EXPECT_EQ(chains[0].nodes(), 7U);
    EXPECT_EQ(chains[0].units, 600U);
    EXPECT_EQ(chains[0].slices(), 3U);
    EXPECT_EQ(chains[0].sliced[1], (std::vector<bool>{false, true}));
    EXPECT_EQ(chains[0].sliced[5], (std::vector<bool>{true, true}));
    expect_same(graph, {random_tensor({2, 300, 24}, 7)});
}

TEST(GraphChains, ValuesThatAreReadLaterAreKept) {
    auto builder = feed_forward();
    builder.node("Transpose", {"hb"}, {"t"}, {{"perm", std::vector<std::int64_t>{2, 0, 1}}});
    auto graph = builder.build("y");
    graph.outputs.push_back(*find_value(graph, "t"));
    graph.outputs.push_back(*find_value(graph, "r"));
    expect_same(graph, {random_tensor({2, 300, 24}, 7)});
}

TEST(GraphChains, MatricesGoThroughAttention) {
    GraphBuilder b;
    b.input("q", {{2}, {3}, {300}, {16}}).input("k", {{2}, {3}, {16}, {300}});
    b.input("v", {{2}, {3}, {300}, {8}}).constant("mask", random_tensor({300, 300}, 1));
    b.node("MatMul", {"q", "k"}, {"s"}).node("Add", {"s", "mask"}, {"m"});
    b.node("Softmax", {"m"}, {"p"}).node("MatMul", {"p", "v"}, {"y"});
    const auto graph = b.build("y");
    const auto chains = chains_of(graph);
    ASSERT_EQ(chains.size(), 1U);
    EXPECT_EQ(chains[0].nodes(), 4U);
    EXPECT_EQ(chains[0].inner_axes, 2U);
    EXPECT_EQ(chains[0].slices(), 6U);
    expect_same(graph, {random_tensor({2, 3, 300, 16}, 2), random_tensor({2, 3, 16, 300}, 3),
                        random_tensor({2, 3, 300, 8}, 4)});
}

TEST(GraphChains, EndWhereRowsDependOnEachOther) {
    GraphBuilder b;
    b.input("x", {{4}, {300}, {16}}).constant("per_row", random_tensor({300, 1}, 1));
    b.node("Relu", {"x"}, {"a"}).node("Neg", {"a"}, {"b"});
    b.node("Softmax", {"b"}, {"c"}, {{"axis", std::int64_t{1}}});
    b.node("Mul", {"c", "per_row"}, {"d"}).node("Abs", {"d"}, {"e"}).node("Sqrt", {"e"}, {"f"});
    const auto graph = b.build("f");
    const auto chains = chains_of(graph);
    ASSERT_EQ(chains.size(), 2U);
    EXPECT_EQ(chains[0].nodes(), 2U);
    EXPECT_EQ(chains[1].first_node, 4U);
    expect_same(graph, {random_tensor({4, 300, 16}, 2)});
}

TEST(GraphExecutor, InPlaceNodesDoNotOverwriteWhatIsStillNeeded) {
    GraphBuilder b;
    b.input("x", {{50}}).constant("shape", ints({50}));
    b.node("Exp", {"x"}, {"a"}).node("Reshape", {"a", "shape"}, {"same"}).node("Neg", {"a"}, {"n"});
    b.node("Add", {"same", "n2"}, {"y"}).node("Mul", {"n", "n"}, {"n2"});
    auto graph = b.build("y");
    graph.outputs.push_back(*find_value(graph, "n2"));
    expect_same(graph, {random_tensor({50}, 3)});
    EXPECT_FALSE(runs_in_place({"", "Transpose", 22, {}, {0}, {1}}));
    EXPECT_TRUE(runs_in_place({"", "Relu", 22, {}, {0}, {1}}));
}

}  // namespace
}  // namespace imka::graph
