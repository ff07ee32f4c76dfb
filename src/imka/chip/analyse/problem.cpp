#include "imka/chip/analyse/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "imka/base/error.hpp"
#include "imka/base/random.hpp"
#include "imka/chip/program/calibrate.hpp"

namespace imka {
namespace {

float draw_weight(const ProblemConfig& config, std::uint64_t seed, std::uint64_t index) {
    if (config.weights == WeightLaw::uniform)
        return static_cast<float>(2.0 * uniform(seed, Stream::synthetic_value, index) - 1.0);
    return truncated_normal(seed, Stream::synthetic_value, index, static_cast<float>(config.weight_sigmas));
}

float draw_input(const ProblemConfig& config, std::uint64_t seed, std::uint64_t index) {
    if (config.inputs == InputLaw::uniform)
        return static_cast<float>(2.0 * uniform(seed, Stream::synthetic_mix, index) - 1.0);
    if (config.inputs == InputLaw::sparse && uniform(seed, Stream::synthetic_class, index) < config.sparsity)
        return 0.0F;
    return normal(seed, Stream::synthetic_mix, index);
}

Matrix<float> draw_weights(const ProblemConfig& config, std::uint64_t seed) {
    Matrix<float> w(config.rows, config.cols);
    for (std::size_t i = 0; i < w.values().size(); ++i) w.values()[i] = draw_weight(config, seed, i);
    return w;
}

Matrix<float> draw_inputs(const ProblemConfig& config, std::uint64_t seed, std::size_t first,
                          std::size_t count) {
    Matrix<float> x(count, config.rows);
    const std::uint64_t begin = std::uint64_t{first} * config.rows;
    for (std::size_t i = 0; i < x.values().size(); ++i) x.values()[i] = draw_input(config, seed, begin + i);
    return x;
}

std::size_t default_count(std::size_t rows) {
    // Enough to separate effective weights from noise; fewer for large matrices, which would take too
    // long.
    constexpr std::size_t kMost = 4096;
    return 4 * rows <= kMost ? std::max<std::size_t>(1000, 4 * rows) : 2000;
}

Matrix<float> copy_rows(const Matrix<float>& x, std::size_t first, std::size_t count) {
    Matrix<float> out(count, x.cols());
    for (std::size_t r = 0; r < count; ++r) std::ranges::copy(x.row(first + r), out.row(r).begin());
    return out;
}

void check_inputs(const Matrix<float>& inputs, std::size_t rows) {
    if (inputs.cols() != rows)
        fail(ErrorCode::bad_data,
             fmt::format("inputs of length {}; the matrix has {} inputs", inputs.cols(), rows));
    if (inputs.rows() < 4)
        fail(ErrorCode::bad_data,
             fmt::format("{} inputs; expected at least 4, half of them for calibration", inputs.rows()));
}

}  // namespace

Fields fields(ProblemConfig& c) {
    using range::between;
    return {
        field("weight_sigmas", c.weight_sigmas,
              between(0.01, 6.0, "Truncate Gaussian weights at this many standard deviations")),
        field("sparsity", c.sparsity, between(0.0, 0.999, "Fraction of zeros in sparse inputs")),
        field("rows", c.rows, between(1, 1 << 20, "Number of inputs of the matrix")),
        field("cols", c.cols, between(1, 1 << 20, "Number of outputs of the matrix")),
        field("inputs", c.count,
              between(0, 1e8, "Number of products to measure; 0 = chosen by the size of the matrix")),
        field("calibration_inputs", c.calibration_count, between(2, 1e6, "Number of inputs for calibration")),
    };
}

ProblemSource make_problem_source(ProblemConfig config, Matrix<float> weights, Matrix<float> inputs) {
    check_ranges(fields(config));
    if (weights.rows() > 0) {
        config.rows = weights.rows();
        config.cols = weights.cols();
    }
    check_fits_memory(static_cast<double>(config.rows), static_cast<double>(config.cols), 64,
                      "the devices of the matrix");
    if (inputs.rows() > 0) {
        check_inputs(inputs, config.rows);
        const auto half = inputs.rows() / 2;
        config.count = config.count == 0 ? half : std::min(config.count, half);
        config.calibration_count = std::min(config.calibration_count, half);
    }
    if (config.count == 0) config.count = default_count(config.rows);
    return {.config = config, .weights = std::move(weights), .inputs = std::move(inputs)};
}

Problem draw_problem(const ProblemSource& source, std::uint64_t seed) {
    const auto& config = source.config;
    Problem problem{.seed = seed};
    problem.weights = source.weights.rows() > 0 ? source.weights : draw_weights(config, seed);
    if (source.inputs.rows() > 0) {
        problem.calibration = copy_rows(source.inputs, 0, config.calibration_count);
        problem.inputs = copy_rows(source.inputs, source.inputs.rows() / 2, config.count);
    } else {
        problem.calibration = draw_inputs(config, seed, 0, config.calibration_count);
        problem.inputs = draw_inputs(config, seed, config.calibration_count, config.count);
    }
    return problem;
}

Problem with_exact_products(Problem problem) {
    problem.exact = exact_products(problem.inputs.view(), problem.weights.view());
    return problem;
}

}  // namespace imka
