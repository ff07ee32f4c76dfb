// ONNX files: what is read, and what is refused with which message.
#include "imka/graph/onnx_import.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "imka/base/file.hpp"
#include "imka/graph/executor.hpp"
#include "imka/graph/operator.hpp"
#include "imka/graph/simplify.hpp"
#include "support/error.hpp"
#include "support/onnx.hpp"
#include "support/onnx_bytes.hpp"
#include "support/paths.hpp"
#include "support/temp_dir.hpp"

namespace imka::graph {
namespace {

namespace fs = std::filesystem;
using onnx_bytes::Message;
using onnx_bytes::Model;
using onnx_bytes::node;
using onnx_bytes::tensor;
using onnx_bytes::value;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class OnnxImport : public testing::Test {
protected:
    void SetUp() override { IMKA_NEED_ONNX(); }
};

Graph parse(const Model& model) {
    return parse_onnx(model.bytes(), {"m.onnx", {}});
}

std::string refused(const Model& model) {
    return error_of([&] { parse(model); });
}

// y = x w + b
Model affine() {
    return {{node("MatMul", {"x", "w"}, {"p"}), node("Add", {"p", "b"}, {"y"})},
            {tensor("w", {2, 3}, {1, 2, 3, 4, 5, 6}), tensor("b", {3}, {10, 20, 30})},
            {value("x", {-1, 2})},
            {value("y", {-1, 3})}};
}

TEST_F(OnnxImport, ReadsAndRunsAModel) {
    const auto graph = parse(affine());
    EXPECT_EQ(graph.nodes.size(), 2U);
    EXPECT_EQ(to_text(graph.values[graph.outputs[0]].type), "f32[n, 3]");
    const auto x = make_tensor<float>({1, 2}, std::vector{1.0F, 10.0F});
    const std::vector<TensorView> inputs{x.view()};
    const auto y = Executor(graph).run(inputs, nullptr, {}).outputs.at(0);
    EXPECT_EQ(y, make_tensor<float>({1, 3}, std::vector{51.0F, 72.0F, 93.0F}));
}

TEST_F(OnnxImport, NodesMayComeInAnyOrder) {
    auto model = affine();
    std::swap(model.nodes[0], model.nodes[1]);
    EXPECT_EQ(parse(model).nodes[0].op, "MatMul");
}

// Properties of files in public collections: weights that are also listed as inputs, nodes without names,
// unused weights, outputs and values, descriptions, fields of later versions.
TEST_F(OnnxImport, ReadsOldExportsOfPublicCollections) {
    const auto unnamed = [](std::string_view op, std::string_view in, std::vector<std::string> out) {
        Message n;
        n.text(1, in);
        for (const auto& name : out) n.text(2, name);
        return n.text(4, op).text(6, "a description");
    };
    auto model = affine();
    model.opset = 7;
    model.nodes.push_back(unnamed("Dropout", "y", {"kept", "mask"}));
    model.nodes.push_back(unnamed("Relu", "kept", {"z"}));
    model.initializers.push_back(tensor("unused", {2}, {1, 2}));
    for (const auto& [name, shape] :
         {std::pair<const char*, std::vector<std::int64_t>>{"w", {2, 3}}, {"b", {3}}, {"unused", {2}}})
        model.inputs.push_back(value(name, shape));
    model.outputs = {value("z", {-1, 3})};
    const auto bytes =
        model.bytes() + Message().text(2, "exporter").text(6, "a model").text(100, "later").bytes();
    const auto graph = simplified(parse_onnx(bytes, {"m.onnx", {}}));
    EXPECT_EQ(graph.inputs.size(), 1U) << "weights are no inputs";
    const auto x = make_tensor<float>({1, 2}, std::vector{-13.0F, 1.0F});
    const std::vector<TensorView> inputs{x.view()};
    EXPECT_EQ(Executor(graph).run(inputs, nullptr, {}).outputs.at(0),
              make_tensor<float>({1, 3}, std::vector{1.0F, 0.0F, 0.0F}));
}

TEST_F(OnnxImport, TruncatedAndForeignFilesAreRefused) {
    const auto bytes = affine().bytes();
    int accepted = 0;
    for (std::size_t n = 0; n < bytes.size(); ++n) {
        const auto message = error_of([&] {
            parse_onnx(std::string_view(bytes).substr(0, n), {"m.onnx", {}});
        });
        if (message == "no error") ++accepted;
        EXPECT_TRUE(message == "no error" || message.starts_with("bad_data: m.onnx: ") ||
                    message.starts_with("bad_data: node "))
            << n << ": " << message;
    }
    // The operator set comes last; without it, the model has operator set 1.
    EXPECT_LE(accepted, 1);
    EXPECT_THAT(error_of([] {
                    parse_onnx("not a model at all", {"a.txt", {}});
                }),
                HasSubstr("a.txt: not an ONNX"));
    EXPECT_THAT(error_of([] {
                    parse_onnx("", {"empty", {}});
                }),
                HasSubstr("empty: not an ONNX model: it has no graph"));
    EXPECT_THAT(error_of([] { load_onnx("/nonexistent/model.onnx"); }), StartsWith("io: "));
}

TEST_F(OnnxImport, CyclesAreRefused) {
    auto model = affine();
    model.nodes[0] = node("MatMul", {"y", "w"}, {"p"});
    EXPECT_THAT(refused(model), AllOf(StartsWith("bad_data: node 'node_p'"), HasSubstr("cycle")));
}

TEST_F(OnnxImport, OperatorSetsOutOfRangeAreRefused) {
    for (const std::int64_t opset : {0, 99, -5}) {
        auto model = affine();
        model.opset = opset;
        EXPECT_THAT(refused(model),
                    AllOf(StartsWith("bad_data: m.onnx: operator set " + std::to_string(opset)),
                          HasSubstr("is not supported; 1 to 25 are")));
    }
}

TEST_F(OnnxImport, DuplicateNamesAreRefused) {
    auto inputs = affine();
    inputs.inputs.push_back(value("x", {2}));
    EXPECT_THAT(refused(inputs), HasSubstr("duplicate tensor name 'x'"));
    auto weights = affine();
    weights.initializers.push_back(tensor("w", {1}, {1}));
    EXPECT_THAT(refused(weights), HasSubstr("duplicate tensor name 'w'"));
    auto outputs = affine();
    outputs.nodes.push_back(node("Relu", {"p"}, {"y"}));
    EXPECT_THAT(refused(outputs), HasSubstr("output 'y' is defined twice"));
    auto shadowed = affine();
    shadowed.nodes.push_back(node("Relu", {"p"}, {"w"}));
    EXPECT_THAT(refused(shadowed), HasSubstr("output 'w' is defined twice"));
}

TEST_F(OnnxImport, MissingTensorsAreNamed) {
    auto model = affine();
    model.initializers.erase(model.initializers.begin());
    EXPECT_THAT(refused(model), HasSubstr("node 'node_p' ('MatMul'): input 'w' does not exist"));
    auto output = affine();
    output.outputs = {value("z", {3})};
    EXPECT_THAT(refused(output), HasSubstr("output 'z' of the graph is not computed by any node"));
    auto none = affine();
    none.outputs.clear();
    EXPECT_THAT(refused(none), HasSubstr("the graph has no outputs"));
}

TEST_F(OnnxImport, WeightsOfTheWrongSizeAreRefusedBeforeMemoryIsTaken) {
    auto shorter = affine();
    shorter.initializers[0] = tensor("w", {2, 3}, {1, 2, 3});
    EXPECT_THAT(refused(shorter), HasSubstr("tensor 'w' of shape 2x3 has 12 bytes"));
    auto huge = affine();
    huge.initializers[0] = tensor("w", {1 << 19, 1 << 20}, {1, 2, 3});
    EXPECT_THAT(refused(huge), HasSubstr("has 12 bytes"));
    auto absurd = affine();
    absurd.initializers[0] = tensor("w", {std::int64_t{1} << 40U, std::int64_t{1} << 40U}, {1});
    EXPECT_THAT(refused(absurd), HasSubstr("too large"));
    auto negative = affine();
    negative.initializers[0] = tensor("w", {-2, 3}, {1, 2, 3, 4, 5, 6});
    EXPECT_THAT(refused(negative), HasSubstr("tensor 'w' has an invalid shape"));
    auto input = affine();
    input.inputs[0] = Message().text(1, "x").message(
        2, Message().message(
               1, Message().number(1, 1).message(2, Message().message(1, Message().number(1, -3)))));
    EXPECT_THAT(refused(input), HasSubstr("'x' has a negative size"));
}

TEST_F(OnnxImport, AbsurdSizesFailBeforeMemoryIsTaken) {
    Model model{{node("ConstantOfShape", {"s"}, {"y"})},
                {onnx_bytes::ints("s", {2}, {std::int64_t{1} << 19U, std::int64_t{1} << 20U})},
                {},
                {value("y", {1 << 19, 1 << 20})}};
    const auto graph = simplified(parse(model));
    EXPECT_THAT(error_of([&] { Executor(graph).run({}, nullptr, {}); }),
                AllOf(StartsWith("bad_data: node 'node_y'"), HasSubstr("GB")));
    model.initializers[0] = onnx_bytes::ints("s", {2}, {-4, 2});
    EXPECT_THAT(refused(model), HasSubstr("invalid size -4 in the shape"));
}

TEST_F(OnnxImport, ShapesThatContradictAreNamed) {
    auto model = affine();
    model.inputs[0] = value("x", {4, 5});
    EXPECT_THAT(refused(model), HasSubstr("5 columns of the first input do not fit 2 rows"));
    auto declared = affine();
    declared.inputs[0] = value("x", {4, 2});
    declared.outputs[0] = value("y", {4, 7});
    EXPECT_THAT(refused(declared),
                HasSubstr("output 'y' is declared as f32[4, 7], but its node computes f32[4, 3]"));
    auto type = affine();
    type.outputs[0] = value("y", {4, 3}, 7);
    EXPECT_THAT(refused(type), HasSubstr("is declared as i64[4, 3]"));
}

TEST_F(OnnxImport, HugeAttributesAreRefused) {
    const auto pool = [](std::vector<std::int64_t> kernel, std::vector<std::int64_t> pads) {
        return Model{{node("MaxPool", {"x"}, {"y"},
                           {onnx_bytes::ints_attribute("kernel_shape", kernel),
                            onnx_bytes::ints_attribute("pads", pads)})},
                     {},
                     {value("x", {1, 1, 4, 4})},
                     {value("y", {1, 1, -1, -1})}};
    };
    constexpr std::int64_t kHuge = std::int64_t{1} << 62U;
    EXPECT_THAT(refused(pool({kHuge, 2}, {0, 0, 0, 0})), HasSubstr("invalid kernel size"));
    EXPECT_THAT(refused(pool({2, 2}, {kHuge, 0, kHuge, 0})), HasSubstr("'pads' contains the invalid value"));
    EXPECT_THAT(refused(pool({2, 2, 2}, {0, 0, 0, 0})),
                HasSubstr("the kernel has 3 axes, but the input has 2 spatial axes"));
    EXPECT_THAT(refused(pool({9, 9}, {0, 0, 0, 0})),
                HasSubstr("a window of size 9 does not fit an input of size 4"));
    Model axis{{node("Concat", {"x"}, {"y"}, {onnx_bytes::int_attribute("axis", kHuge)})},
               {},
               {value("x", {2})},
               {value("y", {2})}};
    EXPECT_THAT(refused(axis), HasSubstr("axis 4611686018427387904 is out of range"));
    Model kind{{node("Concat", {"x"}, {"y"}, {onnx_bytes::ints_attribute("axis", {0})})},
               {},
               {value("x", {2})},
               {value("y", {2})}};
    EXPECT_THAT(refused(kind), HasSubstr("attribute 'axis' must be an integer"));
}

TEST_F(OnnxImport, UnsupportedOperatorsNameTheNode) {
    auto model = affine();
    model.nodes[1] = node("Loop", {"p", "b"}, {"y"});
    EXPECT_THAT(refused(model), AllOf(HasSubstr("node 'node_y' ('Loop'): operator 'Loop' is not supported"),
                                      HasSubstr("instead: export the model with the loop unrolled")));
    model.nodes[1] = Message().text(1, "p").text(2, "").text(2, "y").text(4, "LSTM");
    EXPECT_THAT(refused(model), HasSubstr("node 'y' ('LSTM')")) << "named by its first output that is used";
    auto domain = affine();
    domain.nodes[1] = node("Add", {"p", "b"}, {"y"}).text(7, "com.example");
    EXPECT_THAT(refused(domain), HasSubstr("operators of domain 'com.example' are not supported"));
}

// Weights in another file.
Model with_external(const std::string& location, const std::string& offset = "0") {
    auto model = affine();
    const auto entry = [](std::string_view key, std::string_view text) {
        return Message().text(1, key).text(2, text);
    };
    model.initializers[0] = Message().number(1, 2).number(1, 3).number(2, 1).text(8, "w").number(14, 1);
    model.initializers[0].message(13, entry("location", location)).message(13, entry("offset", offset));
    return model;
}

TEST_F(OnnxImport, ExternalDataMustStayInTheFolder) {
    const TempDir folder;
    fs::create_directory(folder / "model");
    const float weights[] = {1, 2, 3, 4, 5, 6};
    const std::string_view raw(reinterpret_cast<const char*>(weights), sizeof(weights));
    write_file_atomic(folder / "secret.bin", raw);
    write_file_atomic(folder / "model" / "w.bin", raw);
    fs::create_symlink("../secret.bin", folder / "model" / "link.bin");
    const auto load = [&](const Model& model) {
        write_file_atomic(folder / "model" / "m.onnx", model.bytes());
        return error_of([&] { load_onnx(folder / "model" / "m.onnx"); });
    };
    EXPECT_EQ(load(with_external("w.bin")), "no error");
    for (const std::string location :
         {"../secret.bin", "link.bin", "/etc/passwd", "a/../../secret.bin", "", "."}) {
        EXPECT_THAT(load(with_external(location)), HasSubstr("is not in the folder of the model"))
            << location;
    }
    EXPECT_THAT(load(with_external("absent.bin")),
                HasSubstr("external data 'absent.bin' of tensor 'w' is missing"));
    EXPECT_THAT(load(with_external("w.bin", "4")), HasSubstr("has the wrong size"));
    EXPECT_THAT(load(with_external("w.bin", "-4")), HasSubstr("offset must be a number"));
    EXPECT_THAT(refused(with_external("w.bin")), HasSubstr("is not in the folder of the model"));
}

TEST_F(OnnxImport, BrokenExportedModelsNeverCrash) {
    const auto bytes =
        read_file(fs::path(source_dir()) / "tests/models/cnn_opset17.onnx", std::size_t{1} << 20U);
    int refused_files = 0;
    for (std::size_t k = 0; k < 400; ++k) {
        auto damaged = bytes;
        auto& byte = damaged[k * 2654435761U % bytes.size()];
        byte = static_cast<char>(byte ^ static_cast<char>(1U << (k % 8)));
        const auto message = error_of([&] { simplified(parse_onnx(damaged, {"m.onnx", {}})); });
        if (message != "no error") {
            ++refused_files;
            EXPECT_THAT(message, StartsWith("bad_data: "));
        }
    }
    EXPECT_GT(refused_files, 20);
}

// docs/graph.md lists exactly the operators of the table.
TEST(GraphDocs, ListTheSupportedOperators) {
    const auto page = read_file(fs::path(source_dir()) / "docs/graph.md", std::size_t{1} << 20U);
    for (const auto& op : all_operators()) {
        const auto text = "`" + std::string(op.name) + "`";
        EXPECT_THAT(page, HasSubstr(text));
    }
}

}  // namespace
}  // namespace imka::graph
