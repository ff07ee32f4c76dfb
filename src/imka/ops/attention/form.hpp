// The features of kernelised attention: one table.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "imka/base/names.hpp"

namespace imka::ops {

// Features of a projection u = Ωx'. The first three estimate the softmax kernel exp(x'ᵀy').
enum class AttentionForm { positive, single, cos_sin, exp, relu, elu, square };

struct AttentionFormRow {
    AttentionForm form;
    std::string_view formula;   // for display
    std::size_t per_direction;  // features per direction
    double norm_exponent;       // features are multiplied by exp(norm_exponent |x'|²)
    bool exponential;           // features are multiplied by exp(-largest exponent), which cancels
    bool positive;              // features are never negative
};
const AttentionFormRow& attention_form(AttentionForm form);
std::span<const AttentionFormRow> attention_forms();

}  // namespace imka::ops

template <>
struct imka::EnumNames<imka::ops::AttentionForm> {
    static constexpr std::string_view what = "form";
    static constexpr std::string_view values[] = {"positive", "single", "cos_sin", "exp",
                                                  "relu",     "elu",    "square"};
};
