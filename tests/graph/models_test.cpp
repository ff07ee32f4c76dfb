// Exported networks (tests/models/export.py) give the outputs that PyTorch computed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "imka/base/file.hpp"
#include "imka/graph/executor.hpp"
#include "imka/graph/onnx_import.hpp"
#include "support/onnx.hpp"
#include "support/paths.hpp"

namespace imka::graph {
namespace {

namespace fs = std::filesystem;

// The largest error, relative to the largest output.
double error_of_run(const Graph& graph, const fs::path& base) {
    const auto x = load_onnx_tensor(base.string() + "_input_0.pb");
    const auto expected = load_onnx_tensor(base.string() + "_output_0.pb");
    const std::vector<TensorView> inputs{x.view()};
    const auto y = Executor(graph).run(inputs, nullptr, {}).outputs.at(0);
    EXPECT_EQ(y.shape, expected.shape);
    double error = 0;
    double largest = 0;
    for (std::size_t i = 0; i < y.values<float>().size(); ++i) {
        error = std::max(error, std::abs(double{y.values<float>()[i]} - expected.values<float>()[i]));
        largest = std::max(largest, std::abs(double{expected.values<float>()[i]}));
    }
    return error / largest;
}

TEST(ExportedModels, GiveTheOutputsOfPyTorch) {
    IMKA_NEED_ONNX();
    int models = 0;
    std::uintmax_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(fs::path(source_dir()) / "tests/models")) {
        bytes += fs::file_size(entry.path());
        if (entry.path().extension() != ".onnx") continue;
        SCOPED_TRACE(entry.path().filename());
        ++models;
        auto base = entry.path();
        base.replace_extension();
        EXPECT_LT(error_of_run(load_onnx(entry.path()), base), 1e-5);
        const auto raw = parse_onnx(read_file(entry.path(), std::size_t{1} << 20U), {"model", {}});
        EXPECT_LT(error_of_run(raw, base), 1e-5) << "without simplification";
    }
    EXPECT_GE(models, 12);
    EXPECT_LE(bytes, 300000U);
}

std::vector<std::string> ops_of(const std::string& model) {
    std::vector<std::string> ops;
    for (const auto& node : load_onnx(fs::path(source_dir()) / "tests/models" / model).nodes)
        ops.push_back(node.op);
    return ops;
}

TEST(ExportedModels, AreSimplified) {
    IMKA_NEED_ONNX();
    const auto encoder = ops_of("encoder_opset13.onnx");
    EXPECT_EQ(std::ranges::count(encoder, "LayerNormalization"), 4);
    EXPECT_EQ(std::ranges::count(encoder, "Gelu"), 2);
    EXPECT_EQ(std::ranges::count(encoder, "ReduceMean"), 1);
    EXPECT_EQ(std::ranges::count(ops_of("cnn_opset17.onnx"), "BatchNormalization"), 0);
    EXPECT_EQ(std::ranges::count(ops_of("mlp_opset13.onnx"), "BatchNormalization"), 0);
}

TEST(ExportedModels, HaveTheMatricesOfTheirLayers) {
    IMKA_NEED_ONNX();
    const auto graph = with_input_shapes(load_onnx(fs::path(source_dir()) / "tests/models/cnn_opset17.onnx"),
                                         {{2, 3, 16, 16}});
    std::size_t cells = 0;
    std::int64_t products = 0;
    for (const auto& m : static_matrices(graph)) {
        cells += m.inputs * m.outputs;
        for (const auto& use : m.uses)
            products += use.rows.value_or(0) * static_cast<std::int64_t>(m.inputs * m.outputs);
    }
    // stem 27 x 8, depthwise 8 of 9 x 1, pointwise 8 x 8, two groups of 36 x 4, head 8 x 4.
    EXPECT_EQ(cells, 216U + 72U + 64U + 288U + 32U);
    EXPECT_EQ(products, 2 * 64 * (216 + 72 + 64 + 288) + 2 * 32);
}

}  // namespace
}  // namespace imka::graph
