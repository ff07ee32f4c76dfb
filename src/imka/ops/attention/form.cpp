#include "imka/ops/attention/form.hpp"

#include <array>

namespace imka::ops {

std::span<const AttentionFormRow> attention_forms() {
    static constexpr std::array rows = {
        AttentionFormRow{AttentionForm::positive, "exp(u - |x|²/2), exp(-u - |x|²/2)", 2, -0.5, true, true},
        AttentionFormRow{AttentionForm::single, "exp(u - |x|²/2)", 1, -0.5, true, true},
        AttentionFormRow{AttentionForm::cos_sin, "exp(|x|²/2) cos u, exp(|x|²/2) sin u", 2, 0.5, true, false},
        AttentionFormRow{AttentionForm::exp, "exp(u)", 1, 0.0, true, true},
        AttentionFormRow{AttentionForm::relu, "max(u, 0)", 1, 0.0, false, true},
        AttentionFormRow{AttentionForm::elu, "u + 1 if u > 0, else exp(u)", 1, 0.0, false, true},
        AttentionFormRow{AttentionForm::square, "u²", 1, 0.0, false, true},
    };
    return rows;
}

const AttentionFormRow& attention_form(AttentionForm form) {
    return attention_forms()[static_cast<std::size_t>(form)];
}

}  // namespace imka::ops
