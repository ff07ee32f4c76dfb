// Graphs in files: the same graph comes back, and damage is detected.
#include "imka/graph/graph_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "graph/graphs.hpp"
#include "imka/graph/executor.hpp"
#include "support/error.hpp"
#include "support/temp_dir.hpp"

namespace imka::graph {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr FileKind kKind{.format = "test-graph", .schema = "1", .renew = "write it again"};

TensorFile file_of(const Graph& graph) {
    TensorFile file;
    add_graph(graph, file);
    seal(kKind, file);
    return file;
}

Graph back(TensorFile file) {
    SealedReader reader(kKind, std::move(file));
    auto graph = read_graph(reader);
    reader.done();
    return graph;
}

// Every kind of attribute and constant: a mask with -infinity, integers, bools.
Graph example() {
    Tensor mask(DType::f32, {1, 4});
    mask.values<float>()[2] = -std::numeric_limits<float>::infinity();
    Tensor which(DType::bool_, {1, 4});
    which.values<bool>()[1] = true;
    GraphBuilder b;
    b.input("x", {{Dim::kUnknown, "batch"}, {6}})
        .constant("w", random_tensor({6, 4}, 1))
        .constant("mask", mask)
        .constant("which", which)
        .constant("axes", ints({1}))
        .node("MatMul", {"x", "w"}, {"a"})
        .node("Add", {"a", "mask"}, {"b"})
        .node("Constant", {}, {"c"}, {{"value", random_tensor({1, 4}, 2)}})
        .node("Where", {"which", "c", "b"}, {"d"})
        .node("Softmax", {"d"}, {"e"}, {{"axis", std::int64_t{-1}}})
        .node("LeakyRelu", {"e"}, {"f"}, {{"alpha", 0.25F}})
        .node("Unsqueeze", {"f", "axes"}, {"y"});
    return b.build("y");
}

bool equal(const Graph& a, const Graph& b) {
    bool same = a.name == b.name && a.inputs == b.inputs && a.outputs == b.outputs &&
                a.values.size() == b.values.size() && a.nodes.size() == b.nodes.size();
    for (std::size_t i = 0; same && i < a.values.size(); ++i)
        same = a.values[i].name == b.values[i].name && a.values[i].type == b.values[i].type &&
               a.values[i].constant == b.values[i].constant;
    for (std::size_t i = 0; same && i < a.nodes.size(); ++i)
        same = a.nodes[i].name == b.nodes[i].name && a.nodes[i].op == b.nodes[i].op &&
               a.nodes[i].opset == b.nodes[i].opset && a.nodes[i].attributes == b.nodes[i].attributes &&
               a.nodes[i].inputs == b.nodes[i].inputs && a.nodes[i].outputs == b.nodes[i].outputs;
    return same;
}

TEST(GraphFile, ComesBackEqual) {
    const auto graph = example();
    const auto again = back(file_of(graph));
    EXPECT_TRUE(equal(graph, again));
    auto changed = example();
    changed.nodes[0].name = "other";
    EXPECT_FALSE(equal(changed, again)) << "the comparison sees a difference";
}

TEST(GraphFile, AFileHoldsAGraphOnly) {
    const TempDir dir;
    const auto path = dir / "model.safetensors";
    save_graph(path, example());
    EXPECT_TRUE(equal(example(), load_graph(path)));
    write_safetensors(path, file_of(example()));
    EXPECT_THAT(error_of([&] { (void)load_graph(path); }),
                AllOf(HasSubstr(path.string()), HasSubstr("imka-graph")));
}

TEST(GraphFile, FiniteFloatsAreFloats) {
    const auto file = file_of(example());
    EXPECT_EQ(file.f32.size(), 2U);
    EXPECT_EQ(file.u8.size(), 3U);
}

// A file with changed text and a valid checksum.
TensorFile edited(const std::string& from, const std::string& to) {
    auto file = file_of(example());
    auto& text = file.metadata["graph"];
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    seal(kKind, file);
    return file;
}

TEST(GraphFile, RefusesWhatIsNotAGraph) {
    const auto message = [](const std::string& from, const std::string& to) {
        return error_of([&] { back(edited(from, to)); });
    };
    EXPECT_THAT(message("\"nodes\"", "\"knots\""), HasSubstr("not the JSON text of a graph"));
    EXPECT_THAT(message("\"outputs\":[", "\"outputs\":[99,"), HasSubstr("99"));
    EXPECT_THAT(message("\"LeakyRelu\"", "\"LeakyReluu\""), HasSubstr("LeakyReluu"));
    EXPECT_THAT(message("\"shape\":[6,4]", "\"shape\":[6,4000000]"), HasSubstr("must be 1 x 24000000"));
    EXPECT_THAT(message("\"shape\":[6,4]", "\"shape\":[6,-4]"), HasSubstr("-4"));
    EXPECT_THAT(message("\"dims\":[\"batch\",6]", "\"dims\":[\"batch\",7]"), HasSubstr("MatMul"));
    EXPECT_THAT(message("\"float\":0.25", "\"flout\":0.25"), HasSubstr("unknown kind of attribute"));
    EXPECT_THAT(message("\"type\":\"f32\"", "\"type\":\"f33\""), HasSubstr("f33"));
}

TEST(GraphFile, RefusesABoolThatIsNone) {
    auto file = file_of(example());
    for (auto& [name, bytes] : file.u8) {
        if (bytes.cols() == 4) bytes(0, 3) = 7;
    }
    seal(kKind, file);
    EXPECT_THAT(error_of([&] { back(file); }), HasSubstr("neither 0 nor 1"));
}

}  // namespace
}  // namespace imka::graph
