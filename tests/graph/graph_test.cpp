// Order, types and the verifier of graphs.
#include "imka/graph/graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graphs.hpp"
#include "support/error.hpp"

namespace imka::graph {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Graph chain() {
    return GraphBuilder()
        .input("x", {{Dim::kUnknown, "batch"}, {4}})
        .constant("w", random_tensor({4, 3}, 1))
        .node("MatMul", {"x", "w"}, {"y"})
        .node("Relu", {"y"}, {"z"})
        .build("z");
}

TEST(Graph, InfersTypesWithNamedSizes) {
    const auto graph = chain();
    EXPECT_EQ(to_text(graph.values[graph.outputs[0]].type), "f32[batch, 3]");
    verify(graph);
}

TEST(Graph, SortsNodesAndNamesACycle) {
    auto graph = chain();
    std::swap(graph.nodes[0], graph.nodes[1]);
    EXPECT_THAT(error_of([&] { verify(graph); }),
                HasSubstr("node 'node_z' ('Relu'): input 'y' is used before"));
    sort_nodes(graph);
    verify(graph);
    graph.nodes[0].inputs[0] = graph.nodes[1].outputs[0];
    EXPECT_THAT(error_of([&] { sort_nodes(graph); }), AllOf(HasSubstr("node_y"), HasSubstr("cycle")));
}

TEST(Graph, VerifierNamesTheNode) {
    const auto broken = [](auto change) {
        auto graph = chain();
        change(graph);
        return error_of([&] { verify(graph); });
    };
    EXPECT_THAT(broken([](Graph& g) { g.nodes[1].outputs = g.nodes[0].outputs; }),
                HasSubstr("node 'node_z' ('Relu'): output 'y' is defined twice"));
    EXPECT_THAT(broken([](Graph& g) { g.values[0].name = "w"; }), HasSubstr("duplicate tensor name 'w'"));
    EXPECT_THAT(
        broken([](Graph& g) { g.nodes[1].op = "Rleu"; }),
        AllOf(HasSubstr("node 'node_z' ('Rleu'): operator 'Rleu' is not supported"), HasSubstr("Relu")));
    EXPECT_THAT(broken([](Graph& g) { g.nodes[1].opset = 1; }), HasSubstr("operator set 6 or higher"));
    EXPECT_THAT(broken([](Graph& g) { g.nodes[1].inputs.clear(); }),
                HasSubstr("expected at least 1 inputs, got 0"));
    EXPECT_THAT(broken([](Graph& g) { g.nodes[1].inputs.push_back(0); }),
                HasSubstr("expected at most 1 inputs"));
    EXPECT_THAT(broken([](Graph& g) {
                    g.values[0].type.dims = Dims{{2}, {5}};
                }),
                HasSubstr("5 columns of the first input do not fit 4 rows"));
    EXPECT_THAT(broken([](Graph& g) {
                    g.values[3].type.dims = Dims{{2}, {9}};
                }),
                HasSubstr("but the graph declares"));
    EXPECT_THAT(broken([](Graph& g) { g.nodes[0].inputs[0] = 77; }), HasSubstr("value 77 does not exist"));
    EXPECT_THAT(broken([](Graph& g) { g.nodes.pop_back(); }),
                HasSubstr("output 'z' of the graph is not computed"));
}

TEST(Graph, UnsupportedOperatorsNameAReplacement) {
    auto graph = chain();
    graph.nodes[1].op = "LSTM";
    EXPECT_THAT(error_of([&] { verify(graph); }), HasSubstr("instead: export the cell as MatMul"));
    EXPECT_THROW(verify(graph), UnsupportedError);
}

// The operators of ONNX 1.22 (set 25 and earlier) that are not in the table.
TEST(Graph, EveryOtherOperatorOfOnnxHasAReplacement) {
    for (const auto* op : {"AffineGrid",
                           "Attention",
                           "Bernoulli",
                           "BitCast",
                           "CausalConvWithState",
                           "CenterCropPad",
                           "Col2Im",
                           "ConcatFromSequence",
                           "ConvInteger",
                           "CumProd",
                           "DFT",
                           "DeformConv",
                           "Det",
                           "GRU",
                           "GlobalLpPool",
                           "GridSample",
                           "If",
                           "ImageDecoder",
                           "LSTM",
                           "LinearAttention",
                           "Loop",
                           "MaxRoiPool",
                           "MaxUnpool",
                           "MelWeightMatrix",
                           "Multinomial",
                           "NegativeLogLikelihoodLoss",
                           "NonMaxSuppression",
                           "Optional",
                           "OptionalGetElement",
                           "OptionalHasElement",
                           "QLinearConv",
                           "RNN",
                           "RandomNormal",
                           "RandomNormalLike",
                           "RandomUniform",
                           "RandomUniformLike",
                           "RegexFullMatch",
                           "Resize",
                           "RoiAlign",
                           "RotaryEmbedding",
                           "STFT",
                           "Scan",
                           "Scatter",
                           "SequenceAt",
                           "SequenceConstruct",
                           "SequenceEmpty",
                           "SequenceErase",
                           "SequenceInsert",
                           "SequenceLength",
                           "SequenceMap",
                           "SoftmaxCrossEntropyLoss",
                           "SplitToSequence",
                           "StringConcat",
                           "StringNormalizer",
                           "StringSplit",
                           "TensorScatter",
                           "TfIdfVectorizer",
                           "Unique",
                           "Upsample"}) {
        auto graph = chain();
        graph.nodes[1].op = op;
        EXPECT_THAT(error_of([&] { verify(graph); }),
                    HasSubstr("operator '" + std::string(op) + "' is not supported; instead: "));
    }
}

TEST(Graph, InputShapesFollowToAllValues) {
    const auto graph = with_input_shapes(chain(), {{5, 4}});
    EXPECT_EQ(to_text(graph.values[graph.outputs[0]].type), "f32[5, 3]");
    EXPECT_THAT(error_of([] {
                    with_input_shapes(chain(), {{5, 3}});
                }),
                HasSubstr("input 'x' is f32[batch, 4]; it cannot have shape 5x3"));
    EXPECT_THAT(error_of([] { with_input_shapes(chain(), {}); }),
                HasSubstr("expected shapes for 1 inputs, got 0"));
}

}  // namespace
}  // namespace imka::graph
