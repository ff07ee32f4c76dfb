// Classifier and regressor: decisions, files, bad input.
#include "imka/learn/ridge_model.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/base/random.hpp"
#include "imka/experiment/run.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

struct Blobs {
    Matrix<float> x;
    std::vector<std::int32_t> y;
};

// Clusters around the corners of a simplex, six standard deviations apart.
Blobs blobs(std::size_t rows, std::int32_t classes, std::uint64_t seed) {
    Blobs b{.x = Matrix<float>(rows, static_cast<std::size_t>(classes)),
            .y = std::vector<std::int32_t>(rows)};
    fill_normal(seed, Stream::test, 0, b.x.values());
    for (std::size_t r = 0; r < rows; ++r) {
        b.y[r] = static_cast<std::int32_t>(r % static_cast<std::size_t>(classes));
        b.x(r, static_cast<std::size_t>(b.y[r])) += 6.0F;
    }
    return b;
}

RidgeFit fit_of(std::int64_t d, Targets targets) {
    return {.recipe = {.omega = {.kernel = Kernel::rbf, .sampler = Sampler::orf, .d = d, .m = 60, .seed = 1}},
            .ridge = {},
            .targets = targets};
}

double share_right(const RidgeModel& model, const Blobs& b) {
    const auto got = RidgePredictor(model).classify(b.x.view(), Exec{});
    std::size_t right = 0;
    for (std::size_t i = 0; i < got.size(); ++i) right += got[i] == b.y[i] ? 1 : 0;
    return static_cast<double>(right) / static_cast<double>(got.size());
}

TEST(RidgeClassifier, SeparatesTwoClassesWithEitherTargets) {
    const auto train = blobs(600, 2, 1);
    const auto test = blobs(600, 2, 2);
    for (const auto targets : {Targets::plus_minus, Targets::zero_one}) {
        const auto model = fit_classifier(fit_of(2, targets), train.x.view(), train.y, {"no", "yes"}, Exec{});
        EXPECT_EQ(model.weights.w.cols(), 1U);
        EXPECT_GT(share_right(model, test), 0.99);
    }
}

TEST(RidgeClassifier, SeparatesManyClassesOneVsRest) {
    const auto train = blobs(900, 5, 1);
    const auto test = blobs(900, 5, 2);
    const auto model = fit_classifier(fit_of(5, Targets::plus_minus), train.x.view(), train.y,
                                      {"a", "b", "c", "d", "e"}, Exec{});
    EXPECT_EQ(model.weights.w.cols(), 5U);
    EXPECT_GT(share_right(model, test), 0.98);
}

TEST(RidgeClassifier, RefusesAClassWithoutRowsAndASingleClass) {
    const auto train = blobs(60, 2, 1);
    try {
        (void)fit_classifier(fit_of(2, Targets::plus_minus), train.x.view(), train.y, {"a", "b", "c"},
                             Exec{});
        FAIL() << "accepted";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::bad_data);
        EXPECT_STREQ(e.what(), "class 'c' has no row in the training part");
    }
    const std::vector<std::int32_t> same(60, 0);
    EXPECT_THROW((void)fit_classifier(fit_of(2, Targets::plus_minus), train.x.view(), same, {"a"}, Exec{}),
                 Error);
}

TEST(RidgeRegressor, LearnsManyOutputs) {
    const auto x = blobs(2000, 3, 1).x;
    Matrix<float> y(2000, 2);
    for (std::size_t r = 0; r < 2000; ++r) {
        y(r, 0) = std::sin(0.3F * x(r, 0));
        y(r, 1) = 0.1F * x(r, 1) - 0.2F * x(r, 2);
    }
    auto fit = fit_of(3, Targets::plus_minus);
    fit.recipe.omega.m = 200;
    fit.ridge.alpha = 1e-3;
    const auto model = fit_regressor(fit, x.view(), y.view(), Exec{});
    EXPECT_TRUE(model.classes.empty());
    Matrix<double> out(2000, 2);
    RidgePredictor(model).scores(x.view(), 0, Exec{}, out.view());
    double error = 0.0;
    for (std::size_t i = 0; i < 4000; ++i) error += std::pow(out.values()[i] - y.values()[i], 2);
    EXPECT_LT(std::sqrt(error / 4000.0), 0.02);
}

RidgeModel small_model() {
    const auto train = blobs(300, 3, 1);
    auto model =
        fit_classifier(fit_of(3, Targets::zero_one), train.x.view(), train.y, {"é", "b\"", "c"}, Exec{});
    model.standardization = {.mean = {1.0, 2.0, 3.0}, .std = {0.5, 1.0, 2.0}};
    return model;
}

TEST(RidgeModelFile, PredictsTheSameBitsAfterLoading) {
    const TempDir dir;
    const auto model = small_model();
    save_model(dir / "m.imka", model);
    const auto loaded = load_model(dir / "m.imka");
    EXPECT_EQ(loaded.classes, model.classes);
    EXPECT_EQ(loaded.targets, model.targets);
    EXPECT_EQ(loaded.omega, model.omega);
    EXPECT_EQ(loaded.standardization, model.standardization);
    const auto test = blobs(500, 3, 2);
    Matrix<double> a(500, 3);
    Matrix<double> b(500, 3);
    RidgePredictor(model).scores(test.x.view(), 0, Exec{.threads = 1}, a.view());
    RidgePredictor(loaded).scores(test.x.view(), 0, Exec{.threads = 7}, b.view());
    EXPECT_EQ(a, b);
}

TEST(RidgePredictor, OutlivesItsModel) {
    const TempDir dir;
    const auto model = small_model();
    save_model(dir / "m.imka", model);
    const RidgePredictor predictor(load_model(dir / "m.imka"));
    const auto test = blobs(50, 3, 2);
    EXPECT_EQ(predictor.classify(test.x, Exec{}), RidgePredictor(model).classify(test.x, Exec{}));
}

// The calls of examples/first_use.cpp give the same bits as the program, in FP32 and on a chip.
TEST(FirstUse, MatchesTheProgram) {
    RunConfig config;
    config.features.log_ratio = 3.0;
    config.features.truncation = 3.0;
    config.gram_rows = 0;
    config.seeds = {5};
    const auto data = load_dataset("ringnorm", {.train_rows = 1000, .test_rows = 600});
    const auto model = fit_classifier(
        {.recipe = {.omega = {.sampler = Sampler::orf, .truncation = 3.0, .m = 160, .seed = 5}}}, data);
    EXPECT_EQ(accuracy(RidgePredictor(model), data.test),
              run_seeds("ridge", config, data, {}).values.at("accuracy").mean);
    EXPECT_EQ(model.standardization, data.standardization);
    config.backend.name = "hermes";
    const auto chip = on_chip(model, {.chip = chip_preset("hermes")}, data.train.x);
    EXPECT_EQ(accuracy(chip, data.test), run_seeds("ridge", config, data, {}).values.at("accuracy").mean);
    const auto other = on_chip(model, {.chip = chip_preset("hermes"), .seed = 6}, data.train.x);
    const auto rows = data.test.x.view().slice_rows(0, 20);
    Matrix<double> a(20, 1);
    Matrix<double> b(20, 1);
    chip.scores(rows, 0, {}, a);
    other.scores(rows, 0, {}, b);
    EXPECT_FALSE(a == b) << "another seed must give another chip";
}

TEST(RidgeModelFile, EveryTruncationIsAClearError) {
    const TempDir dir;
    save_model(dir / "m.imka", small_model());
    const auto bytes = read_file(dir / "m.imka", 1U << 26U);
    for (std::size_t size = 0; size < bytes.size(); size += 1 + size / 7) {
        write_file_atomic(dir / "cut.imka", bytes.substr(0, size));
        try {
            (void)load_model(dir / "cut.imka");
            FAIL() << "accepted " << size << " bytes";
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), ErrorCode::bad_data) << e.what();
            EXPECT_NE(std::string(e.what()).find("cut.imka"), std::string::npos) << e.what();
        }
    }
}

TEST(RidgeModelFile, InvalidContentsAreClearErrors) {
    const TempDir dir;
    save_model(dir / "m.imka", small_model());
    const auto bytes = read_file(dir / "m.imka", 1U << 26U);
    for (const auto& [from, to] :
         {std::pair<std::string, std::string>{"imka-ridge-model", "imka-other-model"},
          {"\\\"kernel\\\"", "\\\"kernol\\\""},
          {"\\\"rbf\\\"", "\\\"rbx\\\""},
          {"\\\"m\\\": 60", "\\\"m\\\": 61"},
          {"\"weights\"", "\"waights\""}}) {
        auto changed = bytes;
        const auto at = changed.find(from);
        ASSERT_NE(at, std::string::npos) << from;
        changed.replace(at, from.size(), to);
        write_file_atomic(dir / "bad.imka", changed);
        EXPECT_THROW((void)load_model(dir / "bad.imka"), Error) << to;
    }
    EXPECT_THROW((void)load_model(dir / "absent.imka"), Error);
}

}  // namespace
}  // namespace imka
