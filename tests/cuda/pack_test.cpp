// Weights in the layout of the matrix units: every value is where the instructions expect it. Needs no GPU.
#include "imka/chip/simulate/cuda_pack.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "imka/base/random.hpp"
#include "imka/chip/build.hpp"
#include "imka/chip/simulate/cuda_emulator.hpp"
#include "imka/cuda/gpu.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

const Exec kExec{.threads = 1};

ProgrammedChip small_chip(const ChipSpec& spec, const PlacementConfig& placement = {}) {
    Matrix<float> weights(50, 30);
    Matrix<float> sample(100, 50);
    fill_normal(21, Stream::test, 0, weights.values());
    fill_normal(21, Stream::test, 5000, sample.values());
    return build_chip(BuildJob{.chip = spec,
                               .weights = weights,
                               .sample = sample.view(),
                               .steps = {.placement = placement},
                               .seed = 2},
                      kExec);
}

std::vector<FastRegion> folded(const ProgrammedChip& chip) {
    std::vector<FastRegion> out;
    for (const auto& region : chip.regions) out.push_back(prepare(region, chip.time));
    return out;
}

TEST(BlockPlaces, AreAllDifferent) {
    std::set<std::pair<std::uint32_t, std::uint32_t>> bytes;
    for (std::uint32_t i = 0; i < kGpuStepBlock; ++i) {
        for (std::uint32_t c = 0; c < kGpuChunkCols; ++c) {
            for (std::uint32_t d = 0; d < 3; ++d) {
                const auto p = digit_place(i, c, d);
                bytes.insert({p.word, p.shift});
            }
            const auto v = variance_place(i, c);
            bytes.insert({v.word, v.shift});
            bytes.insert({v.word, v.shift + 8});
            EXPECT_LT(v.word, kGpuBlockWords);
        }
    }
    EXPECT_EQ(bytes.size(), kGpuBlockWords * 4);
}

// The weight that the digits of an image represent.
double unpacked(const GpuImage& image, const GpuFold& fold, std::uint32_t blocks, std::uint32_t input,
                std::uint32_t col) {
    const auto block =
        fold.weights + (std::size_t{col} / kGpuChunkCols * blocks + input / kGpuStepBlock) * kGpuBlockWords;
    double value = 0.0;
    double weight = 1.0;
    for (std::uint32_t d = 0; d < 3; ++d, weight *= 256.0) {
        const auto p = digit_place(input % kGpuStepBlock, col % kGpuChunkCols, d);
        value += weight * static_cast<std::int8_t>((image.weights[block + p.word] >> p.shift) & 255U);
    }
    return value * image.columns[fold.columns + col];
}

TEST(Pack, KeepsWeightsTo23BitsOfTheColumn) {
    auto spec = chip_preset("hermes");
    spec.core.read_mode = ReadMode::one_phase;
    const auto chip = small_chip(spec);
    const auto regions = folded(chip);
    const auto image = pack(ChipLayout(chip), regions);
    ASSERT_EQ(image.matrices.size(), 1U);
    ASSERT_EQ(image.matrices[0].terms.size(), 1U);
    const auto& term = image.matrices[0].terms[0];
    const auto& counts = regions[0].exact.charges[0].counts;
    EXPECT_EQ(term.linear.pass_count, 0U);
    EXPECT_EQ(term.exact.pass_count, 1U);
    EXPECT_EQ(term.blocks, 2U);
    for (std::uint32_t c = 0; c < counts.rows(); ++c) {
        double largest = 0.0;
        for (const float v : counts.row(c)) largest = std::max(largest, std::abs(double{v}));
        for (std::uint32_t i = 0; i < counts.cols(); ++i)
            EXPECT_NEAR(unpacked(image, term.exact, term.blocks, i, c), counts(c, i), largest * 0x1p-22);
    }
}

TEST(Pack, PhasesOfNegativeInputsShareTheWeights) {
    const auto chip = small_chip(chip_preset("hermes"));
    const auto image = pack(ChipLayout(chip), folded(chip));
    const auto& fold = image.matrices[0].terms[0].exact;
    ASSERT_EQ(fold.pass_count, 4U);
    EXPECT_EQ(fold.passes[0].weights, 0U);
    EXPECT_EQ(fold.passes[1].weights, 1U);
    EXPECT_EQ(fold.passes[2].weights, 1U);
    EXPECT_EQ(fold.passes[3].weights, 0U);
    EXPECT_EQ(fold.passes[2].part, StepPart::negative);
    EXPECT_EQ(fold.passes[3].sign, -1.0F);
}

TEST(Pack, CoversEveryOutputOfEveryCopyOnce) {
    auto spec = chip_preset("hermes");
    spec.core.rows = 20;
    spec.core.cols = 16;
    for (const auto replication : {Replication::throughput, Replication::average}) {
        const auto chip = small_chip(spec, {.replicas = 3, .replication = replication});
        const auto image = pack(ChipLayout(chip), folded(chip));
        const auto& matrix = image.matrices[0];
        const bool average = replication == Replication::average;
        EXPECT_EQ(matrix.copies, average ? 1U : 3U);
        std::size_t cols = 0;
        for (const auto& panel : matrix.panels) {
            cols += panel.cols;
            EXPECT_EQ(panel.terms, average ? 9U : 3U) << "tiles of rows";
        }
        EXPECT_EQ(cols, average ? 30U : 90U);
    }
}

// Chips that the simulator on a GPU refuses, and the reason.
TEST(CudaEmulator, RefusesByName) {
    const auto message = [](void (*change)(ChipSpec&)) {
        auto spec = chip_preset("hermes");
        change(spec);
        return error_of([&] { make_cuda_emulator(small_chip(spec), kExec); });
    };
    EXPECT_THAT(
        message([](ChipSpec& s) { s.core.dac.jitter_steps = 0.5; }),
        HasSubstr("bad_config: the chip has input jitter, which the emulator on a GPU does not support"));
    EXPECT_THAT(message([](ChipSpec& s) { s.core.ir_drop.scale = 1.0; }), HasSubstr("the chip has IR drop"));
    EXPECT_THAT(message([](ChipSpec& s) { s.core.dac.levels = 255; }),
                HasSubstr("the chip has more than 127 input levels"));
    EXPECT_THAT(message([](ChipSpec& s) { s.core.dac.encoding = InputEncoding::bit_serial; }),
                HasSubstr("the chip has read noise with inputs that are applied bit by bit"));
}

TEST(CudaEmulator, NeedsAGpu) {
    if (!cuda::gpus().empty()) GTEST_SKIP() << "this machine has a CUDA GPU";
    EXPECT_THAT(error_of([] { make_cuda_emulator(small_chip(chip_preset("hermes")), kExec); }),
                testing::StartsWith("missing_part: "));
}

}  // namespace
}  // namespace imka
