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
        for (std::uint32_t c = 0; c < kGpuPanelCols; ++c) {
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

// The weight that the digits of a stage represent, in units of the column's scale.
double unpacked(const GpuImage& image, const GpuStage& stage, std::uint32_t input, std::uint32_t col) {
    const auto block = stage.weights + std::size_t{input} / kGpuStepBlock * kGpuBlockWords;
    double value = 0.0;
    double weight = 1.0;
    for (std::uint32_t d = 0; d < 3; ++d, weight *= 256.0) {
        const auto p = digit_place(input % kGpuStepBlock, col, d);
        value += weight * static_cast<std::int8_t>((image.weights[block + p.word] >> p.shift) & 255U);
    }
    return value;
}

TEST(Pack, KeepsWeightsTo23BitsOfTheColumn) {
    auto spec = chip_preset("hermes");
    spec.core.read_mode = ReadMode::one_phase;
    const auto chip = small_chip(spec);
    const auto regions = folded(chip);
    const auto image = pack(ChipLayout(chip), regions);
    ASSERT_EQ(image.matrices.size(), 1U);
    ASSERT_EQ(image.matrices[0].terms.size(), 1U);
    ASSERT_EQ(image.matrices[0].stages.size(), 1U);
    const auto& term = image.matrices[0].terms[0];
    const auto& stage = image.matrices[0].stages[0];
    const auto& counts = regions[0].exact.charges[0].counts;
    EXPECT_EQ(term.linear.exists, 0U);
    EXPECT_EQ(term.exact.exists, 1U);
    EXPECT_EQ(stage.blocks, 2U);
    EXPECT_EQ(stage.converts, 1U);
    for (std::uint32_t c = 0; c < counts.rows(); ++c) {
        double largest = 0.0;
        for (const float v : counts.row(c)) largest = std::max(largest, std::abs(double{v}));
        for (std::uint32_t i = 0; i < counts.cols(); ++i)
            EXPECT_NEAR(unpacked(image, stage, i, c) * image.columns[term.exact.columns + c], counts(c, i),
                        largest * 0x1p-22);
    }
}

TEST(Pack, PhasesOfNegativeInputsShareTheWeights) {
    const auto chip = small_chip(chip_preset("hermes"));
    const auto image = pack(ChipLayout(chip), folded(chip));
    const auto& stages = image.matrices[0].stages;
    ASSERT_EQ(stages.size(), 4U);
    EXPECT_NE(stages[0].weights, stages[1].weights);
    EXPECT_EQ(stages[2].weights, stages[1].weights);
    EXPECT_EQ(stages[3].weights, stages[0].weights);
    EXPECT_EQ(stages[2].part, StepPart::negative);
    EXPECT_EQ(stages[3].weight, -1.0F);
    EXPECT_EQ(stages[3].conversion, 3U);
}

// Regions of more inputs than fit in shared memory are cut; the charge is converted at the end.
TEST(Pack, CutsLongRegionsIntoStages) {
    auto spec = chip_preset("hermes");
    spec.core.read_mode = ReadMode::one_phase;
    spec.core.rows = 512;
    Matrix<float> weights(300, 10);
    Matrix<float> sample(100, 300);
    fill_normal(21, Stream::test, 0, weights.values());
    fill_normal(21, Stream::test, 5000, sample.values());
    const auto chip =
        build_chip(BuildJob{.chip = spec, .weights = weights, .sample = sample.view(), .seed = 2}, kExec);
    const auto regions = folded(chip);
    const auto image = pack(ChipLayout(chip), regions);
    const auto& stages = image.matrices[0].stages;
    ASSERT_EQ(stages.size(), 2U);
    EXPECT_EQ(stages[0].blocks, 8U);
    EXPECT_EQ(stages[0].converts, 0U);
    EXPECT_EQ(stages[1].first_block, 8U);
    EXPECT_EQ(stages[1].blocks, 2U);
    EXPECT_EQ(stages[1].converts, 1U);
    const auto& counts = regions[0].exact.charges[0].counts;
    const auto scale = image.columns[image.matrices[0].terms[0].exact.columns + 3];
    EXPECT_NEAR(unpacked(image, stages[1], 299 - 256, 3) * scale, counts(3, 299),
                1e-6 * std::abs(counts(3, 299)) + 64.0 * scale);
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
            std::set<std::uint32_t> terms;
            for (std::uint32_t i = 0; i < panel.stages; ++i)
                terms.insert(matrix.stages[panel.first_stage + i].term);
            EXPECT_EQ(terms.size(), average ? 9U : 3U) << "tiles of rows";
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
