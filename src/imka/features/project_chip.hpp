// Projection on a chip: Ω is one matrix of a chip driver.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/chip/build.hpp"
#include "imka/chip/driver.hpp"
#include "imka/features/feature_map.hpp"

namespace imka {

// Processing of the driver's results.
struct ChipOutputs {
    std::vector<float> factors = {};  // per output; empty: all 1
    std::uint64_t lost_rows = 0;      // every n-th row is 0; 0: none
};

// Row r is the product ids.first + r. The chip's counts are added to exec.trace.
class ChipProjector : public Projector {
public:
    ChipProjector(std::unique_ptr<ChipDriver> driver, std::uint32_t matrix, ChipOutputs outputs = {})
        : driver_(std::move(driver)), matrix_(matrix), outputs_(std::move(outputs)) {}
    std::size_t inputs() const override { return driver_->shape(matrix_).inputs; }
    std::size_t outputs() const override { return driver_->shape(matrix_).outputs; }
    void project(MatrixView<const float> x, const ProductIds& ids, const Exec& exec,
                 MatrixView<float> u) const override;
    // nullptr unless the emulator is on that GPU.
    std::unique_ptr<const GpuProjector> on_gpu(int gpu) const override;

private:
    std::unique_ptr<ChipDriver> driver_;
    std::uint32_t matrix_;
    ChipOutputs outputs_;
};

// The chip of the job, emulated on exec.device (chip/simulate/emulator.hpp), and its state. It is calibrated
// and programmed on the processor.
struct ChipProjection {
    std::unique_ptr<const Projector> projector;
    ChipState state = ChipState::programmed;
    std::size_t cores = 0;
};
ChipProjection chip_projection(const ProjectionJob& job, const Exec& exec);
// Returns only the projector.
std::unique_ptr<const Projector> make_chip_projector(const ProjectionJob& job, const Exec& exec);

// A feature map whose projection runs on a chip, and the state of that chip. The job's inputs are inputs of
// the map, for example the training part; the recipe sets the job's input_scale.
struct ChipMap {
    FeatureMap map;
    ChipState state = ChipState::programmed;
    std::size_t cores = 0;
};
ChipMap chip_feature_map(const FeatureRecipe& recipe, ProjectionJob job, const Exec& exec);

}  // namespace imka
