// Projection on an emulated chip: Ω is placed, calibrated, programmed, aged and compensated, then read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "imka/base/config.hpp"
#include "imka/base/exec.hpp"
#include "imka/chip/simulate/execute.hpp"
#include "imka/features/feature_map.hpp"
#include "imka/features/projector.hpp"

namespace imka {

// Where scale and offset of the columns come from.
enum class OutputCalibration {
    least_squares,  // fitted to the calibration inputs after programming
    nominal,        // those of a chip without errors
    centred,        // fitted, and made up for what inputs lose by truncation and results by rounding down
};
template <>
struct EnumNames<OutputCalibration> {
    static constexpr std::string_view what = "output calibration";
    static constexpr std::string_view values[] = {"least_squares", "nominal", "centred"};
};

// How a matrix gets onto a chip and when it is read.
struct ChipProjection {
    std::optional<InputRangeRule> input_range;  // auto: max, or deviation where input_alpha is given
    std::optional<double> input_alpha;  // standard deviations at which inputs are clipped; -1: none are
    std::int64_t calibration_inputs = 2000;
    ProgrammingMethod programming = ProgrammingMethod::statistical;
    OutputCalibration output_calibration = OutputCalibration::least_squares;
    double read_seconds = 0.0;   // since programming; >= 0
    double read_spacing = 1e-3;  // seconds between two products; >= 0
    AgeCompensation compensation = AgeCompensation::none;
    // Rows of Ω are scaled so that the largest product of every output fills the range of results, and
    // outputs are scaled back behind the chip.
    bool range_scaling = false;
    std::int64_t lost_rows =
        0;             // every n-th product comes back as 0, as some measured runs seem to have had; 0: none
    int replicas = 1;  // copies of the matrix; 0: as many as fit
    Replication replication = Replication::throughput;
};
Fields fields(ChipProjection& config);
// Error{bad_config}, also for settings that exclude each other.
void validate(const ChipProjection& config);

// Which chip it is, and which run of products on it. They name different random numbers: a chip can be read
// again with new noise.
struct ChipSeeds {
    std::uint64_t chip = 0;
    std::uint64_t products = 0;
};
// A seed that no other (seed, purpose) has.
std::uint64_t derived_seed(std::uint64_t seed, std::uint32_t purpose);

// What is to go onto which chip.
struct ChipJob {
    const ChipSpec& chip;
    const Matrix<float>& omega;      // m x d
    MatrixView<const float> inputs;  // rows from which the calibration inputs are drawn
    const ChipProjection& config;
    ChipSeeds seeds;
};

// Row r of a tile is the product first_row + r.
class ChipProjector : public Projector {
public:
    // factors: of each output, none for 1; every lost_rows-th row is 0, none for 0.
    ChipProjector(ReadyChip chip, std::uint64_t seed, std::vector<float> factors = {},
                  std::uint64_t lost_rows = 0)
        : chip_(std::move(chip)), seed_(seed), factors_(std::move(factors)), lost_rows_(lost_rows) {}
    std::size_t inputs() const override { return chip_.tiling.inputs; }
    std::size_t outputs() const override { return chip_.tiling.outputs; }
    void project(MatrixView<const float> x, std::uint64_t first_row, MatrixView<float> u) const override;

private:
    ReadyChip chip_;
    std::uint64_t seed_;
    std::vector<float> factors_;
    std::uint64_t lost_rows_;
};

// Through all states. Inputs are as the projection gets them.
std::unique_ptr<const Projector> make_chip_projector(const ChipJob& job, const Exec& exec);

// A feature map whose projection runs on a chip, and what the chip was like. Inputs are as the map gets them:
// for example the training part.
struct ChipMap {
    FeatureMap map;
    ChipState state = ChipState::programmed;
    std::size_t cores = 0;
};
ChipMap chip_feature_map(const FeatureRecipe& recipe, const ChipJob& job, const Exec& exec);

}  // namespace imka
