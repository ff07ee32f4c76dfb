// Ω, the m x d matrix of random directions. A recipe defines Ω bit for bit, and any block of rows can be
// computed alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "imka/base/config.hpp"
#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/base/names.hpp"
#include "imka/kernel/kernel.hpp"

namespace imka {

enum class Sampler { rff, orf, sorf };
template <>
struct EnumNames<Sampler> {
    static constexpr std::string_view what = "sampler";
    static constexpr std::string_view values[] = {"rff", "orf", "sorf"};
};

// Lengths of orthogonal rows. auto_: chi for orf, sqrt for sorf (as published).
enum class Norms { auto_, chi, sqrt };
template <>
struct EnumNames<Norms> {
    static constexpr std::string_view what = "norms";
    static constexpr std::string_view values[] = {"auto", "chi", "sqrt"};
};

// Replaces auto_ by the sampler's default; for rff, whose law sets the lengths, the result is auto_.
Norms resolve_norms(Sampler sampler, Norms norms);

// standard: as derived in docs/numerics.md. measured: as in the published runs (Householder signs in orf;
// D H D H D H instead of H D H D H D in sorf; truncation applies to rff entries and to the Gaussian matrix of
// orf, not to the final Ω).
enum class Convention { standard, measured };
template <>
struct EnumNames<Convention> {
    static constexpr std::string_view what = "convention";
    static constexpr std::string_view values[] = {"standard", "measured"};
};

struct OmegaRecipe {
    Kernel kernel = Kernel::rbf;
    double gamma = 0.05;  // in [1e-20, 1e20]; ignored by kernels without a width
    Sampler sampler = Sampler::rff;
    Norms norms = Norms::auto_;
    double truncation = 0.0;  // bound on entries, in standard deviations; 0 = off, else >= 0.01
    Convention convention = Convention::standard;
    std::int64_t d = 0;  // columns; >= 1 (orf: <= 8192, sorf: <= 2^24)
    std::int64_t m = 0;  // rows; >= 1
    std::uint64_t seed = 0;
};

Fields fields(OmegaRecipe& recipe);

// Error{bad_config} for sizes out of range and for unsupported kernel x sampler combinations, with the
// reason. Ω may exceed the memory: some callers sample only some rows or never form Ω.
void validate(const OmegaRecipe& recipe);

// The bits do not depend on the number of threads. Error{bad_config} if Ω does not fit in memory.
Matrix<float> sample(const OmegaRecipe& recipe, const Exec& exec = {});

// Rows first .. first + out.rows() - 1, with the same bits as in the whole matrix. orf computes whole blocks
// of d rows, so ranges aligned to multiples of d are cheapest.
void sample_rows(const OmegaRecipe& recipe, std::int64_t first, MatrixView<float> out);

// Bias of each kernel x sampler x norms (`imka features --list`).
enum class Bias { unbiased, biased, refused };
template <>
struct EnumNames<Bias> {
    static constexpr std::string_view what = "bias";
    static constexpr std::string_view values[] = {"unbiased", "biased", "refused"};
};
struct Combination {
    Kernel kernel;
    Sampler sampler;
    Norms norms;  // auto_ for rff
    Bias bias;
    std::string reason;   // why biased (with the size, if known) or refused
    std::string formula;  // of a block of Ω
};
Combination combination(Kernel kernel, Sampler sampler, Norms norms);

}  // namespace imka
