// Samples of the inputs of matrices: batches in any order give the same samples as one batch after the other.
#include "imka/deploy/model_calibration.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "deploy/models.hpp"
#include "imka/base/random.hpp"
#include "imka/chip/simulate/emulator.hpp"
#include "imka/chip/spec/chip.hpp"
#include "imka/deploy/batch_size.hpp"
#include "imka/deploy/deployed_model.hpp"
#include "imka/deploy/small_batches.hpp"

namespace imka {
namespace {

using graph::Graph;
using graph::Tensor;

// The inputs of a matrix in a run of one batch after the other.
struct Seen {
    std::vector<std::vector<float>> rows;  // in the order of calls
    float largest = 0.0F;
    double squares = 0.0;
};

class PlainHook : public ModelHook {
public:
    // ranges: of inputs; empty: products stay digital.
    PlainHook(const Plan& plan, std::vector<double> ranges)
        : seen(plan.matrices.size()), plan_(plan), ranges_(std::move(ranges)) {}
    bool multiply(const ModelCall& call, MatrixView<const float> x, const Exec& exec,
                  MatrixView<float> y) override {
        auto& s = seen[call.matrix];
        for (std::size_t r = 0; r < x.rows(); ++r) {
            s.rows.emplace_back(x.row(r).begin(), x.row(r).end());
            for (const float v : x.row(r)) {
                s.largest = std::max(s.largest, std::abs(v));
                s.squares += double{v} * v;
            }
        }
        if (ranges_.empty()) return false;
        Matrix<float> applied(x.rows(), x.cols());
        std::vector<std::int32_t> steps(x.cols());
        for (std::size_t r = 0; r < x.rows(); ++r) {
            quantize_inputs(plan_.spec.core.dac, x.row(r), ranges_[call.matrix], steps);
            for (std::size_t i = 0; i < steps.size(); ++i)
                applied(r, i) =
                    static_cast<float>(ranges_[call.matrix] / plan_.spec.core.dac.levels * steps[i]);
        }
        const auto products = digital_products(plan_.matrices[call.matrix].weights, applied.view(), exec);
        for (std::size_t r = 0; r < y.rows(); ++r) std::ranges::copy(products.row(r), y.row(r).begin());
        return true;
    }
    std::vector<Seen> seen;

private:
    const Plan& plan_;
    std::vector<double> ranges_;
};

std::vector<std::vector<float>> drawn(const Seen& seen, const SampleOptions& options) {
    const auto most = static_cast<std::size_t>(options.config.calibration_inputs);
    if (seen.rows.size() <= most) return seen.rows;
    auto order =
        permutation(options.seed, Stream::chip_calibration, static_cast<std::uint32_t>(seen.rows.size()));
    order.resize(most);
    std::ranges::sort(order);
    std::vector<std::vector<float>> rows;
    for (const auto r : order) rows.push_back(seen.rows[r]);
    return rows;
}

struct Calibrated {
    Graph graph;
    std::int64_t inferences = 0;
    BuildConfig config;
};

std::vector<std::vector<std::vector<float>>> plain_samples(const Calibrated& c, const DeployedModel& placed,
                                                           std::span<const Tensor> inputs,
                                                           const SampleOptions& options) {
    const auto& plan = placed.chip.plan;
    const auto chosen = calibration_inferences(inputs, options);
    PlainHook first(plan, {});
    (void)run_batches({c.graph, placed.matrices, chosen}, &first, {.threads = 1});
    std::vector<double> ranges;
    for (std::size_t k = 0; k < first.seen.size(); ++k) {
        const auto& s = first.seen[k];
        const auto values = static_cast<double>(s.rows.size() * plan.matrices[k].weights.rows());
        ranges.push_back(c.config.input_alpha ? *c.config.input_alpha * std::sqrt(s.squares / values)
                                              : double{s.largest});
    }
    PlainHook second(plan, ranges);
    (void)run_batches({c.graph, placed.matrices, chosen}, &second, {.threads = 1});
    std::vector<std::vector<std::vector<float>>> all;
    for (const auto& s : second.seen) all.push_back(drawn(s, options));
    return all;
}

void expect_plain_samples(const Calibrated& c) {
    const auto inputs = inputs_of(c.graph, c.inferences, 11);
    const auto spec = chip_preset("hermes");
    const auto few = inputs_of(c.graph, 4, 12);
    const auto placed = deploy(place_model(c.graph, spec, {}), spec, {}, few, 1, {.threads = 1});
    const SampleOptions options{.config = c.config, .seed = 5};
    const auto expected = plain_samples(c, placed, inputs, options);
    for (const int threads : {1, 3}) {
        const auto got = collect_samples(c.graph, placed.matrices, placed.chip.plan, inputs, options,
                                         {.threads = threads});
        ASSERT_EQ(got.size(), expected.size());
        for (std::size_t k = 0; k < got.size(); ++k) {
            ASSERT_EQ(got[k].rows(), expected[k].size()) << k;
            for (std::size_t r = 0; r < got[k].rows(); ++r)
                ASSERT_TRUE(std::ranges::equal(got[k].row(r), expected[k][r]))
                    << "matrix " << k << ", row " << r << ", threads " << threads;
        }
    }
}

// Sequences of 512 vectors; two layers share their weights. by_token: tokens, not inferences,
// are the first axis of the products.
Graph sequence_network(bool by_token, std::int64_t batch = graph::Dim::kUnknown) {
    using graph::random_tensor;
    graph::GraphBuilder b;
    b.input("x", {{batch, batch == graph::Dim::kUnknown ? "batch" : ""}, {512}, {12}})
        .constant("w0", random_tensor({12, 20}, 1))
        .constant("w1", random_tensor({20, 20}, 2))
        .constant("w2", random_tensor({20, 5}, 3));
    const std::string from = by_token ? "turned" : "x";
    if (by_token) b.node("Transpose", {"x"}, {"turned"}, {{"perm", std::vector<std::int64_t>{1, 0, 2}}});
    b.node("MatMul", {from, "w0"}, {"h0"})
        .node("Tanh", {"h0"}, {"t0"})
        .node("MatMul", {"t0", "w1"}, {"h1"})
        .node("Tanh", {"h1"}, {"t1"})
        .node("MatMul", {"t1", "w1"}, {"h2"})
        .node("Tanh", {"h2"}, {"t2"})
        .node("MatMul", {"t2", "w2"}, {"s"});
    if (!by_token) return b.build("s");
    b.node("Transpose", {"s"}, {"y"}, {{"perm", std::vector<std::int64_t>{1, 0, 2}}});
    return b.build("y");
}

TEST(ModelCalibration, SmallBatchesGiveTheSamplesOfPlainOnes) {
    const auto network = sequence_network(false);
    const auto inputs = inputs_of(network, 200, 11);
    const auto plain = batch_size(network, views_of(inputs));
    ASSERT_LT(plain, 200U) << "more than one batch";
    ASSERT_NE(plain % small_batch_size(network, views_of(inputs)), 0U) << "a small one is in both";
    expect_plain_samples({network, 200, {}});
    expect_plain_samples({network, 200, {.calibration_inputs = 50}});
}

TEST(ModelCalibration, RowsThatAreNotInTheOrderOfInferencesAreSampledInOrder) {
    expect_plain_samples({sequence_network(true), 200, {}});
}

TEST(ModelCalibration, AFilledBatchCountsAllItsRows) {
    expect_plain_samples({sequence_network(false, 4), 10, {.calibration_inputs = 300}});
}

TEST(ModelCalibration, ConvolutionsAndDeviationsGiveTheSamplesOfPlainBatches) {
    expect_plain_samples({small_cnn(), 300, {}});
    expect_plain_samples({small_network(), 300, {.input_alpha = 2.0}});
    expect_plain_samples({sequence_network(false), 200, {.input_alpha = 2.0}});
}

TEST(SmallBatches, RunEveryInferenceOnce) {
    const auto network = sequence_network(false);
    const auto inputs = inputs_of(network, 70, 3);
    const std::vector<std::string> names{"w2"};
    std::mutex mutex;
    std::map<std::size_t, std::size_t> rows;  // by first inference
    class Count : public ModelHook {
    public:
        bool multiply(const ModelCall& call, MatrixView<const float> x, const Exec& /*exec*/,
                      MatrixView<float> /*y*/) override {
            EXPECT_EQ(call.first_row, rows);
            rows += x.rows();
            return false;
        }
        std::size_t rows = 0;
    };
    for_small_batches({network, names, inputs},
                      [&](std::size_t first, const RunBatch& run) {
                          Count count;
                          run(count);
                          const std::scoped_lock lock(mutex);
                          rows[first] += count.rows;
                      },
                      {.threads = 3});
    std::size_t next = 0;
    for (const auto& [first, count] : rows) {
        EXPECT_EQ(first, next);
        next += count / 512;
    }
    EXPECT_EQ(next, 70U);
    EXPECT_GT(rows.size(), 1U);
}

}  // namespace
}  // namespace imka
