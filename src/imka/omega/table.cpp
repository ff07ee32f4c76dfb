// What is known of every kernel x sampler x norms. The sizes are those that tests/property/bias_test.cpp
// predicts and measures (docs/numerics.md).
#include <fmt/format.h>

#include "imka/omega/omega.hpp"

namespace imka {
namespace {

struct Knowledge {
    Bias bias;
    std::string reason;
};

// The constant and the mixing factor before a block.
std::string scale_text(Kernel kernel) {
    switch (kernel_row(kernel).feature_law(1.0, 1).law) {
        case Law::student3:
            return "sqrt(2γ) diag(sqrt(3/χ²₃)) ";
        case Law::student5:
            return "sqrt(2γ) diag(sqrt(5/χ²₅)) ";
        case Law::cauchy:
            return "γ ";
        case Law::gaussian:
            break;
    }
    return kernel == Kernel::rbf ? "sqrt(2γ) " : "";
}

std::string formula_text(Kernel kernel, Sampler sampler, Norms norms) {
    const auto scale = scale_text(kernel);
    const bool chi = norms == Norms::chi;
    switch (sampler) {
        case Sampler::rff:
            return scale + (kernel == Kernel::laplace ? "C, C_ij Cauchy" : "G, G_ij ~ N(0, 1)");
        case Sampler::orf:
            return scale + (chi ? "diag(χ_d) Q, Q Haar" : "sqrt(d) Q, Q Haar");
        case Sampler::sorf:
            return scale + (chi ? "diag(χ_n) H D1 H D2 H D3, first d of n = 2^k columns"
                                : "sqrt(n) H D1 H D2 H D3, first d of n = 2^k columns");
    }
    return scale;
}

// sqrt norms, directions exactly uniform: only the moments of the length can be wrong.
Knowledge orf_sqrt(Kernel kernel) {
    switch (kernel) {
        case Kernel::arccos0:
            return {Bias::unbiased, "steps do not see the length of a row"};
        case Kernel::arccos1:
            return {Bias::unbiased, "only the mean squared length d matters, and it is right"};
        case Kernel::arccos2:
            return {Bias::biased, "low by d/(d+2): the mean fourth power of the length is d², not d(d+2)"};
        case Kernel::softmax:
            return {Bias::biased,
                    "low: Γ(d/2)(2/s)^(d/2-1) I_{d/2-1}(s), s = sqrt(d)|x'+y'|, replaces exp(|x'+y'|²/2)"};
        case Kernel::rbf:
            return {Bias::biased,
                    "Γ(d/2)(2/s)^(d/2-1) J_{d/2-1}(s), s = sqrt(2γd)|x-y|, replaces exp(-γ|x-y|²); "
                    "relative size about -(γ|x-y|²)²/(d+2)"};
        default:
            return {Bias::biased, "the rbf bias averaged over the mixing factor; below 3 % of 1 at d = 3"};
    }
}

Knowledge sorf(Kernel kernel, bool chi) {
    if (chi) {
        return {Bias::biased, "lengths are right but directions are only nearly uniform; falls with n"};
    }
    switch (kernel) {
        case Kernel::arccos0:
            return {Bias::biased, "directions are only nearly uniform; falls with n"};
        case Kernel::arccos1:
            return {Bias::biased, "directions are only nearly uniform; falls with n. Exact for x = ±y"};
        case Kernel::arccos2:
            return {Bias::biased, "low by about n/(n+2): the fourth power of the length is n², not n(n+2)"};
        default:
            return {Bias::biased, "directions only nearly uniform and lengths fixed; falls about as 1/n"};
    }
}

Knowledge knowledge(Kernel kernel, Sampler sampler, Norms norms) {
    if (sampler == Sampler::rff) return {Bias::unbiased, "rows follow the kernel's law exactly"};
    if (kernel == Kernel::laplace) {
        return {Bias::refused,
                fmt::format("{} needs a radial law, and the L1 Laplace kernel's directions have "
                            "independent Cauchy entries; use rff",
                            sampler == Sampler::orf ? "ORF" : "SORF")};
    }
    if (sampler == Sampler::sorf) return sorf(kernel, norms == Norms::chi);
    if (norms == Norms::chi) return {Bias::unbiased, "every row alone follows the kernel's law exactly"};
    return orf_sqrt(kernel);
}

}  // namespace

Combination combination(Kernel kernel, Sampler sampler, Norms norms) {
    const auto resolved = resolve_norms(sampler, norms);
    const auto known = knowledge(kernel, sampler, resolved);
    return {.kernel = kernel,
            .sampler = sampler,
            .norms = resolved,
            .bias = known.bias,
            .reason = known.reason,
            .formula = formula_text(kernel, sampler, resolved)};
}

}  // namespace imka
