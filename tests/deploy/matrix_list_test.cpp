// Lists of matrices from text and files, and the known networks.
#include "imka/deploy/matrix_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "imka/base/file.hpp"
#include "imka/io/npy.hpp"
#include "imka/io/safetensors.hpp"
#include "support/error.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

TEST(MatrixList, IsReadFromText) {
    const auto list = parse_shapes(" 640x128, 128x10*2\n64x64*3@1024 ");
    ASSERT_EQ(list.size(), 3U);
    EXPECT_EQ(list[0], (ListedMatrix{"m0", 640, 128, 1, 1}));
    EXPECT_EQ(list[1], (ListedMatrix{"m1", 128, 10, 2, 1}));
    EXPECT_EQ(list[2], (ListedMatrix{"m2", 64, 64, 3, 1024}));
}

TEST(MatrixList, RefusesBadText) {
    for (const auto* text :
         {"640", "640x", "x128", "640x128x2", "640x128*", "640x128@", "-1x5", "4x5@3*2", "axb"})
        EXPECT_THAT(error_of([&] { parse_shapes(text); }), HasSubstr("bad_config: invalid shape '"));
    EXPECT_THAT(error_of([] { parse_shapes(" "); }), HasSubstr("no matrices"));
    EXPECT_THAT(error_of([] { parse_shapes("0x5"); }), HasSubstr("0 inputs; expected 1 to"));
    EXPECT_THAT(error_of([] { parse_shapes("5x99999999999"); }), HasSubstr("99999999999 outputs"));
    EXPECT_THAT(error_of([] { parse_shapes("5x99999999999999999999999"); }), HasSubstr("invalid shape"));
}

TEST(MatrixList, IsReadFromFiles) {
    const TempDir dir;
    const MatrixList expected = {{"fc1", 64, 128, 1, 1}, {"omega", 32, 128, 2, 4000}};
    write_file_atomic(dir / "a.csv",
                      "name,inputs,outputs,calls,vectors\nfc1,64,128\n\nomega, 32 ,128,2,4000\n");
    write_file_atomic(dir / "a.json",
                      R"({"matrices": [{"name": "fc1", "inputs": 64, "outputs": 128},
                          {"name": "omega", "inputs": 32, "outputs": 128, "calls": 2, "vectors": 4000}]})");
    EXPECT_EQ(load_matrix_list(dir / "a.csv"), expected);
    EXPECT_EQ(load_matrix_list(dir / "a.json"), expected);
    write_npy(dir / "w.npy", Matrix<float>(3, 5).view());
    EXPECT_EQ(load_matrix_list(dir / "w.npy"), (MatrixList{{"w", 3, 5}}));
    TensorFile tensors;
    tensors.f32["fc.weight"] = Matrix<float>(7, 2);
    tensors.f32["fc.bias"] = Matrix<float>(1, 2);
    write_safetensors(dir / "w.safetensors", tensors);
    EXPECT_EQ(load_matrix_list(dir / "w.safetensors"), (MatrixList{{"fc.weight", 7, 2}}));
}

TEST(MatrixList, FilesWithErrorsAreNamed) {
    const TempDir dir;
    const auto error = [&](const std::string& name, const std::string& text) {
        write_file_atomic(dir / name, text);
        return error_of([&] { load_matrix_list(dir / name); });
    };
    EXPECT_THAT(error("b.csv", "a,1\n"), HasSubstr("b.csv: line 1: 2 fields; expected name,inputs"));
    EXPECT_THAT(error("b.csv", "a,1,2\nb,1,two\n"), HasSubstr("line 2: 'two' is not a whole number"));
    EXPECT_THAT(error("b.csv", "a,1,2\na,1,2\n"), HasSubstr("b.csv: duplicate matrix name 'a'"));
    EXPECT_THAT(error("b.csv", ""), HasSubstr("no matrices"));
    EXPECT_THAT(error("b.csv", "a,1,2,0\n"), HasSubstr("0 calls"));
    EXPECT_THAT(error("b.json", R"({"matrices": [{"name": "a", "inputs": 1, "outputs": 2, "rows": 3}]})"),
                HasSubstr("'matrices[1].rows' is not a known key"));
    EXPECT_THAT(error("b.txt", "a,1,2\n"), HasSubstr("b.txt: unknown kind of matrix list"));
}

// Weights as stated for the published mappings.
TEST(Networks, HaveThePublishedNumbersOfWeights) {
    const auto weights = [](const char* name) {
        std::size_t sum = 0;
        for (const auto& m : known_network(name).matrices) sum += m.inputs * m.outputs;
        return sum;
    };
    EXPECT_EQ(weights("performer-aan"), 123904U);
    EXPECT_EQ(weights("performer-cifar10"), 83200U);
    EXPECT_EQ(weights("performer-imdb"), 90368U);
    EXPECT_EQ(weights("performer-listops"), 46336U);
    EXPECT_EQ(weights("performer-pathfinder"), 133632U);
    EXPECT_THAT(error_of([] { known_network("resnet"); }), HasSubstr("resnet18-in"));
}

// Multiply-accumulates of the usual counts: 1.81 G for ResNet-18, 4.09 G for ResNet-50.
TEST(Networks, HaveTheKnownNumbersOfProducts) {
    const auto macs = [](const char* name) {
        double sum = 0.0;
        for (const auto& m : known_network(name).matrices)
            sum += static_cast<double>(m.inputs * m.outputs * m.vectors);
        return sum;
    };
    EXPECT_NEAR(macs("resnet18-in"), 1.814e9, 0.005e9);
    EXPECT_NEAR(macs("resnet50-in"), 4.09e9, 0.01e9);
}

}  // namespace
}  // namespace imka
