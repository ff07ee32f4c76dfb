// Settings of kernelised attention, and the recipe of its Ω.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "imka/attention/attention.hpp"
#include "imka/base/error.hpp"
#include "imka/chip/build.hpp"

namespace imka {

Fields fields(AttentionConfig& c) {
    return {
        field("form", c.form, {.help = "Features of the projections"}),
        field("sampler", c.sampler, {.help = "How directions are drawn"}),
        field("norms", c.norms,
              {.help = "Lengths of orthogonal directions; auto: chi for orf, sqrt for sorf"}),
        field("truncation", c.truncation,
              {.help = "Truncate the Gaussian law; 0 = off; auto: 3 on chips, else off",
               .unit = "standard deviations",
               .min = 0.0}),
        field("n_directions", c.n_directions,
              {.help = "Random directions m per head; auto: d ln d", .min = 1.0, .max = 1e7}),
        field("kernel_epsilon", c.kernel_epsilon,
              {.help = "Added to every feature, so that every query attends to at least one key",
               .min = 0.0,
               .max = 1.0}),
        field("shared", c.shared, {.help = "One draw of the directions for all layers"}),
        field("feature_redraw_interval", c.feature_redraw_interval,
              {.help = "Steps between two draws of the directions; 0 = never", .min = 0.0}),
    };
}

void validate(const AttentionConfig& config) {
    AttentionConfig copy = config;
    check_ranges(fields(copy));
    if (config.kernel_epsilon > 0.0 && !ops::attention_form(config.form).positive)
        fail(ErrorCode::bad_config,
             fmt::format("kernel_epsilon: must be 0 for the form {}, whose features have both signs",
                         to_string(config.form)));
    validate(omega_recipe(config, 1, {}));
}

std::int64_t directions(const AttentionConfig& config, std::int64_t d) {
    const auto size = static_cast<double>(d);
    return config.n_directions.value_or(std::max<std::int64_t>(1, std::llround(size * std::log(size))));
}

std::uint64_t redraw_count(const AttentionConfig& config, std::uint64_t step) {
    if (config.feature_redraw_interval == 0) return 0;
    return step / static_cast<std::uint64_t>(config.feature_redraw_interval);
}

OmegaRecipe omega_recipe(const AttentionConfig& config, std::int64_t d, const OmegaDraw& draw, bool on_chip) {
    auto seed = draw.seed;
    const auto layer = config.shared ? 0 : draw.layer;
    if (layer > 0) seed = derived_seed(seed, static_cast<std::uint32_t>(layer));
    if (draw.redraws > 0) seed = derived_seed(seed, 0x80000000U + static_cast<std::uint32_t>(draw.redraws));
    return {.kernel = Kernel::softmax,
            .sampler = config.sampler,
            .norms = config.norms,
            .truncation = config.truncation.value_or(on_chip ? 3.0 : 0.0),
            .d = d,
            .m = directions(config, d),
            .seed = seed};
}

}  // namespace imka
