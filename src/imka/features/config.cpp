#include "imka/features/config.hpp"

#include <fmt/format.h>

#include <cmath>

#include "imka/base/error.hpp"

namespace imka {

GammaSetting Codec<GammaSetting>::parse(std::string_view text, std::string_view name) {
    if (text == "scale") return {.value = std::nullopt};
    return {.value = detail::parse_number(text, name)};
}

std::string Codec<GammaSetting>::json(const GammaSetting& g) {
    return g.value ? detail::number_json(*g.value) : "\"scale\"";
}

void Codec<GammaSetting>::check(const GammaSetting& g, const FieldInfo& info, std::string_view name) {
    if (g.value) detail::check_range(*g.value, info, name);
}

Fields fields(FeatureConfig& c) {
    return {
        field("kernel", c.kernel, {.help = "Kernel"}),
        field("gamma", c.gamma,
              {.help = "Kernel width, as in k = exp(-gamma |x-y|^2); unused by arccos and softmax",
               .min = 0.0,
               .above_min = true}),
        field("sampler", c.sampler, {.help = "How directions are drawn"}),
        field("norms", c.norms,
              {.help = "Lengths of orthogonal directions; auto: chi for orf, sqrt for sorf"}),
        field("form", c.form, {.help = "Form of the features; auto: the default of the kernel"}),
        field("truncation", c.truncation,
              {.help = "Truncate the Gaussian law; 0 = off; auto: 3 in the measured protocol and on "
                       "chips, else off",
               .unit = "standard deviations",
               .min = 0.0}),
        field("n_components", c.n_components, {.help = "Number of features D", .min = 1.0}),
        field("log_ratio", c.log_ratio,
              {.help = "r = log2(m/d), m directions in d dimensions; 4 if D is not given either",
               .min = -20.0,
               .max = 30.0}),
    };
}

void validate(const FeatureConfig& config) {
    FeatureConfig copy = config;
    check_ranges(fields(copy));
    if (config.n_components && config.log_ratio)
        fail(ErrorCode::bad_config, "n_components and log_ratio both set the number of features; give one");
    functions_per_direction(config.kernel, config.form);
    // Everything about Ω except its size, which needs the inputs.
    validate(OmegaRecipe{.kernel = config.kernel,
                         .gamma = config.gamma.value.value_or(1.0),
                         .sampler = config.sampler,
                         .norms = config.norms,
                         .truncation = config.truncation.value_or(0.0),
                         .d = 1,
                         .m = 1});
}

InputStatistics input_statistics(const FeatureConfig& config, MatrixView<const float> x) {
    InputStatistics statistics{.d = static_cast<std::int64_t>(x.cols())};
    if (config.gamma.value) return statistics;
    const auto n = static_cast<double>(x.rows() * x.cols());
    double mean = 0.0;
    double variance = 0.0;
    for (std::size_t r = 0; r < x.rows(); ++r) {
        for (const float v : x.row(r)) mean += v / n;
    }
    for (std::size_t r = 0; r < x.rows(); ++r) {
        for (const float v : x.row(r)) variance += (v - mean) * (v - mean) / n;
    }
    statistics.variance = variance;
    return statistics;
}

// Welford.
void InputMoments::add(MatrixView<const float> rows) {
    d_ = static_cast<std::int64_t>(rows.cols());
    for (std::size_t r = 0; r < rows.rows(); ++r) {
        for (const float v : rows.row(r)) {
            n_ += 1.0;
            const double delta = v - mean_;
            mean_ += delta / n_;
            squares_ += delta * (v - mean_);
        }
    }
}

InputStatistics InputMoments::statistics() const {
    return {.d = d_, .variance = n_ > 0.0 ? squares_ / n_ : 0.0};
}

FeatureSizes feature_sizes(const FeatureConfig& config, const FeatureUse& use, std::int64_t d) {
    const auto functions = static_cast<std::int64_t>(functions_per_direction(config.kernel, config.form));
    FeatureSizes sizes{.d = d};
    if (config.n_components) {
        if (*config.n_components % functions != 0) {
            fail(ErrorCode::bad_config,
                 fmt::format("n_components: {} is not a multiple of {}, the number of features per "
                             "direction of the {} kernel",
                             *config.n_components, functions, to_string(config.kernel)));
        }
        sizes.m = *config.n_components / functions;
        sizes.log_ratio = std::log2(static_cast<double>(sizes.m) / static_cast<double>(d));
    } else {
        sizes.log_ratio = config.log_ratio.value_or(4.0);
        double m = std::exp2(sizes.log_ratio) * static_cast<double>(d);
        if (use.convention == Convention::measured) m -= sizes.log_ratio;
        // Computing Ω checks its own memory; a row of projections must always fit.
        check_fits_memory(1.0, m, sizeof(float), "a row of projections");
        sizes.m = std::llround(m);
    }
    sizes.features = sizes.m * functions;
    if (sizes.m < 1)
        fail(ErrorCode::bad_config, "the settings give no features; increase log_ratio or n_components");
    return sizes;
}

double resolve_gamma(const FeatureConfig& config, const InputStatistics& inputs) {
    if (config.gamma.value) return *config.gamma.value;
    if (!(inputs.variance.value_or(0.0) > 0.0))
        fail(ErrorCode::bad_data, "gamma 'scale' needs inputs that vary; the training inputs are constant");
    return 1.0 / (static_cast<double>(inputs.d) * *inputs.variance);
}

double resolve_truncation(const FeatureConfig& config, const FeatureUse& use) {
    if (config.truncation) return *config.truncation;
    if (use.convention == Convention::measured) return 3.0;
    // Not for other laws: truncating their tails would change the kernel.
    const bool gaussian = kernel_info(config.kernel).feature_law(1.0, 1).law == Law::gaussian;
    return use.on_chip && gaussian ? 3.0 : 0.0;
}

FeatureRecipe resolve(const FeatureConfig& config, const FeatureUse& use, const InputStatistics& inputs,
                      std::uint64_t seed) {
    const auto sizes = feature_sizes(config, use, inputs.d);
    return {.omega = {.kernel = config.kernel,
                      .gamma = resolve_gamma(config, inputs),
                      .sampler = config.sampler,
                      .norms = config.norms,
                      .truncation = resolve_truncation(config, use),
                      .convention = use.convention,
                      .d = sizes.d,
                      .m = sizes.m,
                      .seed = seed},
            .form = config.form};
}

}  // namespace imka
