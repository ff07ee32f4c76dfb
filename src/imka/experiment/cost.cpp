#include "imka/experiment/cost.hpp"

#include <algorithm>
#include <chrono>

#include "imka/base/error.hpp"

namespace imka {
namespace {

// Seconds of one core of a machine with AVX-512, measured over the runs of the experiment ridge_fp32.
constexpr double kPerProjection = 1.5e-11;  // row x direction x input
constexpr double kPerFeature = 5.5e-10;     // row x feature: the functions behind the projection
constexpr double kPerProduct = 1.1e-11;     // row x width²
constexpr double kPerColumn = 1.1e-9;       // row x width: what narrow products lose
constexpr double kPerWidth3 = 1.2e-11;      // width³: the factorisation
constexpr double kPerPrediction = 1.4e-10;  // row x feature x output
constexpr double kPerGram = 5.8e-11;        // row² x feature
constexpr double kPerRun = 2e-3;            // what does not depend on sizes
// The same on the chip hermes, whose conversions are simulated one by one.
constexpr double kPerChipProjection = 1.5e-10;  // row x direction x input
constexpr double kPerChipOutput = 1.0e-8;       // row x direction: conversions and their noise
constexpr double kPerDevice = 1.2e-7;           // programming one and folding it into matrices
constexpr double kBytesPerCell = 120.0;         // of the matrices that a core is folded into

double copies(const RunConfig& config) {
    return std::max(1.0, static_cast<double>(config.chip.projection.replicas));
}

// What a chip adds: its devices, the calibration of ranges and outputs, and slower projections.
double chip_seconds(const RunConfig& config, const RunSizes& sizes, double train, double tested) {
    const auto& run = config.chip;
    const auto m = static_cast<double>(sizes.m);
    const double cells = m * static_cast<double>(sizes.d);
    const double fits = run.fit_on == FitOn::fp32   ? 0.0
                        : run.fit_on == FitOn::chip ? 1.0
                                                    : static_cast<double>(run.fit_draws);
    const double chips = 1.0 + fits;
    const double calibration = 2.0 * std::min(train, static_cast<double>(run.projection.calibration_inputs));
    const double products = chips * calibration * copies(config) + tested + fits * train;
    const double sum = run.projection.replication == Replication::average ? copies(config) : 1.0;
    return chips * copies(config) * 2.0 * cells * kPerDevice +
           sum * products * (cells * kPerChipProjection + m * kPerChipOutput);
}

RunCost cost_of(const RunConfig& config, const RunSizes& sizes, const DatasetFacts& data) {
    const auto d = static_cast<double>(sizes.d);
    const auto m = static_cast<double>(sizes.m);
    const auto features = static_cast<double>(sizes.features);
    const double outputs = data.classes <= 2 ? 1.0 : static_cast<double>(data.classes);
    const double width = features + 1.0 + outputs;
    const auto train = static_cast<double>(data.train_rows);
    const auto test = static_cast<double>(data.test_rows);
    const double gram = std::min(test, static_cast<double>(config.gram_rows));
    RunCost cost;
    cost.seconds = kPerRun + (train + test + gram) * (m * d * kPerProjection + features * kPerFeature) +
                   train * width * (width * kPerProduct + kPerColumn) + width * width * width * kPerWidth3 +
                   test * features * outputs * kPerPrediction + gram * gram * features * kPerGram;
    // The sums of products and blocks of rows.
    constexpr double kRowsAtOnce = 8192.0 + 1024.0 + 2048.0;
    cost.bytes = RidgeAccumulator::memory_bytes(static_cast<std::size_t>(sizes.features),
                                                static_cast<std::size_t>(outputs)) +
                 std::min(kRowsAtOnce, train + test) * width * 4.0 + 2.0 * m * d * 4.0 +
                 test * (outputs * 8.0 + 4.0) + gram * features * 12.0;
    if (!config.backend.is_chip()) return cost;
    cost.seconds += chip_seconds(config, sizes, train, test + gram);
    cost.bytes += copies(config) * m * d * kBytesPerCell;
    return cost;
}

}  // namespace

RunCost estimate_cost(const RunConfig& config, const DatasetFacts& data) {
    try {
        return cost_of(config, run_sizes(config, static_cast<std::int64_t>(data.features)), data);
    } catch (const Error&) {
        return {};
    }
}

double measure_machine_factor(const Exec& exec) {
    RunConfig config;
    config.n_components = 512;
    config.gram_rows = 0;
    const LoadOptions options{.train_rows = 8192, .test_rows = 1024};
    const auto data = load_dataset("ringnorm", options, exec);
    const auto facts = dataset_facts("ringnorm", options, exec);
    const Exec one{.threads = 1, .cancel = exec.cancel};
    // The better of two: the first also wakes the processor and the memory.
    double best = 0.0;
    for (int i = 0; i < 2; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        (void)run_ridge(config, data, one);
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        best = i == 0 ? seconds : std::min(best, seconds);
    }
    return best / estimate_cost(config, facts).seconds;
}

}  // namespace imka
