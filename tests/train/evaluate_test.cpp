// Evaluation of Performers: digitally and on an emulated chip.
#include "imka/train/evaluate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <utility>

#include "imka/base/random.hpp"
#include "imka/graph/executor.hpp"
#include "imka/graph/simplify.hpp"
#include "imka/train/performer_graph.hpp"
#include "support/error.hpp"
#include "support/small_performer.hpp"

namespace imka {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Large weights, so that examples get different classes.
Performer model_of(const PerformerConfig& config, const std::string& task = "tiny") {
    auto model = initial_performer(config, task, 5);
    for (auto& x : model.weights.at("classifier.output.weight").values()) x *= 8.0F;
    for (auto& x : model.weights.at("classifier.hidden.weight").values()) x *= 4.0F;
    return model;
}

// Random documents of 1 to 64 tokens.
LraData examples(std::size_t count, std::uint64_t seed, LraTask task = LraTask::tiny) {
    LraData data{.task = task, .origin = "test"};
    const bool pair = task == LraTask::retrieval;
    const std::size_t documents = pair ? 2 * count : count;
    data.tokens = Matrix<std::uint8_t>(documents, 64);
    for (std::size_t d = 0; d < documents; ++d) {
        const auto length = static_cast<std::uint32_t>(1 + uniform_int(seed, Stream::test, d, 64));
        data.lengths.push_back(length);
        for (std::uint32_t t = 0; t < length; ++t)
            data.tokens(d, t) = static_cast<std::uint8_t>(uniform_int(seed + 1, Stream::test, 64 * d + t, 4));
    }
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t first = pair ? 2 * i : i;
        data.examples.push_back({.first = first,
                                 .second = pair ? first + 1 : first,
                                 .label = static_cast<std::uint8_t>(i % (pair ? 2 : 4))});
    }
    return data;
}

const LraData& test_set() {
    static const auto data = examples(60, 3);
    return data;
}
const LraData& training_set() {
    static const auto data = examples(80, 11);
    return data;
}

EvaluateOptions options(std::vector<EvalMode> modes, const std::string& chip = "hermes") {
    return {.modes = std::move(modes), .seeds = {0, 1}, .chip = chip_preset(chip)};
}

Evaluation evaluated(const Performer& model, const EvaluateOptions& how, const Exec& exec = {}) {
    return evaluate(model, {test_set(), training_set()}, how, exec);
}

const std::vector<EvalMode> kAllModes{EvalMode::fp32, EvalMode::attention, EvalMode::all,
                                      EvalMode::all_but_last};

void expect_same(const ModeResult& a, const ModeResult& b) {
    ASSERT_EQ(a.seeds.size(), b.seeds.size());
    for (std::size_t s = 0; s < a.seeds.size(); ++s) {
        EXPECT_EQ(a.seeds[s].predicted, b.seeds[s].predicted) << to_string(a.mode) << " " << s;
        EXPECT_EQ(a.seeds[s].loss, b.seeds[s].loss) << to_string(a.mode) << " " << s;
    }
}

// Logits of one document, without padding.
std::vector<float> logits_of(const graph::Graph& g, const LraData& data, std::uint32_t document) {
    const std::int64_t length = data.lengths[document];
    graph::Tensor tokens(graph::DType::u8, {1, length});
    std::ranges::copy(data.tokens.row(document).first(data.lengths[document]),
                      tokens.values<std::uint8_t>().begin());
    const auto lengths = graph::make_tensor<std::int64_t>({1}, std::vector{length});
    graph::Executor executor(graph::simplified(graph::with_input_shapes(g, {{1, length}, {1}})));
    const std::vector<graph::TensorView> inputs{std::as_const(tokens).view(), lengths.view()};
    const auto result = executor.run(inputs, nullptr, {});
    const auto out = result.outputs[0].values<float>();
    return {out.begin(), out.end()};
}

// Documents of equal lengths all have the median length.
TEST(Evaluate, CalibratesWithHalfOfTheExamples) {
    auto calibration = examples(40, 11);
    std::ranges::fill(calibration.lengths, 64U);
    const auto loss = [&] {
        const auto e =
            evaluate(model_of(tiny_performer()), {test_set(), calibration}, options({EvalMode::all}), {});
        return e.modes[0].seeds[0].loss;
    };
    const auto usual = loss();
    std::ranges::fill(calibration.tokens.row(39), std::uint8_t{1});
    EXPECT_EQ(usual, loss());
    for (std::size_t d = 0; d < 20; ++d) std::ranges::fill(calibration.tokens.row(d), std::uint8_t{1});
    EXPECT_NE(usual, loss());
}

TEST(Evaluate, DrawsDirectionsOfAnotherLaw) {
    auto config = tiny_performer();
    config.n_directions = 2000;
    config.omega_scale = 0.5;
    const auto omega = poisson_omega(config, {.seed = 3});
    double sum = 0.0;
    double squares = 0.0;
    for (const float v : omega.values()) {
        EXPECT_EQ(v, 0.5F * std::round(2.0F * v));
        sum += 2.0 * static_cast<double>(v);
        squares += 4.0 * static_cast<double>(v) * static_cast<double>(v);
    }
    // n entries with mean 1, variance 1 and fourth central moment 4: 5 sigma.
    const auto n = static_cast<double>(omega.values().size());
    EXPECT_NEAR(sum / n, 1.0, 5.0 / std::sqrt(n));
    EXPECT_NEAR(squares / n, 2.0, 5.0 * std::sqrt(11.0 / n));
    EXPECT_NE(omega, poisson_omega(config, {.seed = 4}));
    const auto model = model_of(tiny_performer());
    auto how = options({EvalMode::fp32});
    how.truncated_omega = true;
    const auto usual = evaluated(model, how);
    how.omega_law = OmegaLaw::poisson;
    const auto other = evaluated(model, how);
    EXPECT_NE(usual.modes[0].seeds[0].loss, other.modes[0].seeds[0].loss);
    EXPECT_FALSE(other.truncated_omega);
    how.saved_omega = true;
    EXPECT_THAT(error_of([&] { evaluated(model, how); }), testing::HasSubstr("omega_law"));
}

TEST(Evaluate, DigitalResultsAreThoseOfSingleDocuments) {
    const auto model = model_of(tiny_performer());
    auto how = options({EvalMode::fp32});
    how.saved_omega = true;
    const auto result = evaluated(model, how);
    const auto g = graph_of(model, model.omega);
    double loss = 0.0;
    std::size_t right = 0;
    for (std::uint32_t i = 0; i < test_set().examples.size(); ++i) {
        const auto logits = logits_of(g, test_set(), i);
        const auto best = std::ranges::max_element(logits) - logits.begin();
        EXPECT_EQ(result.modes[0].seeds[0].predicted[i], best) << i;
        right += best == test_set().examples[i].label ? 1 : 0;
        double sum = 0.0;
        for (const float v : logits) sum += std::exp(static_cast<double>(v));
        loss += std::log(sum) - static_cast<double>(logits[test_set().examples[i].label]);
    }
    const auto n = static_cast<double>(test_set().examples.size());
    EXPECT_NEAR(result.modes[0].seeds[0].loss, loss / n, 1e-4);
    EXPECT_DOUBLE_EQ(accuracy_of(result, result.modes[0]).mean, static_cast<double>(right) / n);
    EXPECT_GT(loss_of(result.modes[0]).mean, 0.1);
    // Without a draw of Ω every seed has the same results.
    EXPECT_EQ(result.modes[0].seeds[1].loss, result.modes[0].seeds[0].loss);
    EXPECT_EQ(result.modes[0].seeds[1].seed, 1U);
}

TEST(Evaluate, BatchesAndThreadsChangeNothing) {
    const auto model = model_of(tiny_performer());
    auto how = options(kAllModes);
    how.batch_tokens = 100;
    const auto small_batches = evaluated(model, how, {.threads = 1});
    how.batch_tokens = 5000;
    const auto large_batches = evaluated(model, how, {.threads = 2});
    for (std::size_t m = 0; m < kAllModes.size(); ++m)
        expect_same(small_batches.modes[m], large_batches.modes[m]);
    // Each seed has its own directions and chips, and the chip has errors.
    for (const auto& mode : small_batches.modes) EXPECT_NE(mode.seeds[0].loss, mode.seeds[1].loss);
    for (std::size_t m = 1; m < kAllModes.size(); ++m)
        EXPECT_NE(small_batches.modes[m].seeds[0].loss, small_batches.modes[m - 1].seeds[0].loss);
}

// A sink that fails the test if two threads use it at once.
class OneAtATime : public ProgressSink {
public:
    void start(std::string_view, std::uint64_t, std::uint64_t) override {
        EXPECT_EQ(open_.fetch_add(1), 0);
        ++started_;
    }
    void update(std::uint64_t) override {}
    void finish() override { open_ -= 1; }
    int started() const { return started_; }

private:
    std::atomic<int> open_ = 0;
    int started_ = 0;
};

TEST(Evaluate, SeedsSideBySideChangeNothing) {
    const auto model = model_of(tiny_performer());
    auto how = options(kAllModes);
    how.seeds = {7, 3, 5, 0};
    for (const bool saved : {false, true}) {
        how.saved_omega = saved;
        how.seeds_at_once = 1;
        const auto one = evaluated(model, how, {.threads = 1});
        how.seeds_at_once = 3;
        OneAtATime progress;
        const auto three = evaluated(model, how, {.threads = 4, .progress = &progress});
        // The digital test is the same for all seeds if they have the same Ω.
        EXPECT_EQ(progress.started(), saved ? 9 : 12);
        for (std::size_t m = 0; m < kAllModes.size(); ++m) {
            expect_same(one.modes[m], three.modes[m]);
            EXPECT_EQ(one.modes[m].cores, three.modes[m].cores);
            EXPECT_EQ(one.modes[m].saturated_share, three.modes[m].saturated_share);
            for (std::size_t s = 0; s < how.seeds.size(); ++s)
                EXPECT_EQ(three.modes[m].seeds[s].seed, how.seeds[s]);
        }
    }
    // Errors and cancellation are passed on.
    auto broken = model;
    broken.weights.at("classifier.output.weight")(0, 0) = std::nanf("");
    EXPECT_THAT(error_of([&] { (void)evaluated(broken, how); }), HasSubstr("not finite"));
    const std::atomic<bool> cancel{true};
    EXPECT_THAT(error_of([&] { (void)evaluated(model, how, {.cancel = &cancel}); }),
                HasSubstr("interrupted"));
}

TEST(Evaluate, AModeDoesNotDependOnTheOthers) {
    const auto model = model_of(tiny_performer());
    const auto together = evaluated(model, options(kAllModes));
    EXPECT_TRUE(together.truncated_omega);
    for (std::size_t m = 1; m < kAllModes.size(); ++m)
        expect_same(evaluated(model, options({kAllModes[m]})).modes[0], together.modes[m]);
    EXPECT_FALSE(evaluated(model, options({EvalMode::fp32})).truncated_omega);
}

// Projections of all examples together have more than 2^26 values, so the batch is run in two parts.
TEST(Evaluate, LargeBatchesInPartsChangeNothing) {
    auto config = tiny_performer();
    config.heads = 8;
    config.n_directions = 4096;
    const auto model = model_of(config);
    LraData data = examples(34, 3);
    for (auto& length : data.lengths) length = 64;
    auto how = options({EvalMode::all, EvalMode::all_but_last});
    how.seeds = {0};
    const auto few = examples(4, 11);
    how.batch_tokens = std::size_t{64} * 17;
    const auto expected = evaluate(model, {.test = data, .calibration = few}, how, {});
    how.batch_tokens = std::size_t{64} * 34;
    const auto result = evaluate(model, {.test = data, .calibration = few}, how, {});
    for (std::size_t m = 0; m < 2; ++m) expect_same(result.modes[m], expected.modes[m]);
}

TEST(Evaluate, AnIdealChipIsCloseToFp32) {
    for (const auto form : {ModelAttention::favor, ModelAttention::relu}) {
        auto config = tiny_performer();
        config.attention = form;
        const auto result = evaluated(model_of(config), options(kAllModes, "ideal"));
        const auto fp32 = loss_of(result.modes[0]).mean;
        for (std::size_t m = 1; m < kAllModes.size(); ++m) {
            EXPECT_NEAR(loss_of(result.modes[m]).mean, fp32, 0.05 * fp32) << m;
            EXPECT_GT(result.modes[m].cores, 0U);
        }
    }
}

TEST(Evaluate, TimeWithoutCompensationCostsAccuracy) {
    const auto model = model_of(tiny_performer());
    auto how = options({EvalMode::fp32, EvalMode::all});
    how.seeds = {0};
    how.build.read_seconds = 3e7;
    const auto difference = [&] {
        const auto result = evaluated(model, how);
        return std::abs(loss_of(result.modes[1]).mean - loss_of(result.modes[0]).mean);
    };
    const double aged = difference();
    how.build.compensation = AgeCompensation::outputs;
    EXPECT_LT(difference(), aged);
}

TEST(Evaluate, SupportsPairsTiedLayersAndExactAttention) {
    auto config = tiny_performer();
    config.documents = 2;
    config.classes = 2;
    config.vocabulary = 257;
    config.tied = true;
    config.attention = ModelAttention::exact;
    const auto test = examples(20, 3, LraTask::retrieval);
    const auto training = examples(60, 11, LraTask::retrieval);
    const auto model = model_of(config, "retrieval");
    const auto result =
        evaluate(model, {test, training}, options({EvalMode::fp32, EvalMode::all}, "ideal"), {});
    const double fp32 = loss_of(result.modes[0]).mean;
    EXPECT_NEAR(loss_of(result.modes[1]).mean, fp32, 0.05 * fp32);
    std::uint64_t tokens = 0;
    for (const auto length : test.lengths) tokens += length;
    EXPECT_EQ(result.tokens, tokens);
    EXPECT_THAT(error_of([&] {
                    (void)evaluate(model, {test, training}, options({EvalMode::attention}), {});
                }),
                AllOf(HasSubstr("bad_config"), HasSubstr("no random directions")));
}

TEST(Evaluate, RefusesWhatDoesNotFit) {
    const auto error = [](const Performer& model, const EvaluateOptions& how) {
        return error_of([&] { (void)evaluated(model, how); });
    };
    const auto digital = options({EvalMode::fp32});
    EXPECT_THAT(error(model_of(tiny_performer(), "imdb"), digital),
                AllOf(HasSubstr("bad_config"), HasSubstr("'imdb'"), HasSubstr("tiny"),
                      HasSubstr("the tasks differ")));
    auto config = tiny_performer();
    config.classes = 10;
    EXPECT_THAT(error(model_of(config), digital), HasSubstr("classes 10; expected 4"));
    config = tiny_performer();
    config.length = 30;
    EXPECT_THAT(error(model_of(config), digital), HasSubstr("the model was built for 30"));
    config = tiny_performer();
    config.vocabulary = 4;
    EXPECT_THAT(error(model_of(config), digital), HasSubstr("vocabulary 4; expected at least 5"));
    EXPECT_THAT(error(model_of(tiny_performer()), options({EvalMode::all, EvalMode::all})),
                HasSubstr("mode all is given twice"));
    auto model = model_of(tiny_performer());
    model.weights.at("classifier.output.weight")(0, 0) = std::nanf("");
    EXPECT_THAT(error(model, digital), AllOf(HasSubstr("numeric"), HasSubstr("example 0")));
    EXPECT_THAT(error_of([&] {
                    (void)evaluate(model_of(tiny_performer()), {examples(0, 1), training_set()}, digital, {});
                }),
                HasSubstr("expected at least one example"));
    const std::atomic<bool> cancel{true};
    EXPECT_THAT(error_of([&] { (void)evaluated(model_of(tiny_performer()), digital, {.cancel = &cancel}); }),
                HasSubstr("interrupted"));
}

TEST(Evaluate, DifferencesArePairedByExampleAndSeed) {
    Evaluation e{.labels = {0, 0, 1, 1}, .classes = 2};
    e.modes = {{.mode = EvalMode::fp32, .seeds = {{.predicted = {0, 0, 1, 1}}, {.predicted = {0, 1, 1, 1}}}},
               {.mode = EvalMode::all, .seeds = {{.predicted = {0, 0, 1, 0}}, {.predicted = {0, 0, 0, 0}}}}};
    EXPECT_DOUBLE_EQ(accuracy_of(e, e.modes[0]).mean, 0.875);
    EXPECT_DOUBLE_EQ(accuracy_of(e, e.modes[1]).mean, 0.625);
    const auto d = paired_difference(e, e.modes[1], e.modes[0]);
    EXPECT_THAT(d.seeds.values, testing::ElementsAre(-0.25, -0.25));
    // Per example: 0, 0.5, -0.5, -1; deviation sqrt(1.25 / 3) around -0.25.
    EXPECT_NEAR(d.example_error, std::sqrt(1.25 / 3.0 / 4.0), 1e-12);
    const auto counts = confusion_of(e, e.modes[1]);
    EXPECT_EQ(counts(0, 0), 4U);
    EXPECT_EQ(counts(0, 1), 0U);
    EXPECT_EQ(counts(1, 0), 3U);
    EXPECT_EQ(counts(1, 1), 1U);
}

TEST(Evaluate, WritesTheInputsOfTheLastAttention) {
    const auto model = model_of(tiny_performer());
    const auto qkv = last_layer_qkv(model, test_set(), 5, {});
    ASSERT_EQ(qkv.shape.size(), 4U);
    EXPECT_EQ(qkv.shape[0], 5 * 2);
    EXPECT_EQ(qkv.shape[1], 3);
    EXPECT_EQ(qkv.shape[3], 4);
    // Half of the documents have at least this length.
    const auto longer = std::ranges::count_if(
        test_set().lengths, [&](auto length) { return static_cast<std::int64_t>(length) >= qkv.shape[2]; });
    EXPECT_GE(2 * longer, static_cast<std::ptrdiff_t>(test_set().lengths.size()));
    const auto values = qkv.values<float>();
    EXPECT_TRUE(std::ranges::all_of(values, [](float v) { return std::isfinite(v); }));
    const auto size = values.size() / 30;
    EXPECT_FALSE(std::ranges::equal(values.subspan(0, size), values.subspan(size, size)));
    EXPECT_FALSE(std::ranges::equal(values.subspan(0, size), values.subspan(3 * size, size)));
}

}  // namespace
}  // namespace imka
