// Classifier and regressor: decisions, files, bad input.
#include "imka/learn/ridge_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/base/random.hpp"
#include "imka/experiment/run.hpp"
#include "imka/io/sealed_tensors.hpp"
#include "support/damage.hpp"
#include "support/error.hpp"
#include "support/temp_dir.hpp"
#include "support/thread_team.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

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

template <class P>
constexpr bool has_feature_map = requires(P&& p) {
    static_cast<P&&>(p).feature_map();
};

// The map of a temporary would dangle.
TEST(RidgePredictor, OnlyOneThatStaysGivesItsFeatureMap) {
    static_assert(has_feature_map<RidgePredictor&> && has_feature_map<const RidgePredictor&>);
    static_assert(!has_feature_map<RidgePredictor> && !has_feature_map<const RidgePredictor>);
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
          {R"(\"kernel\")", R"(\"kernol\")"},
          {R"(\"rbf\")", R"(\"rbx\")"},
          {R"(\"m\": 60)", R"(\"m\": 61)"},
          {R"("weights")", R"("waights")"}}) {
        auto changed = bytes;
        const auto at = changed.find(from);
        ASSERT_NE(at, std::string::npos) << from;
        changed.replace(at, from.size(), to);
        write_file_atomic(dir / "bad.imka", changed);
        EXPECT_THROW((void)load_model(dir / "bad.imka"), Error) << to;
    }
    EXPECT_THROW((void)load_model(dir / "absent.imka"), Error);
}

std::vector<double> scores_of(const std::filesystem::path& path) {
    const auto model = load_model(path);
    Matrix<double> out(40, 3);
    RidgePredictor(model).scores(blobs(40, 3, 2).x.view(), 0, Exec{.threads = 1}, out.view());
    return {out.values().begin(), out.values().end()};
}

TEST(RidgeModelFile, DamageIsFound) {
    const TempDir dir;
    save_model(dir / "m.imka", small_model());
    expect_damage_is_found(dir / "m.imka", scores_of);
}

TEST(RidgeModelFile, WithoutAChecksumSaysHowToRenewIt) {
    const TempDir dir;
    save_model(dir / "m.imka", small_model());
    auto file = read_safetensors(dir / "m.imka");
    file.metadata["schema"] = "1";
    file.metadata.erase("sha256");
    write_safetensors(dir / "old.imka", file);
    const auto error = error_of([&] { (void)load_model(dir / "old.imka"); });
    EXPECT_NE(error.find("old.imka: written by a different version"), std::string::npos) << error;
    EXPECT_NE(error.find("fit the model again and save it"), std::string::npos) << error;
}

TEST(RidgeModelFile, ChecksItsContentsWithAValidChecksumToo) {
    const TempDir dir;
    save_model(dir / "m.imka", small_model());
    const auto error = [&](const std::function<void(TensorFile&)>& change) {
        auto file = read_safetensors(dir / "m.imka");
        change(file);
        file.metadata["sha256"] = checksum(file);
        write_safetensors(dir / "bad.imka", file);
        return error_of([&] { (void)load_model(dir / "bad.imka"); });
    };
    const auto text = [&](const std::string& key, const std::string& value) {
        return error([&](TensorFile& f) { f.metadata[key] = value; });
    };
    EXPECT_EQ(error([](TensorFile&) {}), "no error");
    EXPECT_THAT(text("classes", R"(["a","b","a"])"), HasSubstr("bad.imka: duplicate class 'a'"));
    EXPECT_THAT(text("classes", "[1,2,3]"), HasSubstr("metadata 'classes' is not a list of names"));
    EXPECT_THAT(text("classes", "["), HasSubstr("metadata 'classes' is not valid JSON"));
    EXPECT_THAT(text("classes", R"(["a","b"])"), HasSubstr("does not fit the classes"));
    EXPECT_THAT(text("ridge", R"({"alpha": -1})"), HasSubstr("bad_data: "));
    EXPECT_THAT(text("features", R"({"kernol": "rbf"})"), HasSubstr("kernol"));
    EXPECT_THAT(text("more", "x"), HasSubstr("unexpected entry 'more'"));
    EXPECT_THAT(error([](TensorFile& f) { f.f64.erase("weights"); }), HasSubstr("'weights' is missing"));
    EXPECT_THAT(error([](TensorFile& f) { f.f64["std"](0, 0) = 0.0; }), HasSubstr("must be > 0"));
}

TEST(RidgeClassifier, RefusesDuplicateClasses) {
    const auto train = blobs(60, 2, 1);
    EXPECT_THAT(
        error_of([&] {
            (void)fit_classifier(fit_of(2, Targets::plus_minus), train.x.view(), train.y, {"a", "a"}, Exec{});
        }),
        HasSubstr("bad_data: duplicate class 'a'"));
    const TempDir dir;
    auto model = small_model();
    model.classes = {"a", "b", "b"};
    EXPECT_THAT(error_of([&] { save_model(dir / "m.imka", model); }), HasSubstr("duplicate class 'b'"));
    model.classes = {"a", "b", "\xff"};
    EXPECT_THAT(error_of([&] { save_model(dir / "m.imka", model); }), HasSubstr("not UTF-8"));
}

// The dual system with fewer rows than features, the primal one otherwise.
TEST(RidgeRegressor, SolvesTheDualSystemForFewRows) {
    const auto x = blobs(40, 3, 1).x;
    Matrix<float> y(40, 1);
    for (std::size_t r = 0; r < 40; ++r) y(r, 0) = std::sin(x(r, 0)) + 2.0F;
    auto fit = fit_of(3, Targets::plus_minus);
    EXPECT_EQ(fit_regressor(fit, x.view(), y.view(), Exec{}).solver, Solver::dual);
    fit.recipe.omega.m = 12;
    EXPECT_EQ(fit_regressor(fit, x.view(), y.view(), Exec{}).solver, Solver::primal);
}

// A regression model has the same errors for any team.
TEST(RidgeRegressor, ErrorsDoNotDependOnTheTeam) {
    const auto x = blobs(400, 3, 1).x;
    Part part{.x = x, .y = {}};
    Matrix<float> y(400, 1);
    for (std::size_t r = 0; r < 400; ++r) {
        y(r, 0) = std::sin(x(r, 0));
        part.target.push_back(y(r, 0));
    }
    const RidgePredictor predictor(fit_regressor(fit_of(3, Targets::plus_minus), x.view(), y.view(), Exec{}));
    const auto alone = squared_errors(predictor, part, Exec{});
    EXPECT_EQ(alone.rows, 400U);
    EXPECT_GT(alone.r2(), 0.9);
    run_team(3, [&](const Team& team) {
        const auto shared = squared_errors(predictor, part, Exec{.threads = 1, .team = &team});
        EXPECT_EQ(shared.errors, alone.errors);
        EXPECT_EQ(shared.r2(), alone.r2());
    });
}

}  // namespace
}  // namespace imka
