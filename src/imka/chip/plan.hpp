// A plan: matrices cut into tiles, and the position of every tile on the cores of a chip. No device is
// programmed yet.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "imka/base/config.hpp"
#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/base/names.hpp"
#include "imka/chip/program/calibrate.hpp"
#include "imka/chip/region.hpp"

namespace imka {

// Purpose of several copies of a matrix.
enum class Replication {
    throughput,  // each processes every n-th input
    average,     // each processes every input; outputs are averaged
};
template <>
struct EnumNames<Replication> {
    static constexpr std::string_view what = "replication";
    static constexpr std::string_view values[] = {"throughput", "average"};
};

struct PlacementConfig {
    int replicas = 1;  // copies of each matrix; 0: the maximum that fits
    Replication replication = Replication::throughput;
};
Fields fields(PlacementConfig& config);
void validate(const PlacementConfig& config);

struct PlannedMatrix {
    Matrix<float> weights;  // inputs x outputs
    std::size_t replicas = 1;
    Replication replication = Replication::throughput;
    Matrix<float> inputs;  // calibration sample; empty: not calibrated
};

struct Plan {
    ChipSpec spec;
    std::vector<PlannedMatrix> matrices;
    // Partial sums of a matrix are added in this order.
    std::vector<Region> regions;
    std::vector<RegionScale> scales;  // one per region
};

// Cuts a matrix into as few tiles as possible, of nearly equal size: outputs into groups of columns,
// inputs into groups of rows. Tiles of one group of columns are consecutive, from the first inputs to the
// last. Error{bad_config} for a matrix without inputs or outputs.
std::vector<Tile> tile_matrix(std::size_t inputs, std::size_t outputs, const CoreSpec& spec);

// Places one tile on each core, at row 0 and column 0: tile t of replica r on core r * tiles + t, matrices
// one after another. All columns use g_max, inputs have the range 1. Error{bad_data} for weights that are
// not finite, naming the first; Error{bad_config} for a config out of range, and if there are too few cores,
// with the number missing.
Plan place(const ChipSpec& spec, Matrix<float> weights, const PlacementConfig& config = {});
Plan place(const ChipSpec& spec, std::vector<Matrix<float>> matrices, const PlacementConfig& config = {});

// Error{bad_data} unless every weight of every replica has exactly one cell, all regions are inside their
// cores and do not overlap, and all values are finite.
void validate(const Plan& plan);

// Job of calibrated(): sets the ranges and conductances of the regions of one matrix from config.inputs rows
// of the sample. Error{bad_data} if the sample is all 0.
struct Calibration {
    std::uint32_t matrix = 0;
    MatrixView<const float> sample;
    CalibrationConfig config;
    std::uint64_t seed = 0;             // for drawing the rows
    Matrix<double> second_moment = {};  // of the inputs (second_moment()); empty: computed from the sample
};
Plan calibrated(Plan plan, const Calibration& calibration, const Exec& exec);

// Cores of all chips.
std::size_t core_count(const ChipSpec& spec);
// Cores with at least one region.
std::size_t core_count(const Plan& plan);

// The part of the matrix and of the calibration sample that belongs to a region.
Matrix<float> region_weights(const Plan& plan, const Region& region);
Matrix<float> region_inputs(const Plan& plan, const Region& region);

}  // namespace imka
