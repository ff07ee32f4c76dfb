// Fused attention on a GPU against formulas in double, whose gradients are checked by finite differences.
#include "imka/ops/attention/fused.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "imka/cuda/gpu.hpp"
#include "imka/cuda/memory.hpp"
#include "support/error.hpp"
#include "support/fused_attention_reference.hpp"

namespace imka {
namespace {

using ops::AttentionForm;
using ops::FusedAttention;
using ops::FusedType;
using reference::FusedProblem;

FusedAttention shape_of(FusedType type, AttentionForm form, std::int64_t head_size, std::int64_t directions) {
    FusedAttention s{.type = type, .form = form};
    s.batch = 3;
    s.tokens = 150;
    s.heads = 2;
    s.head_size = head_size;
    s.directions = directions;
    s.stride = 3 * s.heads * head_size;
    s.out_stride = s.heads * head_size;
    s.epsilon = form == AttentionForm::relu ? 1e-3F : 0.0F;
    return s;
}

double inner(const Matrix<double>& a, const Matrix<double>& b) {
    double sum = 0.0;
    for (std::size_t i = 0; i < a.values().size(); ++i) sum += a.values()[i] * b.values()[i];
    return sum;
}

// Central difference of dyᵀy in entry i of one input.
double difference(const reference::FusedHead& head, Matrix<double> reference::FusedHead::*part, std::size_t i,
                  const Matrix<double>& dy) {
    constexpr double kStep = 1e-5;
    const auto value = [&](double step) {
        auto moved = head;
        (moved.*part).values()[i] += step;
        if (!head.cut_gradient) return inner(dy, attend(moved));
        return inner(dy, attend(moved, projections(head, head.q), projections(head, head.k)));
    };
    return (value(kStep) - value(-kStep)) / (2.0 * kStep);
}

TEST(FusedAttentionReference, GradientsAreThoseOfFiniteDifferences) {
    for (const auto form : {AttentionForm::positive, AttentionForm::relu}) {
        for (const bool cut : {false, true}) {
            auto shape = shape_of(FusedType::float32, form, 16, 16);
            shape.tokens = 6;
            shape.cut_gradient = cut;
            const auto p = reference::fused_problem(shape, 1.0, {6, 4, 6});
            const auto head = fused_head(p, 2);
            const auto dy = head_part(p, p.dy, 2, 0);
            const auto g = differentiate(head, dy);
            for (std::size_t i = 0; i < g.dq.values().size(); i += 5) {
                EXPECT_NEAR(g.dq.values()[i], difference(head, &reference::FusedHead::q, i, dy), 1e-7);
                EXPECT_NEAR(g.dk.values()[i], difference(head, &reference::FusedHead::k, i, dy), 1e-7);
                EXPECT_NEAR(g.dv.values()[i], difference(head, &reference::FusedHead::v, i, dy), 1e-7);
            }
            EXPECT_EQ(inner(g.dq, g.dq) == 0.0, cut && form == AttentionForm::relu);
        }
    }
}

// Elements on the GPU. Those that are not written keep the value 7.
class Elements {
public:
    Elements(FusedType type, std::size_t count) : Elements(type, std::vector<float>(count, 7.0F)) {}
    Elements(FusedType type, const std::vector<float>& values)
        : type_(type), memory_(0, values.size() * size()), count_(values.size()) {
        std::vector<std::uint16_t> words;
        for (const float v : values) words.push_back(reference::to_bfloat(v));
        const bool single = type == FusedType::float32;
        memory_.upload(single ? static_cast<const void*>(values.data()) : words.data(), count_ * size());
    }
    // The address of element `first`.
    void* from(std::int64_t first) const {
        return static_cast<char*>(memory_.data()) + static_cast<std::size_t>(first) * size();
    }
    std::vector<float> values() const {
        std::vector<float> out(count_);
        if (type_ == FusedType::float32) {
            memory_.download(out.data(), count_ * size());
            return out;
        }
        std::vector<std::uint16_t> words(count_);
        memory_.download(words.data(), count_ * size());
        for (std::size_t i = 0; i < count_; ++i) out[i] = reference::from_bfloat(words[i]);
        return out;
    }

private:
    std::size_t size() const { return type_ == FusedType::float32 ? 4 : 2; }

    FusedType type_;
    cuda::Memory memory_;
    std::size_t count_;
};

struct Results {
    std::vector<float> y;
    std::vector<float> gradients;  // in the layout of qkv
};

Results run_on_gpu(const FusedProblem& p) {
    const auto& s = p.shape;
    const auto width = s.heads * s.head_size;
    const Elements qkv(s.type, p.qkv);
    const Elements dy(s.type, p.dy);
    const Elements y(s.type, p.dy.size());
    const Elements gradients(s.type, p.qkv.size());
    const cuda::Buffer<float> omega(0, p.omega);
    const cuda::Buffer<std::int32_t> lengths(0, p.lengths);
    const cuda::Memory saved(0, fused_saved_bytes(s));
    const cuda::Memory workspace(0, fused_workspace_bytes(s));
    const ops::FusedInputs in{.q = qkv.from(0),
                              .k = qkv.from(width),
                              .v = qkv.from(2 * width),
                              .omega = omega.data(),
                              .lengths = p.lengths.empty() ? nullptr : lengths.data()};
    fused_forward(s, in, nullptr, {.workspace = workspace.data(), .saved = saved.data(), .y = y.from(0)});
    fused_backward(s, in, nullptr,
                   {.dy = dy.from(0),
                    .saved = saved.data(),
                    .workspace = workspace.data(),
                    .dq = gradients.from(0),
                    .dk = gradients.from(width),
                    .dv = gradients.from(2 * width)});
    return {y.values(), gradients.values()};
}

// |a - b| / |b| over all heads; infinite if a contains NaN.
class Error2 {
public:
    void add(const Matrix<double>& got, const Matrix<double>& expected) {
        for (std::size_t i = 0; i < got.values().size(); ++i) {
            const double e = got.values()[i] - expected.values()[i];
            difference_ += std::isnan(e) ? INFINITY : e * e;
            norm_ += expected.values()[i] * expected.values()[i];
        }
    }
    double relative() const { return norm_ == 0.0 ? std::sqrt(difference_) : std::sqrt(difference_ / norm_); }

private:
    double difference_ = 0.0;
    double norm_ = 0.0;
};

struct Limits {
    double y;
    double gradients;
};
Limits limits(FusedType type) {
    return type == FusedType::float32 ? Limits{5e-5, 1e-4} : Limits{6e-3, 2e-2};
}

void expect_reference(const FusedProblem& p, const std::string& name) {
    const auto got = run_on_gpu(p);
    Error2 y;
    Error2 dq;
    Error2 dk;
    Error2 dv;
    for (std::size_t h = 0; h < static_cast<std::size_t>(p.shape.batch * p.shape.heads); ++h) {
        const auto head = fused_head(p, h);
        y.add(head_part(p, got.y, h, 0), attend(head));
        auto gradients = differentiate(head, head_part(p, p.dy, h, 0));
        // |q'|² cancels.
        if (p.shape.cut_gradient) gradients.dq = Matrix<double>(gradients.dq.rows(), gradients.dq.cols());
        dq.add(head_part(p, got.gradients, h, 0), gradients.dq);
        dk.add(head_part(p, got.gradients, h, 1), gradients.dk);
        dv.add(head_part(p, got.gradients, h, 2), gradients.dv);
    }
    const auto limit = limits(p.shape.type);
    EXPECT_LT(y.relative(), limit.y) << name;
    EXPECT_LT(dq.relative(), limit.gradients) << name;
    EXPECT_LT(dk.relative(), limit.gradients) << name;
    EXPECT_LT(dv.relative(), limit.gradients) << name;
}

class FusedAttentionGpu : public testing::TestWithParam<FusedType> {
    void SetUp() override {
        if (cuda::gpus().empty()) GTEST_SKIP() << "needs a CUDA GPU";
    }
};

TEST_P(FusedAttentionGpu, AgreesWithTheReference) {
    for (const auto form : {AttentionForm::positive, AttentionForm::relu}) {
        for (const std::int64_t d : {16, 32, 64}) {
            for (const std::int64_t m : {16, 128, 256}) {
                auto shape = shape_of(GetParam(), form, d, m);
                const auto name =
                    std::string(to_string(form)) + " d " + std::to_string(d) + " m " + std::to_string(m);
                expect_reference(reference::fused_problem(shape, 1.0, {}), name);
                shape.cut_gradient = true;
                expect_reference(reference::fused_problem(shape, 1.0, {150, 37, 0}), name + " cut, lengths");
            }
        }
    }
}

// Long enough for several parts of the sums of one head.
TEST_P(FusedAttentionGpu, AgreesWithTheReferenceForLongSequences) {
    auto shape = shape_of(GetParam(), AttentionForm::positive, 32, 128);
    shape.batch = 2;
    shape.heads = 1;
    shape.tokens = 1100;
    shape.stride = 96;
    shape.out_stride = 32;
    expect_reference(reference::fused_problem(shape, 1.0, {1100, 600}), "long");
}

// |ω||x'| up to about 60: features of different tokens differ by factors of exp(50).
TEST_P(FusedAttentionGpu, AgreesWithTheReferenceForLargeInputs) {
    for (const std::int64_t d : {16, 32, 64}) {
        const auto shape = shape_of(GetParam(), AttentionForm::positive, d, 128);
        const auto p = reference::fused_problem(shape, 2.5, {});
        const auto got = run_on_gpu(p);
        Error2 y;
        for (std::size_t h = 0; h < 6; ++h) y.add(head_part(p, got.y, h, 0), attend(fused_head(p, h)));
        EXPECT_LT(y.relative(), GetParam() == FusedType::float32 ? 1e-4 : 1e-2) << d;
    }
}

TEST_P(FusedAttentionGpu, GivesTheSameBitsEveryTime) {
    const auto p =
        reference::fused_problem(shape_of(GetParam(), AttentionForm::positive, 32, 128), 1.0, {150, 99, 5});
    const auto first = run_on_gpu(p);
    const auto second = run_on_gpu(p);
    EXPECT_EQ(first.y, second.y);
    EXPECT_EQ(first.gradients, second.gradients);
}

TEST_P(FusedAttentionGpu, WritesOnlyItsColumnsAndZerosForPadding) {
    auto shape = shape_of(GetParam(), AttentionForm::positive, 32, 64);
    shape.stride += 8;
    shape.out_stride += 16;
    const auto p = reference::fused_problem(shape, 1.0, {150, 31, 0});
    const auto got = run_on_gpu(p);
    const auto check = [&](const std::vector<float>& values, std::size_t stride, std::size_t used) {
        for (std::size_t i = 0; i < values.size(); ++i) {
            const auto row = i / stride;
            const bool padding = row % 150 >= static_cast<std::size_t>(p.lengths[row / 150]);
            if (i % stride >= used) {
                ASSERT_EQ(values[i], 7.0F) << i;
            } else if (padding) {
                ASSERT_EQ(values[i], 0.0F) << i;
            } else {
                ASSERT_NE(values[i], 7.0F) << i;
            }
        }
    };
    check(got.y, static_cast<std::size_t>(shape.out_stride), p.width());
    check(got.gradients, static_cast<std::size_t>(shape.stride), 3 * p.width());
    expect_reference(p, "strides");
}

INSTANTIATE_TEST_SUITE_P(Types, FusedAttentionGpu, testing::Values(FusedType::float32, FusedType::bfloat16),
                         [](const auto& tested) {
                             return std::string(tested.param == FusedType::float32 ? "float32" : "bfloat16");
                         });

TEST(FusedAttention, RefusesOtherShapes) {
    const auto good = shape_of(FusedType::bfloat16, AttentionForm::positive, 32, 128);
    EXPECT_GT(fused_saved_bytes(good), 0U);
    const auto refused = [&](auto change, const std::string& message) {
        auto shape = good;
        change(shape);
        EXPECT_THAT(error_of([&] { fused_workspace_bytes(shape); }),
                    testing::HasSubstr("bad_config: fused attention: " + message));
    };
    refused([](auto& s) { s.head_size = 24; }, "head_size is 24; expected 16, 32 or 64");
    refused([](auto& s) { s.directions = 100; }, "directions is 100");
    refused([](auto& s) { s.directions = 272; }, "directions is 272");
    refused([](auto& s) { s.stride = 100; }, "stride is 100");
    refused([](auto& s) { s.out_stride = 56; }, "out_stride is 56");
    refused([](auto& s) { s.batch = 0; }, "batch is 0");
    refused([](auto& s) { s.form = AttentionForm::cos_sin; }, "form 'cos_sin'; expected positive or relu");
}

}  // namespace
}  // namespace imka
