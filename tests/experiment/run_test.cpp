// Settings of a run, its sizes, its result and its JSON.
#include "imka/experiment/run.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "imka/base/error.hpp"
#include "imka/base/sha256.hpp"
#include "imka/experiment/kinds.hpp"

namespace imka {
namespace {

Dataset small_ringnorm() {
    return load_dataset("ringnorm", {.train_rows = 1000, .test_rows = 600}, Exec{});
}

RunConfig small_config() {
    RunConfig config;
    config.features.log_ratio = 3.0;
    config.gram_rows = 200;
    config.seeds = {0, 1, 2};
    return config;
}

TEST(RunSizes, FollowTheProtocols) {
    RunConfig config;
    config.features.log_ratio = 5.0;
    const auto plain = run_sizes(config, 20);
    EXPECT_EQ(plain.m, 640);
    EXPECT_EQ(plain.features, 1280);
    config.protocol = Protocol::measured;
    EXPECT_EQ(run_sizes(config, 13).m, 32 * 13 - 5);
    config.features.kernel = Kernel::arccos0;
    EXPECT_EQ(run_sizes(config, 13).features, 32 * 13 - 5);
    config.features.log_ratio.reset();
    config.features.n_components = 77;
    EXPECT_EQ(run_sizes(config, 13).m, 77);
}

TEST(RunSizes, RefuseOddAndEmptyRequests) {
    RunConfig config;
    config.features.n_components = 101;
    EXPECT_THROW((void)run_sizes(config, 20), Error);
    config.features.n_components.reset();
    config.features.log_ratio = -10.0;
    EXPECT_THROW((void)run_sizes(config, 20), Error);
    config.features.log_ratio = 30.0;
    EXPECT_THROW((void)run_sizes(config, 1000000), Error);
}

TEST(RunConfig, RefusesContradictions) {
    RunConfig config;
    config.features.n_components = 100;
    config.features.log_ratio = 2.0;
    EXPECT_THROW(validate(config), Error);
    RunConfig laplace;
    laplace.features.kernel = Kernel::laplace;
    EXPECT_THROW(validate(laplace), Error) << "orf needs a radial law";
    laplace.features.sampler = Sampler::rff;
    EXPECT_NO_THROW(validate(laplace));
    RunConfig gamma;
    gamma.features.gamma.value = 0.0;
    EXPECT_THROW(validate(gamma), Error);
}

TEST(RunKinds, HaveTheFamilyOfTheirSettings) {
    for (const auto& kind : run_kinds())
        EXPECT_EQ(run_family(kind.family.defaults()).load, kind.family.load) << kind.name;
}

TEST(RunConfig, HashIsOfWhatDiffersFromTheDefaultsOfTheKind) {
    for (const auto& kind : run_kinds())
        EXPECT_EQ(config_hash(kind.family.defaults()), sha256_hex("{}")) << kind.name;
}

TEST(RunConfig, HashChangesWithEverySetting) {
    const RunConfig base;
    RunConfig changed = base;
    std::set<std::string> hashes = {config_hash(base)};
    for (const auto& [name, text] : {std::pair{"dataset", "twonorm"},
                                     {"protocol", "measured"},
                                     {"kernel", "arccos1"},
                                     {"gamma", "scale"},
                                     {"sampler", "rff"},
                                     {"norms", "chi"},
                                     {"form", "offset_cos"},
                                     {"truncation", "3"},
                                     {"n_components", "8"},
                                     {"log_ratio", "2"},
                                     {"alpha", "0.25"},
                                     {"intercept", "free"},
                                     {"split_seed", "4"},
                                     {"gram_rows", "7"},
                                     {"seeds", "3"}}) {
        changed = base;
        set_field(fields(changed), name, text);
        EXPECT_TRUE(hashes.insert(config_hash(changed)).second) << name;
    }
}

TEST(RunConfig, GammaScaleIsOneOverVariance) {
    const auto data = small_ringnorm();
    RunConfig config;
    config.features.gamma.value.reset();
    // Standardised inputs in 20 dimensions: the variance is (n - 1) / n.
    EXPECT_NEAR(feature_recipe(config, data, 0).omega.gamma, 1.0 / 20.0, 1e-4);
}

TEST(RunRidge, IsTheSameForAnyThreadsAndBeatsTheMean) {
    const auto data = small_ringnorm();
    const auto config = small_config();
    const auto one = run_seeds("ridge", config, data, Exec{.threads = 1});
    for (const int threads : {2, 7}) {
        const auto other = run_seeds("ridge", config, data, Exec{.threads = threads});
        EXPECT_EQ(one.values.at("accuracy").values, other.values.at("accuracy").values);
        EXPECT_EQ(one.values.at("gram_error").values, other.values.at("gram_error").values);
    }
    EXPECT_GT(one.values.at("accuracy").mean, 0.9);
    EXPECT_EQ(one.values.at("gram_error").values,
              run_seeds("gram", config, data, Exec{}).values.at("gram_error").values);
}

TEST(RunRidge, JsonHasThePublicForm) {
    const auto data = small_ringnorm();
    const auto config = small_config();
    const auto j = nlohmann::json::parse(to_json(config, run_seeds("ridge", config, data, Exec{})));
    EXPECT_EQ(j.at("dataset"), "ringnorm");
    EXPECT_EQ(j.at("kernel"), "rbf");
    EXPECT_EQ(j.at("gamma"), 0.05);
    EXPECT_EQ(j.at("d"), 20);
    EXPECT_EQ(j.at("m"), 160);
    EXPECT_EQ(j.at("D"), 320);
    EXPECT_EQ(j.at("log_ratio"), 3);
    EXPECT_EQ(j.at("backend"), "fp32");
    EXPECT_EQ(j.at("protocol"), "default");
    EXPECT_EQ(j.at("seeds").size(), 3U);
    for (const auto* key : {"accuracy", "gram_error"}) {
        EXPECT_EQ(j.at(key).at("values").size(), 3U);
        EXPECT_TRUE(j.at(key).contains("mean") && j.at(key).contains("std"));
    }
    EXPECT_EQ(j.at("config_hash").get<std::string>().size(), 64U);
    EXPECT_TRUE(j.contains("imka_version"));
}

}  // namespace
}  // namespace imka
