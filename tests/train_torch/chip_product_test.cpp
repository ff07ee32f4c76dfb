// Products in training with the errors of a chip, against the emulator of that chip.
#include "imka/train/torch/chip_product.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "imka/chip/build.hpp"
#include "imka/chip/simulate/emulator.hpp"
#include "imka/linalg/gemm.hpp"
#include "imka/metrics/metrics.hpp"
#include "imka/train/torch/analog.hpp"
#include "small_batch.hpp"

namespace imka {
namespace {

using torch::Tensor;

TEST(CurveValues, AreThoseOfTheDeviceModel) {
    for (const auto& name : chip_names()) {
        const auto m = chip_preset(name).device;
        for (const auto* curve : {&m.programming_error_us, &m.drift_mean, &m.drift_sd, &m.read_noise}) {
            const auto u = torch::linspace(0.0, 1.2, 241, torch::kDouble);
            const auto values = curve_values(*curve, u);
            for (std::int64_t i = 0; i < u.numel(); ++i) {
                const double expected = evaluate(*curve, u[i].item<double>());
                EXPECT_NEAR(values[i].item<double>(), expected, 1e-12 * (1.0 + std::abs(expected)))
                    << name << " at " << u[i].item<double>();
            }
        }
    }
}

struct Case {
    std::string chip;
    std::int64_t inputs;
    std::int64_t outputs;
    bool positive_inputs;  // as after a ReLU
    std::size_t chips;     // number of chips, in the emulator and in training
};

// Names of the cases in the output.
void PrintTo(const Case& c, std::ostream* out) {
    *out << c.chip << ", " << c.inputs << " x " << c.outputs << (c.positive_inputs ? ", positive" : "");
}

constexpr double kRange = 2.0;
constexpr std::int64_t kRows = 60;  // each of them twice in a batch

struct Problem {
    ChipSpec chip;
    Tensor weight;  // outputs x inputs
    Tensor x;       // rows x inputs; the second half repeats the first
    Tensor exact;   // rows x outputs
};

Problem problem_of(const Case& c) {
    torch::manual_seed(17);
    auto x = torch::randn({kRows, c.inputs});
    if (c.positive_inputs) x = x.abs();
    x = torch::cat({x, x}).clamp(-kRange, kRange);
    // Outputs of different sizes, one with few large weights, one without weights.
    auto weight = torch::randn({c.outputs, c.inputs}) * torch::linspace(0.2, 1.0, c.outputs).unsqueeze(1);
    weight[1].pow_(3);
    weight[2].zero_();
    return {chip_preset(c.chip), weight, x, torch::matmul(x, weight.t())};
}

Tensor emulated(const Problem& p, std::uint64_t seed) {
    const auto x = to_matrix(p.x);
    const auto chip = build_chip(BuildJob{.chip = p.chip,
                                          .weights = transposed(to_matrix(p.weight).view()),
                                          .sample = x.view(),
                                          .steps = {.calibration = {.range = kRange}},
                                          .seed = seed},
                                 {});
    Matrix<float> y(x.rows(), static_cast<std::size_t>(p.weight.size(0)));
    make_emulator(chip, Simulator::fast)->multiply(0, x.view(), {.seed = seed}, {}, y.view());
    return to_tensor(y.view());
}

Tensor trained(const Problem& p, std::uint64_t seed) {
    torch::manual_seed(seed);
    const auto range = torch::full({1}, kRange);
    return chip_product(p.x.unsqueeze(0), p.weight, range, {p.chip, WeightNoise::batch})[0];
}

// Errors of products, chips x rows x outputs.
template <class Product>
Tensor errors_of(const Problem& p, std::size_t chips, const Product& product) {
    std::vector<Tensor> all;
    for (std::uint64_t seed = 0; seed < chips; ++seed) all.push_back(product(p, seed) - p.exact);
    return torch::stack(all).to(torch::kDouble);
}

// The means over chips (the first dimension) agree within 5 standard errors.
void expect_same_means(const Tensor& a, const Tensor& b, const char* what) {
    const auto n = static_cast<double>(a.size(0));
    // Products that are always clipped do not vary; they differ by the rounding of floats.
    const auto rounding = 1e-6 * b.abs().max();
    const auto error = ((a.var(0) + b.var(0)) / n).sqrt() + rounding;
    const auto difference = (a.mean(0) - b.mean(0)).abs();
    EXPECT_LE((difference / error).max().item<double>(), 5.0) << what << ", in standard errors";
}

class ChipProduct : public testing::TestWithParam<Case> {};

TEST_P(ChipProduct, HasTheErrorsOfTheEmulator) {
    const auto p = problem_of(GetParam());
    const auto ours = errors_of(p, GetParam().chips, trained);
    const auto theirs = errors_of(p, GetParam().chips, emulated);
    expect_same_means(ours, theirs, "mean error of each product");
    expect_same_means(ours.mean(1), theirs.mean(1), "bias of each output");
    expect_same_means(ours.square().mean(1), theirs.square().mean(1), "mean square of each output");
    // Two products of the same chip with the same input share its written devices, not its reads.
    const auto fresh = [](const Tensor& e) {
        return 0.5 * (e.narrow(1, 0, kRows) - e.narrow(1, kRows, kRows)).square().mean(1);
    };
    expect_same_means(fresh(ours), fresh(theirs), "variance between two reads, of each output");
    expect_same_means(ours.mean({1, 2}), theirs.mean({1, 2}), "bias");
    expect_same_means(ours.square().mean({1, 2}), theirs.square().mean({1, 2}), "mean square");
    expect_same_means(fresh(ours).mean(1), fresh(theirs).mean(1), "variance between two reads");
}

INSTANTIATE_TEST_SUITE_P(
    Chips, ChipProduct,
    testing::Values(Case{"hermes", 24, 16, false, 400}, Case{"hermes", 64, 10, true, 400},
                    Case{"hermes", 300, 12, false, 200},  // on two cores
                    Case{"hermes-published", 40, 20, false, 400}, Case{"hermes-od", 32, 8, true, 400},
                    Case{"hermes-afm", 48, 8, false, 400}, Case{"pcm-like", 32, 12, false, 400}));

TEST(ChipProductBias, IsThatOfRoundingDown) {
    auto p = problem_of({"hermes", 24, 16, false, 0});
    const auto biases = [&] { return errors_of(p, 100, trained).mean({1, 2}); };
    const auto down = biases();
    p.chip.core.affine.rounding = OutputRounding::nearest;
    const auto nearest = biases();
    const auto most = torch::matmul((p.x * (127.0 / kRange)).trunc() * (kRange / 127.0), p.weight.t())
                          .abs()
                          .max()
                          .item<double>();
    const double half_step = 0.5 * p.chip.core.affine.headroom * most / 127.0;
    const auto difference = (down - nearest).mean().item<double>();
    const double error = std::sqrt((down.var() + nearest.var()).item<double>() / 100.0);
    // Slightly less than half a step: clipped results are not rounded.
    EXPECT_NEAR(difference, -half_step, 5.0 * error + 0.05 * half_step);
    EXPECT_LT(5.0 * error, 0.5 * half_step) << "the test could not tell";
}

// Examples x rows x outputs of the same input everywhere.
Tensor same_input(WeightNoise written) {
    auto p = problem_of({"hermes-published", 24, 6, false, 0});
    torch::manual_seed(4);
    auto x = torch::cat({p.x, p.x[0].expand({64, -1})}).unsqueeze(0).repeat({40, 1, 1});
    const auto y = chip_product(x, p.weight, torch::full({1}, kRange), {p.chip, written});
    return y.narrow(1, p.x.size(0), 64).to(torch::kDouble);
}

TEST(ChipProductDevices, AreWrittenOnceOrForEveryExample) {
    // Variance of the means of 64 reads, over examples, in units of the variance that reads alone give: its
    // standard error with 40 examples and 5 outputs is sqrt(2 / (39 * 5)).
    const auto ratio = [](const Tensor& y) {
        const auto reads = y.var(1).mean(0) / 64.0;
        const auto means = y.mean(1).var(0);
        const auto used = reads > 0.0;  // one output has no weights
        return (means.masked_select(used) / reads.masked_select(used)).mean().item<double>();
    };
    const double error = std::sqrt(2.0 / (39.0 * 5.0));
    EXPECT_NEAR(ratio(same_input(WeightNoise::batch)), 1.0, 5.0 * error);
    EXPECT_GT(ratio(same_input(WeightNoise::sample)), 1.0 + 10.0 * error);
}

TEST(ChipProductGradients, AreThoseOfFiniteDifferencesOnAChipWithoutErrors) {
    const InDouble guard;
    torch::manual_seed(2);
    ChipSpec chip;
    chip.core.dac.levels = 32767;
    chip.core.rows = 5;  // three tiles
    const auto range = torch::full({1}, kRange);
    const auto value = [&](const Tensor& x, const Tensor& w, const Tensor& c) {
        return (chip_product(x, w, range, {chip, WeightNoise::batch}) * c).sum();
    };
    const auto x = torch::rand({3, 4, 12}).requires_grad_(true);
    const auto w = torch::randn({6, 12}).requires_grad_(true);
    const auto c = torch::randn({3, 4, 6});
    value(x, w, c).backward();
    const torch::NoGradGuard no_gradients;
    const double h = 0.1;  // many levels of the inputs
    const auto dw = torch::randn_like(w);
    const double by_w = (value(x, w + h * dw, c) - value(x, w - h * dw, c)).item<double>() / (2.0 * h);
    const double slope_w = (w.grad() * dw).sum().item<double>();
    EXPECT_NEAR(by_w, slope_w, 1e-9 * (1.0 + std::abs(slope_w)));
    const auto dx = torch::randn_like(x);
    const double by_x = (value(x + h * dx, w, c) - value(x - h * dx, w, c)).item<double>() / (2.0 * h);
    // Every input is rounded by at most half a level, in both products.
    const double rounding =
        kRange / 32767.0 * torch::matmul(c.abs(), w.abs()).sum().item<double>() / (2.0 * h);
    const double slope_x = (x.grad() * dx).sum().item<double>();
    EXPECT_NEAR(by_x, slope_x, rounding);
    EXPECT_LT(rounding, 0.2 * std::abs(slope_x)) << "the test could not tell";
}

TEST(ChipProductGradients, AreThoseOfTheWrittenWeightsWithFrozenNoise) {
    const InDouble guard;
    const auto chip = chip_preset("hermes");
    const auto range = torch::full({1}, kRange);
    torch::manual_seed(2);
    const auto x = (torch::randn({1, 40, 12})).clamp(-kRange, kRange).requires_grad_(true);
    const auto w = torch::randn({6, 12}).requires_grad_(true);
    const auto y = chip_product(x, w, range, {chip, WeightNoise::batch});
    // The gradient of output j of row j is row j of the written weights.
    const auto unit = torch::eye(40, 6).unsqueeze(0);
    const auto written = torch::autograd::grad({(y * unit).sum()}, {x}, {}, true)[0][0].narrow(0, 0, 6);
    const auto error = (written - w.detach()).abs().max().item<double>();
    EXPECT_GT(error, 1e-4);
    EXPECT_LT(error, 0.2 * w.abs().max().item<double>());
    const auto step = kRange / 127.0;
    const auto rounding = (x.detach() / step).trunc() * step - x.detach();
    const auto frozen = [&](const Tensor& at_x, const Tensor& at_w) {
        return torch::matmul(at_x + rounding, (at_w + written - w.detach()).t());
    };
    const auto noise = y.detach() - frozen(x.detach(), w.detach());
    EXPECT_GT(noise.std().item<double>(), 0.001 * y.std().item<double>());
    const auto c = torch::randn_like(y);
    const auto value = [&](const Tensor& at_x, const Tensor& at_w) {
        return ((frozen(at_x, at_w) + noise) * c).sum().item<double>();
    };
    const auto slopes = torch::autograd::grad({(y * c).sum()}, {x, w});
    const torch::NoGradGuard no_gradients;
    const double h = 1e-3;
    for (int trial = 0; trial < 5; ++trial) {
        const auto dx = torch::randn_like(x);
        const auto dw = torch::randn_like(w);
        const double by_x = (value(x + h * dx, w) - value(x - h * dx, w)) / (2.0 * h);
        const double by_w = (value(x, w + h * dw) - value(x, w - h * dw)) / (2.0 * h);
        EXPECT_NEAR(by_x, (slopes[0] * dx).sum().item<double>(), 1e-8 * (1.0 + std::abs(by_x)));
        EXPECT_NEAR(by_w, (slopes[1] * dw).sum().item<double>(), 1e-8 * (1.0 + std::abs(by_w)));
    }
}

TEST(ChipProductSample, IsDrawnFromLongBatches) {
    // More rows than the calibration uses: the errors remain those of a chip.
    torch::manual_seed(5);
    const auto chip = chip_preset("hermes");
    const auto x = torch::randn({4, 3000, 16}).clamp(-kRange, kRange);
    const auto w = torch::randn({8, 16});
    const auto y = chip_product(x, w, torch::full({1}, kRange), {chip, WeightNoise::sample});
    const auto exact = torch::matmul(x, w.t());
    EXPECT_EQ(y.sizes(), exact.sizes());
    const double relative = ((y - exact).std() / exact.std()).item<double>();
    EXPECT_GT(relative, 0.005);
    EXPECT_LT(relative, 0.1);
}

TEST(AnalogProduct, OfAChipHasItsShapeAndItsSeed) {
    HardwareConfig config{.weight_noise = WeightNoise::sample, .chip_noise = "hermes"};
    const AnalogHardware hardware{config};
    torch::manual_seed(1);
    const auto x = torch::randn({3, 2, 5, 8});
    const auto w = torch::randn({7, 8});
    const auto range = torch::full({1}, kRange);
    const auto product = [&](std::uint64_t seed) {
        torch::manual_seed(seed);
        return analog_product(x, w, range, hardware);
    };
    EXPECT_EQ(product(3).sizes(), (std::vector<std::int64_t>{3, 2, 5, 7}));
    EXPECT_TRUE(torch::equal(product(3), product(3)));
    EXPECT_FALSE(torch::equal(product(3), product(4)));
}

}  // namespace
}  // namespace imka
