// --device with a missing GPU: every verb says what to do, and writes nothing. Processes that share the GPUs
// of a machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "imka/cuda/gpu.hpp"
#include "imka/cuda/linear_algebra.hpp"
#include "imka/experiment/mpi.hpp"
#include "imka/graph/onnx_import.hpp"
#include "imka/graph/tensor_file.hpp"
#include "support/command.hpp"
#include "support/error.hpp"
#include "support/onnx.hpp"
#include "support/paths.hpp"
#include "support/records.hpp"
#include "support/temp_dir.hpp"

namespace {

// The message of the library, without the name of the error.
std::string missing_gpu(int number) {
    const auto error = error_of([&] { imka::cuda::require_gpu(number); });
    return error.substr(error.find(": ") + 2);
}

class MissingGpu : public testing::Test {
protected:
    void SetUp() override {
        std::string rows;
        for (int i = 0; i < 40; ++i)
            rows += std::to_string(i % 7) + "," + std::to_string(i % 5) + (i % 2 == 0 ? ",a\n" : ",b\n");
        write_text(dir_ / "x.csv", rows);
    }
    void refuses(const std::string& arguments) {
        expect_fails(arguments + " --device cuda:77", 4, "imka: " + missing_gpu(77));
        for (const auto& entry : std::filesystem::directory_iterator(dir_.path()))
            EXPECT_TRUE(entry.path().filename() == "x.csv" || entry.path().filename() == "in.npy")
                << arguments << " wrote " << entry.path();
    }
    std::string file(const std::string& name) const { return " '" + (dir_ / name).string() + "'"; }
    TempDir dir_;
};

TEST_F(MissingGpu, IsAnErrorBeforeAnyOutput) {
    refuses("features --input" + file("x.csv") + " --n-components 8 --output" + file("z.npy") +
            " --save-omega" + file("omega.npy"));
    refuses("ridge --dataset ringnorm --n-components 8 --save" + file("model.imka"));
    refuses("gram --dataset ringnorm --n-components 8");
    refuses("sweep smoke --output" + file("out"));
    refuses("reproduce ridge --output" + file("out"));
}

TEST_F(MissingGpu, IsAnErrorBeforePredictions) {
    const TempDir models;
    const auto model = " '" + (models / "model.imka").string() + "'";
    ASSERT_EQ(run_imka("ridge --dataset" + file("x.csv") + " --n-components 8 --gram-rows 0 --save" + model)
                  .exit_code,
              0);
    refuses("ridge --load" + model + " --predict" + file("x.csv") + " --output" + file("y.csv"));
}

TEST_F(MissingGpu, IsAnErrorForNetworksThatRunOnTheProcessor) {
    IMKA_NEED_ONNX();
    const auto models = std::filesystem::path(source_dir()) / "tests/models";
    imka::graph::write_tensor(dir_ / "in.npy",
                              imka::graph::load_onnx_tensor(models / "cnn_opset17_input_0.pb"));
    refuses("run '" + (models / "cnn_opset17.onnx").string() + "' --input" + file("in.npy") + " --output" +
            file("y.npy"));
}

TEST_F(MissingGpu, IsSaidIfNoGpuIsVisible) {
    if (!imka::cuda::is_compiled()) GTEST_SKIP() << "this build has no CUDA";
    const auto r =
        run_imka("gram --dataset ringnorm --n-components 8 --device cuda", "CUDA_VISIBLE_DEVICES=");
    EXPECT_EQ(r.exit_code, 4);
    EXPECT_NE(r.err.find("no CUDA GPU: "), std::string::npos) << r.err;
    EXPECT_NE(r.err.find("use --device cpu, or install a driver"), std::string::npos) << r.err;
}

TEST(Doctor, ShowsWhatGpusNeed) {
    const auto cuda = json_of("doctor").at("cuda");
    EXPECT_EQ(cuda.at("compiled"), imka::cuda::is_compiled());
    EXPECT_EQ(cuda.at("architectures"), imka::cuda::build().architectures);
    EXPECT_EQ(cuda.at("runtime"), imka::cuda::build().runtime);
    EXPECT_EQ(cuda.at("driver"), imka::cuda::build().driver);
    EXPECT_EQ(cuda.at("operations").empty(), !imka::cuda::is_compiled());
    EXPECT_EQ(cuda.at("linear_algebra"), imka::cuda::linear_algebra_obstacle());
    EXPECT_EQ(cuda.at("gpus").size(), static_cast<std::size_t>(imka::cuda::gpu_count()));
    for (const auto& gpu : cuda.at("gpus")) {
        EXPECT_GT(gpu.at("free_gb"), 0.0);
        EXPECT_GE(gpu.at("memory_gb"), gpu.at("free_gb"));
    }
    const auto text = run_imka("doctor").out;
    EXPECT_EQ(text.find("cuBLAS, cuSOLVER") != std::string::npos, imka::cuda::is_compiled());
}

class GpuRanks : public testing::Test {
protected:
    void SetUp() override {
        if (imka::cuda::gpu_count() == 0) GTEST_SKIP() << "needs a CUDA GPU";
        if (!imka::has_mpi()) GTEST_SKIP() << "this build has no MPI (libopenmpi-dev)";
        if (std::system("command -v mpirun > /dev/null 2>&1") != 0)
            GTEST_SKIP() << "no mpirun: apt-get install openmpi-bin";
    }
    static CommandResult job(int ranks, const std::string& arguments) {
        return run_imka(arguments + " --device cuda --quiet",
                        "mpirun --allow-run-as-root --oversubscribe -n " + std::to_string(ranks));
    }
    TempDir dir_;
};

TEST_F(GpuRanks, OfASweepGiveTheRecordsOfOneProcess) {
    for (const int ranks : {1, 2, 3}) {
        const auto r = job(ranks, "sweep smoke --output '" + (dir_ / std::to_string(ranks)).string() + "'");
        EXPECT_EQ(r.exit_code, 0) << r.err;
        EXPECT_EQ(record_facts(dir_ / std::to_string(ranks)), record_facts(dir_ / "1"));
        EXPECT_EQ(record_lines(dir_ / std::to_string(ranks)), 108U);
    }
}

TEST_F(GpuRanks, OfAFitGiveTheSameModel) {
    const std::string fit = "ridge --dataset twonorm --n-components 300 --json";
    const auto two = job(2, fit);
    ASSERT_EQ(two.exit_code, 0) << two.err;
    EXPECT_EQ(job(3, fit).out, two.out);
}

}  // namespace
