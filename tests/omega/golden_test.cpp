// Ω against values that an independent program computes from the documented layout
// (tests/golden/make_omega.py).
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "imka/base/file.hpp"
#include "imka/omega/omega.hpp"
#include "support/paths.hpp"

namespace {

using nlohmann::json;

imka::OmegaRecipe recipe_of(const json& settings) {
    imka::OmegaRecipe recipe;
    for (const auto& [key, value] : settings.items())
        imka::set_field(imka::fields(recipe), key,
                        value.is_string() ? value.get<std::string>() : value.dump());
    return recipe;
}

// rff and sorf use only IEEE operations: equal bits. orf uses LAPACK: within 1e-6.
TEST(OmegaGolden, AgreesWithAnotherProgram) {
    const auto cases = json::parse(imka::read_file(source_dir() + "/tests/golden/omega.json", 1 << 20));
    ASSERT_GE(cases.size(), 16U);
    for (const auto& one : cases) {
        const auto recipe = recipe_of(one["recipe"]);
        const auto omega = imka::sample(recipe);
        ASSERT_EQ(one["omega"].size(), omega.rows());
        for (std::size_t i = 0; i < omega.rows(); ++i) {
            for (std::size_t j = 0; j < omega.cols(); ++j) {
                const auto want = one["omega"][i][j].get<float>();
                const float bound =
                    recipe.sampler == imka::Sampler::orf ? 1e-6F * (1.0F + std::abs(want)) : 0.0F;
                EXPECT_NEAR(omega(i, j), want, bound) << one["recipe"] << " row " << i << " column " << j;
            }
        }
    }
}

}  // namespace
