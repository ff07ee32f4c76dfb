// Pipelines: chains, branches, which rows a step needs, and digital work.
#include "imka/deploy/pipeline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <span>

#include "graph/graphs.hpp"
#include "imka/base/file.hpp"
#include "imka/deploy/map.hpp"
#include "imka/deploy/on_chip.hpp"
#include "imka/deploy/schedule.hpp"
#include "imka/graph/onnx_import.hpp"
#include "imka/graph/static_matrices.hpp"
#include "support/error.hpp"
#include "support/onnx.hpp"
#include "support/paths.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using graph::GraphBuilder;
using graph::random_tensor;
using testing::HasSubstr;

Pipeline whole_pipeline(const graph::Graph& graph) {
    std::vector<std::size_t> all(graph::static_matrices(graph).size());
    std::iota(all.begin(), all.end(), 0);
    return pipeline_of(graph, all);
}

const PipelineStep& step_named(const Pipeline& pipeline, std::string_view name) {
    return *std::ranges::find(pipeline.steps, name, &PipelineStep::name);
}

TEST(Pipeline, OfAListIsAChain) {
    const auto pipeline = pipeline_of(parse_shapes("10x20@5 20x30*2@6"));
    ASSERT_EQ(pipeline.steps.size(), 3U);
    EXPECT_EQ(pipeline.steps[2].name, "m1#1");
    EXPECT_EQ(pipeline.steps[2].rows, 6U);
    EXPECT_EQ(pipeline.steps[2].inputs, (std::vector<StepInput>{{1, Reads::all}}));
    EXPECT_EQ(pipeline.steps[0].input_bytes, 50.0);
    EXPECT_TRUE(pipeline.steps[2].is_output);
    EXPECT_FALSE(pipeline.steps[1].is_output);
    EXPECT_EQ(pipeline_text(pipeline), "  1  m0 -> m1#0 -> m1#1\n");
}

TEST(Pipeline, OfAListFollowsItsDependencies) {
    const TempDir dir;
    write_file_atomic(
        dir / "a.yaml",
        "matrices:\n"
        "  - {name: in, inputs: 8, outputs: 8, vectors: 10}\n"
        "  - {name: q, inputs: 8, outputs: 8, vectors: 10, after: [in]}\n"
        "  - {name: k, inputs: 8, outputs: 8, vectors: 10, after: [in]}\n"
        "  - {name: out, inputs: 8, outputs: 8, vectors: 10, after: ['omega#0'], after_all: ['omega#1']}\n"
        "  - {name: omega, inputs: 4, outputs: 8, vectors: 20, calls: [{after: [q]}, {after: [k]}]}\n"
        "  - {name: last, inputs: 8, outputs: 2, after_all: [out], after: [in]}\n");
    const auto pipeline = pipeline_of(load_matrix_list(dir / "a.yaml"));
    EXPECT_EQ(pipeline_text(pipeline),
              "  1  in\n"
              "  2  2 branches\n"
              "     - q -> omega#0\n"
              "     - k -> omega#1\n"
              "  3  out -> last (cached in)\n");
    const auto& out = step_named(pipeline, "out");
    EXPECT_EQ(out.inputs.size(), 2U);
    EXPECT_EQ(out.inputs[1].reads, Reads::all);
}

TEST(Pipeline, OfAPerformerHasParallelProjections) {
    const auto pipeline = pipeline_of(known_network("performer-listops").matrices);
    EXPECT_EQ(pipeline_text(pipeline),
              "  1  3 branches\n"
              "     - layers.0.k_proj#0 -> layers.0.omega#1\n"
              "     - layers.0.v_proj#0\n"
              "     - layers.0.q_proj#0 -> layers.0.omega#0\n"
              "  2  layers.0.out_proj#0 -> layers.0.fc1#0 -> layers.0.fc2#0\n"
              "  3  3 branches\n"
              "     - layers.0.k_proj#1 -> layers.0.omega#3\n"
              "     - layers.0.v_proj#1\n"
              "     - layers.0.q_proj#1 -> layers.0.omega#2\n"
              "  4  layers.0.out_proj#1 -> layers.0.fc1#1 -> layers.0.fc2#1 -> classifier -> last\n");
    for (const auto* name :
         {"performer-aan", "performer-cifar10", "performer-imdb", "performer-pathfinder"}) {
        const auto list = known_network(name).matrices;
        std::size_t calls = 0;
        for (const auto& m : list) calls += m.calls;
        EXPECT_EQ(pipeline_of(list).steps.size(), calls) << name;
    }
}

TEST(Pipeline, OfAListRefusesCirclesAndUnknownNames) {
    const auto error = [](std::vector<CallSite> a, std::vector<CallSite> b) {
        return error_of([&] {
            pipeline_of({{"a", 4, 4, 1, 1, std::move(a)}, {"b", 4, 4, 2, 1, std::move(b)}});
        });
    };
    EXPECT_EQ(error({{{}, {}}}, {{{"a"}, {}}}), "no error");
    EXPECT_THAT(error({{{"b"}, {}}}, {{{"a"}, {}}}),
                HasSubstr("matrix 'a': 'after' leads back to the matrix itself"));
    EXPECT_THAT(error({{{"c"}, {}}}, {}), HasSubstr("matrix 'a': after 'c': no such matrix"));
    EXPECT_THAT(error({{{"b#2"}, {}}}, {}), HasSubstr("the matrix has 2 calls, counted from 0"));
    EXPECT_THAT(error({{{}, {}}, {{}, {}}}, {}), HasSubstr("2 entries in 'calls'; expected 1"));
    EXPECT_THAT(error_of([] { pipeline_of(parse_shapes("4x4*70000")); }), HasSubstr("more than 65536 calls"));
}

// Attention of one head with a residual path and a layer norm.
graph::Graph attention() {
    return GraphBuilder()
        .input("x", {{1}, {6}, {8}})
        .constant("wq", random_tensor({8, 8}, 1))
        .constant("wk", random_tensor({8, 8}, 2))
        .constant("wv", random_tensor({8, 8}, 3))
        .constant("wo", random_tensor({8, 8}, 4))
        .constant("one", random_tensor({8}, 5))
        .node("MatMul", {"x", "wq"}, {"q"})
        .node("MatMul", {"x", "wk"}, {"k"})
        .node("Transpose", {"k"}, {"kt"}, {{"perm", std::vector<std::int64_t>{0, 2, 1}}})
        .node("MatMul", {"q", "kt"}, {"scores"})
        .node("Softmax", {"scores"}, {"weights"}, {{"axis", std::int64_t{-1}}})
        .node("MatMul", {"x", "wv"}, {"v"})
        .node("MatMul", {"weights", "v"}, {"mixed"})
        .node("MatMul", {"mixed", "wo"}, {"o"})
        .node("Add", {"x", "o"}, {"sum"})
        .node("LayerNormalization", {"sum", "one"}, {"y"})
        .build("y");
}

TEST(Pipeline, OfAGraphHasChainsAndBranches) {
    const auto pipeline = whole_pipeline(attention());
    ASSERT_EQ(pipeline.chains.size(), 2U);
    EXPECT_EQ(pipeline.chains[0].branches.size(), 3U);  // q, k, v
    EXPECT_EQ(pipeline.chains[1].branches.size(), 1U);
    const auto text = pipeline_text(pipeline);
    EXPECT_THAT(text, HasSubstr("3 branches"));
    EXPECT_THAT(text, HasSubstr("node_o [Add, LayerNormalization]"));
    std::size_t steps = 0;
    for (const auto& chain : pipeline.chains) {
        for (const auto& branch : chain.branches) steps += branch.size();
    }
    EXPECT_EQ(steps, pipeline.steps.size());
}

TEST(Pipeline, KnowsWhichRowsAreNeeded) {
    const auto pipeline = whole_pipeline(attention());
    const auto reads = [&](const char* name, std::size_t input) {
        return step_named(pipeline, name).inputs[input].reads;
    };
    EXPECT_EQ(reads("node_kt", 0), Reads::all);
    EXPECT_EQ(reads("node_scores", 0), Reads::rows);  // queries
    EXPECT_EQ(reads("node_scores", 1), Reads::all);   // keys
    EXPECT_EQ(reads("node_weights", 0), Reads::rows);
    EXPECT_EQ(reads("node_mixed", 1), Reads::all);  // values
    EXPECT_EQ(reads("node_o", 0), Reads::rows);
    EXPECT_EQ(reads("node_sum", 0), Reads::rows);
    EXPECT_EQ(reads("node_y", 0), Reads::rows);
    EXPECT_EQ(step_named(pipeline, "node_q").rows, 6U);
}

TEST(Pipeline, CountsDigitalWork) {
    const auto graph = attention();
    const auto pipeline = whole_pipeline(graph);
    EXPECT_EQ(step_named(pipeline, "node_q").work.additions, 0.0);
    EXPECT_EQ(step_named(pipeline, "node_scores").work.multiplications, 6.0 * 6 * 8);
    EXPECT_EQ(step_named(pipeline, "node_weights").work.exponentials, 36.0);
    EXPECT_EQ(step_named(pipeline, "node_weights").work.divisions, 36.0);
    EXPECT_EQ(step_named(pipeline, "node_sum").work.additions, 48.0);
    EXPECT_EQ(step_named(pipeline, "node_y").work.norm_elements, 48.0);
    EXPECT_EQ(step_named(pipeline, "node_kt").work.additions, 0.0);
    const auto digital = pipeline_of(graph, std::span<const std::size_t>());
    EXPECT_EQ(step_named(digital, "node_q").work.multiplications, 6.0 * 8 * 8);
    EXPECT_EQ(digital.chains.size(), 1U);
}

// A 3 x 3 convolution with padding reads one line and one position ahead of its own position.
TEST(Pipeline, WindowsReadAhead) {
    const std::vector<std::int64_t> pads{1, 1, 1, 1};
    const auto graph = GraphBuilder()
                           .input("x", {{1}, {3}, {8}, {8}})
                           .constant("w1", random_tensor({4, 3, 1, 1}, 1))
                           .constant("w2", random_tensor({6, 2, 3, 3}, 2))
                           .constant("w3", random_tensor({6, 5}, 3))
                           .node("Conv", {"x", "w1"}, {"a"})
                           .node("Conv", {"a", "w2"}, {"b"}, {{"pads", pads}, {"group", std::int64_t{2}}})
                           .node("Relu", {"b"}, {"c"})
                           .node("MaxPool", {"c"}, {"d"},
                                 {{"kernel_shape", std::vector<std::int64_t>{2, 2}},
                                  {"strides", std::vector<std::int64_t>{2, 2}}})
                           .node("GlobalAveragePool", {"d"}, {"e"})
                           .node("Flatten", {"e"}, {"f"})
                           .node("MatMul", {"f", "w3"}, {"y"})
                           .build("y");
    const auto pipeline = whole_pipeline(graph);
    const auto& conv = step_named(pipeline, "node_b");
    EXPECT_EQ(conv.rows, 64U);
    EXPECT_EQ(conv.matrices.size(), 2U);  // groups
    EXPECT_EQ(conv.inputs[0], (StepInput{0, Reads::window, 9}));
    EXPECT_EQ(needed_rows(pipeline, conv, conv.inputs[0], 1), 10U);
    EXPECT_EQ(needed_rows(pipeline, conv, conv.inputs[0], 60), 64U);
    const auto& pool = step_named(pipeline, "node_d");
    EXPECT_EQ(pool.rows, 16U);
    EXPECT_GE(needed_rows(pipeline, pool, pool.inputs[0], 1), 10U);  // position (1, 1)
    EXPECT_EQ(needed_rows(pipeline, pool, pool.inputs[0], 16), 64U);
    EXPECT_EQ(step_named(pipeline, "node_e").rows, 1U);
    EXPECT_EQ(step_named(pipeline, "node_y").inputs[0].reads, Reads::rows);
}

// Networks exported from PyTorch: every product is in the pipeline, and the schedule is legal.
TEST(Pipeline, OfExportedModelsCanBeScheduled) {
    IMKA_NEED_ONNX();
    const auto spec = chip_preset("hermes");
    for (const auto* name : {"mlp_opset17", "cnn_opset17", "encoder_opset17", "performer_opset17"}) {
        SCOPED_TRACE(name);
        const auto path =
            std::filesystem::path(source_dir()) / "tests/models" / (std::string(name) + ".onnx");
        const auto graph = with_one_inference(graph::load_onnx(path), {});
        const auto names = choose_matrices(graph, "all");
        const auto mapping = map_matrices(matrix_list(graph, names), grid_of(spec)).mapping;
        const auto pipeline = whole_pipeline(graph);
        std::size_t products = 0;
        for (const auto& step : pipeline.steps) products += step.matrices.size();
        std::size_t uses = 0;
        for (const auto& m : mapping.matrices) uses += m.shape.calls;
        EXPECT_EQ(products, uses);
        const auto schedule = make_schedule(pipeline, mapping, spec, cost_data(),
                                            {.inferences = 2, .link = HostLink{1e9, 1e-6}});
        verify_schedule(schedule, pipeline, mapping, spec);
        EXPECT_GE(schedule.makespan_seconds, schedule.bound.seconds);
    }
}

// Moves heads before tokens, and back if `back`.
graph::Graph heads(bool back) {
    const std::vector<std::int64_t> turn{0, 2, 1, 3};
    GraphBuilder b;
    b.input("x", {{1}, {6}, {8}})
        .constant("wq", random_tensor({8, 8}, 1))
        .constant("omega", random_tensor({4, 5}, 2))
        .constant("wo", random_tensor({10, 8}, 3))
        .constant("split", graph::ints({1, 6, 2, 4}))
        .constant("other", graph::ints({1, 2, 6, 4}))
        .constant("join", graph::ints({1, 6, 10}))
        .node("MatMul", {"x", "wq"}, {"q"})
        .node("Reshape", {"q", "split"}, {"qs"})
        .node("Transpose", {"qs"}, {"qt"}, {{"perm", turn}})
        .node("Einsum", {"qt", "omega"}, {"u"}, {{"equation", std::string("bhld,dm->bhlm")}})
        .node("Exp", {"u"}, {"e"})
        .node("Softmax", {"e"}, {"s"}, {{"axis", std::int64_t{-1}}});
    if (!back) {
        b.node("Reshape", {"q", "other"}, {"plain"})
            .node("Add", {"qt", "plain"}, {"mixed"})
            .node("Reshape", {"s", "join"}, {"y"});
        return b.build("y");
    }
    b.node("Transpose", {"s"}, {"t"}, {{"perm", turn}})
        .node("Reshape", {"t", "join"}, {"j"})
        .node("MatMul", {"j", "wo"}, {"y"});
    return b.build("y");
}

TEST(Pipeline, RowsFlowThroughTransposesOfHeads) {
    const auto pipeline = whole_pipeline(heads(true));
    for (const auto& step : pipeline.steps) {
        for (const auto& input : step.inputs) EXPECT_EQ(input.reads, Reads::rows) << step.name;
    }
    EXPECT_EQ(step_named(pipeline, "node_u").rows, 12U);
    const auto& join = step_named(pipeline, "node_j");
    EXPECT_EQ(needed_rows(pipeline, join, join.inputs[0], 1), 2U) << "both heads of the first token";
}

TEST(Pipeline, RowsInOtherOrdersWaitForAll) {
    const auto pipeline = whole_pipeline(heads(false));
    const auto reads = [&](const char* name, std::size_t input) {
        return step_named(pipeline, name).inputs[input].reads;
    };
    EXPECT_EQ(reads("node_qt", 0), Reads::rows);
    EXPECT_EQ(reads("node_y", 0), Reads::all) << "joined without the transpose back";
    EXPECT_EQ(reads("node_mixed", 0), Reads::rows);
    EXPECT_EQ(reads("node_mixed", 1), Reads::all) << "stored in another order";
}

TEST(Pipeline, KnowsWhoReadsTheInputsOfTheNetwork) {
    const auto pipeline = whole_pipeline(attention());
    ASSERT_EQ(pipeline.inputs.size(), 1U);
    EXPECT_EQ(pipeline.inputs[0].name, "x");
    EXPECT_EQ(pipeline.inputs[0].rows, 6U);
    EXPECT_EQ(pipeline.inputs[0].bytes, 48.0);
    EXPECT_EQ(step_named(pipeline, "node_k").network, (std::vector<StepInput>{{0, Reads::rows}}));
    EXPECT_EQ(step_named(pipeline, "node_q").input_bytes, 48.0);
    const auto extended = with_input_steps(pipeline);
    ASSERT_EQ(extended.steps.size(), pipeline.steps.size() + 1);
    EXPECT_EQ(extended.steps[0].op, "Input");
    EXPECT_EQ(step_named(extended, "node_k").inputs, (std::vector<StepInput>{{0, Reads::rows}}));
    EXPECT_EQ(step_named(extended, "node_q").input_bytes, 0.0);
}

TEST(Pipeline, NeedsKnownSizes) {
    const auto graph = GraphBuilder()
                           .input("x", {{graph::Dim::kUnknown, "batch"}, {8}})
                           .constant("w", random_tensor({8, 8}, 1))
                           .node("MatMul", {"x", "w"}, {"y"})
                           .build("y");
    EXPECT_THAT(error_of([&] { pipeline_of(graph, std::span<const std::size_t>()); }),
                HasSubstr("bad_config: node 'node_y' ('MatMul'): the size of 'x' is unknown"));
}

graph::Graph attention_graph(bool causal, std::int64_t key_heads) {
    GraphBuilder b;
    b.input("q", {{1}, {2}, {10}, {4}})
        .input("k", {{1}, {key_heads}, {10}, {4}})
        .input("v", {{1}, {key_heads}, {10}, {3}})
        .constant("omega", random_tensor({4, 6}, 1))
        .node("MatMul", {"q", "omega"}, {"uq"})
        .node("MatMul", {"k", "omega"}, {"uk"})
        .node("imka.Attention", {"uq", "uk", "v", "k"}, {"y"}, {{"causal", std::int64_t{causal ? 1 : 0}}});
    return b.build("y");
}

// Queries row by row; all keys before the first output, unless the attention is causal.
TEST(Pipeline, AttentionWaitsForAllKeysUnlessCausal) {
    const auto reads = [](bool causal, std::int64_t key_heads) {
        const auto pipeline = whole_pipeline(attention_graph(causal, key_heads));
        const auto& step = step_named(pipeline, "node_y");
        EXPECT_EQ(step.rows, 20U);
        EXPECT_EQ(step.inputs[0].reads, Reads::rows);
        return step.inputs[1].reads;
    };
    EXPECT_EQ(reads(false, 2), Reads::all);
    EXPECT_EQ(reads(true, 2), Reads::rows);
    EXPECT_EQ(reads(true, 1), Reads::all);
}

// The sums over keys grow row by row, before the last key is available.
TEST(Pipeline, AttentionSumsKeysAsTheyCome) {
    const auto pipeline = whole_pipeline(attention_graph(false, 1));
    const auto& keys = step_named(pipeline, "node_y.keys");
    EXPECT_EQ(keys.rows, 10U);
    ASSERT_EQ(keys.inputs.size(), 1U) << "projected keys; values and keys are inputs of the network";
    EXPECT_EQ(pipeline.steps[keys.inputs[0].step].name, "node_uk");
    EXPECT_EQ(keys.inputs[0].reads, Reads::rows);
    for (const auto& input : keys.network) EXPECT_EQ(input.reads, Reads::rows);
    EXPECT_EQ(keys.network.size(), 2U);
    EXPECT_EQ(keys.work.multiplications, 10 * 12 * 3.0);
    const auto& queries = step_named(pipeline, "node_y");
    EXPECT_EQ(pipeline.steps[queries.inputs[1].step].name, keys.name);
    EXPECT_EQ(queries.work.multiplications, 20 * 12 * (3 + 1.0) + 20 * 3.0);
}

TEST(Pipeline, CountsTheDigitalWorkOfAttention) {
    const auto work = digital_work(whole_pipeline(attention_graph(false, 1)));
    EXPECT_EQ(work.exponentials, (20 + 10) * 12.0);
    EXPECT_EQ(work.divisions, 20.0);
    EXPECT_EQ(work.norm_elements, 10 * 4.0);
    EXPECT_EQ(work.multiplications, 10 * 12 * 3.0 + 20 * 12 * (3 + 1.0) + 20 * 3.0);
    EXPECT_EQ(work.additions, (20 + 10) * 6 * 3.0 + 10 * 12 * (3 + 1.0) + 20 * 12 * (3 + 1.0));
}

}  // namespace
}  // namespace imka
