// Kernels: exact value, and the law whose random features approximate it. One registry row per kernel.
#pragma once

#include <span>
#include <string_view>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/base/names.hpp"

namespace imka {

enum class Kernel { rbf, laplace, matern32, matern52, arccos0, arccos1, arccos2, softmax };
template <>
struct EnumNames<Kernel> {
    static constexpr std::string_view what = "kernel";
    static constexpr std::string_view values[] = {"rbf",     "laplace", "matern32", "matern52",
                                                  "arccos0", "arccos1", "arccos2",  "softmax"};
};

// Distribution of one direction ω before the kernel's scale.
enum class Law {
    gaussian,  // N(0, I): radial
    student3,  // multivariate t, 3 degrees of freedom (Matérn 3/2): radial
    student5,  // multivariate t, 5 degrees of freedom (Matérn 5/2): radial
    cauchy,    // independent Cauchy entries (L1 Laplace): not radial
};
template <>
struct EnumNames<Law> {
    static constexpr std::string_view what = "law";
    static constexpr std::string_view values[] = {"gaussian", "student3", "student5", "cauchy"};
};

// Element-wise functions that map the projection u = ωᵀx to features.
enum class Functions {
    cos_sin,  // cos u, sin u
    step,     // Θ(u), Θ(0) = 0
    relu,     // Θ(u) u
    relu2,    // Θ(u) u²
    exp_pm,   // exp(u), exp(-u)
};

// z(x) = h(x) m^(-1/2) [f1(Ωx'), ..., fl(Ωx')], x' = input_scale x. Then z(x)ᵀz(y) estimates k(x, y).
struct FeatureLaw {
    Law law = Law::gaussian;
    double omega_scale = 1.0;  // ω = omega_scale × a sample of the law
    double input_scale = 1.0;  // x' = input_scale x (softmax: d^(-1/4))
    Functions functions = Functions::cos_sin;
    double prefactor = 1.0;      // constant part of h
    double norm_exponent = 0.0;  // h(x) = prefactor × exp(norm_exponent |x'|²); softmax: -1/2
};

struct KernelInfo {
    Kernel kernel;
    std::string_view formula;      // k(x, y), for display
    std::string_view law_text;     // law of ω, for display
    bool shift_invariant = false;  // has an offset-cosine form
    bool uses_gamma = false;
    // Exact value, computed in double. Some kernels ignore gamma.
    double (*value)(std::span<const float> x, std::span<const float> y, double gamma);
    // d: dimension of x (the softmax kernel scales by it).
    FeatureLaw (*feature_law)(double gamma, std::size_t d);
};

const KernelInfo& kernel_info(Kernel kernel);
std::span<const KernelInfo> kernel_registry();

// Norms of two points and the angle between them, for the arc-cosine kernels.
struct Angle {
    double norm_x = 0.0;
    double norm_y = 0.0;
    double supplement = 0.0;  // φ = π - θ, radians; 0 if a point is zero
};

// φ = 2 atan2(|x/|x| + y/|y||, |x/|x| - y/|y||). acos of the cosine would lose half the digits for nearly
// parallel and antiparallel points; this formula is within (d + 8) 2^-52 of the exact angle everywhere and
// gives exactly π for x = y.
Angle angle_between(std::span<const float> x, std::span<const float> y);

// out(i, j) = k(x_i, y_j), on exec.device. The bits do not depend on the thread count.
void exact_gram(Kernel kernel, double gamma, MatrixView<const float> x, MatrixView<const float> y,
                const Exec& exec, MatrixView<double> out);

}  // namespace imka
