// The library gives the numbers of tests/golden/outputs.json. The program (tests/golden/outputs.py) and the
// Python package (tests/python/test_same_bits.py) are compared with them too.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <imka/imka.hpp>
#include <nlohmann/json.hpp>

#include "imka/base/sha256.hpp"
#include "support/command.hpp"

namespace {

using nlohmann::json;

// On a different kind of processor, sums round differently (tests/golden/outputs.py).
constexpr double kTolerance = 2e-3;

struct Golden {
    json results;
    bool exact = false;  // whether they were written on this kind of processor
};

Golden golden() {
    auto file =
        json::parse(imka::read_file(source_dir() + "/tests/golden/outputs.json", std::size_t{1} << 24U));
    const auto doctor = json_of("doctor");
    const auto same = [&](const auto& fact) { return doctor.at(fact.key()) == fact.value(); };
    bool exact = true;
    for (const auto& fact : file.at("machine").items()) exact = exact && same(fact);
    return {std::move(file.at("results")), exact};
}

void expect_same(double got, double want, bool exact, const std::string& name) {
    EXPECT_NEAR(got, want, exact ? 0.0 : kTolerance * (1.0 + std::abs(want))) << name;
}

// The rows of the input files of the golden runs.
imka::Matrix<float> inputs(std::size_t rows) {
    imka::Matrix<float> x(rows, 20);
    for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < x.cols(); ++c) {
            const auto step = static_cast<double>((r * 7919 + c * 104729 + r * c * 31) % 2001);
            x(r, c) = static_cast<float>((step - 1000.0) / 400.0);
        }
    }
    return x;
}

TEST(Golden, FeaturesOfTheLibraryAreThoseOfTheProgram) {
    const auto [results, exact] = golden();
    for (const std::size_t rows : {1U, 7U, 255U, 256U, 300U}) {
        for (const auto sampler : {imka::Sampler::orf, imka::Sampler::sorf}) {
            const auto name = fmt::format("features/{}/fp32/{}", rows, to_string(sampler));
            const imka::FeatureMap map(
                {.omega = {.gamma = 0.05, .sampler = sampler, .d = 20, .m = 160, .seed = 4}});
            const auto x = inputs(rows);
            const auto z = map.transform(x.view(), imka::Exec{});
            const std::span values(z.data(), z.rows() * z.cols());
            const auto& want = results.at(name).at("file");
            const auto step = std::max<std::size_t>(1, values.size() / 16);
            for (std::size_t i = 0; i < want.at("values").size(); ++i)
                expect_same(values[i * step], want["values"][i], exact, name);
            imka::Sha256 hash;
            hash.update(std::as_bytes(values));
            if (exact) {
                EXPECT_EQ(hash.hex(), want.at("sha256").get<std::string>()) << name;
            }
        }
    }
}

imka::RidgeModel fitted(const imka::OmegaRecipe& omega, const imka::Dataset& data) {
    return imka::fit_classifier({.recipe = {.omega = omega}}, data);
}

TEST(Golden, AccuraciesOfTheLibraryAreThoseOfTheProgram) {
    const auto [results, exact] = golden();
    const auto data = imka::load_dataset("ringnorm");
    for (const auto kernel : {imka::Kernel::rbf, imka::Kernel::arccos1}) {
        for (const auto sampler : {imka::Sampler::rff, imka::Sampler::orf, imka::Sampler::sorf}) {
            const auto name = fmt::format("ridge/{}/{}", to_string(kernel), to_string(sampler));
            for (const std::uint64_t seed : {0U, 1U}) {
                const auto model = fitted(
                    {.kernel = kernel, .gamma = 0.05, .sampler = sampler, .m = 80, .seed = seed}, data);
                expect_same(imka::accuracy(imka::RidgePredictor(model), data.test),
                            results.at(name).at("accuracy").at("values")[seed], exact, name);
            }
        }
    }
}

TEST(Golden, AccuraciesOnAChipAreThoseOfTheProgram) {
    const auto [results, exact] = golden();
    const auto data = imka::load_dataset("twonorm");
    for (const std::string chip : {"hermes", "rram-wan"}) {
        for (const std::uint64_t seed : {0U, 1U}) {
            const auto model = fitted(
                {.gamma = 0.05, .sampler = imka::Sampler::orf, .truncation = 3.0, .m = 40, .seed = seed},
                data);
            const auto predictor =
                imka::on_chip(model, {.chip = imka::chip_preset(chip)}, data.train.x.view());
            expect_same(imka::accuracy(predictor, data.test),
                        results.at("ridge/" + chip).at("accuracy").at("values")[seed], exact, chip);
        }
    }
}

}  // namespace
