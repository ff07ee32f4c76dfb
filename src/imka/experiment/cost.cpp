#include "imka/experiment/cost.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

#include "imka/base/error.hpp"
#include "imka/experiment/attention_run.hpp"

namespace imka {
namespace {

// Seconds on one core with AVX-512, measured over the runs of the experiment ridge_fp32.
constexpr double kPerProjection = 1.5e-11;  // row x direction x input
constexpr double kPerFeature = 5.5e-10;     // row x feature: the functions after the projection
constexpr double kPerProduct = 1.1e-11;     // row x width²
constexpr double kPerColumn = 1.1e-9;       // row x width: overhead of narrow products
constexpr double kPerWidth3 = 1.2e-11;      // width³: the factorisation
constexpr double kPerPrediction = 1.4e-10;  // row x feature x output
constexpr double kPerGram = 5.8e-11;        // row² x feature
constexpr double kPerScore = 2.5e-11;       // query x key x head size: exact attention
constexpr double kPerRun = 2e-3;            // fixed cost
// The same for the chip hermes, whose conversions are simulated one by one.
constexpr double kPerChipProjection = 1.5e-10;  // row x direction x input
constexpr double kPerChipOutput = 1.0e-8;       // row x direction: conversions and their noise
constexpr double kPerDevice = 1.2e-7;           // programming one device and folding it into matrices
constexpr double kBytesPerCell = 120.0;         // matrices that replace a core
// A Performer with two layers, d = 64, measured on cifar10: seconds per token, most memory of a test. On a
// chip the examples of its calibration count too; the conversions of Ω take most of the time in every mode.
constexpr double kPerToken = 7e-6;
constexpr double kPerTokenOnChip = 5.5e-5;
constexpr double kPerformerBytes = 4e8;

double copies(const RunConfig& config) {
    return std::max(1.0, static_cast<double>(config.chip.projection.placement.replicas));
}

// Number of chips whose features the fit uses.
double chips_to_fit(const ChipRun& run) {
    if (run.fit_on == FitOn::fp32) return 0.0;
    return run.fit_on == FitOn::chip ? 1.0 : static_cast<double>(run.fit_draws);
}

// Numbers of rows to compute features for: test rows, and training rows for each chip of the fit.
struct Rows {
    double train = 0.0;
    double tested = 0.0;
    double fits = 0.0;
};

// Extra cost of a chip: devices, calibration of ranges and outputs, slower projections.
void add_chip(const RunConfig& config, const FeatureSizes& sizes, const Rows& rows, RunCost& cost) {
    if (!config.backend.is_chip()) return;
    const auto& how = config.chip.projection;
    const auto m = static_cast<double>(sizes.m);
    const double cells = m * static_cast<double>(sizes.d);
    const double chips = 1.0 + rows.fits;
    const double calibration = 2.0 * std::min(rows.train, static_cast<double>(how.calibration_inputs));
    const double products = chips * calibration * copies(config) + rows.tested + rows.fits * rows.train;
    const double sum = how.placement.replication == Replication::average ? copies(config) : 1.0;
    cost.seconds += chips * copies(config) * 2.0 * cells * kPerDevice +
                    sum * products * (cells * kPerChipProjection + m * kPerChipOutput);
    cost.bytes += copies(config) * cells * kBytesPerCell;
}

double feature_seconds(const FeatureSizes& sizes, double rows) {
    return rows * (static_cast<double>(sizes.m * sizes.d) * kPerProjection +
                   static_cast<double>(sizes.features) * kPerFeature);
}

double gram_rows(const RunConfig& config, const DatasetFacts& data) {
    return std::min(static_cast<double>(data.test_rows), static_cast<double>(config.gram_rows));
}

// nullopt if the sizes are invalid.
std::optional<FeatureSizes> sizes_of(const RunConfig& config, const DatasetFacts& data) {
    try {
        return run_sizes(config, static_cast<std::int64_t>(data.features));
    } catch (const Error&) {
        return std::nullopt;
    }
}

}  // namespace

RunCost ridge_cost(const RunConfig& config, const DatasetFacts& data) {
    const auto known = sizes_of(config, data);
    if (!known) return {};
    const auto& sizes = *known;
    const auto features = static_cast<double>(sizes.features);
    const double outputs = data.classes <= 2 ? 1.0 : static_cast<double>(data.classes);
    const double width = features + 1.0 + outputs;
    const auto train = static_cast<double>(data.train_rows);
    const auto test = static_cast<double>(data.test_rows);
    const double gram = gram_rows(config, data);
    const double maps = std::max(1.0, config.backend.is_chip() ? chips_to_fit(config.chip) : 1.0);
    const auto fitted = static_cast<std::size_t>(train * maps);
    const double solve =
        ridge_solver(static_cast<std::size_t>(features), fitted) == Solver::dual
            ? train * train * (2.0 * width * kPerProduct + train * kPerWidth3)
            : train * width * (width * kPerProduct + kPerColumn) + width * width * width * kPerWidth3;
    RunCost cost;
    cost.seconds = kPerRun + feature_seconds(sizes, train + test + gram) + solve +
                   test * features * outputs * kPerPrediction + gram * gram * features * kPerGram;
    // The sums of products and blocks of rows.
    constexpr double kRowsAtOnce = 8192.0 + 1024.0 + 2048.0;
    cost.bytes = RidgeAccumulator::memory_bytes(static_cast<std::size_t>(sizes.features),
                                                static_cast<std::size_t>(outputs), fitted) +
                 std::min(kRowsAtOnce, train + test) * width * 4.0 +
                 2.0 * static_cast<double>(sizes.m * sizes.d) * 4.0 + test * (outputs * 8.0 + 4.0) +
                 gram * features * 12.0;
    add_chip(config, sizes, {.train = train, .tested = test + gram, .fits = chips_to_fit(config.chip)}, cost);
    return cost;
}

RunCost gram_cost(const RunConfig& config, const DatasetFacts& data) {
    const auto known = sizes_of(config, data);
    if (!known) return {};
    const auto& sizes = *known;
    const auto features = static_cast<double>(sizes.features);
    const double gram = gram_rows(config, data);
    RunCost cost{.seconds = kPerRun + feature_seconds(sizes, gram) + gram * gram * features * kPerGram,
                 .bytes = static_cast<double>(sizes.m * sizes.d) * 4.0 + gram * features * 12.0};
    add_chip(config, sizes, {.train = static_cast<double>(data.train_rows), .tested = gram, .fits = 0.0},
             cost);
    return cost;
}

RunCost attention_cost(const RunConfig& config, const DatasetFacts& data) {
    const auto sizes = attention_sizes(config, static_cast<std::int64_t>(data.features));
    const auto& run = *config.attention;
    const auto d = static_cast<double>(sizes.d);
    const auto features = static_cast<double>(sizes.features);
    const auto length = static_cast<double>(data.train_rows);
    const double heads = static_cast<double>(run.source.heads) * static_cast<double>(data.test_rows);
    const auto asked = static_cast<double>(run.source.query_rows.value_or(4096));
    const double queries = asked > 0.0 ? std::min(asked, length) : length;
    const double rows = heads * (run.source.causal ? 2.0 * length : queries + length);
    const auto some = static_cast<double>(run.matrix_rows.value_or(length <= 4096.0 ? 4096 : 0));
    const double matrix = heads * std::min(some, queries) * length;
    RunCost cost{.seconds = kPerRun + feature_seconds(sizes, rows) + rows * features * d * kPerProjection +
                            heads * queries * length * d * kPerScore + matrix * (features + d) * kPerScore,
                 // Inputs and outputs, rows of the attention matrix.
                 .bytes = (rows + heads * (length + 2.0 * queries)) * d * 4.0 + 4e7 +
                          2.0 * static_cast<double>(sizes.m * sizes.d) * 4.0};
    add_chip(config, sizes, {.train = 8192.0, .tested = rows, .fits = 0.0}, cost);
    return cost;
}

RunCost performer_cost(const RunConfig& config, const DatasetFacts& data) {
    const auto length = static_cast<double>(data.train_rows);
    auto examples = static_cast<double>(data.test_rows);
    if (!config.uses_chip())
        return {.seconds = kPerRun + examples * length * kPerToken, .bytes = kPerformerBytes};
    examples += static_cast<double>(config.performer->source.calibration_examples);
    return {.seconds = kPerRun + examples * length * kPerTokenOnChip, .bytes = kPerformerBytes};
}

double measure_machine_factor(const Exec& exec) {
    RunConfig config;
    config.features.n_components = 512;
    config.gram_rows = 0;
    const LoadOptions options{.train_rows = 8192, .test_rows = 1024};
    const auto data = load_dataset("ringnorm", options, exec);
    const auto facts = dataset_facts("ringnorm", options, exec);
    const Exec one{.threads = 1, .cancel = exec.cancel};
    // The faster of two runs: the first also warms up processor and memory.
    double best = 0.0;
    for (int i = 0; i < 2; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        (void)run_seeds("ridge", config, data, one);
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        best = i == 0 ? seconds : std::min(best, seconds);
    }
    return best / ridge_cost(config, facts).seconds;
}

}  // namespace imka
