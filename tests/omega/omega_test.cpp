// The samplers of Ω: laws, blocks, conventions, truncation, and invalid recipes.
#include "imka/omega/omega.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/omega/samplers.hpp"
#include "support/moments.hpp"

namespace {

using imka::Convention;
using imka::Kernel;
using imka::Matrix;
using imka::Norms;
using imka::OmegaRecipe;
using imka::Sampler;

OmegaRecipe recipe(Sampler sampler, std::int64_t d, std::int64_t m, std::uint64_t seed = 1) {
    return {.kernel = Kernel::arccos0, .sampler = sampler, .d = d, .m = m, .seed = seed};
}

double row_dot(const Matrix<float>& a, std::size_t i, std::size_t j) {
    double sum = 0.0;
    for (std::size_t k = 0; k < a.cols(); ++k) sum += double{a(i, k)} * double{a(j, k)};
    return sum;
}

void expect_near_5_sigma(double mean, double want, double error, const char* what) {
    EXPECT_LE(std::abs(mean - want), 5.0 * error) << what << ": mean " << mean << ", expected " << want;
}

class OmegaOf : public testing::TestWithParam<Sampler> {};
INSTANTIATE_TEST_SUITE_P(Samplers, OmegaOf, testing::Values(Sampler::rff, Sampler::orf, Sampler::sorf),
                         [](const auto& p) { return std::string(imka::to_string(p.param)); });

TEST_P(OmegaOf, AnyBlockOfRowsHasTheBitsOfTheWhole) {
    for (const auto kernel : {Kernel::rbf, Kernel::matern32, Kernel::laplace}) {
        for (const std::int64_t d : {1, 5, 8}) {
            auto r = recipe(GetParam(), d, 41);
            r.kernel = kernel;
            if (kernel == Kernel::laplace && GetParam() != Sampler::rff) continue;
            const auto whole = imka::sample(r);
            for (const std::int64_t first : {0, 1, 7, 13, 40}) {
                for (const std::int64_t count : {0, 1, 3, 8, 17}) {
                    if (first + count > 41) continue;
                    Matrix<float> part(static_cast<std::size_t>(count), static_cast<std::size_t>(d));
                    imka::sample_rows(r, first, part.view());
                    for (std::size_t i = 0; i < part.rows(); ++i) {
                        for (std::size_t j = 0; j < part.cols(); ++j)
                            ASSERT_EQ(part(i, j), whole(static_cast<std::size_t>(first) + i, j));
                    }
                }
            }
        }
    }
}

TEST_P(OmegaOf, MoreRowsKeepTheFirstOnes) {
    const auto few = imka::sample(recipe(GetParam(), 6, 10));
    const auto many = imka::sample(recipe(GetParam(), 6, 30));
    for (std::size_t i = 0; i < 10; ++i) {
        for (std::size_t j = 0; j < 6; ++j) ASSERT_EQ(few(i, j), many(i, j));
    }
}

TEST_P(OmegaOf, SeedsDiffer) {
    EXPECT_FALSE(imka::sample(recipe(GetParam(), 6, 10, 1)) == imka::sample(recipe(GetParam(), 6, 10, 2)));
}

TEST_P(OmegaOf, WritesIntoAViewWithAStride) {
    const auto r = recipe(GetParam(), 5, 9);
    const auto whole = imka::sample(r);
    Matrix<float> wide(9, 8);
    imka::sample_rows(r, 0, wide.view().slice_cols(2, 5));
    for (std::size_t i = 0; i < 9; ++i) {
        for (std::size_t j = 0; j < 8; ++j) ASSERT_EQ(wide(i, j), j >= 2 && j < 7 ? whole(i, j - 2) : 0.0F);
    }
}

// n = 40,000 entries: mean 0, variance 1 for the Gaussian law and each sampler with correct lengths.
TEST_P(OmegaOf, EntriesHaveMeanZeroAndVarianceOne) {
    auto r = recipe(GetParam(), 8, 5000, 17);
    r.norms = Norms::chi;
    const auto omega = imka::sample(r);
    const auto m = moments({omega.values().begin(), omega.values().end()});
    expect_near_5_sigma(m.mean, 0.0, m.mean_error, "mean");
    expect_near_5_sigma(m.variance, 1.0, m.variance_error, "variance");
}

TEST_P(OmegaOf, KernelScaleMultipliesTheRows) {
    auto plain = recipe(GetParam(), 4, 12);
    auto scaled = plain;
    scaled.kernel = Kernel::rbf;
    scaled.gamma = 2.0;  // sqrt(2 gamma) = 2, a power of two: exact
    const auto a = imka::sample(plain);
    const auto b = imka::sample(scaled);
    for (std::size_t i = 0; i < a.values().size(); ++i) EXPECT_EQ(b.values()[i], 2.0F * a.values()[i]);
}

TEST(Orf, RowsAreOrthogonalWithinBlocks) {
    for (const std::int64_t d : {1, 2, 5, 16, 40}) {
        const auto omega = imka::sample(recipe(Sampler::orf, d, 3 * d + 1));
        const auto block = static_cast<std::size_t>(d);
        for (std::size_t i = 0; i < omega.rows(); ++i) {
            for (std::size_t j = 0; j < i; ++j) {
                if (i / block != j / block) continue;
                const double cosine =
                    row_dot(omega, i, j) / std::sqrt(row_dot(omega, i, i) * row_dot(omega, j, j));
                ASSERT_NEAR(cosine, 0.0, 2e-7) << d << ": " << i << " " << j;
            }
        }
    }
}

TEST(Sorf, RowsOfWholeBlocksAreOrthogonal) {
    for (const auto convention : {Convention::standard, Convention::measured}) {
        for (const std::int64_t d : {1, 2, 16, 64}) {
            auto r = recipe(Sampler::sorf, d, 2 * d);
            r.convention = convention;
            const auto omega = imka::sample(r);
            const auto block = static_cast<std::size_t>(d);
            for (std::size_t i = 0; i < omega.rows(); ++i) {
                for (std::size_t j = 0; j <= i; ++j) {
                    if (i / block == j / block) {
                        ASSERT_NEAR(row_dot(omega, i, j), i == j ? static_cast<double>(d) : 0.0, 1e-5);
                    }
                }
            }
        }
    }
}

// χ_d: mean of the square d, variance of the square 2 d; n = 20,000 rows.
TEST(Orf, ChiNormsFollowTheChiLaw) {
    const double d = 6.0;
    const auto omega = imka::sample(recipe(Sampler::orf, 6, 20000, 3));
    std::vector<double> squares;
    for (std::size_t i = 0; i < omega.rows(); ++i) squares.push_back(row_dot(omega, i, i));
    const auto m = moments(squares);
    expect_near_5_sigma(m.mean, d, m.mean_error, "mean");
    expect_near_5_sigma(m.variance, 2.0 * d, m.variance_error, "variance");
}

TEST(Sorf, ChiNormsFollowTheChiLawOfThePaddedSize) {
    auto r = recipe(Sampler::sorf, 8, 20000, 3);
    r.norms = Norms::chi;
    const auto omega = imka::sample(r);
    std::vector<double> squares;
    for (std::size_t i = 0; i < omega.rows(); ++i) squares.push_back(row_dot(omega, i, i));
    const auto m = moments(squares);
    expect_near_5_sigma(m.mean, 8.0, m.mean_error, "mean");
    expect_near_5_sigma(m.variance, 16.0, m.variance_error, "variance");
}

TEST(Orf, SqrtNormsAreSqrtD) {
    auto r = recipe(Sampler::orf, 7, 50);
    r.norms = Norms::sqrt;
    const auto omega = imka::sample(r);
    for (std::size_t i = 0; i < omega.rows(); ++i) EXPECT_NEAR(row_dot(omega, i, i), 7.0, 1e-5);
}

// Student rows: the squared length over d is F-distributed with (d, ν) degrees of freedom, so its inverse is
// F with (ν, d), which has mean d/(d-2). n = 20,000 rows, d = 6: 6/4.
TEST(Omega, StudentRowsHaveTheLengthsOfTheirLaw) {
    for (const auto sampler : {Sampler::rff, Sampler::orf}) {
        for (const auto kernel : {Kernel::matern32, Kernel::matern52}) {
            auto r = recipe(sampler, 6, 20000, 23);
            r.kernel = kernel;
            r.gamma = 0.5;  // scale 1
            const auto omega = imka::sample(r);
            std::vector<double> inverse;
            for (std::size_t i = 0; i < omega.rows(); ++i) inverse.push_back(6.0 / row_dot(omega, i, i));
            const auto m = moments(inverse);
            expect_near_5_sigma(m.mean, 1.5, m.mean_error, "mean inverse F");
        }
    }
}

// Quartiles of the Cauchy law are -1, 0, 1: n = 60,000 entries, binomial counts.
TEST(Rff, CauchyEntriesHaveCauchyQuartiles) {
    auto r = recipe(Sampler::rff, 3, 20000, 29);
    r.kernel = Kernel::laplace;
    r.gamma = 1.0;
    const auto omega = imka::sample(r);
    double inside = 0.0;
    double positive = 0.0;
    for (const float v : omega.values()) {
        ASSERT_TRUE(std::isfinite(v));
        inside += std::abs(v) < 1.0F ? 1.0 : 0.0;
        positive += v > 0.0F ? 1.0 : 0.0;
    }
    const double error = 0.5 / std::sqrt(60000.0);
    expect_near_5_sigma(inside / 60000.0, 0.5, error, "share in (-1, 1)");
    expect_near_5_sigma(positive / 60000.0, 0.5, error, "share above 0");
}

// First entries of first rows: symmetric under Haar, always negative under Householder signs. n = 4,000
// blocks.
TEST(Orf, HaarIsSymmetricAndTheMeasuredConventionIsNot) {
    auto r = recipe(Sampler::orf, 4, 16000, 31);
    const auto haar = imka::sample(r);
    r.convention = Convention::measured;
    const auto leaning = imka::sample(r);
    double positive = 0.0;
    for (std::size_t b = 0; b < 4000; ++b) {
        positive += haar(4 * b, 0) > 0.0F ? 1.0 : 0.0;
        ASSERT_LT(leaning(4 * b, 0), 0.0F);
        // Same direction up to sign.
        ASSERT_NEAR(std::abs(haar(4 * b, 1)), std::abs(leaning(4 * b, 1)), 1e-6);
    }
    expect_near_5_sigma(positive / 4000.0, 0.5, 0.5 / std::sqrt(4000.0), "share of positive first entries");
}

// Under Haar E[q_11 q_22] = 0 and E[q_11² q_22²] = (d+1)/((d-1) d (d+2)); here d = 4: 5/72. n = 10,000
// blocks.
TEST(Orf, HaarMomentsOfTwoRows) {
    auto r = recipe(Sampler::orf, 4, 40000, 37);
    r.norms = Norms::sqrt;  // rows are 2 q
    const auto omega = imka::sample(r);
    std::vector<double> product;
    std::vector<double> square;
    for (std::size_t b = 0; b < 10000; ++b) {
        const double p = double{omega(4 * b, 0)} * double{omega(4 * b + 1, 1)} / 4.0;
        product.push_back(p);
        square.push_back(p * p);
    }
    const auto first = moments(product);
    const auto second = moments(square);
    expect_near_5_sigma(first.mean, 0.0, first.mean_error, "E q11 q22");
    expect_near_5_sigma(second.mean, 5.0 / 72.0, second.mean_error, "E q11² q22²");
}

TEST(Sorf, ConventionsDiffer) {
    auto r = recipe(Sampler::sorf, 8, 8);
    const auto standard = imka::sample(r);
    r.convention = Convention::measured;
    EXPECT_FALSE(standard == imka::sample(r));
}

// For n = 2, H D H is a signed identity or a signed swap, so three of them leave one flat H: every entry is
// ±1.
TEST(Sorf, BlocksOfTwoAreFlat) {
    for (const auto convention : {Convention::standard, Convention::measured}) {
        for (std::uint64_t seed = 0; seed < 20; ++seed) {
            auto r = recipe(Sampler::sorf, 2, 2, seed);
            r.convention = convention;
            const auto omega = imka::sample(r);
            for (const float v : omega.values()) EXPECT_EQ(std::abs(v), 1.0F);
        }
    }
}

TEST(Truncation, NoEntryOfTheFinalOmegaIsBeyondIt) {
    for (const auto sampler : {Sampler::rff, Sampler::orf, Sampler::sorf}) {
        auto r = recipe(sampler, 16, 400);
        r.kernel = Kernel::rbf;
        r.gamma = 0.5;
        r.norms = Norms::chi;
        r.truncation = 1.5;
        const auto cut = imka::sample(r);
        float most = 0.0F;
        for (const float v : cut.values()) most = std::max(most, std::abs(v));
        EXPECT_LE(most, 1.5F);
        EXPECT_GT(most, 1.49F);
    }
}

// Variance of the standard normal cut at t: 1 - 2 t φ(t) / (2 Φ(t) - 1), 0.973337 at t = 3. n = 200,000.
TEST(Truncation, RffEntriesFollowTheTruncatedNormal) {
    auto r = recipe(Sampler::rff, 10, 20000, 41);
    r.truncation = 3.0;
    const auto omega = imka::sample(r);
    const auto m = moments({omega.values().begin(), omega.values().end()});
    const double phi = std::exp(-4.5) / std::sqrt(2.0 * 3.14159265358979323846);
    expect_near_5_sigma(m.variance, 1.0 - 6.0 * phi / std::erf(3.0 / std::sqrt(2.0)), m.variance_error,
                        "variance");
    EXPECT_GT((1.0 - m.variance) / m.variance_error, 5.0) << "n is too small to see the cut";
}

TEST(Truncation, ClampingChangesOnlyTheEntriesBeyondTheBound) {
    auto r = recipe(Sampler::orf, 8, 64);
    const auto plain = imka::sample(r);
    r.truncation = 1.0;
    const auto cut = imka::sample(r);
    for (std::size_t i = 0; i < plain.values().size(); ++i)
        EXPECT_EQ(cut.values()[i], std::clamp(plain.values()[i], -1.0F, 1.0F));
}

TEST(Truncation, TheMeasuredConventionCutsTheGaussianAndNotTheRows) {
    auto r = recipe(Sampler::orf, 4, 400);
    r.convention = Convention::measured;
    const auto plain = imka::sample(r);
    r.truncation = 1.0;
    const auto cut = imka::sample(r);
    EXPECT_FALSE(plain == cut);
    float most = 0.0F;
    for (const float v : cut.values()) most = std::max(most, std::abs(v));
    EXPECT_GT(most, 1.5F);
    r.sampler = Sampler::sorf;
    const auto sorf_cut = imka::sample(r);
    r.truncation = 0.0;
    EXPECT_EQ(sorf_cut, imka::sample(r));
}

std::string refusal(const std::function<void()>& act) {
    try {
        act();
    } catch (const imka::Error& e) {
        EXPECT_EQ(e.code(), imka::ErrorCode::bad_config);
        return e.what();
    }
    return "accepted";
}

std::string refusal(const OmegaRecipe& r) {
    return refusal([&] { imka::validate(r); });
}

// Only forming Ω needs memory for it; a structured projection does not.
TEST(OmegaValidate, AnOmegaThatDoesNotFitIsRefusedWhenItIsFormed) {
    for (const int bits : {40, 62}) {
        const auto huge = recipe(Sampler::rff, std::int64_t{1} << bits, std::int64_t{1} << bits);
        EXPECT_EQ(refusal(huge), "accepted");
        EXPECT_THAT(refusal([&] { (void)imka::sample(huge); }), testing::HasSubstr("GB"));
    }
}

TEST(OmegaValidate, SaysWhatIsWrong) {
    using testing::HasSubstr;
    EXPECT_EQ(refusal(recipe(Sampler::orf, 3, 4)), "accepted");
    EXPECT_THAT(refusal(recipe(Sampler::rff, 0, 4)), HasSubstr("d: 0"));
    EXPECT_THAT(refusal(recipe(Sampler::rff, 3, 0)), HasSubstr("m: 0"));
    EXPECT_THAT(refusal(recipe(Sampler::rff, 3, -5)), HasSubstr("m: -5"));
    EXPECT_THAT(refusal(recipe(Sampler::orf, 10000, 1)), HasSubstr("sorf"));
    EXPECT_THAT(refusal(recipe(Sampler::sorf, std::int64_t{1} << 25, 1)), HasSubstr("d: 33554432"));
    auto laplace = recipe(Sampler::orf, 3, 4);
    laplace.kernel = Kernel::laplace;
    EXPECT_THAT(refusal(laplace), HasSubstr("ORF needs a radial law"));
    laplace.sampler = Sampler::sorf;
    EXPECT_THAT(refusal(laplace), HasSubstr("SORF needs a radial law"));
    laplace.sampler = Sampler::rff;
    EXPECT_EQ(refusal(laplace), "accepted");
    laplace.truncation = 3.0;
    EXPECT_THAT(refusal(laplace), HasSubstr("heavy-tailed cauchy"));
    auto matern = recipe(Sampler::sorf, 3, 4);
    matern.kernel = Kernel::matern52;
    matern.truncation = 3.0;
    EXPECT_THAT(refusal(matern), HasSubstr("heavy-tailed student5"));
    auto gamma = recipe(Sampler::rff, 3, 4);
    gamma.gamma = 0.0;
    EXPECT_THAT(refusal(gamma), HasSubstr("gamma"));
    gamma.gamma = std::nan("");
    EXPECT_THAT(refusal(gamma), HasSubstr("gamma"));
    auto cut = recipe(Sampler::rff, 3, 4);
    for (const double bad : {-1.0, 1e-300, 1e9, std::nan("")}) {
        cut.truncation = bad;
        EXPECT_THAT(refusal(cut), HasSubstr("truncation")) << bad;
    }
}

TEST(OmegaRows, OutsideTheRecipeAreRefused) {
    const auto r = recipe(Sampler::rff, 3, 10);
    Matrix<float> four(4, 3);
    Matrix<float> wide(4, 5);
    EXPECT_THROW(imka::sample_rows(r, 7, four.view()), imka::Error);
    EXPECT_THROW(imka::sample_rows(r, -1, four.view()), imka::Error);
    EXPECT_THROW(imka::sample_rows(r, 11, four.view()), imka::Error);
    EXPECT_THROW(imka::sample_rows(r, 0, wide.view()), imka::Error);
    EXPECT_NO_THROW(imka::sample_rows(r, 6, four.view()));
}

TEST(OmegaTable, EveryCombinationHasAReasonAndAFormula) {
    for (const auto& row : imka::kernel_registry()) {
        for (const auto sampler : {Sampler::rff, Sampler::orf, Sampler::sorf}) {
            for (const auto norms : {Norms::auto_, Norms::chi, Norms::sqrt}) {
                const auto c = imka::combination(row.kernel, sampler, norms);
                EXPECT_EQ(c.norms, imka::resolve_norms(sampler, norms));
                EXPECT_FALSE(c.reason.empty());
                EXPECT_FALSE(c.formula.empty());
                auto r = recipe(sampler, 3, 4);
                r.kernel = row.kernel;
                r.norms = norms;
                EXPECT_EQ(refusal(r) == "accepted", c.bias != imka::Bias::refused);
            }
        }
    }
}

TEST(OmegaFields, CoverTheRecipe) {
    OmegaRecipe r;
    const auto list = imka::fields(r);
    imka::set_field(list, "norms", "sqrt");
    imka::set_field(list, "sampler", "sorf");
    imka::set_field(list, "m", "12");
    EXPECT_EQ(imka::to_json(list),
              R"({"kernel": "rbf", "gamma": 0.05, "sampler": "sorf", "norms": "sqrt", "truncation": 0.0, )"
              R"("convention": "standard", "d": 0, "m": 12, "seed": 0})");
}

}  // namespace
