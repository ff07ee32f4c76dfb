// Exact and kernelised attention against their formulas, computed naively in double.
#include "imka/attention/attention.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <type_traits>
#include <vector>

#include "imka/base/random.hpp"
#include "imka/features/choose_projector.hpp"
#include "support/attention_reference.hpp"
#include "support/error.hpp"
#include "support/targets.hpp"

namespace imka {
namespace {

using ops::AttentionForm;
using testing::HasSubstr;

constexpr AttentionForm kForms[] = {AttentionForm::positive, AttentionForm::single, AttentionForm::cos_sin,
                                    AttentionForm::exp,      AttentionForm::relu,   AttentionForm::elu,
                                    AttentionForm::square};

Matrix<float> normals(std::size_t rows, std::size_t cols, std::uint64_t seed, double scale = 1.0) {
    Matrix<float> m(rows, cols);
    for (std::size_t i = 0; i < m.values().size(); ++i)
        m.values()[i] = static_cast<float>(scale * normal(seed, Stream::test, i));
    return m;
}

// One sequence of several heads, with its own memory.
struct Sequence {
    std::size_t heads;
    std::size_t key_heads;
    std::size_t length;
    std::size_t d;
    std::size_t dv;
    Matrix<float> q = normals(heads * length, d, 11);
    Matrix<float> k = normals(key_heads * length, d, 12);
    Matrix<float> v = normals(key_heads * length, dv, 13);
    std::vector<std::uint8_t> mask = {};

    AttentionInputs inputs() const {
        return {heads_first(q.data(), {heads, length, d}), heads_first(k.data(), {key_heads, length, d}),
                heads_first(v.data(), {key_heads, length, dv}), mask};
    }
    Matrix<float> output() const { return {heads * length, dv}; }
    HeadsView<float> view(Matrix<float>& out) const { return heads_first(out.data(), {heads, length, dv}); }
    reference::Attention head(std::size_t h, bool causal) const {
        const std::size_t g = h / (heads / key_heads);
        return {q.view().slice_rows(h * length, length),
                k.view().slice_rows(g * length, length),
                v.view().slice_rows(g * length, length),
                mask,
                causal,
                1.0 / std::sqrt(static_cast<double>(d))};
    }
};

AttentionConfig config_of(AttentionForm form, double epsilon = 0.0) {
    return {.form = form, .kernel_epsilon = epsilon};
}

// Differences relative to the largest output.
void expect_close(const Sequence& s, const Matrix<float>& out, double tolerance, bool causal,
                  const std::function<Matrix<double>(const reference::Attention&)>& reference) {
    for (std::size_t h = 0; h < s.heads; ++h) {
        const auto expected = reference(s.head(h, causal));
        double largest = 0.0;
        for (const double e : expected.values()) largest = std::max(largest, std::abs(e));
        for (std::size_t r = 0; r < s.length; ++r) {
            for (std::size_t c = 0; c < s.dv; ++c)
                ASSERT_NEAR(out(h * s.length + r, c), expected(r, c), tolerance * largest)
                    << "head " << h << ", row " << r << ", column " << c;
        }
    }
}

Matrix<float> run(const Sequence& s, const KernelAttention& attention, bool causal, int threads = 2) {
    auto out = s.output();
    attention.run(s.inputs(), {.causal = causal}, {.threads = threads}, s.view(out));
    return out;
}

TEST(ExactAttention, EqualsTheNaiveFormula) {
    for_each_instruction_set([] {
        for (const std::size_t length : {1U, 2U, 31U, 129U, 300U}) {
            Sequence s{.heads = 2, .key_heads = 1, .length = length, .d = 9, .dv = 5};
            for (const bool causal : {false, true}) {
                auto out = s.output();
                exact_attention(s.inputs(), {.causal = causal}, {.threads = 2}, s.view(out));
                expect_close(s, out, 2e-6, causal, reference::exact_attention);
            }
        }
    });
}

TEST(ExactAttention, RowsTimesValuesAreTheOutput) {
    Sequence s{.heads = 2, .key_heads = 2, .length = 70, .d = 8, .dv = 3};
    s.mask.assign(70, 1);
    s.mask[5] = 0;
    auto out = s.output();
    exact_attention(s.inputs(), {.causal = true}, {}, s.view(out));
    const std::vector<std::size_t> rows = {0, 6, 69};
    const auto weights = exact_attention_rows(s.inputs(), 1, rows, {.causal = true});
    for (std::size_t i = 0; i < rows.size(); ++i) {
        EXPECT_EQ(weights(i, 5), 0.0F);
        for (std::size_t c = 0; c < 3; ++c) {
            double sum = 0.0;
            for (std::size_t j = 0; j < 70; ++j) sum += double{weights(i, j)} * s.v(70 + j, c);
            EXPECT_NEAR(out(70 + rows[i], c), sum, 1e-5);
        }
    }
}

TEST(KernelAttention, EqualsTheNaiveFormulaForEveryForm) {
    for_each_instruction_set([] {
        for (const auto form : kForms) {
            SCOPED_TRACE(to_string(form));
            for (const std::size_t length : {1U, 64U, 65U, 200U}) {
                Sequence s{.heads = 2, .key_heads = 1, .length = length, .d = 6, .dv = 5};
                const auto omega = normals(37, 6, 20);
                const KernelAttention attention(config_of(form), omega);
                // cos_sin has denominators near 0: its rounding errors are amplified.
                const double tolerance = form == AttentionForm::cos_sin ? 2e-2 : 1e-5;
                for (const bool causal : {false, true}) {
                    expect_close(s, run(s, attention, causal), tolerance, causal,
                                 [&](const auto& a) { return reference::kernel_attention(a, form, omega); });
                }
            }
        }
    });
}

TEST(KernelAttention, EpsilonIsAddedToEveryFeature) {
    for (const auto form : kForms) {
        if (form == AttentionForm::cos_sin) continue;
        SCOPED_TRACE(to_string(form));
        Sequence s{.heads = 1, .key_heads = 1, .length = 150, .d = 6, .dv = 5};
        s.mask.assign(150, 1);
        for (std::size_t j = 0; j < 150; j += 7) s.mask[j] = 0;
        const auto omega = normals(20, 6, 21);
        const KernelAttention attention(config_of(form, 0.01), omega);
        for (const bool causal : {false, true}) {
            expect_close(s, run(s, attention, causal), 1e-5, causal, [&](const auto& a) {
                return reference::kernel_attention(a, form, omega, double{0.01F});
            });
        }
    }
}

TEST(KernelAttention, MaskedKeysContributeExactlyNothing) {
    const auto omega = normals(16, 8, 22);
    for (const auto form : kForms) {
        const KernelAttention attention(config_of(form, form == AttentionForm::cos_sin ? 0.0 : 1e-3), omega);
        for (const bool causal : {false, true}) {
            Sequence s{.heads = 2, .key_heads = 2, .length = 131, .d = 8, .dv = 4};
            s.mask.assign(131, 1);
            for (const std::size_t j : {0U, 1U, 64U, 100U, 130U}) s.mask[j] = 0;
            const auto before = run(s, attention, causal);
            for (const std::size_t j : {0U, 1U, 64U, 100U, 130U}) {
                for (std::size_t h = 0; h < 2; ++h) {
                    std::ranges::fill(s.k.row(h * 131 + j), 1e30F);
                    std::ranges::fill(s.v.row(h * 131 + j), std::numeric_limits<float>::quiet_NaN());
                }
            }
            EXPECT_TRUE(run(s, attention, causal) == before) << to_string(form);
        }
    }
}

TEST(KernelAttention, QueriesWithoutKeysGiveZero) {
    Sequence s{.heads = 1, .key_heads = 1, .length = 80, .d = 8, .dv = 4};
    s.mask.assign(80, 0);
    const KernelAttention attention(config_of(AttentionForm::positive, 1e-3), normals(16, 8, 23));
    for (const bool causal : {false, true}) {
        const auto kernelised = run(s, attention, causal);
        for (const float x : kernelised.values()) EXPECT_EQ(x, 0.0F);
        auto out = s.output();
        exact_attention(s.inputs(), {.causal = causal}, {}, s.view(out));
        for (const float x : out.values()) EXPECT_EQ(x, 0.0F);
    }
    s.mask[70] = 1;  // earlier queries have no key
    const auto out = run(s, attention, true);
    EXPECT_EQ(out(69, 0), 0.0F);
    EXPECT_FLOAT_EQ(out(70, 0), s.v(70, 0));
    EXPECT_FLOAT_EQ(out(79, 3), s.v(70, 3));
}

TEST(KernelAttention, BitsDoNotDependOnThreadsOrBatch) {
    const KernelAttention attention(config_of(AttentionForm::positive), normals(24, 8, 24));
    Sequence s{.heads = 4, .key_heads = 2, .length = 3000, .d = 8, .dv = 4};
    for (const bool causal : {false, true}) {
        const auto one = run(s, attention, causal, 1);
        EXPECT_TRUE(one == run(s, attention, causal, 3));
        auto a = s.output();
        auto b = s.output();
        const std::vector<AttentionInputs> inputs = {s.inputs(), s.inputs()};
        const std::vector<HeadsView<float>> outs = {s.view(a), s.view(b)};
        attention.run(inputs, {.causal = causal}, {.threads = 2}, outs);
        EXPECT_TRUE(a == one);
        EXPECT_TRUE(b == one);
    }
}

TEST(KernelAttention, BothLayoutsGiveTheSameBits) {
    const KernelAttention attention(config_of(AttentionForm::relu), normals(24, 8, 25));
    Sequence s{.heads = 3, .key_heads = 3, .length = 50, .d = 8, .dv = 8};
    const auto expected = run(s, attention, false);
    const auto interleaved = [&](const Matrix<float>& m) {
        Matrix<float> out(50, 24);
        for (std::size_t h = 0; h < 3; ++h) {
            for (std::size_t r = 0; r < 50; ++r)
                std::ranges::copy(m.row(h * 50 + r), out.row(r).subspan(8 * h).begin());
        }
        return out;
    };
    const auto q = interleaved(s.q);
    const auto k = interleaved(s.k);
    const auto v = interleaved(s.v);
    Matrix<float> out(50, 24);
    const HeadsShape shape{3, 50, 8};
    attention.run(
        {tokens_first(q.data(), shape), tokens_first(k.data(), shape), tokens_first(v.data(), shape)}, {}, {},
        tokens_first(out.data(), shape));
    EXPECT_TRUE(out == interleaved(expected));
}

TEST(KernelAttention, AProjectorGivesTheSameValues) {
    const auto omega = normals(24, 8, 26);
    Sequence s{.heads = 2, .key_heads = 1, .length = 150, .d = 8, .dv = 4};
    for (const auto form : {AttentionForm::positive, AttentionForm::relu}) {
        const KernelAttention fused(config_of(form), omega);
        const KernelAttention projected(config_of(form), std::make_unique<DigitalProjector>(omega));
        for (const bool causal : {false, true}) {
            const auto a = run(s, fused, causal);
            const auto b = run(s, projected, causal);
            for (std::size_t i = 0; i < a.values().size(); ++i)
                EXPECT_NEAR(a.values()[i], b.values()[i], 2e-5);
        }
    }
}

TEST(KernelAttention, RowsTimesValuesAreTheOutput) {
    const auto omega = normals(24, 8, 27);
    Sequence s{.heads = 2, .key_heads = 1, .length = 150, .d = 8, .dv = 4};
    s.mask.assign(150, 1);
    s.mask[3] = 0;
    for (const bool causal : {false, true}) {
        const KernelAttention attention(config_of(AttentionForm::positive, 1e-3), omega);
        const auto out = run(s, attention, causal);
        const std::vector<std::size_t> rows = {4, 149};
        const auto weights = attention.rows(s.inputs(), 1, rows, {.causal = causal}, {});
        for (std::size_t i = 0; i < rows.size(); ++i) {
            for (std::size_t c = 0; c < 4; ++c) {
                double sum = 0.0;
                for (std::size_t j = 0; j < 150; ++j) sum += double{weights(i, j)} * s.v(j, c);
                EXPECT_NEAR(out(150 + rows[i], c), sum, 1e-5);
            }
        }
    }
}

// A state of a temporary would dangle.
TEST(AttentionState, NeedsAnAttentionThatOutlivesIt) {
    using Shape = AttentionState::Shape;
    static_assert(std::is_constructible_v<AttentionState, KernelAttention&, Shape>);
    static_assert(std::is_constructible_v<AttentionState, const KernelAttention&, Shape, AttentionOptions>);
    static_assert(!std::is_constructible_v<AttentionState, KernelAttention, Shape>);
    static_assert(!std::is_constructible_v<AttentionState, const KernelAttention, Shape, AttentionOptions>);
}

TEST(AttentionState, EqualsACausalRun) {
    const auto omega = normals(24, 8, 28);
    Sequence s{.heads = 4, .key_heads = 2, .length = 200, .d = 8, .dv = 5};
    for (const auto form : kForms) {
        SCOPED_TRACE(to_string(form));
        const double epsilon = form == AttentionForm::cos_sin ? 0.0 : 1e-3;
        const KernelAttention attention(config_of(form, epsilon), omega);
        const auto all = run(s, attention, true);
        AttentionState state(attention, {.heads = 4, .key_heads = 2, .value_size = 5});
        Matrix<float> q(4, 8);
        Matrix<float> k(2, 8);
        Matrix<float> v(2, 5);
        Matrix<float> out(4, 5);
        const auto bytes = state.bytes();
        for (std::size_t t = 0; t < s.length; ++t) {
            for (std::size_t h = 0; h < 4; ++h) std::ranges::copy(s.q.row(h * 200 + t), q.row(h).begin());
            for (std::size_t h = 0; h < 2; ++h) {
                std::ranges::copy(s.k.row(h * 200 + t), k.row(h).begin());
                std::ranges::copy(s.v.row(h * 200 + t), v.row(h).begin());
            }
            state.append(q, k, v, out);
            const double tolerance = form == AttentionForm::cos_sin ? 2e-2 : 2e-5;
            for (std::size_t h = 0; h < 4; ++h) {
                for (std::size_t c = 0; c < 5; ++c) {
                    const double expected = all(h * 200 + t, c);
                    ASSERT_NEAR(out(h, c), expected, tolerance * std::max(1.0, std::abs(expected)));
                }
            }
        }
        EXPECT_EQ(state.tokens(), 200U);
        EXPECT_EQ(state.bytes(), bytes);
    }
}

// Norms far beyond what exp can hold: the maximum is subtracted in log space.
TEST(KernelAttention, LargeNormsAreStable) {
    const auto omega = normals(32, 8, 29);
    Sequence s{.heads = 1, .key_heads = 1, .length = 130, .d = 8, .dv = 4};
    for (auto& x : s.k.values()) x *= 20.0F;
    for (const auto form : {AttentionForm::positive, AttentionForm::single}) {
        const KernelAttention attention(config_of(form, 1e-6), omega);
        for (const bool causal : {false, true}) {
            expect_close(s, run(s, attention, causal), 1e-4, causal, [&](const auto& a) {
                return reference::kernel_attention(a, form, omega, double{1e-6F});
            });
        }
    }
}

// The query and the key have no feature in common that float can hold.
TEST(KernelAttention, NamesAQueryWithoutNormaliser) {
    Sequence s{.heads = 1, .key_heads = 1, .length = 3, .d = 1, .dv = 2};
    std::ranges::fill(s.k.values(), -200.0F);
    std::ranges::fill(s.q.values(), -200.0F);
    s.q(1, 0) = 200.0F;
    Matrix<float> omega(2, 1);
    omega(0, 0) = 1.0F;
    omega(1, 0) = -1.0F;
    for (const bool causal : {false, true}) {
        const KernelAttention bare(config_of(AttentionForm::single), omega);
        EXPECT_THAT(error_of([&] { run(s, bare, causal); }),
                    HasSubstr("numeric: attention: the normaliser of query 1 of head 0 is 0 or not finite"));
        // With epsilon, such a query gives all keys the same weight.
        const KernelAttention safe(config_of(AttentionForm::single, 1e-6), omega);
        const auto out = run(s, safe, false);
        EXPECT_NEAR(out(1, 0), (s.v(0, 0) + s.v(1, 0) + s.v(2, 0)) / 3.0F, 1e-5);
    }
}

TEST(KernelAttention, RefusesWrongInputs) {
    const KernelAttention attention(config_of(AttentionForm::positive), normals(16, 8, 30));
    Sequence s{.heads = 2, .key_heads = 2, .length = 10, .d = 8, .dv = 4};
    auto out = s.output();
    const auto fails = [&](const AttentionInputs& inputs, const std::string& text) {
        EXPECT_THAT(error_of([&] { attention.run(inputs, {}, {}, s.view(out)); }), HasSubstr(text));
        EXPECT_THAT(error_of([&] { exact_attention(inputs, {}, {}, s.view(out)); }), HasSubstr(text));
    };
    auto inputs = s.inputs();
    inputs.k = inputs.v = heads_first(s.k.data(), {1, 10, 8});
    inputs.q = heads_first(s.q.data(), {2, 10, 8});
    EXPECT_NO_THROW(validate(inputs, {}));
    EXPECT_THAT(error_of([&] { validate(inputs, {.scale = 0.0}); }),
                HasSubstr("bad_config: scale: 0 is out of range; it must be > 0"));
    inputs.q = heads_first(s.q.data(), {3, 6, 8});
    inputs.k = inputs.v = heads_first(s.k.data(), {2, 10, 8});
    fails(inputs, "3 heads of queries cannot share 2 heads of keys");
    inputs = s.inputs();
    inputs.v = heads_first(s.v.data(), {2, 9, 4});
    fails(inputs, "expected as many values as keys");
    const std::vector<std::uint8_t> mask(9, 1);
    inputs = s.inputs();
    inputs.key_mask = mask;
    fails(inputs, "the key mask has 9 values for 10 keys");
    s.k(13, 2) = std::numeric_limits<float>::quiet_NaN();
    fails(s.inputs(), "key 3 of head 1 is not finite");
    s.k(13, 2) = 0.0F;
    s.q(0, 0) = std::numeric_limits<float>::infinity();
    fails(s.inputs(), "query 0 of head 0 is not finite");
    EXPECT_THAT(error_of([] { KernelAttention(config_of(AttentionForm::cos_sin, 0.1), normals(4, 4, 1)); }),
                HasSubstr("bad_config: kernel_epsilon: must be 0 for the form cos_sin"));
}

TEST(AttentionConfig, LayersAndRedrawsHaveTheirOwnOmega) {
    AttentionConfig config{.n_directions = 8, .feature_redraw_interval = 100};
    EXPECT_EQ(redraw_count(config, 99), 0U);
    EXPECT_EQ(redraw_count(config, 100), 1U);
    EXPECT_EQ(omega_recipe(config, 4, {.seed = 5}).seed, 5U);
    const auto layer = omega_recipe(config, 4, {.seed = 5, .layer = 1}).seed;
    const auto redrawn = omega_recipe(config, 4, {.seed = 5, .layer = 1, .redraws = 1}).seed;
    EXPECT_NE(layer, 5U);
    EXPECT_NE(redrawn, layer);
    config.shared = true;
    EXPECT_EQ(omega_recipe(config, 4, {.seed = 5, .layer = 1}).seed, 5U);
    EXPECT_EQ(directions({}, 64), 266);  // 64 ln 64
}

}  // namespace
}  // namespace imka
