// A plan: matrices cut into tiles, and the place of every tile on the cores of a chip. No device is written.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/base/names.hpp"
#include "imka/chip/program/calibrate.hpp"
#include "imka/chip/region.hpp"

namespace imka {

// What several copies of a matrix are for.
enum class Replication {
    throughput,  // each takes every n-th input
    average,     // each takes every input; outputs are averaged
};
template <>
struct EnumNames<Replication> {
    static constexpr std::string_view what = "replication";
    static constexpr std::string_view values[] = {"throughput", "average"};
};

struct PlacementConfig {
    int replicas = 1;  // copies of each matrix; 0: as many as fit
    Replication replication = Replication::throughput;
};

struct PlannedMatrix {
    Matrix<float> weights;  // inputs x outputs
    std::size_t replicas = 1;
    Replication replication = Replication::throughput;
    Matrix<float> inputs;  // calibration sample; empty: not calibrated
};

struct Plan {
    ChipSpec spec;
    std::vector<PlannedMatrix> matrices;
    // Partial sums of the regions of a matrix are added in this order.
    std::vector<Region> regions;
    std::vector<RegionScale> scales;  // one for each region
};

// As few tiles as possible, all of nearly one size: outputs in groups of columns, inputs in groups of rows.
// Tiles of one group of columns follow each other, from the first inputs to the last. Error{bad_config} for a
// matrix without inputs or outputs.
std::vector<Tile> tile_matrix(std::size_t inputs, std::size_t outputs, const CoreSpec& spec);

// One tile on each core, at row 0 and column 0: tile t of replica r on core r * tiles + t, matrices one after
// another. All columns at g_max, inputs of range 1. Error{bad_data} for weights that are not finite, naming
// the first; Error{bad_config} where there are too few cores, saying how many are missing.
Plan place(const ChipSpec& spec, Matrix<float> weights, const PlacementConfig& config = {});
Plan place(const ChipSpec& spec, std::vector<Matrix<float>> matrices, const PlacementConfig& config = {});

// Error{bad_data} unless every weight of every replica has exactly one cell, all regions are inside their
// cores without overlap, and all values are finite.
void validate(const Plan& plan);

// Ranges and conductances of the regions of one matrix, chosen from config.inputs rows of the sample.
struct Calibration {
    std::uint32_t matrix = 0;
    MatrixView<const float> sample;
    CalibrationConfig config;
    std::uint64_t seed = 0;  // draws the rows
};
Plan calibrated(Plan plan, const Calibration& calibration, const Exec& exec);

// Cores with at least one region.
std::size_t core_count(const Plan& plan);

// The part of the matrix, and of the calibration sample, that a region holds.
Matrix<float> region_weights(const Plan& plan, const Region& region);
Matrix<float> region_inputs(const Plan& plan, const Region& region);

}  // namespace imka
