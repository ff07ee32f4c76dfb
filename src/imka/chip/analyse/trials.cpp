#include "imka/chip/analyse/trials.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/base/random.hpp"
#include "imka/chip/program/calibrate.hpp"
#include "imka/linalg/factor.hpp"
#include "imka/linalg/gemm.hpp"

namespace imka {
namespace {

float draw_input(const ProblemConfig& config, std::uint64_t seed, std::uint64_t index) {
    if (config.inputs == InputLaw::uniform)
        return static_cast<float>(2.0 * uniform(seed, Stream::synthetic_mix, index) - 1.0);
    if (config.inputs == InputLaw::sparse && uniform(seed, Stream::synthetic_class, index) < config.sparsity)
        return 0.0F;
    return normal(seed, Stream::synthetic_mix, index);
}

Matrix<float> draw_weights(const ProblemConfig& config, std::uint64_t seed) {
    Matrix<float> w(config.rows, config.cols);
    const auto sigmas = static_cast<float>(config.weight_sigmas);
    for (std::size_t i = 0; i < w.values().size(); ++i) {
        w.values()[i] = config.weights == WeightLaw::uniform
                            ? static_cast<float>(2.0 * uniform(seed, Stream::synthetic_value, i) - 1.0)
                            : truncated_normal(seed, Stream::synthetic_value, i, sigmas);
    }
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

void check_inputs(const Matrix<float>& inputs, std::size_t rows) {
    if (inputs.cols() != rows)
        fail(ErrorCode::bad_data,
             fmt::format("inputs of length {}; the matrix has {} inputs", inputs.cols(), rows));
    if (inputs.rows() < 4)
        fail(ErrorCode::bad_data,
             fmt::format("{} inputs; expected at least 4, half of them for calibration", inputs.rows()));
}

// Columns of x that are not all zero, as rows.
Matrix<double> used_inputs(MatrixView<const float> x) {
    std::vector<std::size_t> used;
    for (std::size_t i = 0; i < x.cols(); ++i) {
        std::size_t v = 0;
        while (v < x.rows() && x(v, i) == 0.0F) ++v;
        if (v < x.rows()) used.push_back(i);
    }
    Matrix<double> out(used.size(), x.rows());
    for (std::size_t k = 0; k < used.size(); ++k) {
        for (std::size_t v = 0; v < x.rows(); ++v) out(k, v) = x(v, used[k]);
    }
    return out;
}

// |XD|² of the least-squares solution from A = X'X and B = X'E: the sum of D * B with A D = B.
double explained(const Matrix<double>& inputs, const Matrix<double>& errors) {
    const std::size_t p = inputs.rows();
    Matrix<double> a(p, p);
    gemm_nt(inputs.view(), inputs.view(), a.view());
    Matrix<double> b(p, errors.rows());
    gemm_nt(inputs.view(), errors.view(), b.view());
    // Linearly dependent inputs give a singular matrix; the ridge is far below the noise of the sums.
    double trace = 0.0;
    for (std::size_t i = 0; i < p; ++i) trace += a(i, i);
    for (std::size_t i = 0; i < p; ++i) a(i, i) += 1e-10 * trace / static_cast<double>(p);
    Matrix<double> d = b;
    solve_positive_definite(a.view(), d.view(), "the inputs' second moments", {.threads = 1});
    double sum = 0.0;
    for (std::size_t k = 0; k < d.values().size(); ++k) sum += d.values()[k] * b.values()[k];
    return sum;
}

// Sum over outputs of the squared mean error, corrected for the noise of the errors.
double squared_bias(const Matrix<double>& errors) {
    const auto n = static_cast<double>(errors.cols());
    if (n < 2.0) return 0.0;
    double sum = 0.0;
    for (std::size_t c = 0; c < errors.rows(); ++c) {
        double mean = 0.0;
        for (const double e : errors.row(c)) mean += e / n;
        double variance = 0.0;
        for (const double e : errors.row(c)) variance += (e - mean) * (e - mean) / (n - 1.0);
        sum += mean * mean - variance / n;
    }
    return std::max(0.0, sum);
}

Matrix<float> stacked(const Matrix<float>& a, const Matrix<float>& b) {
    Matrix<float> out(a.rows() + b.rows(), a.cols());
    std::ranges::copy(a.values(), out.values().begin());
    std::ranges::copy(b.values(), out.values().begin() + static_cast<std::ptrdiff_t>(a.values().size()));
    return out;
}

double share(std::uint64_t part, std::uint64_t all) {
    return all == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(all);
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
        problem.calibration = copy_of(source.inputs.view().slice_rows(0, config.calibration_count));
        problem.inputs = copy_of(source.inputs.view().slice_rows(source.inputs.rows() / 2, config.count));
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

ErrorParts error_parts(MatrixView<const float> x, MatrixView<const float> y, MatrixView<const double> exact) {
    if (y.rows() != x.rows() || exact.rows() != x.rows() || y.cols() != exact.cols())
        fail(ErrorCode::bad_data,
             fmt::format("shapes differ: {} inputs, {} x {} products, {} x {} exact products", x.rows(),
                         y.rows(), y.cols(), exact.rows(), exact.cols()));
    Matrix<double> errors(y.cols(), y.rows());
    double signal = 0.0;
    double total = 0.0;
    for (std::size_t v = 0; v < y.rows(); ++v) {
        for (std::size_t c = 0; c < y.cols(); ++c) {
            const double e = double{y(v, c)} - exact(v, c);
            errors(c, v) = e;
            total += e * e;
            signal += exact(v, c) * exact(v, c);
        }
    }
    if (signal == 0.0) fail(ErrorCode::bad_data, "all exact products are 0; the relative error is undefined");
    const auto n = static_cast<double>(x.rows());
    ErrorParts parts{.total = std::sqrt(total / signal),
                     .linear = std::nullopt,
                     .residual = std::nullopt,
                     .bias = std::sqrt(n * squared_bias(errors) / signal),
                     .snr_db = 10.0 * std::log10(signal / total)};
    const auto inputs = used_inputs(x);
    const auto p = static_cast<double>(inputs.rows());
    if (n <= p) return parts;
    const double left = std::clamp((total - explained(inputs, errors)) * n / (n - p), 0.0, total);
    parts.residual = std::sqrt(left / signal);
    parts.linear = std::sqrt((total - left) / signal);
    return parts;
}

ProgrammedChip build_chip(const ChipBuild& build, const Problem& problem, const Exec& exec) {
    BuildSteps steps{.placement = build.placement,
                     .calibration = build.settings.calibration,
                     .programming = build.programming};
    if (!build.output_calibration) steps.output_fit.reset();
    Matrix<float> all;
    if (build.settings.whole_range) {
        all = stacked(problem.calibration, problem.inputs);
        steps.calibration.inputs = all.rows();
    }
    return build_chip(BuildJob{.chip = build.settings.spec,
                               .weights = problem.weights,
                               .sample = build.settings.whole_range ? all.view() : problem.calibration.view(),
                               .steps = steps,
                               .seed = problem.seed},
                      exec);
}

void validate(const ChipTrials& trials) {
    if (trials.programmed) return;
    const auto& config = trials.source.config;
    (void)place(trials.build.settings.spec, Matrix<float>(config.rows, config.cols), trials.build.placement);
}

ProgrammedChip trial_chip(const ChipTrials& trials, const Problem& problem, const Exec& exec) {
    return trials.programmed ? *trials.programmed : build_chip(trials.build, problem, exec);
}

ProgrammedChip aged_and_compensated(ProgrammedChip chip, const AgedRead& read, const Exec& exec) {
    chip = aged(std::move(chip), read.time);
    if (read.time.seconds == 0.0) return chip;
    return compensated(std::move(chip), read.compensation, OutputFit::applied, exec);
}

std::uint64_t product_seed(std::uint64_t chip_seed) {
    return chip_seed + (std::uint64_t{1} << 40U);
}

Measurement measure(const ProgrammedChip& chip, const Problem& problem, Simulator simulator,
                    const Exec& exec) {
    const auto driver = make_emulator(chip, simulator, exec);
    const auto [y, trace] =
        execute(*driver, 0, problem.inputs.view(), {.seed = product_seed(problem.seed)}, exec);
    return {.parts = error_parts(problem.inputs.view(), y.view(), problem.exact.view()),
            .saturated = share(trace.saturated, trace.conversions),
            .limited = share(trace.limited, trace.results),
            .clipped = share(trace.clipped_inputs, trace.inputs)};
}

Measurement measure_digital(const Problem& problem, const Exec& exec) {
    const auto y = digital_products(problem.weights, problem.inputs.view(), exec);
    return {.parts = error_parts(problem.inputs.view(), y.view(), problem.exact.view())};
}

double measure_error(const ProgrammedChip& chip, const Problem& problem, const Exec& exec) {
    FastEmulator driver(chip, exec);
    const auto y = execute(driver, 0, problem.inputs.view(), {.seed = product_seed(problem.seed)}, exec).y;
    return std::pow(10.0, -signal_to_noise_db(y.view(), problem.exact.view()) / 20.0);
}

}  // namespace imka
