// Attention layers as graphs: the same bits as KernelAttention, in FP32 and deployed; what runs on the chip.
#include "imka/attention/attention_graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "imka/base/random.hpp"
#include "imka/chip/simulate/emulator.hpp"
#include "imka/deploy/paper_cost.hpp"
#include "imka/deploy/plan_file.hpp"
#include "imka/deploy/schedule.hpp"
#include "imka/features/choose_projector.hpp"
#include "imka/graph/executor.hpp"
#include "imka/linalg/gemm.hpp"
#include "support/error.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using ops::AttentionForm;
using testing::HasSubstr;

const Exec kExec{.threads = 2};

Matrix<float> graph_normals(std::size_t rows, std::size_t cols, std::uint64_t seed) {
    Matrix<float> m(rows, cols);
    fill_normal(seed, Stream::test, 0, m.values());
    return m;
}

// One sequence with its own memory.
struct GraphSequence {
    HeadsShape q;
    HeadsShape k;
    std::size_t value_size = 5;
    std::uint64_t seed = 1;
    Matrix<float> queries = graph_normals(q.heads * q.length, q.size, seed);
    Matrix<float> keys = graph_normals(k.heads * k.length, k.size, seed + 100);
    Matrix<float> values = graph_normals(k.heads * k.length, value_size, seed + 200);
    std::vector<std::uint8_t> mask = {};

    AttentionInputs inputs() const {
        return {heads_first(queries.data(), q), heads_first(keys.data(), k),
                heads_first(values.data(), {k.heads, k.length, value_size}), mask};
    }
};

Matrix<float> attend(const KernelAttention& attention, const GraphSequence& s,
                     const AttentionOptions& options) {
    Matrix<float> out(s.q.heads * s.q.length, s.value_size);
    attention.run(s.inputs(), options, kExec, heads_first(out.data(), {s.q.heads, s.q.length, s.value_size}));
    return out;
}

void expect_equal(std::span<const float> got, const Matrix<float>& wanted) {
    ASSERT_EQ(got.size(), wanted.values().size());
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], wanted.values()[i]) << i;
}

std::vector<graph::TensorView> views_of(const std::vector<graph::Tensor>& tensors) {
    std::vector<graph::TensorView> views;
    for (const auto& t : tensors) views.push_back(t.view());
    return views;
}

// Every form and both directions; several partial sums, masks, grouped heads, large norms.
TEST(AttentionGraph, HasTheBitsOfKernelAttention) {
    for (const auto& form : ops::attention_forms()) {
        for (const bool causal : {false, true}) {
            const AttentionConfig config{.form = form.form, .kernel_epsilon = form.positive ? 1e-3 : 0.0};
            AttentionLayer layer{config, graph_normals(9, 4, 3), {.causal = causal}, true};
            std::vector<GraphSequence> batch;
            std::vector<AttentionInputs> inputs;
            for (std::uint64_t seed = 1; seed < 3; ++seed) {
                auto& s = batch.emplace_back(
                    GraphSequence{.q = {4, 2100, 4}, .k = {2, 2100, 4}, .value_size = 5, .seed = seed});
                for (std::size_t j = 0; j < s.k.length; ++j) s.mask.push_back(j % 7 == seed ? 0 : 1);
                for (std::size_t c = 0; c < 4; ++c) s.keys(1000, c) *= 8.0F;
            }
            for (const auto& s : batch) inputs.push_back(s.inputs());
            const auto tensors = attention_tensors(inputs);
            const auto y = graph::Executor(graph_of(layer)).run(views_of(tensors), nullptr, kExec).outputs[0];
            EXPECT_EQ(y.shape, (graph::Shape{2, 4, 2100, 5}));
            const KernelAttention attention(config, std::make_unique<DigitalProjector>(layer.omega));
            const auto values = y.values<float>();
            for (std::size_t s = 0; s < batch.size(); ++s)
                expect_equal(values.subspan(s * values.size() / 2, values.size() / 2),
                             attend(attention, batch[s], layer.options));
        }
    }
}

TEST(AttentionGraph, OtherScalesAndLengths) {
    const AttentionLayer layer{{}, graph_normals(16, 6, 3), {.scale = 0.7}};
    const GraphSequence s{.q = {1, 3, 6}, .k = {1, 300, 6}};
    const auto inputs = s.inputs();
    const auto y = graph::Executor(graph_of(layer))
                       .run(views_of(attention_tensors({&inputs, 1})), nullptr, kExec)
                       .outputs[0];
    const KernelAttention attention(layer.config, std::make_unique<DigitalProjector>(layer.omega));
    expect_equal(y.values<float>(), attend(attention, s, layer.options));
}

// Products of a chip, with the seeds that a deployed model gives to its two call sites.
class CallSiteProjector : public Projector {
public:
    CallSiteProjector(std::unique_ptr<ChipDriver> driver, std::uint64_t seed, std::uint64_t queries)
        : driver_(std::move(driver)), seed_(seed), queries_(queries) {}
    std::size_t inputs() const override { return driver_->shape(0).inputs; }
    std::size_t outputs() const override { return driver_->shape(0).outputs; }
    void project(MatrixView<const float> x, const ProductIds& ids, const Exec& exec,
                 MatrixView<float> u) const override {
        const bool keys = ids.first >= queries_;
        const auto seed = derived_seed(seed_, keys ? static_cast<std::uint32_t>(kMostMatrices) : 0);
        (void)driver_->multiply(0, x, {seed, keys ? ids.first - queries_ : ids.first}, exec, u);
    }

private:
    std::unique_ptr<ChipDriver> driver_;
    std::uint64_t seed_;
    std::uint64_t queries_;
};

// The rows that calibrate the chip: scaled queries, then scaled keys.
Matrix<float> scaled_rows(const GraphSequence& s) {
    Matrix<float> rows(s.queries.rows() + s.keys.rows(), s.q.size);
    const double scale = std::sqrt(1.0 / std::sqrt(static_cast<double>(s.q.size)));
    std::size_t i = 0;
    for (const auto* part : {&s.queries, &s.keys}) {
        for (const float v : part->values()) rows.values()[i++] = static_cast<float>(scale * v);
    }
    return rows;
}

TEST(AttentionGraph, DeployedHasTheBitsOfTheChip) {
    const auto chip = chip_preset("hermes");
    const std::uint64_t seed = 5;
    for (const auto form : {AttentionForm::positive, AttentionForm::relu}) {
        for (const bool causal : {false, true}) {
            const AttentionConfig config{.form = form, .kernel_epsilon = 1e-3};
            const AttentionLayer layer{config, graph_normals(300, 16, 3), {.causal = causal}};
            const GraphSequence s{.q = {2, 150, 16}, .k = {2, 150, 16}, .value_size = 16};
            const auto inputs = s.inputs();
            const auto model = deployed_attention(layer, {&inputs, 1}, {.chip = chip, .seed = seed}, kExec);
            const auto driver = make_emulator(model.chip, Simulator::fast, kExec);
            const auto run = run_model(model, *driver, attention_tensors({&inputs, 1}), seed, kExec);

            const auto rows = scaled_rows(s);
            const auto calibration = calibration_of({}, rows.view());
            const auto built = build_chip(BuildJob{.chip = chip,
                                                   .weights = transposed(layer.omega.view()),
                                                   .sample = rows.view(),
                                                   .steps = steps_of({}, calibration),
                                                   .seed = seed},
                                          kExec);
            const KernelAttention attention(
                config, std::make_unique<CallSiteProjector>(make_emulator(built, Simulator::fast, kExec),
                                                            seed, s.queries.rows()));
            expect_equal(run.outputs[0].values<float>(), attend(attention, s, layer.options));
        }
    }
}

TEST(AttentionGraph, DeployedModelsAreSavedAndRun) {
    const TempDir dir;
    const AttentionLayer layer{{}, graph_normals(64, 16, 3), {}};
    const GraphSequence s{.q = {2, 50, 16}, .k = {2, 50, 16}};
    const auto inputs = s.inputs();
    const auto tensors = attention_tensors({&inputs, 1});
    const auto model = deployed_attention(layer, {&inputs, 1}, {.chip = chip_preset("hermes")}, kExec);
    save_model(dir.path() / "layer.plan", model);
    const auto loaded = load_deployed(dir.path() / "layer.plan");
    const auto first = make_emulator(model.chip, Simulator::fast, kExec);
    const auto second = make_emulator(loaded.chip, Simulator::fast, kExec);
    EXPECT_EQ(run_model(model, *first, tensors, 3, kExec).outputs,
              run_model(loaded, *second, tensors, 3, kExec).outputs);
}

ModelPlacement placed(const AttentionLayer& layer, std::int64_t length, const MapOptions& map) {
    const auto d = static_cast<std::int64_t>(layer.omega.cols());
    const graph::Shape tokens{1, 8, length, d};
    return place_model(graph_of(layer), chip_preset("hermes"),
                       {.map = map, .input_shapes = {tokens, tokens, tokens}});
}

TEST(AttentionGraph, OmegaIsPlacedOnceForBothCallSites) {
    const auto placement = placed({{}, graph_normals(256, 64, 1)}, 1024, {});
    EXPECT_EQ(placement.matrices, std::vector<std::string>{"omega"});
    EXPECT_EQ(placement.result.cores, 1U);
    ASSERT_EQ(placement.result.mapping.regions.size(), 1U);
    EXPECT_EQ(placement.result.mapping.matrices[0].shape.calls, 2U);
    EXPECT_EQ(placement.result.mapping.matrices[0].shape.vectors, 8U * 1024U);
}

// Copies on idle cores share the work; queries and keys are in flight at the same time on different cores.
TEST(AttentionGraph, CopiesMultiplyQueriesAndKeysAtTheSameTime) {
    const auto spec = chip_preset("hermes");
    const auto time_of = [&](std::size_t replicas) {
        const auto p = placed({{}, graph_normals(256, 64, 1)}, 256, {.replicas = replicas});
        const auto schedule =
            make_schedule(p.pipeline, p.result.mapping, spec, cost_data(), {.digital = false});
        verify_schedule(schedule, p.pipeline, p.result.mapping, spec);
        return std::pair(schedule, p);
    };
    const auto [one, placement] = time_of(1);
    const auto [all, copies] = time_of(0);
    EXPECT_EQ(copies.result.cores, 64U);
    EXPECT_NEAR(one.makespan_seconds / all.makespan_seconds, 64.0, 1.0);
    std::map<std::string, std::set<std::uint32_t>> cores;
    std::map<std::string, double> first;
    for (const auto& span : all.spans) {
        const auto& name = copies.pipeline.steps[span.step].name;
        if (span.matrix == kNoMatrix) continue;
        cores[name].insert(span.resource.core);
        first.try_emplace(name, span.begin);
    }
    EXPECT_EQ(cores.size(), 2U);
    EXPECT_EQ(cores["q_projected"].size(), 32U);
    EXPECT_EQ(cores["k_projected"].size(), 32U);
    EXPECT_LT(std::abs(first["q_projected"] - first["k_projected"]), 0.1 * all.makespan_seconds);
}

double offloaded(AttentionForm form) {
    const auto p = placed({{.form = form}, graph_normals(256, 64, 1)}, 1024, {});
    const auto spec = chip_preset("hermes");
    const auto work = digital_work(p.pipeline);
    return offloaded_share(mapping_cost(p.result.mapping, spec, work, cost_data()).operations / 2.0, work);
}

// The paper neglects normalisers, scales and norms, which are smaller than the rest by a factor of order d.
TEST(AttentionGraph, OffloadsAThirdOfTheOperationsAsThePaperSays) {
    std::map<std::string, double> paper;
    for (const auto& row : paper_rows(cost_data())) paper[row.published.name] = row.computed;
    EXPECT_LT(offloaded(AttentionForm::positive), paper.at("offload.softmax"));
    EXPECT_NEAR(offloaded(AttentionForm::positive), paper.at("offload.softmax"), 1.0 / 128);
    EXPECT_NEAR(offloaded(AttentionForm::relu), paper.at("offload.relu"), 1.0 / 128);
}

// Counts of a run are those of the plan times the number of inferences.
TEST(AttentionGraph, ARunCountsDigitalOperationsByKind) {
    const AttentionLayer layer{{}, graph_normals(32, 16, 3)};
    std::vector<GraphSequence> batch;
    for (std::uint64_t seed = 1; seed < 4; ++seed)
        batch.push_back({.q = {2, 20, 16}, .k = {1, 30, 16}, .value_size = 8, .seed = seed});
    std::vector<AttentionInputs> inputs;
    for (const auto& s : batch) inputs.push_back(s.inputs());
    const auto model = deployed_attention(layer, inputs, {.chip = chip_preset("hermes")}, kExec);
    const auto driver = make_emulator(model.chip, Simulator::fast, kExec);
    const auto run = run_model(model, *driver, attention_tensors(inputs), 3, kExec);
    EXPECT_EQ(run.multiply_adds, 3.0 * (2 * 20 + 30) * 16 * 32);
    EXPECT_EQ(run.digital.exponentials, 3.0 * (2 * 20 + 30) * 64);
    EXPECT_EQ(run.digital.divisions, 3.0 * 2 * 20);
    EXPECT_EQ(run.digital.norm_elements, 3.0 * 30 * 16);
    // Scales of q and k; φ(K)ᵀV; φ(Q) times sums and normalisers; quotients.
    EXPECT_EQ(run.digital.multiplications,
              3.0 * ((2 * 20 + 30) * 16 + 30 * 64 * 8 + 2 * 20 * 64 * (8 + 1) + 2 * 20 * 8));
}

TEST(AttentionGraph, RejectsSequencesThatDiffer) {
    const GraphSequence a{.q = {2, 20, 4}, .k = {2, 20, 4}};
    const GraphSequence b{.q = {2, 20, 4}, .k = {2, 21, 4}};
    GraphSequence masked = a;
    masked.mask.assign(20, 1);
    const std::vector<AttentionInputs> lengths{a.inputs(), b.inputs()};
    const std::vector<AttentionInputs> masks{a.inputs(), masked.inputs()};
    EXPECT_THAT(error_of([&] { (void)attention_tensors(lengths); }),
                HasSubstr("bad_data: sequence 1 has 2 x 21 x 4 values, the first has 2 x 20 x 4"));
    EXPECT_THAT(error_of([&] { (void)attention_tensors(masks); }),
                HasSubstr("bad_data: the key mask of sequence 1 has 20 keys, the first has 0"));
    EXPECT_THAT(error_of([] { (void)attention_tensors({}); }), HasSubstr("at least one sequence"));
    const AttentionLayer layer{{}, graph_normals(8, 4, 3), {}, true};
    const AttentionTarget target{.chip = chip_preset("hermes")};
    EXPECT_THAT(
        error_of([&] { (void)deployed_attention(layer, std::span(lengths).first(1), target, kExec); }),
        HasSubstr("bad_data: attention: expected calibration sequences with key masks"));
}

}  // namespace
}  // namespace imka
