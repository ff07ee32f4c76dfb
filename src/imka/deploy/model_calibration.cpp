#include "imka/deploy/model_calibration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>

#include "imka/base/error.hpp"
#include "imka/base/names.hpp"
#include "imka/base/parallel.hpp"
#include "imka/base/random.hpp"
#include "imka/deploy/batch_size.hpp"
#include "imka/deploy/small_batches.hpp"
#include "imka/graph/simplify.hpp"
#include "imka/graph/static_matrices.hpp"
#include "imka/linalg/gemm.hpp"

namespace imka {
namespace {

// Statistics of the inputs of one matrix, from the first run.
struct InputRange {
    std::vector<std::uint64_t> rows;  // by use
    float largest = 0.0F;
    double squares = 0.0;
    bool finite = true;

    std::uint64_t all_rows() const { return std::accumulate(rows.begin(), rows.end(), std::uint64_t{0}); }
};

// The bits of the largest |x|. Magnitudes have the order of their bits, which vector instructions compare;
// infinities and NaN are above all others.
std::int32_t largest_bits(MatrixView<const float> x) {
    std::int32_t most = 0;
    for (std::size_t r = 0; r < x.rows(); ++r) {
        for (const float v : x.row(r)) most = std::max(most, std::bit_cast<std::int32_t>(v) & 0x7fffffff);
    }
    return most;
}

// Finds the ranges of a batch; products stay digital.
class RangeHook : public ModelHook {
public:
    RangeHook(std::size_t matrices, bool squares) : ranges_(matrices), squares_(squares) {}
    bool multiply(const ModelCall& call, MatrixView<const float> x, const Exec& /*exec*/,
                  MatrixView<float> /*y*/) override {
        auto& range = ranges_[call.matrix];
        range.rows.resize(std::max<std::size_t>(range.rows.size(), call.use + 1));
        range.rows[call.use] += x.rows();
        const auto largest = std::bit_cast<float>(largest_bits(x));
        range.finite = range.finite && std::isfinite(largest);
        range.largest = std::max(range.largest, largest);
        for (std::size_t r = 0; r < x.rows() && squares_; ++r) {
            for (const float v : x.row(r)) range.squares += double{v} * v;
        }
        return false;
    }
    void add_to(std::vector<InputRange>& all) const {
        for (std::size_t k = 0; k < all.size(); ++k) {
            const auto& from = ranges_[k];
            auto& to = all[k];
            to.rows.resize(std::max(to.rows.size(), from.rows.size()));
            for (std::size_t u = 0; u < from.rows.size(); ++u) to.rows[u] += from.rows[u];
            to.finite = to.finite && from.finite;
            to.largest = std::max(to.largest, from.largest);
            to.squares += from.squares;
        }
    }

private:
    std::vector<InputRange> ranges_;
    bool squares_;
};

// Rows of one matrix to keep.
struct Sample {
    std::vector<std::uint32_t> rows;  // numbers, sorted
    Matrix<float> values;

    // The row x.row(i) has the number first + i.
    void see(std::uint64_t first, MatrixView<const float> x) {
        auto kept = static_cast<std::size_t>(std::ranges::lower_bound(rows, first) - rows.begin());
        for (; kept < rows.size() && rows[kept] < first + x.rows(); ++kept)
            std::ranges::copy(x.row(rows[kept] - first), values.row(kept).begin());
    }
};

// Numbers of all rows, or of `most` of them drawn without repetition; sorted.
std::vector<std::uint32_t> draw_rows(std::uint64_t rows, std::size_t most, std::uint64_t seed) {
    if (rows > std::numeric_limits<std::uint32_t>::max())
        fail(ErrorCode::bad_data, fmt::format("{} rows of one matrix; use fewer calibration inputs", rows));
    const auto count = static_cast<std::uint32_t>(rows);
    std::vector<std::uint32_t> drawn(count);
    std::iota(drawn.begin(), drawn.end(), 0U);
    if (rows <= most) return drawn;
    drawn = permutation(seed, Stream::chip_calibration, count);
    drawn.resize(most);
    std::ranges::sort(drawn);
    return drawn;
}

// Drawn rows by the number of rows of a matrix: many matrices have the same number.
using DrawnRows = std::map<std::uint64_t, std::vector<std::uint32_t>>;
DrawnRows draw_samples(const std::vector<InputRange>& ranges, std::size_t most, std::uint64_t seed,
                       const Exec& exec) {
    DrawnRows drawn;
    for (const auto& range : ranges) drawn[range.all_rows()];
    std::vector<DrawnRows::value_type*> all;
    for (auto& entry : drawn) all.push_back(&entry);
    parallel_for(exec, all.size(),
                 [&](std::size_t i) { all[i]->second = draw_rows(all[i]->first, most, seed); });
    return drawn;
}

// Numbers the rows of a matrix batch by batch, and within a batch use by use.
struct RowNumbers {
    std::uint64_t inferences = 0;     // including those that fill up the last batch
    std::uint64_t batch = 0;          // inferences
    std::vector<std::uint64_t> rows;  // per inference, by use

    // The number of a row of a use, and how many rows from it on have consecutive numbers.
    struct Place {
        std::uint64_t number = 0;
        std::uint64_t rows = 0;
    };
    Place place(std::uint32_t use, std::uint64_t row) const {
        const auto sum = [&](std::size_t uses) {
            return std::accumulate(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(uses),
                                   std::uint64_t{0});
        };
        const auto first = row / rows[use] / batch * batch;  // first inference of the batch
        const auto count = std::min(batch, inferences - first);
        const auto in_batch = row - first * rows[use];
        return {first * sum(rows.size()) + count * sum(use) + in_batch, count * rows[use] - in_batch};
    }
};

// A matrix in the second run.
struct SampledMatrix {
    Matrix<float> weights;  // outputs x inputs
    double range = 0.0;     // of its inputs
    Sample sample;
    std::optional<RowNumbers> numbers = {};  // none: batches run in order
    std::uint64_t seen = 0;                  // rows so far; only without numbers
};

// Keeps rows of a batch and multiplies them as converted by the input converters.
class SampleHook : public ModelHook {
public:
    SampleHook(const DacConfig& dac, std::size_t first_inference, std::vector<SampledMatrix>& matrices)
        : dac_(dac), first_inference_(first_inference), matrices_(matrices) {}
    bool multiply(const ModelCall& call, MatrixView<const float> x, const Exec& exec,
                  MatrixView<float> y) override {
        keep(call, x);
        const auto& matrix = matrices_[call.matrix];
        parallel_for(exec, (x.rows() + kTileRows - 1) / kTileRows, [&](std::size_t t) {
            const auto first = t * kTileRows;
            const auto rows = std::min(kTileRows, x.rows() - first);
            const auto applied = applied_inputs(dac_, x.slice_rows(first, rows), matrix.range);
            gemm_nt_rows(applied.view(), matrix.weights.view(), {.threads = 1}, y.slice_rows(first, rows));
        });
        return true;
    }

private:
    void keep(const ModelCall& call, MatrixView<const float> x) {
        auto& m = matrices_[call.matrix];
        if (!m.numbers) {
            m.sample.see(m.seen, x);
            m.seen += x.rows();
            return;
        }
        const auto first = first_inference_ * m.numbers->rows[call.use] + call.first_row;
        for (std::size_t r = 0; r < x.rows();) {
            const auto place = m.numbers->place(call.use, first + r);
            const auto count = std::min<std::size_t>(x.rows() - r, place.rows);
            m.sample.see(place.number, x.slice_rows(r, count));
            r += count;
        }
    }

    const DacConfig& dac_;
    std::size_t first_inference_;
    std::vector<SampledMatrix>& matrices_;
};

// The range of the rule `deviation`; the largest input for all other rules.
double range_of(const InputRange& range, const BuildConfig& config, std::size_t inputs) {
    const auto rule = calibration_of(config, {});
    if (rule.input_range != InputRangeRule::deviation) return range.largest;
    return rule.deviations * std::sqrt(range.squares / static_cast<double>(range.all_rows() * inputs));
}

void check_ranges(std::span<const std::string> matrices, const std::vector<InputRange>& ranges) {
    for (std::size_t k = 0; k < matrices.size(); ++k) {
        const auto problem = !ranges[k].finite             ? "has inputs that are not finite"
                             : ranges[k].all_rows() == 0   ? "is not used"
                             : !(ranges[k].largest > 0.0F) ? "has only inputs of 0"
                                                           : "";
        if (*problem != '\0')
            fail(ErrorCode::bad_data,
                 fmt::format("matrix {} {} in the calibration run", in_quotes(matrices[k]), problem));
    }
}

// The first run. Sums of squares depend on the order of the rows; the other statistics do not.
std::vector<InputRange> find_ranges(const BatchJob& job, const BuildConfig& config, const Exec& exec) {
    std::vector<InputRange> ranges(job.matrices.size());
    if (calibration_of(config, {}).input_range == InputRangeRule::deviation) {
        RangeHook hook(job.matrices.size(), true);
        (void)run_batches(job, &hook, exec);
        hook.add_to(ranges);
        return ranges;
    }
    std::mutex mutex;
    for_small_batches(
        job,
        [&](std::size_t, const RunBatch& run) {
            RangeHook hook(job.matrices.size(), false);
            run(hook);
            const std::scoped_lock lock(mutex);
            hook.add_to(ranges);
        },
        exec);
    return ranges;
}

// Whether batches of this size pass rows to the matrices inference by inference, that is, the first axis of
// their inputs counts inferences.
bool rows_by_inference(const BatchJob& job, std::size_t size) {
    const auto shapes = batch_shapes(views_of(job.inputs), size);
    const auto graph = graph::simplified(graph::with_input_shapes(job.graph, shapes));
    return std::ranges::all_of(graph::static_matrices(graph), [&](const graph::StaticMatrix& matrix) {
        if (std::ranges::find(job.matrices, matrix.name) == job.matrices.end()) return true;
        return std::ranges::all_of(matrix.uses, [&](const auto& use) {
            const auto shape = graph::known_shape(graph.values[graph.nodes[use.node].inputs[0]].type);
            return shape && !shape->empty() && shape->front() == shapes[0][0];
        });
    });
}

// Row numbers for small batches; empty if batches must run in order to give the same samples.
std::vector<RowNumbers> number_rows(const BatchJob& job, const std::vector<InputRange>& ranges) {
    const auto inputs = views_of(job.inputs);
    const auto batch = batch_size(job.graph, inputs);
    const auto small = small_batch_size(job.graph, inputs);
    if (small != batch && !(rows_by_inference(job, small) && rows_by_inference(job, batch))) return {};
    const auto inferences = count_inferences(job.graph, inputs);
    // The last batch of a fixed size is filled up.
    const auto all = fixed_batch(job.graph) ? (inferences + batch - 1) / batch * batch : inferences;
    std::vector<RowNumbers> numbers;
    for (const auto& range : ranges) {
        auto& n = numbers.emplace_back(RowNumbers{all, batch, range.rows});
        for (auto& rows : n.rows) {
            if (rows == 0 || rows % all != 0) return {};
            rows /= all;
        }
    }
    return numbers;
}

// The second run.
void run_samples(const BatchJob& job, const DacConfig& dac, std::vector<SampledMatrix>& matrices,
                 const Exec& exec) {
    if (!matrices.empty() && !matrices[0].numbers) {
        SampleHook hook(dac, 0, matrices);
        (void)run_batches(job, &hook, exec);
        return;
    }
    for_small_batches(
        job,
        [&](std::size_t first, const RunBatch& run) {
            SampleHook hook(dac, first, matrices);
            run(hook);
        },
        exec);
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
    return select_inferences(views_of(inputs), order);
}

std::vector<graph::Tensor> test_inferences(std::span<const graph::Tensor> inputs,
                                           const SampleOptions& options, std::size_t most) {
    const auto order = shuffled(inputs, options);
    const auto used = static_cast<std::size_t>(options.config.calibration_inputs);
    const auto others = std::span(order).subspan(order.size() > used ? used : 0);
    return select_inferences(views_of(inputs), others.first(std::min(others.size(), most)));
}

std::vector<Matrix<float>> collect_samples(const graph::Graph& graph, std::span<const std::string> matrices,
                                           const Plan& plan, std::span<const graph::Tensor> inputs,
                                           const SampleOptions& options, const Exec& exec) {
    const auto count = count_inferences(graph, views_of(inputs));
    const auto most = static_cast<std::size_t>(options.config.calibration_inputs);
    if (count < most) note(exec, fmt::format("{} calibration inputs; {} are recommended", count, most));
    const auto chosen = calibration_inferences(inputs, options);
    const auto ranges = find_ranges({graph, matrices, chosen, "finding input ranges"}, options.config, exec);
    check_ranges(matrices, ranges);
    const BatchJob job{graph, matrices, chosen, "sampling inputs"};
    const auto numbers = number_rows(job, ranges);
    const auto drawn = draw_samples(ranges, most, options.seed, exec);
    std::vector<SampledMatrix> sampled;
    for (std::size_t k = 0; k < matrices.size(); ++k) {
        const auto& weights = plan.matrices[k].weights;
        const auto& rows = drawn.at(ranges[k].all_rows());
        auto& m =
            sampled.emplace_back(SampledMatrix{.weights = transposed(weights.view()),
                                               .range = range_of(ranges[k], options.config, weights.rows()),
                                               .sample = {rows, Matrix<float>(rows.size(), weights.rows())}});
        if (!numbers.empty()) m.numbers = numbers[k];
    }
    run_samples(job, plan.spec.core.dac, sampled, exec);
    std::vector<Matrix<float>> samples;
    samples.reserve(sampled.size());
    for (auto& m : sampled) samples.push_back(std::move(m.sample.values));
    return samples;
}

}  // namespace imka
