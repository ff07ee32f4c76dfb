#include "imka/deploy/model_calibration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "imka/base/error.hpp"
#include "imka/base/names.hpp"
#include "imka/base/random.hpp"
#include "imka/chip/simulate/emulator.hpp"
#include "imka/deploy/model_batches.hpp"

namespace imka {
namespace {

// Inputs of one matrix, as the first run sees them.
struct InputRange {
    std::uint64_t rows = 0;
    float largest = 0.0F;
    double squares = 0.0;
    bool finite = true;
};

// Finds the ranges; products stay digital.
class RangeHook : public ModelHook {
public:
    explicit RangeHook(std::size_t matrices) : ranges_(matrices) {}
    bool multiply(const ModelCall& call, MatrixView<const float> x, const Exec& /*exec*/,
                  MatrixView<float> /*y*/) override {
        auto& range = ranges_[call.matrix];
        range.rows += x.rows();
        for (std::size_t r = 0; r < x.rows(); ++r) {
            for (const float v : x.row(r)) {
                range.finite = range.finite && std::isfinite(v);
                range.largest = std::max(range.largest, std::abs(v));
                range.squares += double{v} * v;
            }
        }
        return false;
    }
    const std::vector<InputRange>& ranges() const { return ranges_; }

private:
    std::vector<InputRange> ranges_;
};

// Rows of one matrix to keep.
struct Sample {
    std::vector<std::uint32_t> rows;  // numbers, sorted; counted over all uses in the order of calls
    std::uint64_t seen = 0;
    std::size_t kept = 0;
    Matrix<float> values;

    void see(MatrixView<const float> x) {
        for (; kept < rows.size() && rows[kept] < seen + x.rows(); ++kept) {
            const auto row = x.row(rows[kept] - seen);
            std::ranges::copy(row, values.row(kept).begin());
        }
        seen += x.rows();
    }
};

// All rows, or `most` of them drawn without repetition.
Sample make_sample(std::uint64_t rows, std::size_t most, std::size_t inputs, std::uint64_t seed) {
    if (rows > std::numeric_limits<std::uint32_t>::max())
        fail(ErrorCode::bad_data, fmt::format("{} rows of one matrix; use fewer calibration inputs", rows));
    Sample sample;
    if (rows > most) {
        sample.rows = permutation(seed, Stream::chip_calibration, static_cast<std::uint32_t>(rows));
        sample.rows.resize(most);
        std::ranges::sort(sample.rows);
    } else {
        for (std::uint32_t r = 0; r < rows; ++r) sample.rows.push_back(r);
    }
    sample.values = Matrix<float>(sample.rows.size(), inputs);
    return sample;
}

// Keeps rows and multiplies what the input converters make of them.
class SampleHook : public ModelHook {
public:
    SampleHook(const Plan& plan, std::vector<Sample> samples, std::vector<double> ranges)
        : plan_(plan), samples_(std::move(samples)), ranges_(std::move(ranges)) {}
    bool multiply(const ModelCall& call, MatrixView<const float> x, const Exec& exec,
                  MatrixView<float> y) override {
        samples_[call.matrix].see(x);
        const auto applied = applied_inputs(plan_.spec.core.dac, x, ranges_[call.matrix]);
        const auto products = digital_products(plan_.matrices[call.matrix].weights, applied.view(), exec);
        for (std::size_t r = 0; r < y.rows(); ++r) std::ranges::copy(products.row(r), y.row(r).begin());
        return true;
    }
    std::vector<Matrix<float>> values() && {
        std::vector<Matrix<float>> out;
        for (auto& s : samples_) out.push_back(std::move(s.values));
        return out;
    }

private:
    const Plan& plan_;
    std::vector<Sample> samples_;
    std::vector<double> ranges_;
};

// The range that the rule of the config gives, or the largest input where the rule needs more than that.
double range_of(const InputRange& range, const BuildConfig& config, std::size_t inputs) {
    const auto rule = calibration_of(config, {});
    if (rule.input_range != InputRangeRule::deviation) return range.largest;
    return rule.deviations * std::sqrt(range.squares / static_cast<double>(range.rows * inputs));
}

void check_ranges(std::span<const std::string> matrices, const std::vector<InputRange>& ranges) {
    for (std::size_t k = 0; k < matrices.size(); ++k) {
        const auto problem = !ranges[k].finite             ? "has inputs that are not finite"
                             : ranges[k].rows == 0         ? "is not used"
                             : !(ranges[k].largest > 0.0F) ? "has only inputs of 0"
                                                           : "";
        if (*problem != '\0')
            fail(ErrorCode::bad_data,
                 fmt::format("matrix {} {} in the calibration run", in_quotes(matrices[k]), problem));
    }
}

// All inferences in random order; the first config.calibration_inputs of them calibrate.
std::vector<std::uint32_t> shuffled(std::span<const graph::Tensor> inputs, const SampleOptions& options) {
    return permutation(options.seed, Stream::chip_calibration,
                       static_cast<std::uint32_t>(inputs[0].shape[0]));
}

}  // namespace

std::vector<graph::Tensor> calibration_inferences(std::span<const graph::Tensor> inputs,
                                                  const SampleOptions& options) {
    auto order = shuffled(inputs, options);
    order.resize(std::min(order.size(), static_cast<std::size_t>(options.config.calibration_inputs)));
    return select_inferences(inputs, order);
}

std::vector<graph::Tensor> test_inferences(std::span<const graph::Tensor> inputs,
                                           const SampleOptions& options, std::size_t most) {
    const auto order = shuffled(inputs, options);
    const auto used = static_cast<std::size_t>(options.config.calibration_inputs);
    const auto others = std::span(order).subspan(order.size() > used ? used : 0);
    return select_inferences(inputs, others.first(std::min(others.size(), most)));
}

std::vector<Matrix<float>> collect_samples(const graph::Graph& graph, std::span<const std::string> matrices,
                                           const Plan& plan, std::span<const graph::Tensor> inputs,
                                           const SampleOptions& options, const Exec& exec) {
    const auto count = count_inferences(graph, inputs);
    const auto most = static_cast<std::size_t>(options.config.calibration_inputs);
    if (count < most) note(exec, fmt::format("{} calibration inputs; {} are recommended", count, most));
    const auto chosen = calibration_inferences(inputs, options);
    RangeHook ranges(matrices.size());
    (void)run_batches({graph, matrices, chosen, "finding input ranges"}, &ranges, exec);
    check_ranges(matrices, ranges.ranges());
    std::vector<Sample> samples;
    std::vector<double> steps;
    for (std::size_t k = 0; k < matrices.size(); ++k) {
        const auto& range = ranges.ranges()[k];
        const auto width = plan.matrices[k].weights.rows();
        samples.push_back(make_sample(range.rows, most, width, options.seed));
        steps.push_back(range_of(range, options.config, width));
    }
    SampleHook hook(plan, std::move(samples), std::move(steps));
    (void)run_batches({graph, matrices, chosen, "sampling inputs"}, &hook, exec);
    return std::move(hook).values();
}

}  // namespace imka
