// Bias of every kernel x sampler x norms. tests/property/bias_test.cpp predicts and measures the sizes
// (docs/numerics.md).
#include <fmt/format.h>

#include "imka/omega/omega.hpp"

namespace imka {
namespace {

struct Knowledge {
    Bias bias;
    std::string reason;
};

// The constant and the mixing factor in front of a block.
std::string scale_text(Kernel kernel) {
    switch (kernel_info(kernel).feature_law(1.0, 1).law) {
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

std::string block_text(Kernel kernel, Sampler sampler, Norms norms) {
    const bool chi = norms == Norms::chi;
    if (sampler == Sampler::rff) return kernel == Kernel::laplace ? "C, C_ij Cauchy" : "G, G_ij ~ N(0, 1)";
    if (sampler == Sampler::orf) return chi ? "diag(χ_d) Q, Q Haar" : "sqrt(d) Q, Q Haar";
    return chi ? "diag(χ_n) H D1 H D2 H D3, first d of n = 2^k columns"
               : "sqrt(n) H D1 H D2 H D3, first d of n = 2^k columns";
}

// Directions are exactly uniform; with sqrt norms only the moments of the length can be wrong.
Knowledge orf_sqrt(Kernel kernel) {
    switch (kernel) {
        case Kernel::arccos0:
            return {Bias::unbiased, "steps do not depend on the length of a row"};
        case Kernel::arccos1:
            return {Bias::unbiased, "only the mean squared length d matters, and it is correct"};
        case Kernel::arccos2:
            return {Bias::biased, "low by d/(d+2): the mean fourth power of the length is d², not d(d+2)"};
        case Kernel::softmax:
            return {Bias::biased,
                    "low: Γ(d/2)(2/s)^(d/2-1) I_{d/2-1}(s), s = sqrt(d)|x'+y'|, replaces exp(|x'+y'|²/2)"};
        case Kernel::rbf:
            return {Bias::biased,
                    "Γ(d/2)(2/s)^(d/2-1) J_{d/2-1}(s), s = sqrt(2γd)|x-y|, replaces exp(-γ|x-y|²); "
                    "leading term -(γ|x-y|²)²/(d+2)"};
        default:
            return {Bias::biased,
                    "the rbf bias averaged over the mixing factor: -40 % at d = 3 where γ|x-y|² = 1"};
    }
}

// Percentages of k at d = 3 (n = 4) for the two pairs of points in docs/numerics.md, where they are largest.
Knowledge sorf(Kernel kernel, bool chi) {
    const std::string cause =
        chi ? "directions are only nearly uniform; decreases with n; "
            : "directions are only nearly uniform, lengths are fixed; decreases with n; ";
    switch (kernel) {
        case Kernel::rbf:
            return {Bias::biased,
                    cause + (chi ? "up to +0.5 % at d = 3, +0.2 % at d = 8"
                                 : "at γ|x-y|² = 1: -23 % at d = 3, -12 % at 8, -6 % at 16, -1.6 % at 64")};
        case Kernel::matern32:
            return {Bias::biased, cause + (chi ? "+3 to +7 % at d = 3" : "-5 to -27 % at d = 3")};
        case Kernel::matern52:
            return {Bias::biased, cause + (chi ? "+1 to +3 % at d = 3" : "-8 to -30 % at d = 3")};
        case Kernel::arccos0:
            return {Bias::biased,
                    "directions are only nearly uniform; decreases with n; -7 to -11 % at d = 3"};
        case Kernel::arccos1:
            return {Bias::biased,
                    "directions are only nearly uniform; decreases with n; +1 to +11 % at d = 3; exact for x "
                    "= ±y"};
        case Kernel::arccos2:
            return {Bias::biased,
                    chi ? cause + "+7 to +16 % at d = 3"
                        : "low by about n/(n+2): the fourth power of the length is n², not n(n+2)"};
        default:
            return {Bias::biased, cause + (chi ? "0 to -2 % at d = 3 for |x'+y'| of 1 to 2"
                                               : "-7 to -15 % at d = 3, more for longer points")};
    }
}

Knowledge knowledge(Kernel kernel, Sampler sampler, Norms norms) {
    if (sampler == Sampler::rff) return {Bias::unbiased, "rows follow the kernel's law exactly"};
    if (kernel == Kernel::laplace) {
        return {Bias::refused,
                fmt::format("{} needs a radial law, but the directions of the L1 Laplace kernel have "
                            "independent Cauchy entries; use rff",
                            sampler == Sampler::orf ? "ORF" : "SORF")};
    }
    if (sampler == Sampler::sorf) return sorf(kernel, norms == Norms::chi);
    if (norms == Norms::chi) return {Bias::unbiased, "each row follows the kernel's law exactly"};
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
            .formula = known.bias == Bias::refused
                           ? "-"
                           : scale_text(kernel) + block_text(kernel, sampler, resolved)};
}

}  // namespace imka
