// Simplified graphs have fewer nodes and the same results.
#include "imka/graph/simplify.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "graphs.hpp"
#include "imka/graph/executor.hpp"
#include "imka/graph/operator.hpp"
#include "imka/graph/static_matrices.hpp"

namespace imka::graph {
namespace {

std::vector<std::string> ops_of(const Graph& graph) {
    std::vector<std::string> ops;
    for (const auto& node : graph.nodes) ops.push_back(node.op);
    return ops;
}

// The operators of the simplified graph, after a comparison of its results with those of the original.
std::vector<std::string> simplified_ops(const Graph& graph, const Tensor& x) {
    const auto small = simplified(graph);
    verify(small);
    const std::vector<TensorView> inputs{x.view()};
    const auto before = Executor(graph).run(inputs, nullptr, {}).outputs.at(0);
    const auto after = Executor(small).run(inputs, nullptr, {}).outputs.at(0);
    EXPECT_EQ(before.shape, after.shape);
    float largest = 0;
    for (const float v : before.values<float>()) largest = std::max(largest, std::abs(v));
    EXPECT_GT(largest, 0.01F);
    for (std::size_t i = 0; i < before.values<float>().size(); ++i)
        EXPECT_NEAR(before.values<float>()[i], after.values<float>()[i], 2e-6F * largest);
    return ops_of(small);
}

using Ops = std::vector<std::string>;

Tensor positive(const Shape& shape, std::uint64_t seed) {
    auto t = random_tensor(shape, seed);
    for (auto& v : t.values<float>()) v = std::abs(v) + 0.5F;
    return t;
}

GraphBuilder& add_batch_norm(GraphBuilder& b, std::int64_t channels, const std::string& from,
                             const std::string& to) {
    return b.constant("s", random_tensor({channels}, 11))
        .constant("t", random_tensor({channels}, 12))
        .constant("m", random_tensor({channels}, 13))
        .constant("v", positive({channels}, 14))
        .node("BatchNormalization", {from, "s", "t", "m", "v"}, {to}, {{"epsilon", 1e-3F}});
}

TEST(GraphSimplify, FoldsBatchNormIntoConv) {
    for (const bool bias : {false, true}) {
        GraphBuilder b;
        b.input("x", {{2}, {4}, {6}, {6}})
            .constant("w", random_tensor({6, 2, 3, 3}, 1))
            .constant("c", random_tensor({6}, 2));
        b.node("Conv", bias ? Ops{"x", "w", "c"} : Ops{"x", "w"}, {"y"}, {{"group", std::int64_t{2}}});
        add_batch_norm(b, 6, "y", "z");
        EXPECT_EQ(simplified_ops(b.build("z"), random_tensor({2, 4, 6, 6}, 3)), Ops{"Conv"});
    }
}

TEST(GraphSimplify, FoldsBatchNormIntoGemmOfBothForms) {
    for (const std::int64_t transposed : {0, 1}) {
        GraphBuilder b;
        b.input("x", {{5}, {4}}).constant("w", random_tensor(transposed != 0 ? Shape{3, 4} : Shape{4, 3}, 1));
        b.constant("c", random_tensor({3}, 2)).node("Gemm", {"x", "w", "c"}, {"y"}, {{"transB", transposed}});
        add_batch_norm(b, 3, "y", "z");
        EXPECT_EQ(simplified_ops(b.build("z"), random_tensor({5, 4}, 3)), Ops{"Gemm"});
    }
}

TEST(GraphSimplify, KeepsBatchNormWhereItsInputHasOtherReaders) {
    GraphBuilder b;
    b.input("x", {{2}, {2}, {4}, {4}})
        .constant("w", random_tensor({2, 2, 1, 1}, 1))
        .node("Conv", {"x", "w"}, {"y"});
    add_batch_norm(b, 2, "y", "z").node("Add", {"y", "z"}, {"u"});
    EXPECT_EQ(simplified_ops(b.build("u"), random_tensor({2, 2, 4, 4}, 3)),
              (Ops{"Conv", "BatchNormalization", "Add"}));
}

TEST(GraphSimplify, RecognizesLayerNormalization) {
    for (const bool power : {false, true}) {
        GraphBuilder b;
        b.input("x", {{3}, {5}, {8}}).constant("two", scalar(2)).constant("eps", scalar(1e-5F));
        b.constant("g", random_tensor({8}, 1)).constant("h", random_tensor({8}, 2));
        b.node("ReduceMean", {"x"}, {"mean"}, {{"axes", std::vector<std::int64_t>{-1}}}, 13)
            .node("Sub", {"x", "mean"}, {"d"});
        power ? b.node("Pow", {"d", "two"}, {"p"}) : b.node("Mul", {"d", "d"}, {"p"});
        b.node("ReduceMean", {"p"}, {"var"}, {{"axes", std::vector<std::int64_t>{2}}}, 13);
        b.node("Add", {"var", "eps"}, {"a"}).node("Sqrt", {"a"}, {"r"}).node("Div", {"d", "r"}, {"n"});
        b.node("Mul", {"n", "g"}, {"s"}).node("Add", {"s", "h"}, {"y"});
        EXPECT_EQ(simplified_ops(b.build("y"), random_tensor({3, 5, 8}, 3)), Ops{"LayerNormalization"});
    }
}

TEST(GraphSimplify, DoesNotTakeOtherNormsForLayerNormalization) {
    GraphBuilder b;
    b.input("x", {{5}, {8}})
        .constant("eps", scalar(1e-5F))
        .constant("g", random_tensor({8}, 1))
        .constant("h", random_tensor({8}, 2));
    b.node("ReduceMean", {"x"}, {"mean"}, {{"axes", std::vector<std::int64_t>{0}}}, 13)
        .node("Sub", {"x", "mean"}, {"d"});
    b.node("Mul", {"d", "d"}, {"p"})
        .node("ReduceMean", {"p"}, {"var"}, {{"axes", std::vector<std::int64_t>{-1}}}, 13);
    b.node("Add", {"var", "eps"}, {"a"}).node("Sqrt", {"a"}, {"r"}).node("Div", {"d", "r"}, {"n"});
    b.node("Mul", {"n", "g"}, {"s"}).node("Add", {"s", "h"}, {"y"});
    EXPECT_EQ(simplified_ops(b.build("y"), random_tensor({5, 8}, 3)).size(), 9U);
}

TEST(GraphSimplify, RecognizesGeluInBothOrders) {
    GraphBuilder a;
    a.input("x", {{50}})
        .constant("root", scalar(std::sqrt(2.0F)))
        .constant("one", scalar(1))
        .constant("half", scalar(0.5F));
    a.node("Div", {"x", "root"}, {"d"}).node("Erf", {"d"}, {"e"}).node("Add", {"e", "one"}, {"s"});
    GraphBuilder b = a;
    a.node("Mul", {"x", "s"}, {"m"}).node("Mul", {"m", "half"}, {"y"});
    b.node("Mul", {"half", "x"}, {"m"}).node("Mul", {"m", "s"}, {"y"});
    EXPECT_EQ(simplified_ops(a.build("y"), random_tensor({50}, 3)), Ops{"Gelu"});
    EXPECT_EQ(simplified_ops(b.build("y"), random_tensor({50}, 3)), Ops{"Gelu"});
}

TEST(GraphSimplify, FoldsConstantsAndKnownShapes) {
    GraphBuilder b;
    b.input("x", {{2}, {6}})
        .constant("one", ints({1}))
        .constant("three", ints({3}))
        .constant("first", ints({0}));
    b.node("Shape", {"x"}, {"shape"}).node("Gather", {"shape", "first"}, {"n"});
    b.node("Concat", {"n", "three", "one"}, {"part"}, {{"axis", std::int64_t{0}}});
    b.constant("rest", ints({-1}))
        .node("Concat", {"n", "three", "rest"}, {"wanted"}, {{"axis", std::int64_t{0}}});
    b.node("Reshape", {"x", "wanted"}, {"y"});
    const auto graph = b.build("y");
    EXPECT_EQ(simplified_ops(graph, random_tensor({2, 6}, 3)), Ops{"Reshape"});
    EXPECT_EQ(to_text(simplified(graph).values[simplified(graph).outputs[0]].type), "f32[2, 3, 2]");
}

// Ω of exported Performers: both uses of a transposed matrix share it, under its name.
TEST(GraphSimplify, ProductsWithAConstantMatrixInEinsumBecomeMatMul) {
    GraphBuilder b;
    b.input("x", {{2}, {3}, {4}})
        .constant("omega", random_tensor({5, 4}, 1))
        .constant("v", random_tensor({4, 5}, 2))
        .node("Einsum", {"x", "omega"}, {"a"}, {{"equation", std::string("bld,md->blm")}})
        .node("Einsum", {"x", "omega"}, {"c"}, {{"equation", std::string("... d, m d -> ... m")}})
        .node("Einsum", {"x", "v"}, {"e"}, {{"equation", std::string("bld,dm->blm")}})
        .node("Sub", {"a", "e"}, {"f"})
        .node("Mul", {"f", "c"}, {"y"});
    const auto graph = b.build("y");
    EXPECT_EQ(simplified_ops(graph, random_tensor({2, 3, 4}, 3)),
              (Ops{"MatMul", "MatMul", "MatMul", "Sub", "Mul"}));
    const auto matrices = matrices_by_name(simplified(graph));
    ASSERT_EQ(matrices.size(), 2U);
    EXPECT_EQ(matrices.at("omega").inputs, 4U);
    EXPECT_EQ(matrices.at("omega").outputs, 5U);
    EXPECT_EQ(matrices.at("omega").uses.size(), 2U);
}

TEST(GraphSimplify, AMatrixThatIsAlsoUsedAsItIsStays) {
    GraphBuilder b;
    b.input("x", {{3}, {4}})
        .constant("w", random_tensor({4, 4}, 1))
        .node("Einsum", {"x", "w"}, {"a"}, {{"equation", std::string("ld,md->lm")}})
        .node("MatMul", {"a", "w"}, {"y"});
    const auto graph = b.build("y");
    EXPECT_EQ(simplified_ops(graph, random_tensor({3, 4}, 3)), (Ops{"MatMul", "MatMul"}));
    const auto matrices = matrices_by_name(simplified(graph));
    EXPECT_TRUE(matrices.contains("w") && matrices.contains("w.transposed"));
}

TEST(GraphSimplify, OtherEinsumsStay) {
    for (const auto* equation : {"bld,md->bml", "bld,ld->bl", "bld,md->bm", "bll,ml->blm"}) {
        GraphBuilder b;
        b.input("x", {{4}, {4}, {4}})
            .constant("w", random_tensor({4, 4}, 1))
            .node("Einsum", {"x", "w"}, {"y"}, {{"equation", std::string(equation)}});
        const auto small = simplified(b.build("y"));
        EXPECT_EQ(ops_of(small), Ops{"Einsum"}) << equation;
    }
}

}  // namespace
}  // namespace imka::graph
