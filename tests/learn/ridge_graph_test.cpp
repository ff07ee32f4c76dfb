// Ridge models as graphs: the same bits as the predictor, in FP32 and deployed.
#include "imka/learn/ridge_graph.hpp"

#include <gtest/gtest.h>

#include "imka/base/random.hpp"
#include "imka/chip/simulate/emulator.hpp"
#include "imka/chip/spec/chip.hpp"
#include "imka/deploy/deployed_model.hpp"
#include "imka/graph/executor.hpp"

namespace imka {
namespace {

const Exec kGraphExec{.threads = 2};

struct Case {
    RidgeModel model;
    Matrix<float> rows;  // standardised as the model expects
};

Case make_case(Kernel kernel, Form form, std::int64_t m, int classes) {
    const std::size_t d = 12;
    Matrix<float> x(240, d);
    fill_normal(3, Stream::test, 0, x.values());
    std::vector<std::int32_t> y(x.rows());
    for (std::size_t r = 0; r < y.size(); ++r) {
        const float s = x(r, 0) + x(r, 1) * x(r, 2);
        y[r] = classes == 2 ? (s > 0.0F ? 1 : 0) : s > 0.7F ? 2 : s > -0.7F ? 1 : 0;
    }
    std::vector<std::string> names;
    for (int c = 0; c < classes; ++c) names.push_back(std::to_string(c));
    RidgeFit fit{
        .recipe = {
            .omega = {.kernel = kernel, .gamma = 0.05, .d = static_cast<std::int64_t>(d), .m = m, .seed = 5},
            .form = form}};
    return {fit_classifier(fit, x.view(), y, names, kGraphExec), std::move(x)};
}

std::vector<Case> cases() {
    std::vector<Case> list;
    list.push_back(make_case(Kernel::rbf, Form::auto_, 64, 2));
    list.push_back(make_case(Kernel::rbf, Form::offset_cos, 64, 3));
    list.push_back(make_case(Kernel::arccos0, Form::auto_, 96, 2));
    list.push_back(make_case(Kernel::softmax, Form::auto_, 64, 3));
    list.push_back(make_case(Kernel::softmax, Form::cos_sin, 64, 3));
    list.push_back(make_case(Kernel::rbf, Form::auto_, 700, 2));  // 3 cores of unequal width
    return list;
}

graph::Tensor tensor_of(const Matrix<float>& x) {
    return graph::make_tensor<float>(
        {static_cast<std::int64_t>(x.rows()), static_cast<std::int64_t>(x.cols())}, x.values());
}

void expect_equal(const std::vector<graph::Tensor>& outputs, const RidgePredictor& predictor,
                  const Matrix<float>& x) {
    Matrix<double> scores(x.rows(), predictor.outputs());
    predictor.scores(x.view(), 0, kGraphExec, scores.view());
    const auto got = outputs[0].values<double>();
    ASSERT_EQ(got.size(), scores.values().size());
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], scores.values()[i]) << i;
    const auto classes = predictor.classify(x.view(), kGraphExec);
    const auto got_classes = outputs[1].values<std::int64_t>();
    for (std::size_t r = 0; r < x.rows(); ++r) ASSERT_EQ(got_classes[r], classes[r]) << r;
}

TEST(RidgeGraph, HasTheBitsOfThePredictor) {
    for (const auto& [model, x] : cases()) {
        const auto input = tensor_of(x);
        const std::vector<graph::TensorView> views{input.view()};
        expect_equal(graph::Executor(graph_of(model)).run(views, nullptr, kGraphExec).outputs,
                     RidgePredictor(model), x);
    }
}

TEST(RidgeGraph, StandardisesRawRows) {
    auto [model, x] = make_case(Kernel::rbf, Form::auto_, 64, 2);
    Matrix<float> raw = x;
    for (std::size_t r = 0; r < x.rows(); ++r) {
        for (std::size_t c = 0; c < x.cols(); ++c) raw(r, c) = 1000.0F + 3.7F * x(r, c);
    }
    model.standardization = compute_standardization(raw.view(), kGraphExec);
    auto rows = raw;
    apply_standardization(model.standardization, kGraphExec, rows.view());
    const auto input = tensor_of(raw);
    const std::vector<graph::TensorView> views{input.view()};
    expect_equal(graph::Executor(graph_of(model)).run(views, nullptr, kGraphExec).outputs,
                 RidgePredictor(model), rows);
}

// Projection on the chip: `imka ridge --backend hermes` and a deployed graph are the same run.
TEST(RidgeGraph, DeployedHasTheBitsOfTheChip) {
    const auto chip = chip_preset("hermes");
    for (const auto& [model, x] : cases()) {
        const auto graph = graph_of(model);
        const std::vector<graph::Tensor> inputs{tensor_of(x)};
        const std::uint64_t seed = 5;
        const auto deployed =
            deploy(place_model(graph, chip, {.on_chip = "projection", .map = {.cuts = Cuts::even}}), chip, {},
                   inputs, seed, kGraphExec);
        const auto driver = make_emulator(deployed.chip, Simulator::fast, kGraphExec);
        const auto run = run_model(deployed, *driver, inputs, seed, kGraphExec);
        expect_equal(run.outputs, on_chip(model, {.chip = chip, .seed = seed}, x.view(), kGraphExec), x);
        EXPECT_GT(run.trace.conversions, 0U);
    }
}

}  // namespace
}  // namespace imka
