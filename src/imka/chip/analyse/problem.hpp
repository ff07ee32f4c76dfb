// Weights and inputs to test a chip with: sampled with a seed, or given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "imka/base/config.hpp"
#include "imka/base/matrix.hpp"
#include "imka/base/names.hpp"

namespace imka {

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
    double weight_sigmas = 3.0;  // Gaussian weights are truncated here
    InputLaw inputs = InputLaw::gauss;
    double sparsity = 0.9;   // share of zeros in sparse inputs
    std::size_t rows = 256;  // inputs of the matrix
    std::size_t cols = 256;  // outputs of the matrix
    std::size_t count = 0;   // test inputs; 0: depends on the size of the matrix
    std::size_t calibration_count = 2000;
};
Fields fields(ProblemConfig& config);  // the numbers; the laws are names or files

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

}  // namespace imka
