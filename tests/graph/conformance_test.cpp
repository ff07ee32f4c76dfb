// ONNX's own tests of operators, as files: model, inputs and outputs. The tests of the Debian package
// libonnx-testdata run if it is installed. IMKA_ONNX_TESTS names a different folder: its sub-folders are
// tests, the counts are printed, and a folder without tests is a failure. Exported networks are in the
// folders next to it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <utility>

#include "imka/base/file.hpp"
#include "imka/graph/executor.hpp"
#include "imka/graph/onnx_import.hpp"
#include "imka/graph/simplify.hpp"
#include "support/onnx.hpp"
#include "support/paths.hpp"

namespace imka::graph {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDebianTests = "/usr/share/libonnx-testdata/data/node";

// Tests of ONNX 1.12 whose data are wrong: the shape of an input "like" differs from that in the model; bf16
// is rounded towards zero instead of to nearest.
const std::set<std::string> kWrongData = {
    "test_castlike_FLOAT_to_BFLOAT16", "test_castlike_FLOAT_to_BFLOAT16_expanded",
    "test_castlike_BFLOAT16_to_FLOAT", "test_castlike_BFLOAT16_to_FLOAT_expanded",
    "test_cast_FLOAT_to_BFLOAT16"};

struct Counts {
    std::map<std::string, int> passed;          // by operator
    std::map<std::string, int> unsupported;     // by reason
    std::map<std::string, std::string> failed;  // test: message
    int passed_tests = 0;
    int unsupported_tests = 0;
    int wrong_tests = 0;
};

std::vector<Tensor> load_all(const fs::path& folder, const std::string& kind) {
    std::vector<Tensor> tensors;
    for (int k = 0;; ++k) {
        const auto path = folder / fmt::format("{}_{}.pb", kind, k);
        if (!fs::exists(path)) return tensors;
        tensors.push_back(load_onnx_tensor(path));
    }
}

// The tolerance of ONNX's own runner: 1e-3 relative, 1e-7 absolute.
std::string difference(const Tensor& found, const Tensor& expected) {
    if (found.type != expected.type || found.shape != expected.shape)
        return fmt::format("expected {}, got {}", to_text(type_of(expected.view())),
                           to_text(type_of(found.view())));
    return visit_dtype(found.type, [&](auto zero) -> std::string {
        using T = decltype(zero);
        for (std::size_t i = 0; i < found.values<T>().size(); ++i) {
            const auto a = converted<double>(found.values<T>()[i]);
            const auto b = converted<double>(expected.values<T>()[i]);
            const bool close =
                a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= 1e-7 + 1e-3 * std::abs(b);
            if (!close) return fmt::format("element {}: expected {}, got {}", i, b, a);
        }
        return "";
    });
}

// Files of ONNX 1.12 store bf16 as u16.
void restore_bf16(const Graph& graph, const std::vector<ValueId>& ids, std::vector<Tensor>& tensors) {
    for (std::size_t k = 0; k < std::min(ids.size(), tensors.size()); ++k) {
        if (graph.values[ids[k]].type.type == DType::bf16 && tensors[k].type == DType::u16)
            tensors[k].type = DType::bf16;
    }
}

std::string run_sets(const fs::path& folder, const Graph& graph) {
    Executor executor(graph);
    int sets = 0;
    for (const auto& entry : fs::directory_iterator(folder)) {
        if (!entry.path().filename().string().starts_with("test_data_set_")) continue;
        ++sets;
        auto inputs = load_all(entry.path(), "input");
        auto outputs = load_all(entry.path(), "output");
        restore_bf16(graph, graph.inputs, inputs);
        restore_bf16(graph, graph.outputs, outputs);
        std::vector<TensorView> views;
        for (const auto& t : inputs) views.push_back(t.view());
        const auto result = executor.run(views, nullptr, {});
        if (result.outputs.size() != outputs.size()) return "the number of outputs differs";
        for (std::size_t k = 0; k < outputs.size(); ++k) {
            const auto text = difference(result.outputs[k], outputs[k]);
            if (!text.empty()) return fmt::format("output {}: {}", k, text);
        }
    }
    return sets > 0 ? "" : "no data sets";
}

void add_failure(const std::string& name, const std::string& message, Counts& counts) {
    if (kWrongData.contains(name)) {
        ++counts.wrong_tests;
    } else {
        counts.failed[name] = message;
    }
}

void run_test(const fs::path& folder, Counts& counts) {
    const auto name = folder.filename().string();
    try {
        const auto bytes = read_file(folder / "model.onnx", std::size_t{1} << 30U);
        const auto graph = parse_onnx(bytes, {name, folder});
        auto message = run_sets(folder, graph);
        if (message.empty()) message = run_sets(folder, simplified(graph));
        if (!message.empty()) return add_failure(name, message, counts);
        std::set<std::string> ops;
        for (const auto& node : graph.nodes) ops.insert(node.op);
        for (const auto& op : ops) ++counts.passed[op];
        ++counts.passed_tests;
    } catch (const UnsupportedError& e) {
        ++counts.unsupported_tests;
        std::smatch found;
        const std::string text = e.what();
        const bool node = std::regex_search(text, found, std::regex("\\('([A-Za-z]+)'\\)"));
        ++counts.unsupported[node ? found[1].str() : "not an operator: " + text.substr(text.find(':') + 2)];
    } catch (const Error& e) {
        add_failure(name, e.what(), counts);
    }
}

Counts run_all(const fs::path& folder) {
    Counts counts;
    for (const auto& entry : fs::directory_iterator(folder)) {
        if (fs::exists(entry.path() / "model.onnx")) run_test(entry.path(), counts);
    }
    return counts;
}

void print(const Counts& counts) {
    fmt::print("operator                       passed tests\n");
    for (const auto& [op, count] : counts.passed) fmt::print("{:30} {:6}\n", op, count);
    fmt::print("\nnot supported                  tests\n");
    for (const auto& [op, count] : counts.unsupported) fmt::print("{:30} {:6}\n", op, count);
    fmt::print(
        "\n{} passed, {} use an operator or type that is not supported, {} have wrong data, {} failed\n",
        counts.passed_tests, counts.unsupported_tests, counts.wrong_tests, counts.failed.size());
}

class OnnxConformance : public testing::Test {
protected:
    void SetUp() override {
        IMKA_NEED_ONNX();
        if (given_ == nullptr && !fs::is_directory(kDebianTests))
            GTEST_SKIP() << "no tests of operators (libonnx-testdata)";
    }
    fs::path folder() const { return given_ != nullptr ? given_ : kDebianTests; }

    // None may fail, and there must be some.
    Counts expect_passes(const fs::path& tests) const {
        EXPECT_TRUE(fs::is_directory(tests)) << tests;
        const auto counts = run_all(tests);
        if (given_ != nullptr) print(counts);
        for (const auto& [name, message] : counts.failed) ADD_FAILURE() << name << ": " << message;
        EXPECT_GT(counts.passed_tests, 0) << "no tests in " << tests;
        return counts;
    }

    const char* given_ = std::getenv("IMKA_ONNX_TESTS");
};

TEST_F(OnnxConformance, NodeTestsPass) {
    const auto counts = expect_passes(folder());
    EXPECT_TRUE(given_ != nullptr || counts.passed_tests >= 500) << counts.passed_tests << " tests passed";
}

// Files that early versions of PyTorch wrote. Those that are not supported have an operator set below 7.
TEST_F(OnnxConformance, OldExportsOfPyTorchPass) {
    for (const auto* name : {"pytorch-converted", "pytorch-operator"}) {
        const auto tests = folder().parent_path() / name;
        if (!fs::is_directory(tests)) GTEST_SKIP() << "no " << tests;
        const auto counts = expect_passes(tests);
        EXPECT_GT(counts.passed_tests, counts.unsupported_tests) << name;
    }
}

// Outputs of networks of the ONNX model zoo. The input is 0, 1/n, 2/n, ...
int run_networks(const fs::path& folder) {
    int count = 0;
    for (const auto& entry : fs::directory_iterator(folder)) {
        if (entry.path().extension() != ".onnx") continue;
        SCOPED_TRACE(entry.path().filename());
        const auto graph = load_onnx(entry.path());
        Tensor x(DType::f32, known_shape(graph.values[graph.inputs.at(0)].type).value());
        const auto values = x.values<float>();
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = static_cast<float>(static_cast<double>(i) / static_cast<double>(values.size()));
        const std::vector<TensorView> inputs{std::as_const(x).view()};
        const auto y = Executor(graph).run(inputs, nullptr, {.threads = 2}).outputs.at(0);
        auto base = entry.path();
        base.replace_extension();
        EXPECT_EQ(difference(y, load_onnx_tensor(base.string() + "_output_0.pb")), "");
        ++count;
    }
    return count;
}

TEST(ModelZoo, NetworksGiveTheirOutputs) {
    IMKA_NEED_ONNX();
    EXPECT_EQ(run_networks(fs::path(source_dir()) / "tests/zoo"), 3);
    const char* given = std::getenv("IMKA_ONNX_TESTS");
    const auto beside = fs::path(given != nullptr ? given : kDebianTests).parent_path() / "light";
    if (fs::is_directory(beside)) {
        EXPECT_EQ(run_networks(beside), 9);
    }
}

}  // namespace
}  // namespace imka::graph
