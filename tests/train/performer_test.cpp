// Settings, parameters and files of Performers.
#include "imka/train/performer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "imka/io/sealed_tensors.hpp"
#include "support/error.hpp"
#include "support/small_performer.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(PerformerConfig, CountsTheParametersOfThePublishedModels) {
    // cifar10: 2 * 64 (embedding) + 128 (norm) + 2 layers of 4 * 64 * 65 + 2 * 128 + 64 * 128 * 2 + 128 + 64,
    // classifier 64 * 128 + 128 + 128 * 10.
    const PerformerConfig cifar{.embedding = Embedding::affine, .classes = 10};
    EXPECT_EQ(parameter_count(cifar),
              128U + 128U + 2U * (4U * 64U * 65U + 256U + 2U * 64U * 128U + 192U) + 8192U + 128U + 1280U);
    auto tied = cifar;
    tied.tied = true;
    EXPECT_EQ(parameter_count(cifar) - parameter_count(tied), 4U * 64U * 65U + 256U + 2U * 64U * 128U + 192U);
}

TEST(PerformerConfig, RefusesModelsThatAreTooLargeOrDoNotFit) {
    auto config = small_performer();
    config.heads = 3;
    EXPECT_THAT(error_of([&] { validate(config); }),
                AllOf(HasSubstr("bad_config"), HasSubstr("does not divide the width 8")));
    config = small_performer();
    config.layers = 3;
    EXPECT_THAT(error_of([&] { validate(config); }), AllOf(HasSubstr("bad_config"), HasSubstr("layers")));
    config = small_performer();
    config.width = 256;
    config.hidden = 512;
    EXPECT_THAT(error_of([&] { validate(config); }),
                AllOf(HasSubstr("bad_config"), HasSubstr("at most 200000")));
}

TEST(Performer, StartsWithTheLawsOfTheSettings) {
    const auto model = initial_performer({.embedding = Embedding::table}, "imdb", 3);
    const auto sd = [&](const std::string& name) {
        double sum = 0.0;
        for (const float x : model.weights.at(name).values()) sum += static_cast<double>(x) * x;
        return std::sqrt(sum / static_cast<double>(model.weights.at(name).values().size()));
    };
    EXPECT_NEAR(sd("embedding.weight"), 1.0 / 8.0, 0.004);
    // Uniform on ±b has deviation b / sqrt(3).
    EXPECT_NEAR(sd("layer0.q.weight"), std::sqrt(0.5 * 6.0 / 128.0 / 3.0), 0.004);
    EXPECT_NEAR(sd("layer1.fc1.weight"), 1.0 / 8.0 / std::sqrt(3.0), 0.002);
    EXPECT_EQ(sd("layer0.norm1.weight"), 1.0);
    EXPECT_EQ(sd("layer0.out.bias"), 0.0);
    for (const float x : model.weights.at("embedding.weight").row(0)) EXPECT_EQ(x, 0.0F);
    EXPECT_EQ(model.weights, initial_performer({.embedding = Embedding::table}, "imdb", 3).weights);
    EXPECT_NE(model.weights, initial_performer({.embedding = Embedding::table}, "imdb", 4).weights);
}

TEST(Performer, ScalesAndSharesItsDirections) {
    auto config = small_performer();
    const auto plain = draw_omega(config, {.seed = 1, .layer = 1});
    config.omega_scale = 0.5;
    const auto half = draw_omega(config, {.seed = 1, .layer = 1});
    for (std::size_t i = 0; i < plain.values().size(); ++i)
        EXPECT_EQ(half.values()[i], 0.5F * plain.values()[i]);
    EXPECT_NE(half, draw_omega(config, {.seed = 1}));
    config.shared_omega = true;
    EXPECT_EQ(draw_omega(config, {.seed = 1}), draw_omega(config, {.seed = 1, .layer = 1}));
}

TEST(Performer, IsReadAsItWasWritten) {
    const TempDir dir;
    auto model = initial_performer(small_performer(), "tiny", 1);
    model.input_ranges["layer0.q"] = 2.5F;
    model.training = R"({"step": 12})";
    save_performer(dir / "m.safetensors", model);
    const auto read = load_performer(dir / "m.safetensors");
    auto a = model.config;
    auto b = read.config;
    EXPECT_EQ(to_json(fields(a)), to_json(fields(b)));
    EXPECT_EQ(read.weights, model.weights);
    EXPECT_EQ(read.omega, model.omega);
    EXPECT_EQ(read.input_ranges, model.input_ranges);
    EXPECT_EQ(read.task, "tiny");
    EXPECT_EQ(read.training, model.training);
}

TEST(Performer, RefusesFilesThatLackOrHaveTooMuch) {
    const TempDir dir;
    const auto path = dir / "m.safetensors";
    auto model = initial_performer(small_performer(), "tiny", 1);
    model.weights.erase("layer1.fc2.bias");
    save_performer(path, model);
    EXPECT_THAT(error_of([&] { load_performer(path); }),
                AllOf(HasSubstr("bad_data"), HasSubstr("layer1.fc2.bias")));
    model = initial_performer(small_performer(), "tiny", 1);
    model.weights["extra"] = Matrix<float>(1, 1);
    save_performer(path, model);
    EXPECT_THAT(error_of([&] { load_performer(path); }), AllOf(HasSubstr("bad_data"), HasSubstr("extra")));
    save_performer(path, initial_performer(small_performer(), "tiny", 1));
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 5);
    EXPECT_THAT(error_of([&] { load_performer(path); }),
                AllOf(HasSubstr("bad_data"), HasSubstr("m.safetensors")));
}

TEST(Performer, RefusesFilesOfAnotherVersion) {
    const TempDir dir;
    const auto path = dir / "m.safetensors";
    save_performer(path, initial_performer(small_performer(), "tiny", 1));
    auto file = read_safetensors(path);
    seal({.format = kPerformerFormat, .schema = "2", .renew = ""}, file);
    write_safetensors(path, file);
    EXPECT_THAT(error_of([&] { load_performer(path); }),
                AllOf(HasSubstr("bad_data"), HasSubstr("m.safetensors"), HasSubstr("a different version"),
                      HasSubstr("train the model again")));
}

TEST(Positions, AreSinesAndCosines) {
    const auto table = sinusoidal_positions(small_performer());
    EXPECT_FLOAT_EQ(table(0, 0), std::sin(1.0F));
    EXPECT_FLOAT_EQ(table(4, 4), std::cos(5.0F));
    EXPECT_NEAR(table(9, 3), std::sin(10.0 * 1e-4), 1e-9);
}

}  // namespace
}  // namespace imka
