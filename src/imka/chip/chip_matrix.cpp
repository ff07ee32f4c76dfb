#include "imka/chip/chip_matrix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/chip/simulate/fast.hpp"

namespace imka {
namespace {

void check_weights(const Matrix<float>& weights) {
    for (std::size_t r = 0; r < weights.rows(); ++r) {
        for (std::size_t c = 0; c < weights.cols(); ++c) {
            if (!std::isfinite(weights(r, c)))
                fail(ErrorCode::bad_data, fmt::format("weight {} of output {} is {}; weights must be finite",
                                                      r, c, weights(r, c)));
        }
    }
}

std::size_t count_replicas(const ChipSpec& spec, const Tiling& tiling, int replicas) {
    if (replicas < 0)
        fail(ErrorCode::bad_config,
             fmt::format("replicas: {}; it must be >= 0, 0 for as many as fit", replicas));
    const auto there = static_cast<std::size_t>(spec.cores) * static_cast<std::size_t>(spec.chips);
    const std::size_t tiles = tiling.tiles.size();
    const std::size_t wanted =
        replicas == 0 ? std::max<std::size_t>(1, there / tiles) : static_cast<std::size_t>(replicas);
    const std::size_t needed = wanted * tiles;
    if (needed > there)
        fail(ErrorCode::bad_config,
             fmt::format(
                 "a matrix of {} inputs and {} outputs{} needs {} cores of {} x {}; there are {} ({} on "
                 "each of {}), {} are missing; {} chips would do",
                 tiling.inputs, tiling.outputs,
                 wanted > 1 ? fmt::format(" in {} copies", wanted) : std::string{}, needed, spec.core.rows,
                 spec.core.cols, there, spec.cores,
                 spec.chips == 1 ? "1 chip" : fmt::format("{} chips", spec.chips), needed - there,
                 (needed + static_cast<std::size_t>(spec.cores) - 1) / static_cast<std::size_t>(spec.cores)));
    return wanted;
}

template <class T>
Matrix<T> copy_block(MatrixView<const T> m, std::size_t first_row, std::size_t rows, std::size_t first_col,
                     std::size_t cols) {
    Matrix<T> out(rows, cols);
    for (std::size_t r = 0; r < rows; ++r) {
        const auto row = m.row(first_row + r).subspan(first_col, cols);
        std::copy(row.begin(), row.end(), out.row(r).begin());
    }
    return out;
}

Matrix<float> tile_weights(const ChipMatrix& chip, const Tile& tile) {
    return copy_block(chip.weights.view(), tile.first_row, tile.rows, tile.first_col, tile.cols);
}

Matrix<float> tile_inputs(const ChipMatrix& chip, const Tile& tile) {
    return copy_block(chip.inputs.view(), 0, chip.inputs.rows(), tile.first_row, tile.rows);
}

CoreIds core_ids(const ChipMatrix& chip, std::size_t core) {
    return {.seed = chip.seed, .core = static_cast<std::uint32_t>(core)};
}

const Tile& tile_of(const ChipMatrix& chip, std::size_t core) {
    return chip.tiling.tiles[core % chip.tiling.tiles.size()];
}
const CoreMapping& mapping_of(const ChipMatrix& chip, std::size_t core) {
    return chip.mappings[core % chip.tiling.tiles.size()];
}

// The outcome is drawn, core by core on all threads: there is nothing to count or to measure.
void draw_cores(ChipMatrix& chip, const Exec& exec) {
    parallel_for(exec, chip.core_count(), [&](std::size_t c) {
        const auto weights = tile_weights(chip, tile_of(chip, c));
        chip.cores[c] = program_core(chip.spec.core, chip.spec.device, weights.view(), mapping_of(chip, c),
                                     core_ids(chip, c));
    });
}

void add_mean(const ProgrammingErrors& part, double share, ProgrammingErrors& mean) {
    mean.weight += share * part.weight;
    mean.product += share * part.product;
}

ProgrammingSummary pulse_cores(ChipMatrix& chip, const ProgrammingConfig& config, const Exec& exec) {
    ProgrammingSummary summary;
    const double share = 1.0 / static_cast<double>(chip.core_count());
    Progress progress(exec, "programming cores", chip.core_count());
    for (std::size_t c = 0; c < chip.core_count(); ++c) {
        const auto weights = tile_weights(chip, tile_of(chip, c));
        auto result = program_core_by(exec, {.chip = chip.spec,
                                             .weights = weights.view(),
                                             .mapping = mapping_of(chip, c),
                                             .ids = core_ids(chip, c),
                                             .config = config});
        add(result.cost, summary.cost);
        add_mean(result.before, share, summary.before);
        add_mean(result.after, share, summary.after);
        summary.polarities += result.polarities;
        summary.unreached += result.unreached;
        summary.steps.push_back(std::move(result.steps));
        chip.cores[c] = std::move(result.core);
        progress.update(c + 1);
    }
    return summary;
}

Matrix<double> widened(const Matrix<float>& m) {
    Matrix<double> out(m.rows(), m.cols());
    std::copy(m.values().begin(), m.values().end(), out.values().begin());
    return out;
}

Matrix<float> clipped_inputs(MatrixView<const float> x, double range) {
    const auto most = static_cast<float>(range);
    Matrix<float> out(x.rows(), x.cols());
    for (std::size_t v = 0; v < x.rows(); ++v)
        std::ranges::transform(x.row(v), out.row(v).begin(),
                               [&](float value) { return std::clamp(value, -most, most); });
    return out;
}

// The inputs that a core's outputs are to be right for. What clipping and rounding take from an input is no
// error of the columns behind it; only what truncation takes from all of them is for their scale to make up.
Matrix<float> target_inputs(const ProgrammedCore& core, MatrixView<const float> x, OutputFit fit) {
    if (fit == OutputFit::centred && core.spec.dac.rounding == InputRounding::truncate)
        return clipped_inputs(x, core.input_range);
    return applied_inputs(core.spec.dac, x, core.input_range);
}

void add_half_steps(ProgrammedCore& core) {
    const auto& affine = core.spec.affine;
    if (affine.output_bits == 0 || affine.rounding != OutputRounding::floor) return;
    for (auto& column : core.affine.columns) column.offset += 0.5;
}

// Products of the calibration sample have numbers and a seed that no later product has: the chip's devices
// and its reads are named by different streams, so the seed of the chip itself serves.
constexpr std::uint64_t kFirstCalibrationProduct = std::uint64_t{1} << 31U;

}  // namespace

void require_state(const ChipMatrix& chip, ChipState first, ChipState last, std::string_view action) {
    if (chip.state >= first && chip.state <= last) return;
    const std::string range = first == last ? std::string(to_string(first))
                                            : fmt::format("{} to {}", to_string(first), to_string(last));
    fail(ErrorCode::bad_usage,
         fmt::format("{}: the chip is {}; it must be {}", action, to_string(chip.state), range));
}

ChipMatrix ideal_matrix(const ChipSpec& spec, Matrix<float> weights, std::uint64_t seed) {
    validate(spec);
    check_weights(weights);
    ChipMatrix chip;
    chip.spec = spec;
    chip.seed = seed;
    chip.weights = std::move(weights);
    return chip;
}

void place(ChipMatrix& chip, const PlacementConfig& config) {
    require_state(chip, ChipState::ideal, ChipState::ideal, "placing a matrix");
    auto tiling = tile_matrix(chip.weights.rows(), chip.weights.cols(), chip.spec.core);
    chip.replicas = count_replicas(chip.spec, tiling, config.replicas);
    chip.replication = config.replication;
    chip.tiling = std::move(tiling);
    for (const auto& tile : chip.tiling.tiles)
        chip.mappings.push_back({.column_us = std::vector<double>(tile.cols, chip.spec.device.g_max_us)});
    chip.state = ChipState::mapped;
}

void calibrate(ChipMatrix& chip, MatrixView<const float> x, const CalibrationConfig& config,
               const Exec& exec) {
    require_state(chip, ChipState::mapped, ChipState::calibrated, "calibrating");
    validate(config);
    if (x.cols() != chip.weights.rows())
        fail(ErrorCode::bad_data, fmt::format("calibration inputs of length {} for weights of {} inputs",
                                              x.cols(), chip.weights.rows()));
    if (x.rows() == 0) fail(ErrorCode::bad_data, "no calibration inputs");
    chip.inputs = calibration_inputs(config, x, chip.seed);
    parallel_for(exec, chip.tiling.tiles.size(), [&](std::size_t t) {
        const auto& tile = chip.tiling.tiles[t];
        const auto weights = tile_weights(chip, tile);
        const auto inputs = tile_inputs(chip, tile);
        chip.mappings[t] = calibrate_mapping(chip.spec.core, chip.spec.device.g_max_us, weights.view(),
                                             inputs.view(), config);
    });
    chip.state = ChipState::calibrated;
}

ProgrammingSummary program(ChipMatrix& chip, const ProgrammingConfig& config, const Exec& exec) {
    require_state(chip, ChipState::mapped, ChipState::compensated, "programming");
    validate(config);
    chip.cores.resize(chip.core_count());
    ProgrammingSummary summary;
    if (config.method == ProgrammingMethod::statistical)
        draw_cores(chip, exec);
    else
        summary = pulse_cores(chip, config, exec);
    chip.time = {};
    chip.state = ChipState::programmed;
    return summary;
}

void calibrate_outputs(ChipMatrix& chip, const Exec& exec, OutputFit fit) {
    require_state(chip, ChipState::programmed, ChipState::compensated, "calibrating outputs");
    if (chip.inputs.rows() == 0)
        fail(ErrorCode::bad_usage, "calibrating outputs: the chip was programmed without calibration inputs");
    const ProductIds ids{.seed = chip.seed, .first = kFirstCalibrationProduct};
    parallel_for(exec, chip.cores.size(), [&](std::size_t c) {
        const auto& tile = tile_of(chip, c);
        const auto inputs = tile_inputs(chip, tile);
        auto& core = chip.cores[c];
        core.compensation.assign(core.used_cols(), 1.0);
        const auto counts = fast_counts(prepare(core, chip.time), inputs.view(), ids, {.threads = 1}).counts;
        const auto target = target_inputs(core, inputs.view(), fit);
        fit_affine(core, widened(counts).view(),
                   exact_products(target.view(), tile_weights(chip, tile).view()).view());
        if (fit == OutputFit::centred) add_half_steps(core);
    });
    if (chip.state == ChipState::aged) chip.state = ChipState::compensated;
}

void age(ChipMatrix& chip, const ReadTime& time) {
    require_state(chip, ChipState::programmed, ChipState::compensated, "ageing");
    validate(time);
    if (time.seconds < chip.time.seconds)
        fail(ErrorCode::bad_usage,
             fmt::format("{} s after programming; the chip's clock is at {} s already and "
                         "only goes forward",
                         time.seconds, chip.time.seconds));
    if (time.seconds > chip.time.seconds) chip.state = ChipState::aged;
    chip.time = time;
}

void compensate(ChipMatrix& chip, DriftCompensation kind) {
    require_state(chip, ChipState::programmed, ChipState::compensated, "compensating drift");
    for (auto& core : chip.cores) compensate_drift(core, kind, chip.time);
    if (chip.state == ChipState::programmed) return;
    chip.state = kind == DriftCompensation::none ? ChipState::aged : ChipState::compensated;
}

}  // namespace imka
