// Names of devices, GPUs of the machine, errors without one.
#include "imka/base/device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "imka/cuda/gpu.hpp"
#include "imka/cuda/memory.hpp"
#include "imka/cuda/rates.hpp"
#include "imka/cuda/resident.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(ComputeDevice, IsReadAndWritten) {
    EXPECT_EQ(parse_device("cpu"), ComputeDevice{});
    EXPECT_EQ(parse_device("cuda"), (ComputeDevice{DeviceKind::cuda, 0}));
    EXPECT_EQ(parse_device("cuda:3"), (ComputeDevice{DeviceKind::cuda, 3}));
    EXPECT_EQ(to_string(parse_device("cuda:3")), "cuda:3");
    EXPECT_EQ(to_string(parse_device("cuda")), "cuda:0");
    EXPECT_EQ(to_string(ComputeDevice{}), "cpu");
}

TEST(ComputeDevice, RejectsOtherNames) {
    for (const auto* name : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "CPU", "cuda:99999999999"}) {
        EXPECT_THAT(error_of([&] { parse_device(name); }),
                    AllOf(StartsWith("bad_config: unknown device"), HasSubstr("cpu, cuda or cuda:N")))
            << name;
    }
}

TEST(Gpus, ThatDoNotExistAreRefusedWithWhatToDo) {
    const auto count = static_cast<int>(cuda::gpus().size());
    const auto message = error_of([&] { cuda::require_gpu(count); });
    EXPECT_THAT(message, StartsWith("missing_part: "));
    EXPECT_THAT(error_of([&] { cuda::select_gpu(count); }), message);
    EXPECT_THAT(error_of([&] { cuda::Memory(count, 8); }), message);
    if (count > 0) {
        EXPECT_THAT(message, HasSubstr("this machine has cuda:0 to"));
    } else {
        EXPECT_THAT(message, HasSubstr("cpu"));
    }
}

TEST(Gpus, AreTakenInTurnByTheProcessesOfAMachine) {
    EXPECT_EQ(cuda::gpu_in_turn(0, 1), 0);
    EXPECT_EQ(cuda::gpu_in_turn(5, 1), 0);
    std::vector<int> taken;
    for (int rank = 0; rank < 8; ++rank) taken.push_back(cuda::gpu_in_turn(rank, 3));
    EXPECT_EQ(taken, (std::vector<int>{0, 1, 2, 0, 1, 2, 0, 1}));
    EXPECT_EQ(cuda::gpu_in_turn(2, 0), 0) << "without GPUs, the first one is refused";
    EXPECT_EQ(cuda::gpu_count(), static_cast<int>(cuda::gpus().size()));
}

TEST(Gpus, BuildIsDescribed) {
    const auto build = cuda::build();
    EXPECT_EQ(build.runtime.empty(), !cuda::is_compiled());
    EXPECT_EQ(build.architectures.empty(), !cuda::is_compiled());
    for (const auto& gpu : cuda::gpus()) {
        EXPECT_FALSE(gpu.name.empty());
        EXPECT_GT(gpu.multiprocessors, 0);
        EXPECT_GE(gpu.memory_bytes, gpu.free_bytes);
    }
}

TEST(GpuRates, AreMeasured) {
    if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    const auto rates = cuda::measure_rates(0);
    for (const double rate :
         {rates.byte_macs, rates.half_macs, rates.tf32_macs, rates.normals, rates.powers, rates.write_bytes})
        EXPECT_GT(rate, 1e6);
}

TEST(ResidentRows, AreFoundByTheirPlaceOnTheHost) {
    const Matrix<float> x(10, 3);
    const Matrix<float> other(10, 3);
    const auto all = x.view();
    EXPECT_EQ(cuda::offset_within(all, all), 0);
    EXPECT_EQ(cuda::offset_within(all, all.slice_rows(4, 6)), 12);
    EXPECT_EQ(cuda::offset_within(all.slice_rows(0, 5), all.slice_rows(4, 6)), -1) << "beyond the end";
    EXPECT_EQ(cuda::offset_within(all.slice_rows(5, 5), all.slice_rows(4, 2)), -1) << "before the beginning";
    EXPECT_EQ(cuda::offset_within(all, other.view()), -1);
    EXPECT_EQ(cuda::offset_within(all, all.slice_cols(0, 2)), -1);
    EXPECT_EQ(cuda::offset_within(all, {all.data() + 1, 2, 3}), -1) << "not at the beginning of a row";
    EXPECT_EQ(cuda::find_resident({}, all), nullptr);
}

TEST(GpuMemory, KeepsWhatIsCopied) {
    if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    std::vector<int> values = {3, 1, 4, 1, 5, 9, 2, 6};
    cuda::Buffer<int> buffer(0, values);
    auto moved = std::move(buffer);
    std::vector<int> back(values.size());
    moved.download(back);
    EXPECT_EQ(back, values);
    // Two rows of two, three apart on the host.
    cuda::Buffer<int> rows(0, 4);
    rows.upload_rows(MatrixView<const int>(values.data(), 2, 2, 3));
    std::vector<int> dense(4);
    rows.download(dense);
    EXPECT_EQ(dense, (std::vector<int>{3, 1, 1, 5}));
    std::vector<int> apart(6);
    rows.download_rows(MatrixView<int>(apart.data(), 2, 2, 3));
    EXPECT_EQ(apart, (std::vector<int>{3, 1, 0, 1, 5, 0}));
    // Rows without gaps.
    rows.upload_rows(MatrixView<const int>(values.data() + 4, 2, 2));
    rows.download_rows(MatrixView<int>(dense.data(), 2, 2));
    EXPECT_EQ(dense, (std::vector<int>{5, 9, 2, 6}));
}

TEST(GpuMemory, SaysHowMuchIsFreeIfThereIsTooLittle) {
    if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    const auto bytes = cuda::gpus()[0].memory_bytes * 2;
    EXPECT_THAT(error_of([&] { cuda::Memory(0, bytes); }),
                AllOf(StartsWith("missing_part: cuda:0 is out of memory"), HasSubstr("GB free")));
    EXPECT_EQ(error_of([] { cuda::Memory(0, 1024); }), "no error") << "the GPU is still usable";
}

}  // namespace
}  // namespace imka
