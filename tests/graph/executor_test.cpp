// Runs of graphs: results against plain loops, memory, threads, and products given to a hook.
#include "imka/graph/executor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "graphs.hpp"
#include "imka/graph/operator.hpp"
#include "imka/linalg/gemm.hpp"
#include "support/error.hpp"
#include "support/graph_reference.hpp"

namespace imka::graph {
namespace {

using testing::HasSubstr;

Tensor run_one(const Graph& graph, const std::vector<Tensor>& inputs, MatrixHook* hook = nullptr,
               int threads = 2) {
    std::vector<TensorView> views;
    for (const auto& t : inputs) views.push_back(t.view());
    Executor executor(graph);
    return executor.run(views, hook, {.threads = threads}).outputs.at(0);
}

void expect_near(std::span<const float> found, const std::vector<double>& expected, double tolerance) {
    ASSERT_EQ(found.size(), expected.size());
    double largest = 0;
    for (const double v : expected) largest = std::max(largest, std::abs(v));
    EXPECT_GT(largest, 0.1) << "the reference is mostly zero";
    for (std::size_t i = 0; i < found.size(); ++i)
        EXPECT_NEAR(found[i], expected[i], tolerance * largest) << i;
}

TEST(GraphCopy, EqualsAPlainLoop) {
    const auto source = random_tensor({2000}, 3);
    const std::vector<StridedCopy> copies = {
        {{5, 7}, {1, 5}, {7, 1}},                          // transpose
        {{3, 4, 5, 6}, {120, 6, 24, 1}, {120, 30, 6, 1}},  // swap of two axes, the last one stays
        {{3, 4, 5, 6}, {1, 3, 12, 60}, {120, 30, 6, 1}},   // all axes reversed
        {{40, 37}, {1, 40}, {37, 1}},                      // larger than a tile
        {{4, 6}, {0, 1}, {6, 1}},                          // repeated rows
        {{6}, {-2}, {1}},                                  // backwards
        {{2, 1, 3}, {3, 0, 1}, {3, 3, 1}},
    };
    for (const auto& copy : copies) {
        const auto count = element_count(copy.shape);
        std::vector<float> found(count, -9);
        std::vector<float> expected(count, -9);
        const float* from = source.values<float>().data() + 20;
        copy_strided(copy, sizeof(float), {.threads = 2}, reinterpret_cast<const std::byte*>(from),
                     reinterpret_cast<std::byte*>(found.data()));
        reference::copy_strided(copy, from, expected.data());
        EXPECT_EQ(found, expected) << to_text(copy.shape);
    }
}

TEST(GraphExecutor, MatMulEqualsAPlainLoop) {
    for (const Shape& shape : {Shape{3, 5, 2}, Shape{300, 17, 33}, Shape{1, 64, 1}}) {
        const auto a = random_tensor({shape[0], shape[1]}, 1);
        const auto b = random_tensor({shape[1], shape[2]}, 2);
        const auto expected = reference::matmul(a, b);
        GraphBuilder variable;
        variable.input("a", dims_of(a.shape)).input("b", dims_of(b.shape)).node("MatMul", {"a", "b"}, {"c"});
        expect_near(run_one(variable.build("c"), {a, b}).values<float>(), expected, 1e-5);
        GraphBuilder fixed;
        fixed.input("a", dims_of(a.shape)).constant("b", b).node("MatMul", {"a", "b"}, {"c"});
        expect_near(run_one(fixed.build("c"), {a}).values<float>(), expected, 1e-5);
    }
}

TEST(GraphExecutor, SumsOverAnEmptyAxisAreZero) {
    GraphBuilder builder;
    builder.input("x", {{3}, {0}}).node("Einsum", {"x"}, {"y"}, {{"equation", std::string("ij->i")}});
    const auto sums = run_one(builder.build("y"), {Tensor(DType::f32, {3, 0})});
    EXPECT_THAT(sums.values<float>(), testing::Each(0.0F));
    EXPECT_EQ(sums.shape, Shape{3});
}

struct ConvCase {
    Shape x;
    Shape w;
    reference::Conv2d c;
};

Graph conv_graph(const ConvCase& c, const Tensor& w) {
    return GraphBuilder()
        .input("x", {{Dim::kUnknown, "batch"}, {c.x[1]}, {c.x[2]}, {c.x[3]}})
        .constant("w", w)
        .node("Conv", {"x", "w"}, {"y"},
              {{"strides", std::vector<std::int64_t>{c.c.stride, c.c.stride}},
               {"dilations", std::vector<std::int64_t>{c.c.dilation, c.c.dilation}},
               {"pads", std::vector<std::int64_t>(4, c.c.pad)},
               {"group", c.c.groups}})
        .build("y");
}

// Multiplies in place of the graph, as a chip would, and counts the rows.
class CountingHook : public MatrixHook {
public:
    explicit CountingHook(const Graph& graph) : graph_(graph), matrices_(static_matrices(graph)) {}
    bool multiply(const MatrixCall& call, MatrixView<const float> x, const Exec&,
                  MatrixView<float> y) override {
        const auto w = weights_of(graph_, matrices_[call.matrix]);
        EXPECT_EQ(x.cols(), w.rows());
        EXPECT_EQ(y.cols(), w.cols());
        gemm_nn(x, w, y);
        rows += x.rows();
        return true;
    }
    std::size_t rows = 0;

private:
    const Graph& graph_;
    std::vector<StaticMatrix> matrices_;
};

TEST(GraphExecutor, ConvEqualsAPlainLoop) {
    const std::vector<ConvCase> cases = {
        {{2, 3, 9, 8}, {5, 3, 3, 3}, {1, 1, 1, 1}}, {{1, 4, 11, 11}, {6, 2, 3, 3}, {2, 1, 0, 2}},
        {{2, 6, 7, 9}, {6, 1, 3, 3}, {1, 1, 1, 6}}, {{1, 2, 12, 12}, {3, 2, 3, 3}, {1, 2, 2, 1}},
        {{1, 2, 2, 2}, {4, 2, 3, 3}, {1, 1, 1, 1}}, {{1, 8, 20, 20}, {8, 8, 1, 1}, {1, 1, 0, 1}},
    };
    for (const auto& c : cases) {
        const auto x = random_tensor(c.x, 5);
        const auto w = random_tensor(c.w, 6);
        Shape shape;
        const auto expected = reference::conv2d(x, w, c.c, shape);
        const auto graph = conv_graph(c, w);
        const auto y = run_one(graph, {x});
        EXPECT_EQ(y.shape, shape);
        expect_near(y.values<float>(), expected, 1e-5);
        CountingHook hook(graph);
        expect_near(run_one(graph, {x}, &hook).values<float>(), expected, 1e-5);
        EXPECT_EQ(hook.rows, static_cast<std::size_t>(shape[0] * shape[2] * shape[3] * c.c.groups));
    }
}

Graph two_layers() {
    return GraphBuilder()
        .input("x", {{Dim::kUnknown, "batch"}, {40}})
        .constant("w", random_tensor({40, 40}, 1))
        .constant("b", random_tensor({40}, 2))
        .node("MatMul", {"x", "w"}, {"y"})
        .node("Tanh", {"y"}, {"z"})
        .node("Gemm", {"z", "w", "b"}, {"u"})
        .node("Softmax", {"u"}, {"v"})
        .build("v");
}

TEST(GraphExecutor, BitsDependNeitherOnThreadsNorOnTheBatch) {
    const auto x = random_tensor({700, 40}, 9);
    const auto whole = run_one(two_layers(), {x}, nullptr, 1);
    EXPECT_EQ(whole, run_one(two_layers(), {x}, nullptr, 3));
    Tensor part(DType::f32, {3, 40});
    std::copy_n(x.values<float>().begin() + 20'000, 120, part.values<float>().begin());
    const auto y = run_one(two_layers(), {part});
    for (std::size_t i = 0; i < 120; ++i) EXPECT_EQ(y.values<float>()[i], whole.values<float>()[20'000 + i]);
}

TEST(GraphExecutor, ListsMatricesAndTheNodesThatShareThem) {
    const auto graph = with_input_shapes(two_layers(), {{6, 40}});
    const auto matrices = static_matrices(graph);
    ASSERT_EQ(matrices.size(), 1U);
    EXPECT_EQ(matrices[0].name, "w");
    EXPECT_EQ(matrices[0].inputs, 40U);
    ASSERT_EQ(matrices[0].uses.size(), 2U);
    EXPECT_EQ(matrices[0].uses[0].rows, 6);
    EXPECT_EQ(static_matrices(two_layers())[0].uses[0].rows, std::nullopt);
}

TEST(GraphExecutor, AHookReplacesProductsAndMayDecline) {
    class Zero : public MatrixHook {
    public:
        bool multiply(const MatrixCall& call, MatrixView<const float>, const Exec&,
                      MatrixView<float> y) override {
            nodes.push_back(call.node);
            if (call.node == 0) return false;
            for (std::size_t r = 0; r < y.rows(); ++r) std::ranges::fill(y.row(r), 0.0F);
            return true;
        }
        std::vector<std::size_t> nodes;
    } zero;
    const auto y = run_one(two_layers(), {random_tensor({2, 40}, 9)}, &zero);
    EXPECT_EQ(zero.nodes, (std::vector<std::size_t>{0, 2}));
    // The bias alone is left, in every row.
    for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(y.values<float>()[i], y.values<float>()[40 + i]);
}

TEST(GraphExecutor, MemoryIsUsedAgain) {
    GraphBuilder builder;
    builder.input("x0", {{1000}});
    for (int k = 0; k < 50; ++k)
        builder.node(k % 2 == 0 ? "Neg" : "Relu", {"x" + std::to_string(k)}, {"x" + std::to_string(k + 1)});
    Executor executor(builder.build("x50"));
    const auto x = random_tensor({1000}, 1);
    const std::vector<TensorView> inputs{x.view()};
    const auto first = executor.run(inputs, nullptr, {});
    EXPECT_LE(first.peak_bytes, 2 * 4000U);
    EXPECT_EQ(executor.run(inputs, nullptr, {}).peak_bytes, first.peak_bytes);
}

TEST(GraphExecutor, WrongInputsAreNamed) {
    EXPECT_THAT(error_of([] {
                    run_one(two_layers(), {random_tensor({2, 39}, 1)});
                }),
                HasSubstr("bad_data: input 'x' must be f32[batch, 40], got f32[2, 39]"));
    EXPECT_THAT(error_of([] { run_one(two_layers(), {ints({1, 2})}); }), HasSubstr("got i64[2]"));
    EXPECT_THAT(error_of([] { run_one(two_layers(), {}); }), HasSubstr("expected 1 inputs, got 0"));
    GraphBuilder gather;
    gather.input("x", {{3}}).input("i", {{2}}, DType::i64).node("Gather", {"x", "i"}, {"y"});
    EXPECT_THAT(error_of([&] {
                    run_one(gather.build("y"), {random_tensor({3}, 1), ints({0, 3})});
                }),
                HasSubstr("node 'node_y' ('Gather'): index 3 is out of range for size 3"));
}

struct AttentionShapes {
    Dims q = {{2}, {4}, {7}, {6}};
    Dims k = {{2}, {2}, {9}, {6}};
    Dims v = {{2}, {2}, {9}, {3}};
    Dims keys = {{2}, {2}, {9}, {5}};
    Dims mask = {{2}, {9}};
    std::string form = "positive";
    bool causal = false;
};

std::string attention_type(const AttentionShapes& s) {
    GraphBuilder b;
    b.input("q", s.q)
        .input("k", s.k)
        .input("v", s.v)
        .input("keys", s.keys)
        .input("mask", s.mask, DType::bool_);
    b.node("imka.Attention", {"q", "k", "v", "keys", "mask"}, {"y"},
           {{"form", s.form}, {"causal", std::int64_t{s.causal ? 1 : 0}}});
    const auto graph = b.build("y");
    return to_text(graph.values[graph.outputs[0]].type);
}

TEST(GraphAttention, OutputsHaveTheShapeOfQueriesAndTheSizeOfValues) {
    EXPECT_EQ(attention_type({}), "f32[2, 4, 7, 3]");
    EXPECT_EQ(attention_type(
                  {.q = {{7}, {6}}, .k = {{9}, {6}}, .v = {{9}, {3}}, .keys = {{9}, {5}}, .mask = {{9}}}),
              "f32[7, 3]");
}

TEST(GraphAttention, WrongShapesAreNamed) {
    const auto message = [](const AttentionShapes& s) { return error_of([&] { (void)attention_type(s); }); };
    EXPECT_THAT(message({.q = {{2}, {3}, {7}, {6}}}),
                HasSubstr("3 heads of queries cannot share 2 heads of keys"));
    EXPECT_THAT(message({.q = {{2}, {4}, {7}, {5}}}), HasSubstr("node_y"));
    EXPECT_THAT(message({.q = {{4}, {7}, {6}}}),
                HasSubstr("expected query and key projections with equal numbers of axes, at least 2"));
    EXPECT_THAT(message({.v = {{2}, {2}, {8}, {3}}}), HasSubstr("node_y"));
    EXPECT_THAT(message({.v = {{2}, {9}, {3}}}), HasSubstr("input 2 has 3 axes, but the projections have 4"));
    EXPECT_THAT(message({.mask = {{9}}}), HasSubstr("the key mask must have 2 axes: sequences and keys"));
    EXPECT_THAT(message({.mask = {{2}, {7}}}), HasSubstr("node_y"));
    EXPECT_THAT(message({.causal = true}), HasSubstr("node_y"));
    EXPECT_THAT(message({.form = "cosine"}), HasSubstr("cosine"));
    GraphBuilder b;
    b.input("q", {{7}, {6}}).input("k", {{9}, {6}}).input("v", {{9}, {3}});
    EXPECT_THAT(error_of([&] {
                    b.node("imka.Attention", {"q", "k", "v"}, {"y"}).build("y");
                }),
                HasSubstr("form positive needs the keys (input 3)"));
}

// relu features: outputs are means of values with weights relu(u_q) . relu(u_k); an ignored key has none.
TEST(GraphAttention, WeighsValuesByProductsOfFeatures) {
    GraphBuilder b;
    b.input("q", {{1}, {2}}).input("k", {{3}, {2}}).input("v", {{3}, {1}}).input("mask", {{3}}, DType::u8);
    b.node("imka.Attention", {"q", "k", "v", "", "mask"}, {"y"}, {{"form", std::string("relu")}});
    const auto q = make_tensor<float>({1, 2}, std::vector<float>{1, 2});
    const auto k = make_tensor<float>({3, 2}, std::vector<float>{1, 1, 5, -1, 9, 9});
    const auto v = make_tensor<float>({3, 1}, std::vector<float>{10, 2, 1000});
    const auto mask = make_tensor<std::uint8_t>({3}, std::vector<std::uint8_t>{1, 1, 0});
    const std::vector<TensorView> inputs{q.view(), k.view(), v.view(), mask.view()};
    const auto y = Executor(b.build("y")).run(inputs, nullptr, {}).outputs[0];
    EXPECT_NEAR(y.values<float>()[0], (3 * 10 + 5 * 2) / 8.0, 1e-5);
    const auto none = make_tensor<float>({1, 2}, std::vector<float>{-1, -2});
    const std::vector<TensorView> without{none.view(), k.view(), v.view(), mask.view()};
    EXPECT_THAT(error_of([&] { (void)Executor(b.graph).run(without, nullptr, {}); }),
                HasSubstr("numeric: attention: the normaliser of query 0 of head 0 is 0"));
}

}  // namespace
}  // namespace imka::graph
