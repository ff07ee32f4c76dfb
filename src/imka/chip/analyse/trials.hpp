// Chips to analyse, one per seed, and the errors of their products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "imka/base/config.hpp"
#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/base/names.hpp"
#include "imka/chip/analyse/nonideality.hpp"
#include "imka/chip/build.hpp"
#include "imka/chip/simulate/emulator.hpp"

namespace imka {

// Weights and inputs for testing a chip: sampled with a seed, or given.
enum class WeightLaw { gauss, uniform };
template <>
struct EnumNames<WeightLaw> {
    static constexpr std::string_view what = "law of weights";
    static constexpr std::string_view values[] = {"gauss", "uniform"};
};

enum class InputLaw { gauss, uniform, sparse };
template <>
struct EnumNames<InputLaw> {
    static constexpr std::string_view what = "law of inputs";
    static constexpr std::string_view values[] = {"gauss", "uniform", "sparse"};
};

struct ProblemConfig {
    WeightLaw weights = WeightLaw::gauss;
    double weight_sigmas = 3.0;  // truncation of Gaussian weights, in standard deviations
    InputLaw inputs = InputLaw::gauss;
    double sparsity = 0.9;   // share of zeros in sparse inputs
    std::size_t rows = 256;  // inputs of the matrix
    std::size_t cols = 256;  // outputs of the matrix
    std::size_t count = 0;   // test inputs; 0: depends on the size of the matrix
    std::size_t calibration_count = 2000;
};
Fields fields(ProblemConfig& config);  // only the numbers: laws are given as names or files

// Given matrices are the same for every seed; an empty one is sampled.
struct ProblemSource {
    ProblemConfig config;   // given matrices override its sizes
    Matrix<float> weights;  // inputs x outputs
    Matrix<float> inputs;   // one per row; the first half calibrates, the second half tests
};
// Checks ranges (Error{bad_config}) and that the given matrices match (Error{bad_data}), and sets the sizes
// that follow from them.
ProblemSource make_problem_source(ProblemConfig config, Matrix<float> weights = {},
                                  Matrix<float> inputs = {});

// Everything needed to test one chip.
struct Problem {
    std::uint64_t seed = 0;     // identifies the chip and the sampled values
    Matrix<float> weights;      // inputs x outputs
    Matrix<float> calibration;  // sample of inputs
    Matrix<float> inputs;       // test inputs
    Matrix<double> exact;       // products of the test inputs; empty until with_exact_products
};
Problem draw_problem(const ProblemSource& source, std::uint64_t seed);
Problem with_exact_products(Problem problem);

// Splits the error of matrix-vector products into a part explained by changed weights and a residual.

// Errors are relative to the root of the sum of squares of the exact products.
struct ErrorParts {
    double total = 0.0;  // |y - exact|
    // Part explained by the best linear map of the inputs (wrong effective weights), and the residual
    // (noise, rounding, clipping): linear² + residual² = total². None unless there are more test
    // inputs than matrix rows; otherwise the map would explain everything.
    std::optional<double> linear;
    std::optional<double> residual;
    double bias = 0.0;  // root mean square over outputs of their mean error
    double snr_db = 0.0;
};

// With E = Y - XW for n inputs of length p: the least-squares solution D of XD = E explains |XD|² and
// leaves R = |E|² - |XD|². A map with p coefficients per output also explains a share p / n of pure noise,
// so residual² = R n / (n - p) and linear² is the remainder, at least 0. The bias is corrected likewise,
// for the noise / n of a mean. Inputs that are always 0 do not count in p. Error{bad_data} if shapes differ
// or all exact products are 0.
ErrorParts error_parts(MatrixView<const float> x, MatrixView<const float> y, MatrixView<const double> exact);

struct ChipBuild {
    ChipSettings settings;
    PlacementConfig placement;
    ProgrammingConfig programming;
    bool output_calibration = true;  // fit scale and offset of every output after programming
};
// Placed, calibrated, programmed, outputs calibrated.
ProgrammedChip build_chip(const ChipBuild& build, const Problem& problem, const Exec& exec);

struct ChipTrials {
    ProblemSource source;
    ChipBuild build;
    std::vector<std::uint64_t> seeds;          // one chip and one problem per seed
    std::optional<ProgrammedChip> programmed;  // read for every seed instead of building chips
};
// Error{bad_config} if the matrix does not fit the chip.
void validate(const ChipTrials& trials);
// The chip of a problem right after programming, or the given one.
ProgrammedChip trial_chip(const ChipTrials& trials, const Problem& problem, const Exec& exec);

// When products are read, and how drift is compensated.
struct AgedRead {
    ReadTime time;
    AgeCompensation compensation = AgeCompensation::none;
};
// The chip at that time; no compensation at 0 s.
ProgrammedChip aged_and_compensated(ProgrammedChip chip, const AgedRead& read, const Exec& exec);

// Seed of the noise that is new in every product; differs from the seed of the chip.
std::uint64_t product_seed(std::uint64_t chip_seed);

struct Measurement {
    ErrorParts parts;
    double saturated = 0.0;  // share of conversions
    double limited = 0.0;    // share of results at the product limit
    double clipped = 0.0;    // share of inputs
};

// Measures the products of the test inputs. The problem must have its exact products.
Measurement measure(const ProgrammedChip& chip, const Problem& problem, Simulator simulator,
                    const Exec& exec);
// The same without a chip: float32 products.
Measurement measure_digital(const Problem& problem, const Exec& exec);

// Only the relative error.
double measure_error(const ProgrammedChip& chip, const Problem& problem, const Exec& exec);

}  // namespace imka
